package archive

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/lazuli-storage/lazuli/internal/server/backup"
	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
	"github.com/lazuli-storage/lazuli/internal/storage/extent"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/sumfile"
)

// The nodes of a cluster have one archive. Each keeps the groups of all logs in a spool of its own until the place has
// them, and one sends. See the package comment.

const (
	// skew is the time by which a segment promises less than the clock of its node shows. Groups of nodes whose clocks
	// differ by less keep their times.
	skew = time.Second
	// absent is the number of intervals without a newer moment in the place after which a node sends that does not lead,
	// and a node that lacks groups begins another timeline. Later nodes that do not lead do so, too.
	absent, abandoned = 3, 30
	// trimSize is the size from which the spool of a node that does not send is looked through, in bytes.
	trimSize = 4 << 20
	// adoptions bounds the segments of other nodes that one cut meets in the place of its own.
	adoptions = 8
)

// errLacks means that this node lacks groups that the place does not have.
var errLacks = errors.New("this node lacks changes that the archive does not have: it has joined the cluster, or has " +
	"dropped them")

// cutShared does what is this node's part: it sends what there is if this node is the one that does, and drops what the
// place has. The caller holds cutting.
func (a *Shard) cutShared(ctx context.Context) error {
	if err := a.own(ctx); err != nil {
		return err
	}
	if a.in.waiting() > a.o.Spool {
		a.mu.Lock()
		a.breaks(fmt.Sprintf("more than %d MiB waited for %s", a.o.Spool>>20, a.o.Place))
		a.mu.Unlock()
	}
	if a.reason() != "" {
		if err := a.forget(); err != nil {
			return err
		}
	}
	if err := a.locate(ctx); err != nil {
		return err
	}
	var err error
	switch {
	case !a.mine(absent):
		a.shared.sends, a.shared.have = false, nil
	case a.shared.next != "": // the base comes first
	case a.state.Timeline == "":
		if a.mine(abandoned) {
			err = a.renew("")
		}
	default:
		err = a.sendAll(ctx)
	}
	a.publish()
	return errors.Join(err, a.trim())
}

// forget drops the spool of this node, which is not complete.
func (a *Shard) forget() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.o.Log.Error("what waited for the archive on this node was dropped", "reason", a.broken)
	clear(a.shared.deaths)
	clear(a.shared.closed)
	a.broken = ""
	return a.spool.reset()
}

// mine reports whether this node is to send: it leads, or no node has sent for some intervals.
func (a *Shard) mine(intervals int) bool {
	if a.shared.node.Leads() {
		return true
	}
	newest := time.Unix(0, a.state.Until)
	if at := a.attached.Load(); at != nil && at.After(newest) {
		newest = *at
	}
	return a.o.Now().Sub(newest) > time.Duration(intervals)*a.o.Every+2*skew
}

// locate learns from the place where the archive ends, whichever node has sent that.
func (a *Shard) locate(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, putTimeout)
	defer cancel()
	current, err := a.announced(ctx)
	if err != nil {
		return err
	}
	if current == "" && a.state.Timeline != "" && a.shared.next == "" { // another epoch of the same cluster
		return a.announce(ctx)
	}
	if current != a.state.Timeline {
		a.state.begin(a.o.Now(), map[string]uint64{}, nil)
		a.state.Timeline, a.state.Announced, a.state.Times = current, current, map[string]int64{}
		a.shared.sends, a.shared.have = false, nil
		a.renewed("")
	}
	if current == "" || a.shared.sends { // who sends knows
		return nil
	}
	text, err := a.o.Place.Get(ctx, logFolder+current+"/"+headName)
	if errors.Is(err, backup.ErrAbsent) {
		return nil // the base was made, and nothing was sent
	}
	var end head
	if err == nil {
		err = sumfile.Decode(text, headKind, format, &end)
	}
	if err != nil {
		return err
	}
	if end.Next >= a.state.Next && end.Groups != nil {
		a.state.Next, a.state.Prev, a.state.Until = end.Next, end.Prev, max(a.state.Until, end.Until)
		a.state.Groups, a.state.Times, a.state.Base = end.Groups, end.Times, end.Base
		if a.state.Times == nil {
			a.state.Times = map[string]int64{}
		}
		a.noteShipped()
	}
	return nil
}

// announced returns the timeline to which the owner of the place writes; "" if it has not said so.
func (a *Shard) announced(ctx context.Context) (name string, err error) {
	text, err := a.o.Place.Get(ctx, timelineName(a.state.Epoch))
	if errors.Is(err, backup.ErrAbsent) {
		return "", nil
	}
	if err == nil {
		err = sumfile.Decode(text, timelineKind, format, &name)
	}
	return name, err
}

// renew makes the next base begin another timeline.
func (a *Shard) renew(reason string) error {
	if a.state.Timeline != "" {
		a.in.m.gaps.Inc()
		a.o.Log.Error("the archive has a gap: it cannot restore to moments before its next base", "reason", reason)
	}
	a.shared.seen, a.shared.lacking = a.state.Timeline, time.Time{}
	a.renewed(newTimeline(a.o.Now()))
	a.nudge(a.based)
	return nil
}

// noteShipped makes the end of the archive visible to retainShared.
func (a *Shard) noteShipped() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.shared.shipped = a.state.Groups["blobs"]
}

// renewed sets the timeline that is to begin.
func (a *Shard) renewed(next string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.shared.next = next
}

// begun makes a base the beginning of the timeline that it names, unless another node has begun one meanwhile. The
// caller holds cutting.
func (a *Shard) begun(ctx context.Context, m *backup.Manifest) error {
	current, err := a.announced(ctx)
	if err != nil {
		return err
	}
	a.renewed("")
	if current != a.shared.seen {
		return nil // the next cut finds it
	}
	a.state.begin(a.o.Now(), m.Log.Groups, nil)
	a.state.Timeline, a.state.Until, a.state.Base = m.Log.Timeline, m.Log.At.UnixNano(), m.Log.At
	a.state.Times = map[string]int64{}
	a.shared.sends, a.shared.have = true, contentOf(m)
	a.noteShipped()
	// Only now: a timeline that is announced has its base.
	err = a.announce(ctx)
	a.publish()
	return err
}

// contentOf returns the ranges of content that a base has.
func contentOf(m *backup.Manifest) map[extent.Window][]extent.Range {
	have := map[extent.Window][]extent.Range{}
	for i := range m.Contents {
		have[m.Contents[i].Window] = m.Contents[i].Ranges
	}
	return have
}

// takeOver makes this node the one that sends: it learns what content the newest base has that can stand for that of
// groups after the end of the archive.
func (a *Shard) takeOver(ctx context.Context) error {
	if a.shared.sends {
		return nil
	}
	if err := a.adoptAll(ctx); err != nil {
		return err
	}
	names, err := backup.Names(ctx, a.o.Place)
	if err != nil {
		return err
	}
	have := map[extent.Window][]extent.Range{}
	a.state.Base = time.Time{}
	for _, name := range slices.Backward(names) {
		m, err := backup.Read(ctx, a.o.Place, name)
		if err != nil {
			return err
		}
		if m.Log == nil || m.Log.Timeline != a.state.Timeline {
			continue
		}
		if a.state.Base.IsZero() {
			a.state.Base = m.Log.At
		}
		// A base has content of groups that were not sent yet. From an older base on those need it in a segment.
		if m.Log.Groups["blobs"] <= a.state.Groups["blobs"] || a.state.Next == 0 {
			if a.state.Next == 0 { // nothing was sent: the base is where the archive ends
				a.state.Groups, a.state.Until = m.Log.Groups, max(a.state.Until, m.Log.At.UnixNano())
			}
			have = contentOf(m)
			break
		}
	}
	if a.state.Base.IsZero() {
		return a.renew("the place has no base of timeline " + a.state.Timeline)
	}
	a.shared.sends, a.shared.have = true, have
	a.o.Log.Info("this node sends to the archive", "timeline", a.state.Timeline, "segment", a.state.Next)
	return nil
}

// adoptAll notes the segments that other nodes have sent after the known end.
func (a *Shard) adoptAll(ctx context.Context) error {
	for {
		h, items, sum, err := readSegment(ctx, a.o.Place, a.state.Timeline, a.state.Next)
		switch {
		case errors.As(err, &missingError{}):
			return nil
		case errors.Is(err, ErrDamaged):
			return errors.Join(err, a.renew(err.Error()))
		case err != nil:
			return err
		case h.Prev != a.state.Prev:
			err = fmt.Errorf("%w: segment %s does not follow the one before it", ErrDamaged,
				segmentName(a.state.Timeline, a.state.Next))
			return errors.Join(err, a.renew(err.Error()))
		case h.Sealed:
			return a.lose(fmt.Errorf("the archive %s %w: a standby has ended this history", a.o.Place, ErrOwned))
		}
		if err := a.note(h, sum, items); err != nil {
			return err
		}
	}
}

// sendAll sends what the place does not have. The promise of the last segment begins with a time that is taken first:
// what was acknowledged before it is in the spool once Current has returned.
func (a *Shard) sendAll(ctx context.Context) error {
	if err := a.takeOver(ctx); err != nil || !a.shared.sends {
		return err
	}
	until := a.o.Now().Add(-skew).UnixNano()
	if err := a.shared.node.Current(ctx); err != nil {
		return fmt.Errorf("what the cluster has acknowledged is not known: %w", err)
	}
	if err := a.raise(ctx); err != nil {
		return err
	}
	a.mu.Lock()
	last := maps.Clone(a.last)
	a.mu.Unlock()
	files, err := a.rotateShared()
	if err != nil {
		return err
	}
	for try := 1; ; try++ {
		err = a.sendFiles(ctx, files, last, until)
		if !errors.Is(err, errAgain) || try == adoptions {
			break
		}
		if err = a.adoptAll(ctx); err != nil || a.shared.next != "" {
			return err
		}
	}
	if !errors.Is(err, errLacks) {
		a.shared.lacking = time.Time{}
		return err
	}
	// Another node may have what this one lacks, and sends after some intervals.
	a.shared.sends, a.shared.have = false, nil
	switch now := a.o.Now(); {
	case a.shared.lacking.IsZero():
		a.shared.lacking = now
	case now.Sub(a.shared.lacking) > 2*absent*a.o.Every+2*skew && a.mine(abandoned):
		return a.renew(err.Error())
	}
	return err
}

// rotateShared closes the file of the spool, and returns those that are closed.
func (a *Shard) rotateShared() ([]uint64, error) {
	files, err := a.spool.rotate()
	a.mu.Lock()
	defer a.mu.Unlock()
	if err != nil {
		a.breaks(fmt.Sprintf("the changes that wait for the archive cannot be read: %v", err))
		return nil, err
	}
	for _, n := range files {
		if a.shared.closed[n] == nil {
			a.shared.closed[n] = maps.Clone(a.last)
		}
	}
	return files, nil
}

// trim removes the files of the spool that the place has.
func (a *Shard) trim() error {
	if !a.shared.sends && a.spool.bytes() < trimSize {
		return nil
	}
	files, err := a.rotateShared()
	if err != nil {
		return err
	}
	return a.spool.remove(slices.DeleteFunc(files, func(n uint64) bool {
		for database, number := range a.shared.closed[n] {
			if number > a.state.Groups[database] {
				return true
			}
		}
		delete(a.shared.closed, n)
		return false
	}))
}

// share is one attempt to send the groups of the spool.
type share struct {
	cut
	done  map[string]uint64 // numbers of the last groups that were taken, by database
	times map[string]int64  // their times
	// batch are groups whose content comes before them, in bytes of size.
	batch []*item
	size  int
	refs  []extent.Ref
}

// sendFiles sends the groups of some files of the spool that the place does not have. last are the groups that the
// files have at least.
func (a *Shard) sendFiles(ctx context.Context, files []uint64, last map[string]uint64, until int64) error {
	s := &share{cut: cut{a: a, ctx: ctx}, done: maps.Clone(a.state.Groups), times: maps.Clone(a.state.Times)}
	if s.times == nil {
		s.times = map[string]int64{}
	}
	keys, err := a.keysFile()
	if err == nil && keys != nil && sumOf(keys) != a.state.Keys {
		err = s.add(&item{kind: itemKeys, bytes: keys})
	}
	if err != nil {
		return err
	}
	for _, n := range files {
		if err := a.spool.read(n, s.takeGroup); err != nil {
			return err
		}
	}
	if err := s.flushBatch(); err != nil {
		return err
	}
	for database, number := range last {
		if s.done[database] < number { // no promise without these groups
			return errLacks
		}
	}
	if len(s.items) > 0 || s.sent {
		if err := s.put(until); err != nil {
			return err
		}
	}
	if err := a.putHead(ctx, max(until, a.state.Until)); err != nil {
		return err
	}
	a.noteShipped()
	return a.state.save(a.dir)
}

// takeGroup takes a group of the spool, if it is the next one of its database.
func (s *share) takeGroup(i *item) error {
	database := backup.Databases[i.database]
	if i.number <= s.done[database] || i.prev != s.done[database] {
		return s.ctx.Err() // it was sent, or one before it is missing
	}
	// Times ascend within a log, and are later than all that was promised, whatever the clocks of its writers show. It was
	// not acknowledged before that time: see Node.Current.
	at := max(i.at, s.times[database]+1, s.a.state.Until+1)
	s.done[database], s.times[database] = i.number, at
	s.batch = append(s.batch, &item{kind: itemGroup, database: i.database, prev: i.prev, number: i.number, at: at,
		bytes: i.bytes})
	s.size += len(i.bytes)
	if database == "blobs" {
		if err := store.EachWrite(i.bytes, func(b store.Bucket, k, v []byte) error {
			if v == nil {
				return nil
			}
			_, err := record.EachSlice(b, k, v, func(x extent.Slice) bool {
				s.refs = append(s.refs, extent.Ref{Slice: x})
				return true
			})
			return err
		}); err != nil {
			return err
		}
	}
	if s.size < segmentSize {
		return nil
	}
	return s.flushBatch()
}

// flushBatch adds the batch: first the content that no segment has, then the groups that refer to it.
func (s *share) flushBatch() error {
	if len(s.refs) > 0 {
		err := s.a.content.Backup(s.ctx, func(yield func(extent.Ref) bool) error {
			for _, r := range s.refs {
				if !yield(r) {
					break
				}
			}
			return nil
		}, func(w extent.Window) []extent.Range { return s.a.shared.have[w] }, s.addContent)
		if err != nil {
			return fmt.Errorf("read content for the archive: %w", err)
		}
	}
	for _, i := range s.batch {
		if err := s.add(i); err != nil {
			return err
		}
	}
	s.batch, s.size, s.refs = nil, 0, nil
	return nil
}

// addContent adds the content of a window.
func (s *share) addContent(c extent.Content) error {
	if c.Records == nil { // segments have it
		return nil
	}
	return c.Put(func(id uint64, at int64, records []byte) error {
		return s.add(&item{kind: itemContent, extent: id, offset: at, bytes: records})
	})
}
