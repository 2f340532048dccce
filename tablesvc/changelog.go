package tablesvc

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

// The log of a table's changes. A table has one from the moment that somebody asks for its changes (see feed.go) until nobody has for
// watchFor. A change is logged in the transaction that makes it, so that the log has exactly what the table has been through, in
// order, and a position in it holds across restarts.
//
//	bucketWatched: table id -> version 1 | next number 8 | first number 8 | last asked for 8 (ticks)
//	bucketChanges: table id, number 8 -> version 1 | kind 1 | Timestamp 8 (ticks) | length of PartitionKey 2 | PartitionKey | RowKey
//
// Numbers are big-endian, and those of a table's changes count up from 1. Records from the first number up to before the next one
// are there; a writer that adds one removes the one that is keepChanges older.
const (
	// keepChanges is how many changes of a table are kept at most.
	keepChanges = 1 << 20
	// watchFor is how long changes are logged for somebody who does not ask for them any more.
	watchFor = 7 * 24 * time.Hour
	// askedEvery is how exactly it is known when somebody last asked.
	askedEvery = time.Hour

	changeVersion = 1
	changeHeader  = 12
	watchSize     = 25
)

// changeKind is what happened to an entity.
type changeKind byte

const (
	changeInsert changeKind = iota + 1
	changeUpdate
	changeDelete
)

func (k changeKind) String() string {
	switch k {
	case changeInsert:
		return "insert"
	case changeUpdate:
		return "update"
	case changeDelete:
		return "delete"
	}
	return fmt.Sprintf("changeKind(%d)", byte(k))
}

// watchRecord says what is logged of a table.
type watchRecord struct {
	next, first uint64
	asked       ticks.Ticks
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

// lapsed reports whether nobody asks any more.
func (w watchRecord) lapsed(at ticks.Ticks) bool { return at.Time().Sub(w.asked.Time()) > watchFor }

// loggedChange is one record of the log.
type loggedChange struct {
	number         uint64
	kind           changeKind
	at             ticks.Ticks
	partition, row []byte
}

func changeKey(table, number uint64) []byte {
	return binary.BigEndian.AppendUint64(tableIDKey(table), number)
}

func (c *loggedChange) encode() []byte {
	b := append(make([]byte, 0, changeHeader+len(c.partition)+len(c.row)), changeVersion, byte(c.kind))
	b = binary.BigEndian.AppendUint64(b, uint64(c.at))
	b = binary.BigEndian.AppendUint16(b, uint16(len(c.partition)))
	return append(append(b, c.partition...), c.row...)
}

func decodeChange(key, b []byte) (c loggedChange, err error) {
	if len(key) != entity.TableIDLen+8 || len(b) < changeHeader || b[0] != changeVersion {
		return c, errors.New("record of a change is damaged")
	}
	split := changeHeader + int(binary.BigEndian.Uint16(b[10:]))
	if len(b) < split || b[1] < byte(changeInsert) || b[1] > byte(changeDelete) {
		return c, errors.New("record of a change is damaged")
	}
	return loggedChange{
		number: binary.BigEndian.Uint64(key[entity.TableIDLen:]), kind: changeKind(b[1]), at: ticks.Ticks(binary.BigEndian.Uint64(b[2:])),
		partition: bytes.Clone(b[changeHeader:split]), row: bytes.Clone(b[split:]),
	}, nil
}

// changeLog notes changes where they are made.
type changeLog struct {
	// on is set before the first table is watched: a transaction that comes after the one which begins a watch sees it set.
	on atomic.Bool
}

// note logs a change in its own transaction, if the table is watched.
func (l *changeLog) note(tx *store.Tx, table uint64, c loggedChange) error {
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
	if w.lapsed(c.at) {
		return nil // Whoever asks again is told that there is a gap; see watch.
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

// watch begins to log a table's changes, or goes on with it. After a lapse the log begins anew behind a gap, and what was there before
// is forgotten.
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
			w.next++ // The gap: nobody has a position at this number.
			w.first = w.next
		}
		w.asked = now
	}
	tx.Put(bucketWatched, key, w.encode())
	return w, nil
}
