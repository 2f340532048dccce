package state

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
	"github.com/lazuli-storage/lazuli/tablesvc/internal/entity"
)

// The log of a table's changes. It begins with the first call of [Store.Changes] and ends when no call has come for
// watchFor. A change is logged in the transaction that makes it: the log has every change, in commit order, and positions
// stay valid across restarts.
//
//	bucketWatched: table id -> version 1 | next number 8 | first number 8 | time of the last call 8 (ticks)
//	bucketChanges: table id, number 8 -> version 1 | kind 1 | Timestamp 8 (ticks) | length of PartitionKey 2 | PartitionKey | RowKey
//
// Numbers are big-endian, and those of a table's changes count up from 1. The bucket has the records from the first number
// up to the one before the next; a writer that adds a record removes the one that is keepChanges older.
const (
	// keepChanges is how many changes of a table are kept at most.
	keepChanges = 1 << 20
	// watchFor is how long changes are logged after the last call of Changes.
	watchFor = 7 * 24 * time.Hour
	// askedEvery is the precision of the stored time of that call.
	askedEvery = time.Hour

	changeVersion = 1
	changeHeader  = 12
	watchSize     = 25
)

// watchRecord is the record of a table whose changes are logged.
type watchRecord struct {
	next, first uint64
	asked       ticks.Ticks // when Changes was last called
}

func (w watchRecord) encode() []byte {
	b := append(make([]byte, 0, watchSize), changeVersion)
	b = binary.BigEndian.AppendUint64(b, w.next)
	b = binary.BigEndian.AppendUint64(b, w.first)
	return binary.BigEndian.AppendUint64(b, uint64(w.asked))
}

func decodeWatch(b []byte) (w watchRecord, err error) {
	if len(b) != watchSize || b[0] != changeVersion {
		return w, fmt.Errorf("record of a watched table is damaged: %x", b[:min(len(b), watchSize)])
	}
	w = watchRecord{binary.BigEndian.Uint64(b[1:]), binary.BigEndian.Uint64(b[9:]), ticks.Ticks(binary.BigEndian.Uint64(b[17:]))}
	if w.first == 0 || w.first > w.next {
		return w, fmt.Errorf("record of a watched table has the changes %d to %d", w.first, w.next)
	}
	return w, nil
}

// lapsed reports whether the log has ended.
func (w watchRecord) lapsed(at ticks.Ticks) bool { return at.Time().Sub(w.asked.Time()) > watchFor }

func changeKey(table, number uint64) []byte {
	return binary.BigEndian.AppendUint64(tableIDKey(table), number)
}

func (c *FeedChange) encode() []byte {
	b := append(make([]byte, 0, changeHeader+len(c.Partition)+len(c.Row)), changeVersion, byte(c.Kind))
	b = binary.BigEndian.AppendUint64(b, uint64(c.At))
	b = binary.BigEndian.AppendUint16(b, uint16(len(c.Partition)))
	return append(append(b, c.Partition...), c.Row...)
}

func decodeChange(key, b []byte) (c FeedChange, err error) {
	if len(key) != entity.TableIDLen+8 || len(b) < changeHeader || b[0] != changeVersion {
		return c, errors.New("record of a change is damaged")
	}
	split := changeHeader + int(binary.BigEndian.Uint16(b[10:]))
	if len(b) < split || b[1] < byte(Inserted) || b[1] > byte(Deleted) {
		return c, errors.New("record of a change is damaged")
	}
	return FeedChange{
		number: binary.BigEndian.Uint64(key[entity.TableIDLen:]), Kind: FeedKind(b[1]), At: ticks.Ticks(binary.BigEndian.Uint64(b[2:])),
		Partition: bytes.Clone(b[changeHeader:split]), Row: bytes.Clone(b[split:]),
	}, nil
}

// changeLog writes the logs of all tables.
type changeLog struct {
	// on is set before the first table is watched, so that each transaction after the one that begins a log sees it.
	on atomic.Bool
}

// load reads whether any table is watched.
func (l *changeLog) load(db *store.DB) error {
	return db.View(func(tx *store.Tx) error {
		watched, _ := tx.Cursor(bucketWatched).Seek([]byte{0})
		l.on.Store(watched != nil)
		return nil
	})
}

// append logs a change in the transaction that makes it, if the table is watched.
func (l *changeLog) append(tx *store.Tx, table uint64, c FeedChange) error {
	if !l.on.Load() {
		return nil
	}
	key := tableIDKey(table)
	b := tx.Get(bucketWatched, key)
	if b == nil {
		return nil
	}
	w, err := decodeWatch(b)
	if err != nil {
		return err
	}
	if w.lapsed(c.At) {
		return nil // the log has ended; watch leaves a gap in the numbers if it begins again
	}
	tx.Put(bucketChanges, changeKey(table, w.next), c.encode())
	w.next++
	if w.next-w.first > keepChanges {
		tx.Delete(bucketChanges, changeKey(table, w.first))
		w.first++
	}
	tx.Put(bucketWatched, key, w.encode())
	return nil
}

// watch begins or continues the log of a table. A log that had ended begins again after a gap in the numbers, without its
// old records.
func (l *changeLog) watch(tx *store.Tx, table uint64, now ticks.Ticks) (watchRecord, error) {
	key := tableIDKey(table)
	w := watchRecord{next: 1, first: 1, asked: now}
	if b := tx.Get(bucketWatched, key); b != nil {
		old, err := decodeWatch(b)
		if err != nil {
			return w, err
		}
		if w = old; w.lapsed(now) {
			for ; w.first < w.next; w.first++ {
				tx.Delete(bucketChanges, changeKey(table, w.first))
			}
			w.next++ // the gap: no position has this number
			w.first = w.next
		}
		w.asked = now
	}
	tx.Put(bucketWatched, key, w.encode())
	return w, nil
}
