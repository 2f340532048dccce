package mirror

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/lazuli-storage/lazuli/internal/schedule"
	"github.com/lazuli-storage/lazuli/internal/storage/extent"
)

// listPage is the number of extents in one answer, whose size is limited by that of a message.
const listPage = 8192

// list describes the extents of this node. With paged, it is a part that begins after an extent.
func (m *Mirror) list(paged bool, after uint64) listing {
	l := listing{Owner: m.config.Owner}
	for _, s := range m.extents.Stats() {
		if !paged || s.ID > after {
			l.Extents = append(l.Extents, listed{ID: s.ID, Size: s.Size, Final: !s.Copied && s.Finished})
		}
	}
	slices.SortFunc(l.Extents, func(a, b listed) int { return cmp.Compare(a.ID, b.ID) })
	if paged && len(l.Extents) > m.listPage {
		l.Extents, l.More = l.Extents[:m.listPage], true
	}
	return l
}

// listOf asks a peer for all of its extents. ok is false if it does not answer.
func (m *Mirror) listOf(p *peer) (l listing, ok bool, err error) {
	for after := uint64(0); ; {
		_, data, err := m.ask(p, question{Op: opList, Paged: true, Extent: after})
		if err != nil {
			return l, false, nil
		}
		var part listing
		if err := json.Unmarshal(data, &part); err != nil {
			return l, false, fmt.Errorf("mirror: list of extents: %w", err)
		}
		if l.Extents != nil && part.Owner != l.Owner {
			return l, false, nil // it was started with another folder meanwhile
		}
		l.Owner, l.Extents = part.Owner, append(l.Extents, part.Extents...)
		if !part.More || len(part.Extents) == 0 {
			return l, true, nil
		}
		after = part.Extents[len(part.Extents)-1].ID
	}
}

// idleBeats is the number of intervals between two questions to the other nodes while nothing is written: a node has a
// mirror for each of its shards, and most of them have no work.
const idleBeats = 8

// keepUp copies what this node has missed until the Mirror is closed.
func (m *Mirror) keepUp() {
	seen := map[*peer]*map[uint64]int64{} // sizes of the extents that each peer had the last time
	missing := m.survey()
	if missing > 0 {
		m.config.Log.Info("copying content that this node lacks", "bytes", missing)
	}
	var problem string
	for pause, beats := 1, 1; ; beats++ {
		var failed error
		if beats >= pause {
			var idle bool
			idle, failed = m.catchUpWithAll(seen)
			// If nothing was written since the last question, this node has missed nothing. A majority has what is
			// written from now on and does not arrive here, and this node asks for that some beats later.
			if beats, pause = 0, min(2*pause, idleBeats); !idle {
				pause = 1
			}
		}
		if err := m.extents.SyncAllPuts(); err != nil {
			failed = err
		}
		before := missing
		if missing, _ = m.Behind(); before > 0 && missing == 0 {
			m.config.Log.Info("this node has all content of the nodes that it reaches")
		}
		if missing > 0 || failed != nil {
			pause = 1
		}
		if text := fmt.Sprint(failed); failed != nil && text != problem && m.life.Err() == nil {
			m.config.Log.Warn("cannot copy content; trying again", "err", failed)
			problem = text
		}
		now := m.now()
		if !m.sleep(schedule.NextBeat(m.config.schedule, now, m.config.CatchUpEvery).Sub(now)) {
			return
		}
	}
}

// catchUpWithAll copies what this node has missed of the extents of all peers. seen has the sizes that each had the
// last time. idle reports that all have answered, and have what they had then.
func (m *Mirror) catchUpWithAll(seen map[*peer]*map[uint64]int64) (idle bool, failed error) {
	idle = true
	gone := map[uint64]int64{}
	for _, p := range m.all() {
		if p.out.Load() {
			m.behind.forget(p.name)
			delete(seen, p)
			continue
		}
		if seen[p] == nil {
			seen[p] = new(map[uint64]int64)
		}
		same, err := m.catchUp(p, seen[p], gone)
		if err != nil {
			failed = fmt.Errorf("from node %s: %w", p.name, err)
		}
		idle = idle && same
	}
	if failed == nil {
		m.voidGone(gone)
	}
	return idle, failed
}

// want is an extent of a peer that this node must have as well.
type want struct {
	id      uint64
	copy    int64 // the size up to which it is copied now
	count   int64 // the size up to which Behind counts what is missing
	final   int64 // the final size; 0 if it is not known
	written bool  // the peer has written it
}

// wants returns what this node must have of a peer's extents: those that the peer has written, and those of nodes
// that are gone. seen has the sizes of the extents the last time, nil before the first one: what was written since
// may be on its way, and is not copied.
func (m *Mirror) wants(l *listing, seen map[uint64]int64) (list []want) {
	for _, x := range l.Extents {
		written := extent.OwnerOf(x.ID) == l.Owner
		if extent.OwnerOf(x.ID) == m.config.Owner || !written && !m.gone(x.ID) {
			continue
		}
		w := want{id: x.ID, copy: x.Size, count: x.Size, written: written}
		if x.Final {
			w.final = x.Size
		} else if written {
			// What the peer has written since the last list may be on its way, and would be copied twice.
			w.copy = min(seen[x.ID], x.Size)
		}
		if seen != nil {
			w.count = w.copy
		}
		list = append(list, w)
	}
	return list
}

// catchUp copies what this node has missed of the extents of a peer. seen has the sizes of the peer's extents the last
// time. gone gets the sizes of extents of nodes that are gone. same reports that the peer has answered, and that its
// extents have the sizes of the last time.
func (m *Mirror) catchUp(p *peer, seen *map[uint64]int64, gone map[uint64]int64) (same bool, err error) {
	held := m.extents.Stats() // before the question: what the peer writes later is not in its list
	l, ok, err := m.listOf(p)
	if !ok {
		return false, err
	}
	list := m.wants(&l, *seen)
	m.behind.note(p.name, m.lacking(list))
	for _, w := range list {
		if !w.written && gone != nil {
			gone[w.id] = max(gone[w.id], w.copy)
		}
		complete, failed := m.copyMissing(p, w.id, w.copy, w.written)
		if complete && w.final > 0 {
			_, failed = m.extents.Complete(w.id, w.final)
		}
		if failed != nil {
			err = failed
		}
		if complete && w.copy >= w.count {
			m.behind.has(p.name, w.id)
		}
	}
	before := *seen
	*seen = make(map[uint64]int64, len(l.Extents))
	for _, x := range l.Extents {
		(*seen)[x.ID] = x.Size
	}
	m.release(held, &l, before, *seen)
	return before != nil && maps.Equal(before, *seen), err
}

// release marks the copies of extents that a peer has deleted, and of those of nodes that are gone. before and now have
// the sizes of the extents that the peer had the last time, and has.
func (m *Mirror) release(held []extent.Stat, l *listing, before, now map[uint64]int64) {
	for _, s := range held {
		_, had := before[s.ID]
		_, has := now[s.ID]
		if !s.Copied || (extent.OwnerOf(s.ID) != l.Owner || has) && !m.gone(s.ID) {
			continue
		}
		// Each node deletes its own copy of an extent whose writer is gone. When another node has deleted its copy, this
		// node looks for references.
		if !m.extents.Release(s.ID) && had && !has {
			m.extents.Reconsider()
		}
	}
}

func (m *Mirror) gone(id uint64) bool {
	return m.config.Gone != nil && m.config.Gone(extent.OwnerOf(id))
}

// copyMissing copies what this node lacks of an extent, up to a size. written is set if the peer has written the
// extent. complete is false if the peer does not have something either, or something was not copied.
func (m *Mirror) copyMissing(p *peer, id uint64, size int64, written bool) (complete bool, err error) {
	complete = true
	for from := int64(0); ; {
		at, n, err := m.extents.Missing(id, from, size)
		if err != nil || n == 0 {
			return complete && err == nil, err
		}
		begun := m.now()
		found, data, err := m.records(p, id, at)
		if err != nil {
			return false, err
		}
		if len(data) == 0 || found >= at+n { // the peer has nothing there
			found, data = at+n, nil
		}
		if err := m.extents.PutRecords(id, found, data); err != nil {
			return false, err
		}
		if found > at {
			if written {
				// The peer has written the extent, so a range without a record there has no content at all.
				m.extents.Void(id, at, found-at)
			} else {
				// Another copy may have a hole there as well, so nothing is known.
				complete = false
			}
		}
		if from = found + int64(len(data)); !m.pause(begun, len(data)) {
			return false, m.life.Err()
		}
	}
}

// voidGone notes the ranges of extents of nodes that are gone in which no other node has anything: gaps that the writer
// alone knew, as it begins behind one when it starts again, and what it had begun to write when it left. They would
// stay missing, and no copy would ever be complete. A node that does not answer may have something there. Nothing that
// has a reference is given up: a read of such a range asks the other nodes, and fails, as before.
func (m *Mirror) voidGone(sizes map[uint64]int64) {
	peers := m.active()
	for _, id := range slices.Sorted(maps.Keys(sizes)) {
		for from := int64(0); ; {
			at, n, err := m.extents.Missing(id, from, sizes[id])
			if err != nil || n == 0 {
				break
			}
			end := at + n
			for _, p := range peers {
				found, data, err := m.records(p, id, at)
				switch {
				case errors.Is(err, errMissing): // it has nothing of the extent
				case err != nil:
					return
				case len(data) > 0:
					end = min(end, max(found, at))
				}
			}
			if end == at { // it is copied in the next round
				break
			}
			m.extents.Void(id, at, end-at)
			from = end
		}
	}
}

// records asks a peer for records from an offset on.
func (m *Mirror) records(p *peer, id uint64, offset int64) (at int64, data []byte, err error) {
	n, data, err := m.ask(p, question{Op: opRecords, Extent: id, Offset: offset})
	return int64(n), data, err
}

// pause keeps the rate of copying within the limit. It returns false if the Mirror was closed.
func (m *Mirror) pause(begun time.Time, n int) bool {
	if m.config.BytesPerSecond < 0 || n == 0 {
		return m.life.Err() == nil
	}
	due := time.Duration(float64(n) / float64(m.config.BytesPerSecond) * float64(time.Second))
	return m.sleep(due - m.now().Sub(begun))
}
