package table

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// timelines are the histories that a log of changes has had. Each time a snapshot replaces the state, the log goes on
// with the same numbers in another history. A position names its history, so that one from after the snapshot is not
// taken for one in the new history.
//
// The last element is the current history. An element that is not the last has shared its numbers with the current
// history up to its end.
type timelines []timeline

// timeline is one history. The first one has the id 0.
type timeline struct {
	id  uint64
	end uint64 // last number of the history that is part of the next one; 0 in the current history
}

// maxTimelines bounds the histories that are known; positions in older ones are unknown.
const maxTimelines = 16

func (t timelines) current() uint64 {
	if len(t) == 0 {
		return 0
	}
	return t[len(t)-1].id
}

// fork ends the current history after the number last and begins one with the given id.
func (t timelines) fork(id, last uint64) timelines {
	if len(t) == 0 {
		t = timelines{{}}
	}
	t = slices.Clone(t)
	t[len(t)-1].end = last
	t = append(t, timeline{id: id})
	return t[max(len(t)-maxTimelines, 0):]
}

// knows reports whether the number of a history is part of the current one.
func (t timelines) knows(id, number uint64) bool {
	if id == t.current() {
		return true
	}
	i := slices.IndexFunc(t, func(h timeline) bool { return h.id == id })
	return i >= 0 && number <= t[i].end
}

func (t timelines) append(b []byte) []byte {
	for _, h := range t {
		b = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(b, h.id), h.end)
	}
	return b
}

func decodeTimelines(b []byte) (t timelines, err error) {
	if len(b)%16 != 0 || len(b) > 16*maxTimelines {
		return nil, errors.New("record of a watched table is damaged: its histories")
	}
	for ; len(b) > 0; b = b[16:] {
		t = append(t, timeline{binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:])})
	}
	return t, nil
}

// Fork prepares the file at path, a copy of a former state, to replace a later state: its logs of changes go on in a
// new history, and tables that are created get ids that the later state has not used.
func Fork(path string, now time.Time) error {
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	db, err := OpenFile(path, store.Options{})
	if err != nil {
		return fmt.Errorf("begin a new history of changes: %w", err)
	}
	err = db.Update(func(tx *store.Tx) error { return fork(tx, ticks.Of(now)) })
	if err = errors.Join(err, db.Close()); err != nil {
		return fmt.Errorf("begin a new history of changes: %w", err)
	}
	return nil
}

func fork(tx *store.Tx, now ticks.Ticks) error {
	// The later state may have given ids that this copy does not know. No counter has come as far as the time in ticks.
	if b := tx.Get(bucketService, keyNextTableID); len(b) == 8 {
		next := binary.BigEndian.Uint64(b)
		tx.Put(bucketService, keyNextTableID, tableIDKey(max(next, leastTableID(now, shardOfID(next)))))
	}
	cur := tx.Cursor(bucketWatched)
	for k, v := cur.Seek([]byte{0}); k != nil; k, v = cur.Next() {
		w, err := decodeWatch(v)
		if err != nil {
			return err
		}
		w.timelines = w.timelines.fork(uint64(now), w.next-1)
		tx.Put(bucketWatched, slices.Clone(k), w.encode())
	}
	return nil
}
