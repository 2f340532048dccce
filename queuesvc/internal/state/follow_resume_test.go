package state

import (
	"fmt"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/storage/natsserver"
)

// The NATS client ends a subscription if its consumer cannot be made again after a server was lost. The index and the catalog follow their streams
// all the same, so that a front-end does not show what other front-ends have changed long ago.
func TestFollowersResumeAfterTheirSubscriptionEnded(t *testing.T) {
	t.Parallel()
	first := startNATS(t, natsserver.Config{Dir: t.TempDir(), Listen: "127.0.0.1:0"})
	writer := create(t, open(t, first), "orders")
	store := open(t, startNATS(t, natsserver.Config{URL: first.ClientURL()}))
	reader := find(t, store, "orders")
	m := putOne(t, writer, "before", epoch)
	want := func(n int) {
		t.Helper()
		eventually(t, func() error {
			if got := count(t, reader, epoch); got != n {
				return fmt.Errorf("the other front-end counts %d messages, want %d", got, n)
			}
			return nil
		})
	}
	want(1)
	reader.mu.Lock()
	index := reader.follower
	reader.mu.Unlock()
	for _, f := range []*follower{index, store.follow} {
		if err := f.subscription().Unsubscribe(); err != nil {
			t.Fatal(err)
		}
	}
	if err := writer.Delete(ctx, m.ID, m.Receipt, epoch); err != nil {
		t.Fatal(err)
	}
	want(0)
	putOne(t, writer, "after", epoch)
	want(1)
	if err := writer.store.SetMetadata(ctx, "acct", "orders", []Meta{{"k", "v"}}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		meta, err := store.Metadata(ctx, "acct", "orders")
		if err == nil && len(meta) != 1 {
			err = fmt.Errorf("metadata %v", meta)
		}
		return err
	})
}

// A consumer that delivers nothing, such as one on a replica that has stopped, is replaced once the leader has shown that records follow.
func TestFollowerNoticesThatItLags(t *testing.T) {
	t.Parallel()
	n := startNATS(t, natsserver.Config{Dir: t.TempDir(), Listen: "127.0.0.1:0"})
	s := open(t, n)
	q := create(t, s, "orders")
	m := putOne(t, q, "a", epoch)
	stream, err := s.js.Stream(ctx, q.stream)
	if err != nil {
		t.Fatal(err)
	}
	f := &follower{reading: reading{stream: stream, subject: q.prefix + "*"}}
	for last, want := range map[uint64]bool{uint64(m.Receipt) - 1: true, uint64(m.Receipt): false, uint64(m.Receipt) + 9: false} {
		if got := f.lags(ctx, last); got != want {
			t.Errorf("after record %d: lags is %v", last, got)
		}
	}
	if err := stream.Purge(ctx); err != nil {
		t.Fatal(err)
	}
	if f.lags(ctx, 0) {
		t.Error("lags in a stream whose records were removed")
	}
}

// A front-end whose index lags does not answer that there is no message, or count too few, after another one has put a message.
func TestEmptyAnswersAreConfirmed(t *testing.T) {
	t.Parallel()
	first := startNATS(t, natsserver.Config{Dir: t.TempDir(), Listen: "127.0.0.1:0"})
	writer := create(t, open(t, first), "orders")
	reader := find(t, open(t, startNATS(t, natsserver.Config{URL: first.ClientURL()})), "orders")
	settle(t, reader)
	cut := func() {
		reader.mu.Lock()
		f := reader.follower
		reader.mu.Unlock()
		f.unsubscribe()
	}
	ask := map[string]func() (int, error){
		"Get":   func() (int, error) { list, err := reader.Get(ctx, 1, 0, epoch); return len(list), err },
		"Peek":  func() (int, error) { list, err := reader.Peek(ctx, 1, epoch); return len(list), err },
		"Count": func() (int, error) { return reader.ApproximateCount(ctx, epoch) },
	}
	for name, number := range ask {
		eventually(t, func() error { // the last message's end has been followed
			n, err := number()
			if err == nil && n != 0 {
				err = fmt.Errorf("%s: %d messages before the put", name, n)
			}
			return err
		})
		cut()
		m := putOne(t, writer, name, epoch)
		if n, err := number(); n < 1 || err != nil {
			t.Errorf("%s: %d, %v; another front-end has put a message", name, n, err)
		}
		if err := writer.Clear(ctx); err != nil {
			t.Fatal(m, err)
		}
	}
}
