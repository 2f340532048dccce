package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"

	"github.com/lazuli-storage/lazuli/internal/buildinfo"
	"github.com/lazuli-storage/lazuli/internal/server/backup"
	"github.com/lazuli-storage/lazuli/internal/storage/extent"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// Moment is the state of all services and accounts at one moment, for a backup. Requests are served meanwhile; what
// they delete keeps its space until Close. It is a [backup.Source].
type Moment struct {
	open *services
	info backup.Info
	keys string
	pins map[string]*store.Pin
	stop context.Context // ends when the server stops
	once sync.Once
	done func()
}

var _ backup.Source = (*Moment)(nil)

// ErrNotReady means that a node does not know what is current, for example because it has no majority of the cluster.
var ErrNotReady = errors.New("the node is not ready")

// Moment pins the state. If a write was acknowledged before another began, the moment has the first if it has the
// second, whichever services they were for. In a cluster that holds for writes to one service; between services the
// moments may differ by what is committed within some milliseconds. Close it.
//
// Errors: [ErrNotReady], those of ctx.
func (s *Server) Moment(ctx context.Context) (_ *Moment, err error) {
	// The moment stays within the gate until Close, so that the services it reads are not closed or exchanged.
	if err := s.gate.enter(ctx); err != nil {
		return nil, err
	}
	stop, cancel := context.WithCancel(s.stopping)
	m := &Moment{stop: stop, keys: s.dir.EncryptionScopes(), pins: map[string]*store.Pin{}}
	release := func() {}
	m.done = func() {
		cancel()
		for _, pin := range m.pins {
			pin.Close()
		}
		release()
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
	// The content is held before the databases are pinned. In the other order, content that a pin refers to could be
	// freed in between.
	release = m.open.blobs.State.Hold()
	databases := map[string]*store.DB{"tables": m.open.tables.State.Database(), "queues": m.open.queues.State.Database(),
		"blobs": m.open.blobs.State.Database()}
	var list []*store.DB
	for _, name := range backup.Databases {
		list = append(list, databases[name])
	}
	// The place in the archive before the pins: what a segment has by then, the pins have as well.
	var position *backup.LogPosition
	if a := s.config.Archive; a != nil {
		position = a.Next()
	}
	pins, err := store.PinAll(list...)
	if err != nil {
		return nil, err
	}
	groups := map[string]uint64{}
	for i, name := range backup.Databases {
		m.pins[name] = pins[i]
		groups[name] = pins[i].Group()
	}
	if position != nil {
		s.config.Archive.Pinned(position, groups)
	}
	m.info = backup.Info{Origin: cmp.Or(databases["blobs"].LogID(), s.dir.ID()), Release: buildinfo.Current().Version,
		Log: position}
	return m, nil
}

// Close ends the moment, and returns nil. Closing twice is allowed.
func (m *Moment) Close() error {
	m.once.Do(m.done)
	return nil
}

// Info implements [backup.Source].
func (m *Moment) Info() backup.Info { return m.info }

// Database implements [backup.Source].
func (m *Moment) Database(ctx context.Context, name string, emit func(part []byte) error) error {
	return m.pins[name].Parts(func(part []byte) error {
		return cmp.Or(ctx.Err(), m.stop.Err(), emit(part))
	})
}

// Keys implements [backup.Source]. The file may have more keys than the moment.
func (m *Moment) Keys(context.Context) ([]byte, error) {
	text, err := os.ReadFile(m.keys)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return text, err
}

// Contents implements [backup.Source].
func (m *Moment) Contents(ctx context.Context, held func(extent.Window) []extent.Range,
	emit func(extent.Content) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(m.stop, cancel)()
	return m.open.blobs.State.BackupContent(ctx, m.pins["blobs"], held, emit)
}
