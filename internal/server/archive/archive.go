package archive

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lazuli-storage/lazuli/internal/server/backup"
	"github.com/lazuli-storage/lazuli/internal/state/blob/replica"
	"github.com/lazuli-storage/lazuli/internal/storage/disk"
	"github.com/lazuli-storage/lazuli/internal/storage/extent"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// Options configure [New].
type Options struct {
	// Place holds the archive. It belongs to one server.
	Place backup.Place
	// Every is the interval of segments; 0 is 10 seconds.
	Every time.Duration
	// Base is the interval of bases, and Keep the time that must stay reachable; 0 are 24 hours and 7 days.
	Base, Keep time.Duration
	// Spool is the size in bytes of what waits for the place, on the disk of the data folder, from which it is dropped;
	// 0 is 4 GiB.
	Spool int64
	// Fence ends the acknowledgement of writes when it is not known for [Lease] whether the place still belongs to this
	// server, and when the newest moment in it is more than 15 seconds old. A standby can only take over from a server
	// with it. Segments are sent every 5 seconds at least.
	Fence bool
	// Log is for messages that a person should see; nil is slog.Default().
	Log *slog.Logger
	// Metrics, if set, gets the metrics of the archive.
	Metrics prometheus.Registerer
	// Now is the clock; nil is time.Now. It need not be that of the services.
	Now func() time.Time
}

// Content is the content of blobs.
type Content interface {
	// Stats, Records and Retain are those of an [extent.Store].
	Stats() []extent.Stat
	Records(id uint64, offset int64, limit int) (at int64, data []byte, err error)
	Retain(fn func(id uint64, size int64) bool)
}

// Archive sends the logs of one server to a place. Open comes first, then the databases with their [Archive.Log], then
// Attach. Its methods are safe for concurrent use.
type Archive struct {
	o     Options
	dir   string
	spool *spool
	wake  chan struct{} // has room for one: something is to be sent now
	based chan struct{} // has room for one: a base is due
	m     metrics

	mu    sync.Mutex // guards what follows
	clock int64      // the last time that was given out
	// taken has the times of groups that may or may not be committed, by database.
	taken  map[string]int64
	last   map[string]uint64 // numbers of the last groups, by database
	broken string            // why the timeline cannot go on; "" if it can
	failed string            // the last error of the place, for the log

	cutting  sync.Mutex // held while segments are sent; before mu
	opened   Content    // of the services that are being opened
	content  Content    // nil while the services are closed
	keys     string     // path of the file with the keys of encryption scopes
	state    state
	dead     map[uint64]int64 // sizes of dead extents that wait for the archive; guarded by mu
	position atomic.Pointer[state]

	server   string // identity of the data folder, for the owner of the place
	epoch    atomic.Uint64
	looked   atomic.Pointer[time.Time] // when the last look began that has found no later epoch
	lost     atomic.Pointer[error]     // why the place belongs to another server
	attached atomic.Pointer[time.Time] // when requests may have begun
	unwatch  func()                    // ends keepLooking
}

// New returns an archive that is not open.
func New(o Options) *Archive {
	if o.Every == 0 {
		o.Every = 10 * time.Second
	}
	if o.Base == 0 {
		o.Base = 24 * time.Hour
	}
	if o.Keep == 0 {
		o.Keep = 7 * 24 * time.Hour
	}
	if o.Spool == 0 {
		o.Spool = 4 << 30
	}
	if o.Fence {
		o.Every = min(o.Every, fencedEvery)
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	a := &Archive{o: o, wake: make(chan struct{}, 1), based: make(chan struct{}, 1), taken: map[string]int64{},
		last: map[string]uint64{}, dead: map[uint64]int64{}, unwatch: func() {}}
	a.register()
	return a
}

// Open opens the folder of the archive in a data folder, or creates it, and takes the place. The databases are opened
// after it. Without Fence a place that does not answer is taken later. Errors: ErrOwned, backup.ErrNotPlace and others
// that time does not repair; those of the disk.
func (a *Archive) Open(dir string) error {
	if err := disk.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("archive: %w", err)
	}
	a.dir = dir
	var err error
	if a.state, err = loadState(dir, a.o.Place.String()); err != nil {
		return fmt.Errorf("archive: %w", err)
	}
	a.last, a.clock = maps.Clone(a.state.Groups), a.state.Until
	a.spool, err = openSpool(dir, func(i *item) error {
		a.clock = max(a.clock, i.at)
		a.follow(backup.Databases[i.database], i.prev, i.number)
		return nil
	})
	if err != nil {
		return fmt.Errorf("archive: %w", err)
	}
	a.publish()
	if a.server, err = loadServer(dir); err != nil {
		return fmt.Errorf("archive: %w", err)
	}
	return a.take()
}

// take takes the place, at the start.
func (a *Archive) take() error {
	ctx, cancel := context.WithTimeout(context.Background(), claimTimeout)
	defer cancel()
	a.epoch.Store(a.state.Epoch)
	err := a.claim(ctx)
	switch {
	case err == nil:
	case errors.Is(err, ErrOwned), errors.Is(err, backup.ErrNotPlace), errors.Is(err, backup.ErrSealed),
		errors.Is(err, backup.ErrNotSealed), errors.Is(err, backup.ErrWrongKey), errors.Is(err, ErrDamaged):
		return fmt.Errorf("archive: %w", err)
	case a.o.Fence || a.state.Lease > 0:
		// A standby may have taken over while this server was down. Only the place knows.
		return fmt.Errorf("archive: it is not known whether %s still belongs to this server, which has a fence: %w",
			a.o.Place, err)
	default:
		a.o.Log.Error("the archive cannot be reached: it is not known whether it belongs to this server, and changes wait "+
			"in the data folder", "to", a.o.Place.String(), "err", err)
	}
	if a.o.Fence {
		ctx, stop := context.WithCancel(context.Background())
		var watching sync.WaitGroup
		watching.Go(func() { a.keepLooking(ctx) })
		a.unwatch = func() { stop(); watching.Wait() }
	}
	return nil
}

// follow notes a group. The caller holds mu, or is alone.
func (a *Archive) follow(database string, prev, number uint64) (again bool) {
	last := a.last[database]
	if number <= last {
		return true
	}
	if prev != last && a.state.Timeline != "" {
		a.breaks(fmt.Sprintf("the log of %s goes on with group %d after %d, and the archive has group %d", database, number,
			prev, last))
	}
	a.last[database] = number
	return false
}

// breaks notes why the timeline cannot go on. The caller holds mu, or is alone.
func (a *Archive) breaks(reason string) {
	if a.broken == "" {
		a.broken = reason
	}
}

// Close closes the folder. What was not sent stays there.
func (a *Archive) Close() error {
	a.unwatch()
	if a.spool == nil {
		return nil
	}
	return a.spool.close()
}

// log is the archive of one database.
type log struct {
	*Archive
	name   string
	number int // in backup.Databases
}

// Log returns what a database takes as its archive. number is that in [backup.Databases].
func (a *Archive) Log(number int) store.Archive { return &log{a, backup.Databases[number], number} }

// blobLog is the archive of the database of blobs, and of their content.
type blobLog struct{ *log }

// Blobs returns what the state of blobs takes as its archive.
func (a *Archive) Blobs() replica.Archive {
	number := slices.Index(backup.Databases, "blobs")
	return blobLog{&log{a, backup.Databases[number], number}}
}

// Extents implements [replica.Archive].
func (l blobLog) Extents(c *extent.Store) { l.Content(c) }

// Content sets the content of blobs, before Attach.
func (a *Archive) Content(c Content) {
	a.cutting.Lock()
	defer a.cutting.Unlock()
	a.opened = c
}

// Stamp implements [store.Archive]. The times of all databases follow each other.
func (l *log) Stamp() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clock = max(l.clock+1, l.o.Now().UnixNano())
	l.taken[l.name] = l.clock
	return l.clock
}

// Drop implements [store.Archive].
func (l *log) Drop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.taken, l.name)
}

// Group implements [store.Archive].
func (l *log) Group(g store.Group) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.taken, l.name)
	// What the spool kept over a crash comes from the log once more.
	if l.follow(l.name, g.Prev, g.Number) || l.broken != "" {
		return
	}
	if g.At == 0 {
		g.At = max(l.clock+1, l.o.Now().UnixNano())
	}
	l.clock = max(l.clock, g.At)
	if err := l.spool.add(&item{kind: itemGroup, database: l.number, prev: g.Prev, number: g.Number, at: g.At,
		bytes: g.Payload}); err != nil {
		l.breaks(fmt.Sprintf("a change could not be kept for the archive: %v", err))
		return
	}
	size := l.spool.bytes()
	if size > l.o.Spool {
		l.breaks(fmt.Sprintf("%s cannot be reached, and more than %d MiB wait for it", l.o.Place, l.o.Spool>>20))
	}
	// One segment's worth is sent without waiting for the interval, so that the spool stays short under load.
	if size >= segmentSize {
		l.nudge(l.wake)
	}
}

func (a *Archive) nudge(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Sync implements [store.Archive].
func (l *log) Sync() {
	if err := l.spool.sync(); err != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.breaks(fmt.Sprintf("changes could not be kept for the archive: %v", err))
	}
}

// Opened implements [store.Archive].
func (l *log) Opened(newest uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.taken, l.name)
	if last := l.last[l.name]; last != newest {
		if l.state.Timeline != "" {
			l.breaks(fmt.Sprintf("the log of %s ends with group %d, and the archive with group %d: the database was replaced, "+
				"or was changed without the archive", l.name, newest, last))
		}
		l.last[l.name] = newest
	}
}

// Attach begins the use of the content, once all databases are open and before the first request is served. keys is the
// file with the keys of encryption scopes.
func (a *Archive) Attach(keys string) error {
	a.cutting.Lock()
	defer a.cutting.Unlock()
	a.content, a.keys = a.opened, keys
	// From here on nothing is deleted that was not sent.
	a.content.Retain(a.retain)
	now := a.o.Now()
	a.attached.Store(&now)
	a.nudge(a.wake) // the place has not heard of this server for as long as that was down
	if a.state.Timeline == "" || a.reason() != "" {
		return a.restart()
	}
	return nil
}

// Detach sends what there is, if the place answers, and ends the use of the content. No request is served any more.
func (a *Archive) Detach(ctx context.Context) {
	a.cutting.Lock()
	defer a.cutting.Unlock()
	if a.content == nil {
		return
	}
	a.mu.Lock()
	silent := a.failed != ""
	a.mu.Unlock()
	if !silent {
		ctx, cancel := context.WithTimeout(ctx, detachTimeout)
		defer cancel()
		a.report(a.cut(ctx))
	}
	a.content = nil
}

// detachTimeout bounds the wait for the place at a stop. What was not sent then is sent after the next start.
const detachTimeout = 5 * time.Second

func (a *Archive) reason() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.broken
}

// restart begins another timeline. The caller holds cutting.
func (a *Archive) restart() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.broken != "" {
		a.m.gaps.Inc()
		a.o.Log.Error("the archive has a gap: it cannot restore to moments before its next base", "reason", a.broken)
	}
	content := map[uint64]int64{}
	for _, x := range a.content.Stats() {
		// What this process did not create is as it was before any request, so the base has it.
		if x.Begun {
			content[x.ID] = a.state.Content[x.ID]
		} else {
			content[x.ID] = x.Size
		}
	}
	// While mu is held no group is added, so the timeline begins exactly after a.last.
	if err := a.spool.reset(); err != nil {
		return fmt.Errorf("archive: %w", err)
	}
	a.broken = ""
	clear(a.dead)
	a.state.begin(a.o.Now(), a.last, content)
	if err := a.state.save(a.dir); err != nil {
		return fmt.Errorf("archive: %w", err)
	}
	a.publish()
	a.nudge(a.based)
	return nil
}

// publish makes the state visible to Position and the metrics. The caller holds cutting, or is alone.
func (a *Archive) publish() {
	s := a.state
	s.Content, s.Groups = nil, nil
	a.position.Store(&s)
}

// Next returns the place of a moment that is pinned after the call; nil while there is no timeline. [Archive.Pinned]
// makes it that of the moment.
func (a *Archive) Next() *backup.LogPosition {
	s := a.position.Load()
	if s.Timeline == "" {
		return nil
	}
	// Changes that are in the spool by then were committed, so the moment includes them.
	return &backup.LogPosition{Timeline: s.Timeline, Segment: s.Next, From: time.Unix(0, a.settled()).UTC()}
}

// Pinned notes that the databases of the moment end with the groups, by their names. The moment was pinned before.
func (a *Archive) Pinned(p *backup.LogPosition, groups map[string]uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	// Not before any time that was given out: all groups of the moment have times up to it.
	p.Groups, p.At = groups, time.Unix(0, max(a.clock, a.o.Now().UnixNano())).UTC()
}

// retain reports whether a dead extent has records that were not sent.
func (a *Archive) retain(id uint64, size int64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.broken != "" {
		return false
	}
	if _, waits := a.dead[id]; !waits {
		a.dead[id] = size // cut removes it once its records were sent
		return true
	}
	return a.dead[id] >= 0
}

// waiting returns the bytes that the archive keeps in the data folder.
func (a *Archive) waiting() int64 {
	n := a.spool.bytes()
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, size := range a.dead {
		n += max(size, 0)
	}
	return n
}

// keysFile returns the file with the keys of encryption scopes, nil without one.
func (a *Archive) keysFile() ([]byte, error) {
	text, err := os.ReadFile(a.keys)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	return text, err
}
