package natsserver

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// With many streams the files of idle ones are closed. A stream that is in use keeps its syncer: without it the file would stay open, and a failed
// sync would not be noticed.
func TestStreamsInUseKeepTheirSyncers(t *testing.T) {
	t.Parallel()
	s := start(t, Config{Dir: filepath.Join(t.TempDir(), "nats"), Log: slog.New(slog.DiscardHandler)})
	s.closeIdleFrom, s.idleTime = 2, time.Hour
	js := check.Must(jetstream.New(s.Conn()))(t)
	const streams = 4
	first := make(map[string]*streamSyncer)
	for round := range 2 {
		for i := range streams {
			name := fmt.Sprint("s", i)
			if round == 0 {
				check.Must(js.CreateStream(t.Context(), jetstream.StreamConfig{Name: name, Subjects: []string{name}}))(t)
			}
			check.Must(js.Publish(t.Context(), name, []byte("x")))(t)
			s.idleClosed = time.Time{}
			check.OK(t, s.Sync(name))
			if round == 0 {
				first[name] = s.syncers[name]
			} else if y := s.syncers[name]; y == nil || y != first[name] {
				t.Errorf("%s has the syncer %p, and had %p", name, y, first[name])
			}
		}
	}
	y := first["s0"]
	y.calls.Add(1)
	soon := time.Now().Add(time.Hour)
	s.closeIdleLocked(soon)
	if len(s.syncers) != 1 || s.syncers["s0"] != y {
		t.Errorf("%d syncers after all were idle but the one in use", len(s.syncers))
	}
	y.calls.Add(-1)
	s.closeIdleLocked(soon)
	if len(s.syncers) != 0 {
		t.Errorf("%d syncers after all were idle", len(s.syncers))
	}
}
