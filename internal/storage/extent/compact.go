package extent

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"
)

// A Move tells the owner that From, referenced at Key, has been copied to To.
type Move struct {
	Key      []byte
	From, To Slice
}

// Owner is the interface to the component that keeps the metadata.
type Owner struct {
	// Refs MUST call yield for every slice that any metadata refers to, including soft-deleted objects and uncommitted
	// blocks. All slices MUST belong to one consistent state that is not older than the call. Refs stops when yield
	// returns false. Compact copies the Key if it needs it later.
	Refs func(ctx context.Context, yield func(Ref) bool) error

	// Move MUST durably replace the reference From at Key by To for each move, and MUST NOT change a reference that is no
	// longer From. All moves of one call may be one transaction. From and To have the same length.
	Move func(ctx context.Context, moves []Move) error
}

// CompactOptions configure Compact. The zero value deletes dead extents and rewrites extents of which less than half is
// live.
type CompactOptions struct {
	// MinLive is the live share of an extent, headers of live records included, below which it is rewritten. 0 means 0.5,
	// 1 rewrites every extent with dead content, negative means never.
	MinLive float64
	// MinSize is the size in bytes below which finished extents are rewritten regardless of their live share, if there are
	// at least two: restarts leave small extents. 0 means 1 MiB, negative means never.
	MinSize int64
	// BytesPerSecond limits the rate of rewriting; 0 means 32 MiB, negative means no limit.
	BytesPerSecond int64
	// Adopt, if set, reports whether extents of another owner are rewritten as well, since that one never does it again.
	// Where several nodes adopt the same one, each copies it, and the owner keeps one of the copies.
	Adopt func(owner uint64) bool
	// Progress, if set, receives the bytes that were moved and those to move, of all extents that are to be rewritten.
	Progress func(moved, total int64)
}

// Compacted is the result of one Compact.
type Compacted struct {
	Deleted      int   // extents
	Freed        int64 // total size
	Rewritten    int   // extents that became dead; a later Compact deletes them
	Waiting      int   // extents that are dead, and that a Compact after the grace period deletes
	Moved        int64 // bytes copied from them
	LiveBytes    int64 // referenced bytes in the examined extents
	LookedAt     int   // extents examined
	LookedAtSize int64 // their total size
}

// Hold keeps all extents until release is called: Compact does nothing meanwhile. It waits for a Compact that runs.
func (s *Store) Hold() (release func()) {
	s.held.Add(1)
	s.compacting.Lock()
	defer s.compacting.Unlock()
	return func() { s.held.Add(-1) }
}

// Retain sets a function that Compact asks before it deletes a dead extent: if it returns true, the extent stays until
// a later call. Nil is a function that returns false.
func (s *Store) Retain(fn func(id uint64, size int64) bool) {
	if fn == nil {
		fn = func(uint64, int64) bool { return false }
	}
	s.retained.Store(&fn)
}

// Compact runs once: it deletes dead extents and moves the content of extents that are mostly dead. The owner calls it
// at intervals.
//
// It examines extents that are finished and that no Writer holds: the metadata then refers to all of their live
// content. An extent is deleted if it was dead in two examinations at least Options.Grace apart, and no Reader holds
// it.
//
// For this to be safe, the owner MUST put slices into metadata only
//   - from a Writer, before that Writer is closed, or
//   - from metadata read in the same transaction.
func (s *Store) Compact(ctx context.Context, owner Owner, o CompactOptions) (Compacted, error) {
	if s.opts.ReadOnly {
		return Compacted{}, ErrReadOnly
	}
	if o.MinLive == 0 {
		o.MinLive = 0.5
	}
	if o.MinSize == 0 {
		o.MinSize = 1 << 20
	}
	if o.BytesPerSecond == 0 {
		o.BytesPerSecond = 32 << 20
	}
	s.compacting.Lock()
	defer s.compacting.Unlock()
	if s.held.Load() > 0 {
		return Compacted{}, nil
	}
	c := &compaction{s: s, ctx: ctx, owner: owner, o: o, usage: map[uint64]*usage{}}
	err := c.run()
	return c.result, err
}

// compaction is the state of one Compact.
type compaction struct {
	s      *Store
	ctx    context.Context
	owner  Owner
	o      CompactOptions
	usage  map[uint64]*usage // the extents examined
	toMove int64
	damage []error // slices that could not be moved because they are damaged
	result Compacted
}

// usage is the set of live ranges of one extent.
type usage struct {
	e    *extent
	size int64
	live []span
	sum  int64 // of live
}

func (c *compaction) run() error {
	c.s.rotate()
	// The order is what makes deletion safe. An extent is chosen while no writer holds it, so only metadata can lead to
	// it; and Refs then shows a state that is not older than the choice.
	c.selectExtents()
	if len(c.usage) == 0 {
		return nil
	}
	if err := c.mark(); err != nil {
		return fmt.Errorf("extent: compact: mark: %w", err)
	}
	var errs []error
	if err := c.sweep(); err != nil {
		errs = append(errs, fmt.Errorf("extent: compact: sweep: %w", err))
	}
	if victims := c.victims(); len(victims) > 0 {
		if err := c.rewrite(victims); err != nil {
			errs = append(errs, fmt.Errorf("extent: compact: rewrite: %w", err))
		}
	}
	return errors.Join(append(errs, c.damage...)...)
}

// rotate seals extents that hold enough data, so that an idle store can be compacted as well, and waits until they are
// finished.
func (s *Store) rotate() {
	var sealed []<-chan struct{}
	for _, l := range s.lanes() {
		l.mu.Lock()
		if e := l.active; e != nil && e.size >= s.opts.SealSize/16 {
			sealed = append(sealed, l.seal())
		}
		l.mu.Unlock()
	}
	for _, done := range sealed {
		<-done
	}
}

// selectExtents selects the extents that only known slices can point into. It runs before mark.
func (c *compaction) selectExtents() {
	c.s.mu.RLock()
	defer c.s.mu.RUnlock()
	for id, e := range c.s.extents {
		e.mu.Lock()
		if ((e.finished || e.partial) && c.s.owns(id) || e.released) && e.writers.Load() == 0 {
			c.usage[id] = &usage{e: e, size: e.size}
			c.result.LookedAt++
			c.result.LookedAtSize += e.size
		}
		e.mu.Unlock()
	}
}

// mark asks the owner for the live slices.
func (c *compaction) mark() error {
	err := c.owner.Refs(c.ctx, func(r Ref) bool {
		if u := c.usage[r.Slice.Extent]; u != nil {
			u.add(r.Slice)
		}
		return c.ctx.Err() == nil
	})
	if err = cmp.Or(err, c.ctx.Err()); err != nil {
		return err
	}
	for _, u := range c.usage {
		u.normalize()
		c.result.LiveBytes += u.sum
	}
	return nil
}

func (u *usage) add(x Slice) {
	if len(u.live) == cap(u.live) && len(u.live) > 1000 {
		u.normalize() // several references may share content
	}
	u.live = append(u.live, span{uint32(x.Offset), uint32(x.Length)})
}

// normalize sorts live and joins overlapping slices.
func (u *usage) normalize() {
	slices.SortFunc(u.live, func(a, b span) int { return cmp.Compare(a.offset, b.offset) })
	joined := u.live[:0]
	u.sum = 0
	for _, x := range u.live {
		if n := len(joined); n > 0 && x.offset <= joined[n-1].offset+joined[n-1].length {
			last := &joined[n-1]
			end := max(last.offset+last.length, x.offset+x.length)
			u.sum += int64(end - last.offset - last.length)
			last.length = end - last.offset
			continue
		}
		u.sum += int64(x.length)
		joined = append(joined, x)
	}
	u.live = joined
}

// used returns the minimum length of the extent with only its live content: payload, headers and filler. It takes
// records whose header is at an aligned offset for records with filler, of which others are one in 4096.
func (u *usage) used() int64 {
	var filler int64
	for _, x := range u.live {
		if x.offset%directAlign == recordHeaderSize {
			filler += fillerBehind(int64(x.offset) + int64(x.length))
		}
	}
	n := u.sum + int64(len(u.live))*recordHeaderSize + fileHeaderSize + filler
	if filler > 0 {
		n += fillerBehind(fileHeaderSize)
	}
	return n
}

// sweep deletes extents that have been dead for the grace period.
func (c *compaction) sweep() error {
	now := time.Now()
	var errs []error
	for id, u := range c.usage {
		if len(u.live) > 0 {
			u.e.deadSince = time.Time{}
			continue
		}
		if u.e.deadSince.IsZero() {
			u.e.deadSince = now
		}
		// A reader may have taken slices from metadata before the extent became dead, and not have pinned it yet.
		if now.Sub(u.e.deadSince) < c.s.opts.Grace {
			c.result.Waiting++
			continue
		}
		if retained := c.s.retained.Load(); retained != nil && (*retained)(id, u.size) {
			continue
		}
		gone, err := c.s.remove(u.e)
		if err != nil {
			errs = append(errs, err)
		}
		if gone {
			c.result.Deleted++
			c.result.Freed += u.size
		}
	}
	return errors.Join(errs...)
}

// remove deletes an extent unless a reader or writer holds it.
func (s *Store) remove(e *extent) (gone bool, err error) {
	s.mu.Lock()
	if s.closed || e.readers.Load() > 0 || e.writers.Load() > 0 {
		s.mu.Unlock()
		return false, nil
	}
	s.mu.Unlock()
	e.listing.Lock()
	// The manifest first: a crash in between leaves a file that is not listed, while a listed extent without a file
	// would make Open fail. It is written without the lock, so the pins are checked once more afterwards.
	if err = s.manifest.removed(e.id); err != nil {
		e.listing.Unlock()
		return false, err
	}
	s.mu.Lock()
	if s.closed || e.readers.Load() > 0 || e.writers.Load() > 0 {
		s.mu.Unlock()
		e.listing.Unlock()
		// A reader came meanwhile. The extent stays, and is listed again.
		return false, e.list()
	}
	delete(s.extents, e.id)
	if s.opts.Mirrored {
		s.removed[e.id] = true // it must not be copied again
	}
	s.mu.Unlock()
	e.listing.Unlock()

	s.handles.forget(e)
	e.mu.Lock()
	defer e.mu.Unlock()
	for e.syncing {
		e.changed.Wait()
	}
	e.putsSynced = e.puts // a syncPuts that begins now has nothing to sync
	if e.file != nil {    // ephemeral, or a copy
		err = e.file.Close()
		e.file = nil
		if s.opts.Ephemeral && !e.named {
			return true, err
		}
	}
	if t := s.opts.Tier; t != nil && e.sum != "" {
		t.Removed(e.id)
	}
	if e.remote.Load() {
		return true, err
	}
	return true, errors.Join(err, s.opts.FS.Remove(e.path()))
}

// victims returns the extents to rewrite, those with the least live content first.
func (c *compaction) victims() []*usage {
	var victims, small []*usage
	for _, u := range c.usage {
		switch {
		case len(u.live) == 0 || !c.rewrites(u.e.id):
		case u.e.remote.Load():
			// Its live content has to be fetched first.
			if float64(u.used()) < min(c.o.MinLive, 0.5)*remoteShare*float64(u.size) {
				victims = append(victims, u)
			}
		case float64(u.used()) < c.o.MinLive*float64(u.size):
			victims = append(victims, u)
		case u.size < c.o.MinSize:
			small = append(small, u)
		}
	}
	if len(small) > 1 {
		victims = append(victims, small...)
	}
	slices.SortFunc(victims, func(a, b *usage) int { return cmp.Compare(a.sum, b.sum) })
	return victims
}

// rewrites reports whether this node rewrites an extent: the node that wrote it does, as all would copy the same
// content, or another one in place of a node that is gone.
func (c *compaction) rewrites(id uint64) bool {
	return c.s.owns(id) || c.o.Adopt != nil && c.o.Adopt(OwnerOf(id))
}

const (
	// moveBatch is the maximum number of moves in one call to the owner.
	moveBatch = 256
	// rewriteShare is the maximum number of bytes that one Compact moves, so that it ends; the next one continues.
	rewriteShare = 1 << 30
)

// rewrite copies the live content of victims and makes the owner refer to the copies.
func (c *compaction) rewrite(victims []*usage) error {
	chosen := map[uint64]bool{}
	var sum int64
	for _, u := range victims {
		c.toMove += u.sum
		if sum += u.sum; sum <= rewriteShare || len(chosen) == 0 {
			chosen[u.e.id] = true
		}
	}
	// Gather the references first: the owner's snapshot must not stay open while content is copied.
	var refs []Ref
	err := c.owner.Refs(c.ctx, func(r Ref) bool {
		if chosen[r.Slice.Extent] {
			refs = append(refs, Ref{r.Slice, bytes.Clone(r.Key)})
		}
		return c.ctx.Err() == nil
	})
	if err = cmp.Or(err, c.ctx.Err()); err != nil {
		return err
	}
	// References that share content are adjacent, and share its copy.
	slices.SortStableFunc(refs, func(a, b Ref) int {
		return cmp.Or(cmp.Compare(a.Slice.Extent, b.Slice.Extent), cmp.Compare(a.Slice.Offset, b.Slice.Offset),
			cmp.Compare(a.Slice.Length, b.Slice.Length))
	})
	for len(refs) > 0 {
		n := c.batch(refs)
		if err := c.move(refs[:n]); err != nil {
			return err
		}
		refs = refs[n:]
	}
	c.result.Rewritten = len(chosen)
	return nil
}

// batch returns the number of refs to move together: at most moveBatch references and 16 MiB, but at least one.
func (c *compaction) batch(refs []Ref) int {
	var sum int64
	for i, r := range refs {
		if sum += r.Slice.Length; i == moveBatch || i > 0 && sum > 16<<20 {
			return i
		}
	}
	return len(refs)
}

// move copies the content of refs and passes the moves to the owner. A Writer holds the copies until the owner has
// answered.
func (c *compaction) move(refs []Ref) error {
	begun := time.Now()
	w := c.s.NewWriter(-1)
	defer w.Close()
	w.lane = c.s.moved
	w.lane.writers.Add(1)

	var from []Slice // distinct
	for _, r := range refs {
		if n := len(from); n == 0 || !from[n-1].same(r.Slice) {
			from = append(from, r.Slice)
		}
	}
	to := make([]Slice, len(from))
	var sum int64
	var damage []error
	for i, x := range from {
		copied, err := c.copy(w, x)
		// The slice stays in its extent. Without the tier, the extents of this folder are rewritten all the same.
		if errors.Is(err, ErrCorrupt) || errors.Is(err, ErrAway) {
			damage = append(damage, err)
			continue
		}
		if err != nil {
			return err
		}
		to[i] = copied
		sum += x.Length
	}
	// The copies are durable before metadata refers to them, as for any content.
	if _, err := w.Commit(); err != nil {
		return err
	}
	moves := make([]Move, 0, len(refs))
	// refs is sorted, so those of the same slice are adjacent, and i is the index of that slice in from and to.
	i := 0
	for _, r := range refs {
		if !from[i].same(r.Slice) {
			i++
		}
		// The zero slice stands for one that is damaged and was not copied.
		if to[i] != (Slice{}) {
			moves = append(moves, Move{r.Key, r.Slice, to[i]})
		}
	}
	if err := c.owner.Move(c.ctx, moves); err != nil {
		return err
	}
	c.result.Moved += sum
	if c.o.Progress != nil {
		c.o.Progress(c.result.Moved, c.toMove)
	}
	c.damage = append(c.damage, damage...)
	return c.pause(begun, sum)
}

// same reports whether two slices refer to the same bytes: one may have the checksum and the other not.
func (s Slice) same(x Slice) bool {
	return s.Extent == x.Extent && s.Offset == x.Offset && s.Length == x.Length
}

// copy appends x as one record and verifies it meanwhile, so that damaged content does not get a new checksum.
func (c *compaction) copy(w *Writer, x Slice) (Slice, error) {
	if x.Length > MaxRecord {
		return Slice{}, fmt.Errorf("%w: a slice of %d bytes", ErrCorrupt, x.Length)
	}
	if x.Length == 0 {
		return x, nil
	}
	r, err := c.s.NewReader([]Slice{x}, 0, x.Length)
	if err != nil {
		return Slice{}, err
	}
	defer r.Close()
	b := newBuffer(x.Length)
	p := b.payload()[:x.Length]
	if _, err := io.ReadFull(struct{ io.Reader }{r}, p); err != nil {
		b.free()
		return Slice{}, err
	}
	w.buf, w.n, w.sum = b, 0, 0
	w.add(p)
	if err := w.flush(false); err != nil {
		return Slice{}, err
	}
	copied := w.slices[len(w.slices)-1]
	// The copy that was written is dead content, as nothing will refer to it.
	if x.CRC != 0 && copied.CRC != x.CRC {
		return Slice{}, fmt.Errorf("%w: extent %x, offset %d, %d bytes", ErrCorrupt, x.Extent, x.Offset, x.Length)
	}
	return copied, nil
}

// pause waits until the rate since begun is within the limit after moving n bytes.
func (c *compaction) pause(begun time.Time, n int64) error {
	if c.o.BytesPerSecond < 0 {
		return c.ctx.Err()
	}
	due := time.Duration(float64(n) / float64(c.o.BytesPerSecond) * float64(time.Second))
	timer := time.NewTimer(due - time.Since(begun))
	defer timer.Stop()
	select {
	case <-c.ctx.Done():
		return c.ctx.Err()
	case <-timer.C:
		return nil
	}
}

// remoteShare is the part of CompactOptions.MinLive that holds for extents that are only in the tier.
const remoteShare = 0.5
