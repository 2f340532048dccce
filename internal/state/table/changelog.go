package table

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/lazuli-storage/lazuli/internal/state/table/entity"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// The log of a table's changes. It begins with the first call of [Store.Changes], or with the creation of the table if
// a call came before, and ends when no call has come for watchFor. A change is logged in the transaction that makes it:
// the log has every change, in commit order, and positions stay valid across restarts.
//
//	bucketWatched: table id -> version 2 or 3 | next number 8 | first number 8 | time of the last call 8 (ticks) | bytes of the records 8 | in version 3: timelines
//	bucketService: "awaited", 0x00, account, 0x00, table name in lower case -> time of the last call 8 (ticks). Only of tables that did not exist then.
//	bucketChanges: table id, number 8 -> version 2 | kind 1 | Timestamp 8 (ticks) | length of PartitionKey 2 | length of RowKey 2 |
//	                                     length of before 4 | PartitionKey | RowKey | before | after
//
// before and after are the entity's records before and after the change, empty if the entity does not exist. Version 1
// has neither them nor the lengths of RowKey and before, and no bytes. Numbers are big-endian. Those of a table's
// changes count up from 1 if the log begins with the table's creation, so that the position [FromCreation] is known,
// and else from 2. The bucket has the records from the first number up to the one before the next; a writer that adds a
// record removes the oldest ones beyond keepChanges and keepChangeBytes.
const (
	// keepChanges is the number of changes that of a table are kept at most, and keepChangeBytes how much their records
	// may take.
	keepChanges     = 1 << 20
	keepChangeBytes = 1 << 30
	// watchFor is the time that changes are logged after the last call of Changes.
	watchFor = 7 * 24 * time.Hour
	// askedEvery is the precision of the stored time of that call.
	askedEvery = time.Hour

	changeVersion         = 2
	watchVersionTimelines = 3
	changeHeader          = 18
	watchSize             = 33

	// The sizes of version 1, which had no states.
	changeHeader1 = 12
	watchSize1    = 25
)

// watchRecord is the record of a table whose changes are logged.
type watchRecord struct {
	next, first uint64
	asked       ticks.Ticks // when Changes was last called; 0 after the log has ended
	bytes       uint64      // of the records
	timelines   timelines   // empty if the state was never replaced by a snapshot
}

func (w watchRecord) encode() []byte {
	b := append(make([]byte, 0, watchSize), changeVersion)
	if len(w.timelines) > 0 {
		b[0] = watchVersionTimelines
	}
	b = binary.BigEndian.AppendUint64(b, w.next)
	b = binary.BigEndian.AppendUint64(b, w.first)
	b = binary.BigEndian.AppendUint64(b, uint64(w.asked))
	return w.timelines.append(binary.BigEndian.AppendUint64(b, w.bytes))
}

func decodeWatch(b []byte) (w watchRecord, err error) {
	if len(b) > watchSize && b[0] == watchVersionTimelines {
		if w.timelines, err = decodeTimelines(b[watchSize:]); err != nil {
			return w, err
		}
		b = b[:watchSize]
	} else if current, old := len(b) == watchSize && b[0] == changeVersion, len(b) == watchSize1 && b[0] == 1; !current &&
		!old {
		return w, fmt.Errorf("record of a watched table is damaged: %x", b[:min(len(b), watchSize)])
	}
	w.next, w.first, w.asked = binary.BigEndian.Uint64(b[1:]), binary.BigEndian.Uint64(b[9:]),
		ticks.Ticks(binary.BigEndian.Uint64(b[17:]))
	if len(b) == watchSize {
		w.bytes = binary.BigEndian.Uint64(b[25:])
	}
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
	b := append(make([]byte, 0, changeHeader+len(c.Partition)+len(c.Row)+len(c.Before)+len(c.After)), changeVersion,
		byte(c.Kind))
	b = binary.BigEndian.AppendUint64(b, uint64(c.At))
	b = binary.BigEndian.AppendUint16(b, uint16(len(c.Partition)))
	b = binary.BigEndian.AppendUint16(b, uint16(len(c.Row)))
	b = binary.BigEndian.AppendUint32(b, uint32(len(c.Before)))
	return append(append(append(append(b, c.Partition...), c.Row...), c.Before...), c.After...)
}

var errChangeDamaged = errors.New("record of a change is damaged")

// decodeChange reads a record. The slices of the result are copies.
func decodeChange(key, b []byte) (c FeedChange, err error) {
	if len(key) != entity.TableIDLen+8 || len(b) < changeHeader1 || b[1] < byte(Inserted) || b[1] > byte(Deleted) {
		return c, errChangeDamaged
	}
	c = FeedChange{number: binary.BigEndian.Uint64(key[entity.TableIDLen:]), Kind: FeedKind(b[1]),
		At: ticks.Ticks(binary.BigEndian.Uint64(b[2:]))}
	partition := int(binary.BigEndian.Uint16(b[10:]))
	switch {
	case b[0] == 1:
		rest := bytes.Clone(b[changeHeader1:])
		if len(rest) < partition {
			return c, errChangeDamaged
		}
		c.Partition, c.Row = rest[:partition:partition], rest[partition:]
		return c, nil
	case b[0] != changeVersion || len(b) < changeHeader:
		return c, errChangeDamaged
	}
	row, before := int(binary.BigEndian.Uint16(b[12:])), int(binary.BigEndian.Uint32(b[14:]))
	rest := bytes.Clone(b[changeHeader:])
	if len(rest) < partition+row || len(rest)-partition-row < before {
		return c, errChangeDamaged
	}
	cut := func(n int) (part []byte) {
		part, rest = rest[:n:n], rest[n:]
		return part
	}
	c.Partition, c.Row, c.Before, c.After = cut(partition), cut(row), recordOrNil(cut(before)), recordOrNil(rest)
	if !c.complete() {
		return c, errChangeDamaged
	}
	return c, nil
}

// recordOrNil is a record, or nil for none.
func recordOrNil(b []byte) entity.Record {
	if len(b) == 0 {
		return nil
	}
	return b
}

// complete reports whether the states are those that a change of the kind has.
func (c *FeedChange) complete() bool {
	return (c.Before != nil) == (c.Kind != Inserted) && (c.After != nil) == (c.Kind != Deleted)
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
func (l *changeLog) append(tx *store.Tx, table uint64, c FeedChange, now ticks.Ticks) error {
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
	if w.lapsed(now) {
		// The log has ended; watch leaves a gap in the numbers if it begins again. The end is stored: with a clock that was
		// ahead and is set right, the log would go on with the next change, as if this one had not been.
		if w.asked != 0 {
			w.asked = 0
			tx.Put(bucketWatched, key, w.encode())
		}
		return nil
	}
	// The record, the number and the bytes change in one transaction with the entity: a position never leads to a gap.
	record := c.encode()
	tx.Put(bucketChanges, changeKey(table, w.next), record)
	w.next++
	w.bytes += uint64(len(record))
	// Each append removes what has become too old, so that no background work has to keep the log within its bounds.
	for w.first < w.next && (w.next-w.first > keepChanges || w.bytes > keepChangeBytes) {
		oldest := changeKey(table, w.first)
		w.bytes -= min(w.bytes, uint64(len(tx.Get(bucketChanges, oldest))))
		tx.Delete(bucketChanges, oldest)
		w.first++
	}
	tx.Put(bucketWatched, key, w.encode())
	return nil
}

// watch begins or continues the log of a table. A log that had ended begins again after a gap in the numbers, without
// its old records.
func (l *changeLog) watch(tx *store.Tx, table uint64, now ticks.Ticks) error {
	key := tableIDKey(table)
	w := watchRecord{next: 2, first: 2, asked: now}
	if b := tx.Get(bucketWatched, key); b != nil {
		old, err := decodeWatch(b)
		if err != nil {
			return err
		}
		if w = old; w.lapsed(now) {
			for ; w.first < w.next; w.first++ {
				tx.Delete(bucketChanges, changeKey(table, w.first))
			}
			w.next++ // the gap: no position has this number
			w.first, w.bytes = w.next, 0
		}
		w.asked = now
	}
	tx.Put(bucketWatched, key, w.encode())
	return nil
}

// await notes a call for a table that does not exist: its log begins with its creation. It removes the notes of the
// account that have lapsed.
func (l *changeLog) await(tx *store.Tx, account, name string, now ticks.Ticks) error {
	prefix := awaitedKey(account, "")
	var lapsed [][]byte
	cur := tx.Cursor(bucketService)
	for k, v := cur.Seek(prefix); bytes.HasPrefix(k, prefix); k, v = cur.Next() {
		if w, err := decodeAwaited(v); err != nil {
			return err
		} else if w.lapsed(now) {
			lapsed = append(lapsed, bytes.Clone(k))
		}
	}
	for _, k := range lapsed {
		tx.Delete(bucketService, k)
	}
	tx.Put(bucketService, awaitedKey(account, name), binary.BigEndian.AppendUint64(nil, uint64(now)))
	return nil
}

// created begins the log of a new table if a call came before.
func (l *changeLog) created(tx *store.Tx, account, name string, table uint64, now ticks.Ticks) error {
	b := tx.Get(bucketService, awaitedKey(account, name))
	if b == nil {
		return nil
	}
	w, err := decodeAwaited(b)
	if err != nil || w.lapsed(now) {
		return err
	}
	// Before the first change of the table: append looks at it without a transaction.
	l.on.Store(true)
	// From 1, so that the position of before the creation, 0, is one that the log knows.
	w.next, w.first = 1, 1
	tx.Put(bucketWatched, tableIDKey(table), w.encode())
	return nil
}

// decodeAwaited reads the note of a call for a table that did not exist.
func decodeAwaited(b []byte) (w watchRecord, err error) {
	if len(b) != 8 {
		return w, fmt.Errorf("note of an awaited table is damaged: %x", b[:min(len(b), watchSize)])
	}
	w.asked = ticks.Ticks(binary.BigEndian.Uint64(b))
	return w, nil
}
