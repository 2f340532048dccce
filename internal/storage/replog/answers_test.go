package replog

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// TestAnswers reads from servers that answer in one way each, by one subscription for all reads.
func TestAnswers(t *testing.T) {
	t.Parallel()
	s := check.Must(server.NewServer(
		&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true}))(t)
	s.Start()
	t.Cleanup(s.Shutdown)
	if !s.ReadyForConnections(check.Patience) {
		t.Fatal("the server does not listen")
	}
	conn := check.Must(nats.Connect(s.ClientURL()))(t)
	t.Cleanup(conn.Close)
	send := func(m *nats.Msg, seq int, header ...string) {
		answer := nats.NewMsg(m.Reply)
		if seq > 0 {
			answer.Header.Set(headerSequence, fmt.Sprint(seq))
			answer.Data = []byte{byte(seq)}
		}
		for i := 0; i < len(header); i += 2 {
			answer.Header.Set(header[i], header[i+1])
		}
		check.OK(t, conn.PublishMsg(answer))
	}
	asked := make(chan *nats.Msg, 1)
	for stream, answer := range map[string]func(m *nats.Msg){
		"three": func(m *nats.Msg) {
			send(m, 5)
			send(m, 6)
			send(m, 7)
			send(m, 0, headerStatus, "204")
			send(m, 8) // after the end
		},
		"strange": func(m *nats.Msg) { send(m, 0, headerStatus, "408") },
		"silent":  func(m *nats.Msg) { asked <- m },
	} {
		check.Must(conn.Subscribe("$JS.API.DIRECT.GET."+stream, answer))(t)
	}
	js := check.Must(newJetStream(conn))(t)
	var got []uint64
	read := func(stream string) error {
		got = nil
		return js.read(stream, 5, 3, func(seq uint64, _ []byte) (bool, error) {
			got = append(got, seq)
			return true, nil
		})
	}
	for range 2 { // what came after the end of the first read is not taken for an answer to the second one
		check.OK(t, read("three"))
		if fmt.Sprint(got) != "[5 6 7]" {
			t.Errorf("read the messages %d, want 5, 6 and 7", got)
		}
	}
	if err := read("unknown"); !errors.Is(err, nats.ErrNoResponders) {
		t.Errorf("a stream that no server has: %v, want %v", err, nats.ErrNoResponders)
	}
	if err := read("strange"); err == nil {
		t.Error("a refused read succeeded")
	}
	if n := conn.NumSubscriptions(); n != 4 { // three of this test
		t.Errorf("%d subscriptions, want one for all reads", n)
	}

	// The end of the log ends a read that waits.
	ended := make(chan error, 1)
	go func() { ended <- js.read("silent", 5, 3, nil) }()
	<-asked
	check.OK(t, js.unsubscribe())
	select {
	case err := <-ended:
		if !errors.Is(err, ErrClosed) {
			t.Errorf("the read ended with %v, want %v", err, ErrClosed)
		}
	case <-time.After(check.Patience):
		t.Fatal("the read goes on after the log was closed")
	}
	if err := read("three"); !errors.Is(err, ErrClosed) {
		t.Errorf("a read after the end: %v, want %v", err, ErrClosed)
	}
}
