package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/lazuli-storage/lazuli/internal/buildinfo"
	"github.com/lazuli-storage/lazuli/internal/server/backup"
	"github.com/lazuli-storage/lazuli/internal/storage/extent"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// Where no node has all shards, a backup's source reads each shard from one of its hosts, by a call whose answer is a
// stream as the admin listener sends one. The moment of a shard is when its stream begins: a host that held all of them
// from the beginning would keep what is deleted for as long as the whole backup takes, and its streams would wait.

const (
	// momentWait bounds the wait for a host of a shard, whose log may have no leader.
	momentWait = 30 * time.Second
	// momentRetry is the pause between two attempts.
	momentRetry = time.Second
)

// momentOperations adds the operations for backups.
func (s *Server) momentOperations(handle handleCall) {
	handle(http.MethodGet, "origin", func(of *shard, w http.ResponseWriter, _ *http.Request) error {
		return answerCall(w, of.blobs.State.Database().LogID())
	})
	handle(http.MethodPost, "moment", func(of *shard, w http.ResponseWriter, r *http.Request) error {
		var held backup.Held
		if err := json.NewDecoder(r.Body).Decode(&held); err != nil {
			return err
		}
		m, err := s.momentOf(r.Context(), []*shard{of})
		if err != nil {
			return err
		}
		defer m.Close()
		// The caller has compared the origins of the whole backups; between nodes it is that of the call.
		m.info = backup.Info{Origin: held.Origin, Release: buildinfo.Current().Version}
		// After this an error is at the end of the stream.
		return backup.Send(r.Context(), w, m, held)
	})
}

// errShardCloses ends the stream of a shard.
var errShardCloses = errors.New("the shard is closed at the node that was asked, which joins again or from which the " +
	"shard moves: run the backup again")

// momentOf pins shards of this node.
func (s *Server) momentOf(ctx context.Context, shards []*shard) (m *Moment, err error) {
	stop, cancel := context.WithCancelCause(s.stopping)
	m = &Moment{stop: stop}
	s.moments.RLock()
	var unhooks []func() bool
	m.done = func() {
		for _, unhook := range unhooks {
			unhook()
		}
		cancel(nil)
		m.unpin()
		s.moments.RUnlock()
	}
	defer func() {
		if err != nil {
			_ = m.Close()
		}
	}()
	pins, err := store.PinAll(m.hold(shards)...)
	if err != nil {
		return nil, err
	}
	m.setPins(pins)
	for _, of := range shards {
		unhooks = append(unhooks, context.AfterFunc(of.closing, func() { cancel(errShardCloses) }))
	}
	return m, ctx.Err()
}

// SpreadMoment is the state of a cluster in which no node has all shards, for a backup: each shard at a moment of its
// own, which is when it is read. It is a [backup.Sharded]. Close it.
type SpreadMoment struct {
	shardedSource[*spreadShard]
	server *Server
	open   *services
	once   sync.Once
}

var _ backup.Sharded = (*SpreadMoment)(nil)

// spreadShard is a shard of a SpreadMoment.
type spreadShard struct {
	moment *SpreadMoment
	number int
	held   backup.Held   // what the place of the backup has of it
	source backup.Source // nil before its first method
}

// spreadMoment returns the source of a backup. held is what its place has.
func (s *Server) spreadMoment(ctx context.Context, held backup.Held) (*SpreadMoment, error) {
	open := s.services.Load()
	if open == nil || !s.ready.Load() {
		return nil, errNotOpen
	}
	m := &SpreadMoment{server: s, open: open}
	m.info = backup.Info{Release: buildinfo.Current().Version, Map: open.placed}
	if err := open.call(ctx, 0, http.MethodGet, "origin", nil, nil, &m.info.Origin); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotReady, err)
	}
	for n := range s.dir.Shards() {
		m.shards = append(m.shards, &spreadShard{moment: m, number: n, held: backup.Held{Origin: m.info.Origin}})
	}
	// The same window of a shard of another cluster is other content.
	if held.Origin == m.info.Origin {
		for _, w := range held.Windows {
			if w.Shard < len(m.shards) {
				of := m.shards[w.Shard]
				w.Shard = 0 // the only one of its stream
				of.held.Windows = append(of.held.Windows, w)
			}
		}
	}
	return m, nil
}

// stream begins to read the shard, and so decides its moment. The methods of a source are called in an order that
// begins with a database.
func (s *spreadShard) stream(ctx context.Context) (backup.Source, error) {
	if s.source != nil {
		return s.source, nil
	}
	text, err := json.Marshal(s.held)
	if err != nil {
		return nil, err
	}
	for began := time.Now(); ; {
		resp, err := s.moment.open.send(ctx, s.number, http.MethodPost, "moment", nil, bytes.NewReader(text))
		if err == nil {
			// A host that was lost before its first item counts as one that did not answer.
			if s.source, err = backup.Receive(resp.Body); err == nil {
				return s.source, nil
			}
		}
		if ctx.Err() != nil || time.Since(began) > momentWait {
			return nil, fmt.Errorf("shard %d: %w", s.number, err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(momentRetry):
		}
	}
}

// Info implements [backup.Source].
func (s *spreadShard) Info() backup.Info { return s.moment.info }

// Database implements [backup.Source].
func (s *spreadShard) Database(ctx context.Context, name string, emit func(part []byte) error) error {
	source, err := s.stream(ctx)
	if err != nil {
		return err
	}
	return source.Database(ctx, name, emit)
}

// Keys implements [backup.Source].
func (s *spreadShard) Keys(ctx context.Context) ([]byte, error) {
	source, err := s.stream(ctx)
	if err != nil {
		return nil, err
	}
	return source.Keys(ctx)
}

// Contents implements [backup.Source]. What is held was said when the stream began.
func (s *spreadShard) Contents(ctx context.Context, held func(extent.Window) []extent.Range,
	emit func(extent.Content) error) error {
	source, err := s.stream(ctx)
	if err != nil {
		return err
	}
	return errors.Join(source.Contents(ctx, held, emit), s.Close())
}

// Close implements [backup.Source]. It ends the stream.
func (s *spreadShard) Close() error {
	source := s.source
	if s.source = nil; source == nil {
		return nil
	}
	return source.Close()
}

// Close implements [backup.Source].
func (m *SpreadMoment) Close() (err error) {
	m.once.Do(func() {
		for _, of := range m.shards {
			err = errors.Join(err, of.Close())
		}
	})
	return err
}
