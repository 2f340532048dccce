package mirror

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/lazuli-storage/lazuli/internal/storage/extent"
)

// listPage is the number of extents in one answer, whose size is limited by that of a message.
const listPage = 8192

// list describes the extents of this node. With paged, it is a part that begins after an extent.
func (m *Mirror) list(paged bool, after uint64) listing {
	l := listing{Owner: m.config.Owner}
	for _, s := range m.config.Extents.Stats() {
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

// keepUp copies what this node has missed until the Mirror is closed.
func (m *Mirror) keepUp() {
	seen := make([]map[uint64]int64, len(m.peers)) // sizes of the extents that each peer had the last time
	tick := time.NewTicker(m.config.CatchUpEvery)
	defer tick.Stop()
	var problem string
	for {
		var behind int64
		var failed error
		for i, p := range m.peers {
			n, err := m.catchUp(p, &seen[i])
			behind += n
			if err != nil {
				failed = fmt.Errorf("from node %s: %w", p.name, err)
			}
		}
		if err := m.config.Extents.SyncAllPuts(); err != nil {
			failed = err
		}
		if before := m.behind.Swap(behind); before > 0 && behind == 0 {
			m.config.Log.Info("this node has all content of the nodes that it reaches")
		}
		if text := fmt.Sprint(failed); failed != nil && text != problem && m.life.Err() == nil {
			m.config.Log.Warn("cannot copy content; trying again", "err", failed)
			problem = text
		}
		select {
		case <-tick.C:
		case <-m.life.Done():
			return
		}
	}
}

// catchUp copies what this node has missed of the extents that a peer has written, and of those of nodes that are gone. seen has the sizes of the
// extents the last time: what was written since may be on its way. It returns how many bytes are still missing.
func (m *Mirror) catchUp(p *peer, seen *map[uint64]int64) (behind int64, err error) {
	held := m.config.Extents.Stats() // before the question: what the peer writes later is not in its list
	l, ok, err := m.listOf(p)
	if !ok {
		return 0, err
	}
	sizes := make(map[uint64]int64, len(l.Extents))
	for _, x := range l.Extents {
		sizes[x.ID] = x.Size
		mine, written := extent.OwnerOf(x.ID) == m.config.Owner, extent.OwnerOf(x.ID) == l.Owner
		if mine || !written && !m.gone(x.ID) {
			continue
		}
		limit := x.Size
		if !x.Final && written {
			limit = min((*seen)[x.ID], x.Size)
		}
		n, failed := m.copyMissing(p, x.ID, limit, written)
		if behind += n; failed != nil {
			err = failed
			continue
		}
		if x.Final && n == 0 {
			if _, failed := m.config.Extents.Complete(x.ID, x.Size); failed != nil {
				err = failed
			}
		}
	}
	*seen = sizes
	m.release(held, &l, sizes)
	return behind, err
}

// release marks the copies of extents that a peer has deleted, and of those of nodes that are gone.
func (m *Mirror) release(held []extent.Stat, l *listing, sizes map[uint64]int64) {
	for _, s := range held {
		if _, there := sizes[s.ID]; s.Copied && (extent.OwnerOf(s.ID) == l.Owner && !there || m.gone(s.ID)) {
			m.config.Extents.Release(s.ID)
		}
	}
}

func (m *Mirror) gone(id uint64) bool {
	return m.config.Gone != nil && m.config.Gone(extent.OwnerOf(id))
}

// copyMissing copies what this node lacks of an extent, up to a size. written is set if the peer has written the extent. It returns the number of
// bytes that the peer does not have either, or that were not copied.
func (m *Mirror) copyMissing(p *peer, id uint64, size int64, written bool) (left int64, err error) {
	for from := int64(0); ; {
		at, n, err := m.config.Extents.Missing(id, from, size)
		if err != nil || n == 0 {
			return left, err
		}
		begun := time.Now()
		found, data, err := m.records(p, id, at)
		if err != nil {
			return left + n, err
		}
		if len(data) == 0 || found >= at+n { // the peer has nothing there
			found, data = at+n, nil
		}
		if err := m.config.Extents.PutRecords(id, found, data); err != nil {
			return left + n, err
		}
		if found > at {
			if written {
				m.config.Extents.Void(id, at, found-at)
			} else {
				left += found - at
			}
		}
		m.copied.Add(int64(len(data)))
		if from = found + int64(len(data)); !m.pause(begun, len(data)) {
			return left, m.life.Err()
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
	return m.sleep(due - time.Since(begun))
}
