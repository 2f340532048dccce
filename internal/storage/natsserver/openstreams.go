package natsserver

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// ErrBusy means that so many streams were written recently that the process could have no files left for another one. JetStream closes the files
// of idle streams after about a minute.
var ErrBusy = errors.New("too many queues in use at once")

// JetStream keeps the last block of a stream open until the stream has not been written for closeIdleAfter, which it looks for at every
// periodic sync. Its options have no limit on open files.
const (
	closeIdleAfter    = 30 * time.Second
	shortSyncInterval = 20 * time.Second
	longSyncInterval  = 2 * time.Minute // JetStream's default
)

// syncInterval is the interval of JetStream's periodic sync, in a process that may open a number of files.
func syncInterval(files int) time.Duration {
	if files < plentyOfFiles {
		return shortSyncInterval
	}
	return longSyncInterval
}

// closedAfter is the time after the last write of a stream from which on JetStream has no open file of it, with an interval of its periodic sync.
func closedAfter(interval time.Duration) time.Duration {
	return closeIdleAfter + interval + 10*time.Second
}

const (
	// leastFiles is the minimum number of files that a process with an embedded server must be allowed to open.
	leastFiles = 256
	// plentyOfFiles is the number of open files from which on JetStream keeps its default interval: tens of thousands of queues may be in use then.
	plentyOfFiles = 64 << 10
)

// streamsLimit returns how many streams may have open files in a process that may open a number of files. JetStream and the syncer have one
// each. The rest is for listeners, connections, databases and extents.
func streamsLimit(files int) int { return (files*13/16 - 96) / 2 }

// openStreams limits the number of streams of which JetStream has open files.
type openStreams struct {
	limit int
	after time.Duration // how long a stream counts after its last use
	log   *slog.Logger
	now   func() time.Time

	mu     sync.Mutex           // guards the rest
	used   map[string]time.Time // by stream, when it was last used
	pruned time.Time
	warned time.Time
}

func newOpenStreams(limit int, after time.Duration, log *slog.Logger) *openStreams {
	return &openStreams{limit: limit, after: after, log: log, now: time.Now, used: make(map[string]time.Time)}
}

// use records that a stream is about to be written.
func (o *openStreams) use(stream string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := o.now()
	if _, ok := o.used[stream]; !ok && len(o.used) >= o.limit {
		if now.Sub(o.pruned) >= time.Second { // it reads the whole map
			o.pruned = now
			for name, last := range o.used {
				if now.Sub(last) > o.after {
					delete(o.used, name)
				}
			}
		}
		if len(o.used) >= o.limit {
			if now.Sub(o.warned) >= time.Minute {
				o.warned = now
				o.log.Warn("too many queues are in use at once for the number of files that the process may open; requests to others are refused; "+
					"raise that limit (ulimit -n)", "queues", len(o.used))
			}
			return fmt.Errorf("%w: %d", ErrBusy, len(o.used))
		}
	}
	o.used[stream] = now
	return nil
}

// forget is called when the files of a stream are closed because it was deleted.
func (o *openStreams) forget(stream string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.used, stream)
}

// Use is called before a record of a stream is published. It returns [ErrBusy] if that would open one file too many. Without an embedded server
// with files it does nothing.
func (s *Server) Use(stream string) error {
	if s.open == nil {
		return nil
	}
	return s.open.use(stream)
}
