package archive

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lazuli-storage/lazuli/internal/fault"
	"github.com/lazuli-storage/lazuli/internal/server/backup"
	"github.com/lazuli-storage/lazuli/internal/storage/extent"
	"github.com/lazuli-storage/lazuli/internal/storage/sumfile"
)

// The moments at which tests kill a process that sends a segment. "archive/" is the prefix of the worker role of that
// name, whose tests go through every point below it.
var (
	pointPending = fault.Declare("logarchive/pending")
	pointCreated = fault.Declare("logarchive/created")
	pointSent    = fault.Declare("logarchive/sent")
)

// putTimeout bounds one request to the place, with the retries of its client.
const putTimeout = time.Minute

// errOtherWriter means that the place has another segment under the number of the next one.
var errOtherWriter = errors.New("another server has written to the same timeline: a copy of this data folder is in use")

// cut sends what there is, in segments, and then says up to when there is nothing else. The caller holds cutting.
func (a *Shard) cut(ctx context.Context) error {
	// Before anything is dropped or written: the place of another server is left alone.
	if err := a.own(ctx); err != nil {
		return err
	}
	if a.in.waiting() > a.o.Spool {
		a.mu.Lock()
		a.breaks(fmt.Sprintf("%s cannot be reached, and more than %d MiB wait for it", a.o.Place, a.o.Spool>>20))
		a.mu.Unlock()
	}
	if a.reason() != "" {
		if err := a.restart(); err != nil {
			return err
		}
	}
	if err := a.announce(ctx); err != nil {
		return err
	}
	// The time comes first: every group that is given a later one may be missing.
	until := a.settled()
	files, err := a.spool.rotate()
	if err != nil {
		a.mu.Lock()
		a.breaks(fmt.Sprintf("the changes that wait for the archive cannot be read: %v", err))
		a.mu.Unlock()
		return err
	}
	c := &cut{a: a, ctx: ctx}
	// Content comes before the groups that refer to it, so that no segment refers to what only a later one has.
	if err := c.sendContent(); err != nil {
		return err
	}
	// The files that rotate has closed, and no later ones: their groups may have times after until.
	for _, n := range files {
		if err := a.spool.read(n, c.group); err != nil {
			return err
		}
	}
	if len(c.items) > 0 || c.sent {
		err = c.put(until)
	} else if until > a.state.Until {
		err = a.putHead(ctx, until)
	}
	if err != nil {
		return err
	}
	if err := errors.Join(a.state.save(a.dir), fault.Point(pointSent)); err != nil {
		return err
	}
	a.publish()
	return a.spool.remove(files)
}

// announce says in the place to which timeline this server writes, if that has changed. The caller holds cutting.
func (a *Shard) announce(ctx context.Context) error {
	if a.state.Announced == a.state.Timeline {
		return nil
	}
	text, err := sumfile.Encode(timelineKind, format, a.state.Timeline)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, putTimeout)
	defer cancel()
	if err := a.o.Place.Put(ctx, timelineName(a.state.Epoch), text); err != nil {
		return err
	}
	a.state.Announced = a.state.Timeline
	return a.state.save(a.dir)
}

// settled returns a time up to which every group is in the spool.
func (a *Shard) settled() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	until := a.in.nextTime()
	for _, at := range a.taken {
		until = min(until, at-1)
	}
	return until
}

// cut gathers items for segments.
type cut struct {
	a     *Shard
	ctx   context.Context
	items []byte
	sent  bool // a segment was sent whose time is not yet final
}

// add adds an item, and sends a segment if there is enough for one.
func (c *cut) add(i *item) error {
	c.items = i.appendTo(c.items)
	if len(c.items) < segmentSize {
		return nil
	}
	// Other segments of this cut follow, so this one does not have everything up to a later time.
	c.sent = true
	return c.put(c.a.state.Until)
}

// sendContent adds the records of all extents that no segment has, and the file with the keys if it has changed.
func (c *cut) sendContent() error {
	a := c.a
	// After the spool was closed for this cut: its groups were committed before a base that is made now.
	a.mu.Lock()
	for _, id := range a.resend {
		delete(a.state.Content, id)
	}
	a.resend, a.state.Resend = nil, nil
	a.mu.Unlock()
	stats := a.content.Stats()
	slices.SortFunc(stats, func(x, y extent.Stat) int { return int(int64(x.ID) - int64(y.ID)) })
	exists := map[uint64]bool{}
	for _, x := range stats {
		exists[x.ID] = true
		if err := c.sendExtent(x); err != nil {
			return err
		}
		if a.state.Content[x.ID] >= x.Size {
			a.mu.Lock()
			if _, waits := a.dead[x.ID]; waits {
				a.dead[x.ID] = -1 // it may go
			}
			a.mu.Unlock()
		}
	}
	a.mu.Lock()
	for id := range a.dead {
		if !exists[id] {
			delete(a.dead, id)
		}
	}
	a.mu.Unlock()
	for id := range a.state.Content {
		if !exists[id] {
			delete(a.state.Content, id)
		}
	}
	keys, err := a.keysFile()
	if err != nil || keys == nil || sumOf(keys) == a.state.Keys {
		return err
	}
	return c.add(&item{kind: itemKeys, bytes: keys})
}

func sumOf(p []byte) string {
	s := sha256.Sum256(p)
	return hex.EncodeToString(s[:])
}

// sendExtent adds the records of an extent that no segment has.
func (c *cut) sendExtent(x extent.Stat) error {
	for at := c.a.state.Content[x.ID]; at < x.Size; {
		if err := c.ctx.Err(); err != nil {
			return err
		}
		from, data, err := c.a.content.Records(x.ID, at, extent.MaxRecord)
		if errors.Is(err, extent.ErrNotFound) { // dead, and deleted before the archive began
			return nil
		}
		if err != nil {
			return fmt.Errorf("read content for the archive: %w", err)
		}
		if len(data) == 0 { // the rest is the header, or dead space of a crash
			c.a.state.Content[x.ID] = x.Size
			return nil
		}
		at = from + int64(len(data))
		if err := c.add(&item{kind: itemContent, extent: x.ID, offset: from, bytes: data}); err != nil {
			return err
		}
		// put notes what a segment has. In between the position is only here, as the items are.
	}
	return nil
}

// group adds a group of the spool, unless a segment has it.
func (c *cut) group(i *item) error {
	if i.number <= c.a.state.Groups[backup.Databases[i.database]] {
		return nil
	}
	if err := c.ctx.Err(); err != nil {
		return err
	}
	return c.add(i)
}

// put sends the items as the next segment.
func (c *cut) put(until int64) error {
	a := c.a
	h := header{Timeline: a.state.Timeline, Number: a.state.Next, Prev: a.state.Prev, Until: max(until, a.state.Until)}
	file, sum, err := encodeSegment(h, c.items)
	if err != nil {
		return err
	}
	pending := a.state.Pending
	// The sum is noted, durably, before the segment can exist. If this process dies, the next one knows a segment that it
	// finds under the number as its own, whatever it would send itself. Of segments of a cluster each node knows that.
	if !a.shared.on {
		a.state.Pending = sum
		if err := a.state.save(a.dir); err != nil {
			return err
		}
	}
	if err := fault.Point(pointPending); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.ctx, putTimeout)
	defer cancel()
	name := segmentName(h.Timeline, h.Number)
	err = a.o.Place.Create(ctx, name, file)
	if errors.Is(err, backup.ErrExists) {
		if a.shared.on {
			return errAgain
		}
		h, sum, err = a.adopt(ctx, name, pending, sum, &c.items)
	}
	if err = errors.Join(err, fault.Point(pointCreated)); err != nil {
		return err
	}
	if err := a.note(h, sum, c.items); err != nil {
		return err
	}
	a.in.m.segments.Inc()
	a.in.m.bytes.Add(float64(len(file)))
	c.items = c.items[:0]
	return nil
}

// adopt reads the segment that has the name of the next one: the answer to its creation was lost, in this process or
// before a crash. items become its items; what they lack is sent by a later cut.
func (a *Shard) adopt(ctx context.Context, name, pending, sum string, items *[]byte) (h header, _ string, err error) {
	file, err := a.o.Place.Get(ctx, name)
	if err != nil {
		return h, "", err
	}
	h, found, have, err := decodeSegment(file)
	if err == nil && have != sum && have != pending {
		err = errOtherWriter
	}
	if err != nil {
		a.mu.Lock()
		a.breaks(fmt.Sprintf("segment %s: %v", name, err))
		a.mu.Unlock()
		return h, "", err
	}
	lacks := have != sum
	*items = found
	if err := a.note(h, have, found); err != nil {
		return h, "", err
	}
	if lacks {
		return h, "", errAgain
	}
	return h, have, nil
}

// errAgain means that a segment of a former process was found in the place of the next one: the cut begins once more.
var errAgain = errors.New("a segment was found that a former process had sent")

// note updates the state by a segment that is in the place.
func (a *Shard) note(h header, sum string, items []byte) error {
	if h.Number < a.state.Next { // adopt has noted it
		return nil
	}
	err := eachItem(items, func(i *item) error {
		switch i.kind {
		case itemGroup:
			a.state.Groups[backup.Databases[i.database]] = i.number
			if a.shared.on {
				a.state.Times[backup.Databases[i.database]] = i.at
			}
		case itemContent:
			if a.shared.on {
				a.noteContent(i)
				break
			}
			a.state.Content[i.extent] = i.offset + int64(len(i.bytes))
		case itemKeys:
			a.state.Keys = sumOf(i.bytes)
		}
		return nil
	})
	a.state.Next, a.state.Prev, a.state.Until, a.state.Pending = h.Number+1, sum, h.Until, ""
	return err
}

// putHead says that there is nothing after the last segment up to a time.
func (a *Shard) putHead(ctx context.Context, until int64) error {
	end := head{Next: a.state.Next, Until: until}
	if a.shared.on {
		end.Prev, end.Groups, end.Times, end.Base = a.state.Prev, a.state.Groups, a.state.Times, a.state.Base
	}
	text, err := sumfile.Encode(headKind, format, end)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, putTimeout)
	defer cancel()
	if err := a.o.Place.Put(ctx, logFolder+a.state.Timeline+"/"+headName, text); err != nil {
		return err
	}
	a.state.Until = until
	return nil
}

// noteContent notes content that a segment has.
func (a *Shard) noteContent(i *item) {
	if a.shared.have == nil {
		return
	}
	w := extent.Window{Extent: i.extent, Number: i.offset / extent.WindowSize}
	list := append(slices.Clone(a.shared.have[w]), extent.Range{From: i.offset, To: i.offset + int64(len(i.bytes))})
	slices.SortFunc(list, func(x, y extent.Range) int { return cmp.Compare(x.From, y.From) })
	joined := list[:1]
	for _, r := range list[1:] {
		if l := &joined[len(joined)-1]; r.From <= l.To {
			l.To = max(l.To, r.To)
		} else {
			joined = append(joined, r)
		}
	}
	a.shared.have[w] = joined
}
