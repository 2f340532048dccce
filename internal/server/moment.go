package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lazuli-storage/lazuli/internal/buildinfo"
	"github.com/lazuli-storage/lazuli/internal/server/backup"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// Moment is the state of all services and accounts at one moment, for a backup. Requests are served meanwhile; what
// they delete keeps its space until Close. It is a [backup.Sharded].
type Moment struct {
	shardedSource[*momentShard]
	open *services
	stop context.Context // ends when the server stops
	once sync.Once
	done func()
}

var _ backup.Sharded = (*Moment)(nil)

// ErrNotReady means that a node does not know what is current, for example because it has no majority of the cluster.
var ErrNotReady = errors.New("the node is not ready")

// Moment pins the state. If a write was acknowledged before another began, the moment has the first if it has the
// second, whichever services they were for. In a cluster that holds for writes to one service; between services the
// moments may differ by what is committed within some milliseconds. Close it.
//
// Errors: [ErrNotReady], those of ctx.
func (s *Server) Moment(ctx context.Context) (*Moment, error) { return s.moment(ctx, false) }

// HeldMoment is Moment, but in a cluster, too, it holds for writes to several services: the writes of all nodes wait
// for it, for a second at most. On a single server it is Moment.
//
// Errors: those of Moment, [ErrCannotHold], [store.ErrNotHeld], [store.ErrUnavailable], [store.ErrUnknown].
func (s *Server) HeldMoment(ctx context.Context) (*Moment, error) { return s.moment(ctx, true) }

func (s *Server) moment(ctx context.Context, hold bool) (_ *Moment, err error) {
	if hold && s.config.NATS.URL != "" {
		return nil, fmt.Errorf("%w: the logs are on a NATS server of their own", ErrCannotHold)
	}
	if s.config.spread() {
		return nil, fmt.Errorf("%w: a moment of all shards %w", ErrCannotHold, ErrSpread)
	}
	// The moment stays within the gate until Close, so that the services it reads are not closed or exchanged.
	if err := s.gate.enter(ctx); err != nil {
		return nil, err
	}
	stop, cancel := context.WithCancel(s.stopping)
	m := &Moment{stop: stop}
	m.done = func() {
		cancel()
		m.unpin()
		s.moments.RUnlock()
		s.gate.leave()
	}
	s.moments.RLock()
	defer func() {
		if err != nil {
			_ = m.Close()
		}
	}()
	if m.open = s.services.Load(); m.open == nil || !s.ready.Load() {
		return nil, errNotOpen
	}
	if s.Clustered() { // what is current would only be unknown after a timeout
		if err := m.open.nats.Healthy(); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrNotReady, err)
		}
	}
	list := m.hold(m.open.list())
	// The place in the archive before the pins: what a segment has by then, the pins have as well. With several shards
	// each has an archive of its own, whose bases are not of all of them: see ArchiveMoment.
	var position *backup.LogPosition
	a := s.archive()
	if a != nil && a.Shards() == 1 {
		position = a.Shard(0).Next()
	}
	var pins []*store.Pin
	var held time.Duration
	if hold && s.Clustered() {
		h := holder{m.open.node.Format(), m.open.nats.Conn(), s.config.Log, list}
		pins, held, err = h.pin(ctx)
	} else {
		pins, err = store.PinAll(list...) // all at once: the moment is the same in all shards
	}
	if err != nil {
		return nil, err
	}
	m.setPins(pins)
	if position != nil {
		a.Shard(0).Pinned(position, m.groups())
	}
	m.info = backup.Info{Origin: cmp.Or(m.open.list()[0].blobs.State.Database().LogID(), s.dir.ID()),
		Release: buildinfo.Current().Version, Map: m.open.placed, Log: position, Held: hold,
		HeldSeconds: held.Seconds()}
	return m, nil
}

// hold holds the content of shards and returns their databases, which are to be pinned. In the other order, content
// that a pin refers to could be freed in between.
func (m *Moment) hold(shards []*shard) (list []*store.DB) {
	for _, of := range shards {
		m.shards = append(m.shards, &momentShard{moment: m, of: of, pins: map[string]*store.Pin{},
			release: of.blobs.State.Hold()})
		databases := map[string]*store.DB{"tables": of.tables.State.Database(), "queues": of.queues.State.Database(),
			"blobs": of.blobs.State.Database()}
		for _, name := range backup.Databases {
			list = append(list, databases[name])
		}
	}
	return list
}

// setPins takes the pins of the databases that hold has returned.
func (m *Moment) setPins(pins []*store.Pin) {
	for i, pin := range pins {
		m.shards[i/len(backup.Databases)].pins[backup.Databases[i%len(backup.Databases)]] = pin
	}
}

// groups returns the numbers of the last groups of the databases of the first shard.
func (m *Moment) groups() map[string]uint64 {
	groups := map[string]uint64{}
	for name, pin := range m.shards[0].pins {
		groups[name] = pin.Group()
	}
	return groups
}

// unpin ends what hold and setPins have begun.
func (m *Moment) unpin() {
	for _, of := range m.shards {
		for _, pin := range of.pins {
			pin.Close()
		}
		of.release()
	}
}

// Backup returns the state for a backup: [Server.Moment], with hold [Server.HeldMoment], or in a cluster in which no
// node has all shards a [SpreadMoment], which cannot hold writes. held is what the place of the backup has.
func (s *Server) Backup(ctx context.Context, hold bool, held backup.Held) (backup.Source, error) {
	var m backup.Source
	var err error
	switch {
	case s.config.spread() && hold:
		return nil, fmt.Errorf("%w: for one moment of all shards a backup %w; without --hold-writes each shard has its "+
			"own moment", ErrCannotHold, ErrSpread)
	case s.config.spread():
		m, err = s.spreadMoment(ctx, held)
	case hold:
		m, err = s.HeldMoment(ctx)
	default:
		m, err = s.Moment(ctx)
	}
	if err != nil {
		return nil, err // not a nil pointer as a source
	}
	return m, nil
}

// Close ends the moment, and returns nil. Closing twice is allowed.
func (m *Moment) Close() error {
	m.once.Do(m.done)
	return nil
}
