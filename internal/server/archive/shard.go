package archive

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lazuli-storage/lazuli/internal/server/backup"
	"github.com/lazuli-storage/lazuli/internal/state/blob/replica"
	"github.com/lazuli-storage/lazuli/internal/storage/disk"
	"github.com/lazuli-storage/lazuli/internal/storage/extent"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// Shard sends the logs of one shard to a place. Open comes first, then the databases with their [Shard.Log], then
// Attach. Its methods are safe for concurrent use.
type Shard struct {
	in    *Archive
	o     Options
	parts int // of the keeper: the number of shards
	dir   string
	spool *spool
	wake  chan struct{} // has room for one: something is to be sent now
	based chan struct{} // has room for one: a base is due

	mu sync.Mutex // guards what follows
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
	basing   bool             // the next moment that is pinned is a base; guarded by mu
	resend   []uint64         // as state.Resend, of a base that is made; guarded by mu
	position atomic.Pointer[state]

	server   string // identity of the data folder, for the owner of the place
	epoch    atomic.Uint64
	looked   atomic.Pointer[time.Time] // when the last look began that has found no later epoch
	lost     atomic.Pointer[error]     // why the place belongs to another server
	attached atomic.Pointer[time.Time] // when requests may have begun
	unwatch  func()                    // ends keepLooking

	shared shared
}

// shared is the part of an archive that belongs to the node of a cluster. Shard.cutting guards it, unless it says
// otherwise.
type shared struct {
	on   bool // this is the archive of a node; set by OpenNode
	node Node
	// sends is set while this node sends segments, and have are the ranges of content that they and the base have then.
	sends bool
	have  map[extent.Window][]extent.Range
	// next is the name of the timeline that begins with the next base; "" if none is due. Shard.mu guards it, too, and
	// seen is the one that the place had when that was decided.
	next, seen string
	lacking    time.Time // since when this node knows that it lacks groups
	warned     bool      // that a standby cannot take over; Shard.mu guards it
	// closed has the last groups of the databases when a file of the spool was closed.
	closed map[uint64]map[string]uint64
	// deaths are the dead extents that wait for the archive, and shipped is the last group of the blobs that the place
	// has; Shard.mu guards both.
	deaths  map[uint64]death
	shipped uint64
}

// death is an extent to which no group after one refers.
type death struct {
	group uint64
	size  int64
}

// newShard returns the archive of a shard that is not open.
func newShard(in *Archive, o Options) *Shard {
	return &Shard{in: in, o: o, wake: make(chan struct{}, 1), based: make(chan struct{}, 1), taken: map[string]int64{},
		last: map[string]uint64{}, dead: map[uint64]int64{}, unwatch: func() {}}
}

// openState opens the folder, or creates it.
func (a *Shard) openState(dir string) (err error) {
	if err := disk.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("archive: %w", err)
	}
	a.dir = dir
	if a.state, err = loadState(dir, a.o.Place.String()); err != nil {
		return fmt.Errorf("archive: %w", err)
	}
	a.resend = a.state.Resend
	a.last = maps.Clone(a.state.Groups)
	a.in.passTime(a.state.Until)
	if a.shared.on { // where the place ends says nothing about this node
		a.last = map[string]uint64{}
	}
	if a.in.keeper == a && a.server == "" {
		if a.server, err = loadServer(dir); err != nil {
			return fmt.Errorf("archive: %w", err)
		}
	}
	return nil
}

// openSpool opens the spool in the folder.
func (a *Shard) openSpool() (err error) {
	a.spool, err = openSpool(a.dir, &a.in.spooled, func(i *item) error {
		a.in.passTime(i.at)
		a.follow(backup.Databases[i.database], i.prev, i.number)
		return nil
	})
	if err != nil {
		return fmt.Errorf("archive: %w", err)
	}
	a.publish()
	return nil
}

// closeSpool closes the spool, if it is open.
func (a *Shard) closeSpool() error {
	if a.spool == nil {
		return nil
	}
	return a.spool.close()
}

// take takes the place, at the start.
func (a *Shard) take() error {
	ctx, cancel := context.WithTimeout(context.Background(), claimTimeout)
	defer cancel()
	a.epoch.Store(a.state.Epoch)
	err := a.claim(ctx)
	switch {
	case err == nil:
	case errors.Is(err, ErrOwned), errors.Is(err, errLeased), errors.Is(err, backup.ErrNotPlace),
		errors.Is(err, backup.ErrSealed), errors.Is(err, backup.ErrNotSealed),
		errors.Is(err, backup.ErrWrongKey), errors.Is(err, backup.ErrShards), errors.Is(err, ErrDamaged):
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
func (a *Shard) follow(database string, prev, number uint64) (again bool) {
	if a.shared.on {
		return a.followShared(database, number)
	}
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
func (a *Shard) breaks(reason string) {
	if a.broken == "" {
		a.broken = reason
	}
}

// log is the archive of one database.
type log struct {
	*Shard
	name   string
	number int // in backup.Databases
}

// Log returns what a database takes as its archive. number is that in [backup.Databases].
func (a *Shard) Log(number int) store.Archive { return &log{a, backup.Databases[number], number} }

// blobLog is the archive of the database of blobs, and of their content.
type blobLog struct{ *log }

// Blobs returns what the state of blobs takes as its archive.
func (a *Shard) Blobs() replica.Archive {
	number := slices.Index(backup.Databases, "blobs")
	return blobLog{&log{a, backup.Databases[number], number}}
}

// Extents implements [replica.Archive].
func (l blobLog) Extents(c *extent.Store) { l.Content(c) }

// Content sets the content of blobs, before Attach.
func (a *Shard) Content(c Content) {
	a.cutting.Lock()
	defer a.cutting.Unlock()
	a.opened = c
}

// Stamp implements [store.Archive]. The times of all databases follow each other.
func (l *log) Stamp() int64 {
	if l.shared.on {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	// Under mu, so that settled does not promise a time before the group that has it is noted.
	at := l.in.nextTime()
	l.taken[l.name] = at
	return at
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
		g.At = l.in.nextTime()
	}
	l.in.passTime(g.At)
	if err := l.spool.add(&item{kind: itemGroup, database: l.number, prev: g.Prev, number: g.Number, at: g.At,
		bytes: g.Payload}); err != nil {
		l.breaks(fmt.Sprintf("a change could not be kept for the archive: %v", err))
		return
	}
	if l.in.spooled.Load() > l.o.Spool {
		l.breaks(fmt.Sprintf("%s cannot be reached, and more than %d MiB wait for it", l.o.Place, l.o.Spool>>20))
	}
	// One segment's worth is sent without waiting for the interval, so that the spool stays short under load.
	if l.spool.bytes() >= segmentSize {
		l.nudge(l.wake)
	}
}

func (a *Shard) nudge(c chan struct{}) {
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
	if l.shared.on {
		l.openedShared(l.name, newest)
		return
	}
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
func (a *Shard) Attach(keys string) error {
	a.cutting.Lock()
	defer a.cutting.Unlock()
	a.attach(keys, a.retain)
	if a.state.Timeline == "" || a.reason() != "" {
		return a.restart()
	}
	return nil
}

// attach sets the content. retain says of dead extents whether they wait for the archive. The caller holds cutting.
func (a *Shard) attach(keys string, retain func(id uint64, size int64) bool) {
	a.content, a.keys = a.opened, keys
	// From here on nothing is deleted that was not sent.
	a.content.Retain(retain)
	now := a.o.Now()
	a.attached.Store(&now)
	a.nudge(a.wake) // the place has not heard of this server for as long as that was down
}

func (a *Shard) reason() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.broken
}

// restart begins another timeline. The caller holds cutting.
func (a *Shard) restart() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.broken != "" {
		a.in.m.gaps.Inc()
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
func (a *Shard) publish() {
	s := a.state
	s.Content, s.Groups, s.Times, s.Sends = nil, nil, nil, a.shared.sends
	a.position.Store(&s)
}

// Next returns the place of a moment that is pinned after the call; nil while there is no timeline. [Shard.Pinned]
// makes it that of the moment.
func (a *Shard) Next() *backup.LogPosition {
	if a.shared.on {
		return a.nextShared()
	}
	s := a.position.Load()
	if s.Timeline == "" {
		return nil
	}
	a.holdBack()
	// Changes that are in the spool by then were committed, so the moment includes them.
	return &backup.LogPosition{Timeline: s.Timeline, Segment: s.Next, From: time.Unix(0, a.settled()).UTC()}
}

// holdBack notes, for a base, the extents with content to which nothing refers yet: the base lacks it, and segments
// before the base may have it. The groups that will refer to it come after the base, so it is sent again before them.
// It comes after the place of the base was read: later segments are those of the base. And before the pins: content
// whose writer has ended by then is in the base.
func (a *Shard) holdBack() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.basing {
		return
	}
	a.basing = false
	for _, x := range a.opened.Stats() {
		if x.Held && !slices.Contains(a.resend, x.ID) {
			a.resend = append(a.resend, x.ID)
		}
	}
}

// Pinned notes that the databases of the moment end with the groups, by their names. The moment was pinned before.
func (a *Shard) Pinned(p *backup.LogPosition, groups map[string]uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	// Not before any time that was given out: all groups of the moment have times up to it.
	at := max(a.in.clock.Load(), a.o.Now().UnixNano())
	if a.shared.on { // or that they may get when they are sent
		at = max(at, a.position.Load().Until) + int64(time.Millisecond)
	} else {
		a.in.passTime(at)
	}
	p.Groups, p.At = groups, time.Unix(0, at).UTC()
}

// retain reports whether a dead extent has records that were not sent.
func (a *Shard) retain(id uint64, size int64) bool {
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
func (a *Shard) waiting() int64 {
	n := a.spool.bytes()
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, size := range a.dead {
		n += max(size, 0)
	}
	for _, d := range a.shared.deaths {
		n += d.size
	}
	return n
}

// keysFile returns the file with the keys of encryption scopes, nil without one.
func (a *Shard) keysFile() ([]byte, error) {
	text, err := os.ReadFile(a.keys)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	return text, err
}

// beNode makes the archive that of a node of a cluster, before it is opened.
func (a *Shard) beNode(cluster string) {
	a.shared.on, a.shared.closed, a.shared.deaths = true, map[uint64]map[string]uint64{}, map[uint64]death{}
	if a.o.Fence {
		a.o.Every = min(a.o.Every, fencedNodeEvery)
	}
	a.server = "cluster " + cluster
}

// AttachNode is [Archive.Attach] of a shard on a node of a cluster.
func (a *Shard) AttachNode(keys string, n Node) {
	a.cutting.Lock()
	defer a.cutting.Unlock()
	a.shared.node, a.shared.sends = n, false
	a.attach(keys, a.retainShared)
}

// followShared is follow on a node. The caller holds mu, or is alone.
func (a *Shard) followShared(database string, number uint64) (again bool) {
	if number <= a.last[database] {
		return true
	}
	a.last[database] = number
	return false
}

// openedShared is Opened on a node: what the spool lacks another node may have. The caller holds mu.
func (a *Shard) openedShared(database string, newest uint64) {
	if last := a.last[database]; newest < last {
		a.breaks(fmt.Sprintf("the log of %s ends with group %d, and the archive of this node has group %d", database, newest,
			last))
	}
	a.last[database] = newest
}

// retainShared reports whether a group that was not sent may refer to a dead extent.
func (a *Shard) retainShared(id uint64, size int64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	d, waits := a.shared.deaths[id]
	if !waits {
		// The extent was dead when this was asked, so only groups up to now refer to it.
		d = death{a.last["blobs"], size}
	}
	if a.broken != "" || a.shared.shipped >= d.group {
		delete(a.shared.deaths, id)
		return false
	}
	a.shared.deaths[id] = d
	return true
}

// nextShared is Next on a node: nil unless this one makes the bases.
func (a *Shard) nextShared() *backup.LogPosition {
	a.mu.Lock()
	next := a.shared.next
	a.mu.Unlock()
	s := a.position.Load()
	switch {
	case next != "":
		return &backup.LogPosition{Timeline: next}
	case s.Timeline != "" && s.Sends:
		return &backup.LogPosition{Timeline: s.Timeline, Segment: s.Next}
	}
	return nil
}

// sent returns the newest moment that the place has, zero before the first, and why nothing is sent at the moment.
func (a *Shard) sent() (until time.Time, problem string) {
	if at := a.position.Load().Until; at > 0 {
		until = time.Unix(0, at).UTC()
	}
	if lost := a.in.keeper.lost.Load(); lost != nil {
		return until, (*lost).Error()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return until, a.failed
}
