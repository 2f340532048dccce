package replog

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/nats/natsserver"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// startIn starts a server on a folder that may have streams.
func startIn(t *testing.T, dir string) *natsserver.Server {
	t.Helper()
	s, err := natsserver.Start(natsserver.Config{Dir: dir, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// onServer is the configuration of a log on a server that only this process uses.
func onServer(s *natsserver.Server) Config {
	return Config{Conn: s.Conn(), Store: s.Store, Failed: s.Failed, Suspect: s.Suspect, Settle: s.Settle}
}

// again closes a server, and returns what a node without state applies from its files.
func again(t *testing.T, s *natsserver.Server, l *applied) []string {
	t.Helper()
	l.Close()
	s.Close()
	fresh := openWith(t, onServer(startIn(t, s.Config().Dir)), Position{})
	fresh.barrier(t)
	return fresh.all()
}

// TestAppendAfterAnUnknownOutcome lets the call that stores a record fail or come back late, whether the stream has the
// record then or not, and appends another one at the same position. The stream decides: if it has the first record,
// the next one is refused, and applied in no case.
func TestAppendAfterAnUnknownOutcome(t *testing.T) {
	t.Parallel()
	broken := errors.New("the disk has failed")
	for name, c := range map[string]struct {
		stored, fails, late bool
		first               []error // possible outcomes of the append that fails
		next                error
		want                []string
	}{
		"stored, and the server fails": {stored: true, fails: true, first: []error{ErrUnknown}, next: ErrConflict,
			want: []string{"before", "unknown", "after"}},
		"not stored, and the server fails": {fails: true, first: []error{ErrUnknown},
			want: []string{"before", "next", "after"}},
		"stored, and the server works": {stored: true, first: []error{nil}, next: ErrConflict,
			want: []string{"before", "unknown", "after"}},
		"not stored, and the server works": {first: []error{nil}, next: ErrConflict,
			want: []string{"before", "unknown", "after"}},
		"stored after the time limit": {stored: true, late: true, first: []error{ErrUnknown, nil}, next: ErrConflict,
			want: []string{"before", "unknown", "after"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := startIn(t, t.TempDir())
			config := onServer(server)
			failing := false // guarded by Log.appends
			config.Store = func(stream, subject string, headers, message []byte) (uint64, error) {
				if !failing {
					return server.Store(stream, subject, headers, message)
				}
				failing = false
				if c.stored {
					if _, err := server.Store(stream, subject, headers, message); err != nil {
						return 0, err
					}
				}
				return 0, broken
			}
			config.Suspect = func(string) error {
				if c.fails {
					return broken
				}
				return nil
			}
			a := openWith(t, config, Position{})
			a.add(t, "before")
			at := a.last().Last
			failing = true
			if c.late {
				a.SetTimeout(time.Nanosecond)
			}
			err := a.Append(at, []byte("unknown"), nil)
			if !slices.ContainsFunc(c.first, func(want error) bool { return errors.Is(err, want) }) {
				t.Errorf("the append whose store fails: %v, want one of %v", err, c.first)
			}
			a.SetTimeout(patience)
			if err := a.Append(at, []byte("next"), nil); !errors.Is(err, c.next) {
				t.Errorf("the next append: %v, want %v", err, c.next)
			}
			a.add(t, "after")
			if got := a.all(); !slices.Equal(got, c.want) {
				t.Errorf("applied %q, want %q", got, c.want)
			}
			if got := again(t, server, a); !slices.Equal(got, c.want) {
				t.Errorf("after a restart applied %q, want %q", got, c.want)
			}
		})
	}
}

// TestAppendsWhileTheServerStartsAgain appends while the embedded server stops and starts again, as after a failed
// write. Stores that it interrupts have an unknown outcome: such a record is applied once or never, and an acknowledged
// one once, before and after a restart.
func TestAppendsWhileTheServerStartsAgain(t *testing.T) {
	t.Parallel()
	server := startIn(t, t.TempDir())
	a := openWith(t, onServer(server), Position{})
	var (
		mu           sync.Mutex // guards the rest
		acknowledged = map[string]bool{}
		unknown      = map[string]bool{}
	)
	stop := make(chan struct{})
	var work sync.WaitGroup
	for i := range 4 {
		work.Go(func() {
			for j := 0; ; j++ {
				select {
				case <-stop:
					return
				default:
				}
				text := fmt.Sprint(i, "-", j)
				err := a.Append(a.last().Last, []byte(text), nil)
				mu.Lock()
				switch {
				case err == nil:
					acknowledged[text] = true
				case errors.Is(err, ErrUnknown):
					unknown[text] = true
				case !errors.Is(err, ErrConflict) && !errors.Is(err, ErrUnavailable):
					t.Errorf("append: %v", err)
				}
				mu.Unlock()
				if errors.Is(err, ErrUnavailable) {
					time.Sleep(time.Millisecond)
				}
			}
		})
	}
	count := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(acknowledged)
	}
	for range 3 {
		before := count()
		await(t, func() bool { return count() >= before+20 })
		server.Fail(errors.New("a test"))
		await(t, func() bool { return server.Failed() == nil })
	}
	close(stop)
	work.Wait()
	await(t, func() bool { return a.Barrier() == nil })
	list := a.all()
	seen := map[string]bool{}
	for _, text := range list {
		if seen[text] || !acknowledged[text] && !unknown[text] {
			t.Errorf("%s was applied twice, or was refused", text)
		}
		seen[text] = true
	}
	for text := range acknowledged {
		if !seen[text] {
			t.Errorf("the acknowledged record %s was not applied", text)
		}
	}
	t.Logf("%d records acknowledged, %d unknown, %d applied", len(acknowledged), len(unknown), len(list))
	if got := again(t, server, a); !slices.Equal(got, list) {
		t.Errorf("after a restart %d records were applied, or others than the %d before", len(got), len(list))
	}
}

// TestRecordThatIsNotSettled lets the sync fail that follows a store, of a record in one message and of one in parts.
// The caller learns that the outcome is unknown, and the record is applied, once, when the sync succeeds.
func TestRecordThatIsNotSettled(t *testing.T) {
	t.Parallel()
	for name, size := range map[string]int{"one message": 10, "in parts": 5 << 19} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := startIn(t, t.TempDir())
			config := onServer(server)
			broken, failures := errors.New("the disk has failed"), atomic.Int32{}
			config.Settle = func(stream string) error {
				if failures.Add(-1) >= 0 {
					return broken
				}
				return server.Settle(stream)
			}
			a := openWith(t, config, Position{})
			a.add(t, "before")
			unsettled := strings.Repeat("u", size)
			failures.Store(8)
			if err := a.Append(a.last().Last, []byte(unsettled), nil); !errors.Is(err, ErrUnknown) ||
				!errors.Is(err, broken) {
				t.Errorf("append: %v, want ErrUnknown and the cause", err)
			}
			want := []string{"before", unsettled}
			await(t, func() bool { return slices.Equal(a.all(), want) })
			a.add(t, "after")
			if got := again(t, server, a); !slices.Equal(got, append(want, "after")) {
				t.Errorf("after a restart applied %d records", len(got))
			}
		})
	}
}

// await waits until a condition holds.
func await(t *testing.T, holds func() bool) {
	t.Helper()
	check.Eventually(t, holds, "the condition does not hold")
}
