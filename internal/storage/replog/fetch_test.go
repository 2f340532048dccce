package replog

import (
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// TestFetchFromLeader gives the answers of leaders to a log that needs message 7. A server that was cut off from the
// others still answers as the leader: it has no message 7, and the stream's state comes from the other leader, which
// has.
func TestFetchFromLeader(t *testing.T) {
	t.Parallel()
	const noMessage = `{"error":{"code":404,"err_code":10037,"description":"no message found"}}`
	message := func(seq uint64, data []byte) string {
		return fmt.Sprintf(`{"message":{"seq":%d,"data":"%s"}}`, seq, base64.StdEncoding.EncodeToString(data))
	}
	record := encode(header{kind: kindMark, writer: 1, counter: 1}, nil)
	for name, tc := range map[string]struct {
		answer      string // to the request for the message
		first, last uint64 // the stream's state
		want        error
		processed   int
	}{
		"the message":           {message(7, record), 1, 9, nil, 1},
		"the end of the stream": {noMessage, 1, 6, nil, 0},
		"a server that was cut off has an older end":  {noMessage, 1, 9, nil, 0},
		"the next message":                            {message(8, record), 1, 9, ErrDamaged, 0},
		"the first message":                           {message(8, record), 8, 9, ErrPurged, 0},
		"an empty stream that was cut":                {noMessage, 10, 9, ErrPurged, 0},
		"a message that is damaged on the leader too": {message(7, append([]byte{1}, record...)), 1, 9, ErrDamaged, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := check.Must(server.NewServer(
				&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true}))(t)
			s.Start()
			defer s.Shutdown()
			if !s.ReadyForConnections(check.Patience) {
				t.Fatal("the server does not listen")
			}
			conn := check.Must(nats.Connect(s.ClientURL()))(t)
			defer conn.Close()
			answer := func(subject, text string) {
				check.Must(conn.Subscribe(subject, func(m *nats.Msg) { check.OK(t, m.Respond([]byte(text))) }))(t)
			}
			answer("$JS.API.STREAM.MSG.GET.S", tc.answer)
			answer("$JS.API.STREAM.INFO.S",
				fmt.Sprintf(
					`{"config":{"name":"S","metadata":{"lazuli.log":"x"}},"state":{"first_seq":%d,"last_seq":%d},"created":%q}`,
					tc.first, tc.last, time.Now().UTC().Format(time.RFC3339)))
			js := check.Must(newJetStream(conn))(t)
			l := &Log{config: Config{Conn: conn, Name: "s", Log: slog.New(slog.DiscardHandler)}, servers: js, stream: "S",
				id: "x", next: 7, wake: make(chan struct{}, 1),
				ahead: map[uint64][]byte{}, parts: map[uint64]*partSet{}, marks: map[uint64]*passing{}}
			processed, err := l.fetchFromLeader(7)
			check.OK(t, err)
			if processed != tc.processed || !errors.Is(l.Err(), tc.want) {
				t.Errorf("processed %d, failed with %v; want %d and %v", processed, l.Err(), tc.processed, tc.want)
			}
		})
	}
}
