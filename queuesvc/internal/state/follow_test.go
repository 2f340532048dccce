package state

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/lazuli-storage/lazuli/internal/storage/natsserver"
)

// The records at the end of a stream may vanish while it is read: tombstones do after a while.
func TestFollowEndsWhereRecordsVanished(t *testing.T) {
	t.Parallel()
	n := startNATS(t, natsserver.Config{})
	s := open(t, n)
	q := create(t, s, "orders")
	first := putOne(t, q, "a", epoch)
	for _, vanished := range []string{"last", "all"} {
		m := putOne(t, q, "b", epoch)
		stream, err := s.js.Stream(ctx, q.stream) // knows of the last record
		if err != nil {
			t.Fatal(err)
		}
		if err := stream.DeleteMsg(ctx, uint64(m.Receipt)); err != nil {
			t.Fatal(err)
		}
		if vanished == "all" {
			if err := stream.DeleteMsg(ctx, uint64(first.Receipt)); err != nil {
				t.Fatal(err)
			}
		}
		f, err := follow(ctx, reading{conn: s.conn, stream: stream, subject: q.prefix + "*", headersOnly: true, take: func(*nats.Msg, uint64) {}, log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		deadline, cancel := context.WithTimeout(ctx, time.Minute)
		if err := f.wait(deadline); err != nil {
			t.Errorf("where the %s record vanished: %v", vanished, err)
		}
		cancel()
		f.stop()
	}
}
