package table

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/lazuli-storage/lazuli/internal/state/table/entity"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// MaxFeedPage is the number of changes that [Store.Changes] returns at most. It returns fewer if their states take more
// than maxFeedBytes.
const (
	MaxFeedPage  = 1000
	maxFeedBytes = 4 << 20
)

// FeedKind is the kind of a change of an entity. The numbers are on disk and never change.
type FeedKind byte

// The kinds of changes.
const (
	Inserted FeedKind = 1
	Updated  FeedKind = 2
	Deleted  FeedKind = 3
)

// String returns "insert", "update" or "delete".
func (k FeedKind) String() string {
	switch k {
	case Inserted:
		return "insert"
	case Updated:
		return "update"
	case Deleted:
		return "delete"
	}
	return fmt.Sprintf("FeedKind(%d)", byte(k))
}

// FeedChange is one logged change of an entity.
type FeedChange struct {
	Kind FeedKind
	// At is the entity's Timestamp after the change; of a deletion, when it happened.
	At             ticks.Ticks
	Partition, Row []byte
	// Before and After are the entity's states around the change: Before is nil for an insertion, After for a deletion.
	// Both are nil for changes that a version without them has logged.
	Before, After entity.Record

	number, timeline uint64
	table            uint64
}

// Position is the position after the change.
func (c *FeedChange) Position() string { return formatPosition(c.table, c.number, c.timeline) }

// Feed is a page of a table's changes.
type Feed struct {
	// Changes are in commit order, at most [MaxFeedPage].
	Changes []FeedChange
	// Position is the position at which the next page begins. It stays valid across restarts.
	Position string
	// Known is false if the log does not go back to the requested position: there are no changes, and the caller has to
	// read the table before it continues at Position.
	Known bool
}

// FromCreation is the position before the first change of a table. It is known if Changes was called for the table, in
// the week before its creation.
const FromCreation = "0"

// Changes returns the changes of a table after a position. From the first call on the table's changes are logged; the
// log ends when no call has come for a week. A position is unknown if it is empty, belongs to a deleted table of the
// same name, is so old that its changes are gone, or is of a state that a snapshot has replaced. It fails with
// [ErrTableNotFound]; the log then begins with the table's creation.
//
// Without keep, the call leaves everything as it is: it fails with [ErrNotLogged] if the changes are not logged, and
// does not prolong the log.
func (s *Store) Changes(account, name, position string, now time.Time, keep bool) (Feed, error) {
	table, err := s.watch(account, name, ticks.Of(now), keep)
	if errors.Is(err, ErrTableNotFound) && keep {
		// The error of the caller stays ErrTableNotFound; the note makes the log complete from the first entity on.
		if err := s.await(account, name, ticks.Of(now)); err != nil {
			return Feed{}, err
		}
	}
	if err != nil {
		return Feed{}, err
	}
	return s.page(table, position)
}

// page returns the changes of a watched table after a position. The record of the log and the changes are read in one
// transaction: a writer removes the oldest changes, and what it removed between two transactions would be skipped
// without a word.
func (s *Store) page(table uint64, position string) (f Feed, err error) {
	err = s.db.View(func(tx *store.Tx) error {
		f = Feed{}
		b := tx.Get(bucketWatched, tableIDKey(table))
		if b == nil { // the table was deleted meanwhile, and its log with it
			f.Position = formatPosition(table, 0, 0)
			return nil
		}
		w, err := decodeWatch(b)
		if err != nil {
			return err
		}
		after, timeline, ok := parsePosition(position, table)
		current := w.timelines.current()
		// A position is known if the change after it is in the log or is still to come, in this history.
		if !ok || after >= w.next || after+1 < w.first || !w.timelines.knows(timeline, after) {
			f.Position = formatPosition(table, w.next-1, current)
			return nil
		}
		f.Known = true
		size := 0
		prefix := tableIDKey(table)
		cur := tx.Cursor(bucketChanges)
		for k, v := cur.Seek(changeKey(table, after+1)); bytes.HasPrefix(k, prefix) &&
			len(f.Changes) < MaxFeedPage; k, v = cur.Next() {
			c, err := decodeChange(k, v)
			if err != nil {
				return err
			}
			// At least one change, whatever its size, so that a reader always gets on.
			if size += len(v); size > maxFeedBytes && len(f.Changes) > 0 {
				break
			}
			c.table, c.timeline = table, current
			f.Changes = append(f.Changes, c)
		}
		if n := len(f.Changes); n > 0 {
			after = f.Changes[n-1].number
		}
		f.Position = formatPosition(table, after, current)
		return nil
	})
	return f, err
}

// await lets the log of a table that does not exist begin with its creation. It notes a call at most once per
// askedEvery.
func (s *Store) await(account, name string, now ticks.Ticks) error {
	noted := false
	err := s.db.View(func(tx *store.Tx) error {
		b := tx.Get(bucketService, awaitedKey(account, name))
		if b == nil {
			return nil
		}
		w, err := decodeAwaited(b)
		noted = now.Time().Sub(w.asked.Time()) <= askedEvery
		return err
	})
	if noted || err != nil {
		return err
	}
	return s.db.Update(func(tx *store.Tx) error {
		if _, err := idOf(tx, account, name); err == nil {
			return nil // The table was created meanwhile: the next call begins the log.
		}
		return s.changes.await(tx, account, name, now)
	})
}

// watch returns the id of a table. It begins the log if none exists, and notes the call in its record if the noted one
// is older than askedEvery, or in the future after the clock was ahead.
func (s *Store) watch(account, name string, now ticks.Ticks, keep bool) (table uint64, err error) {
	begun := false
	var w watchRecord
	err = s.db.View(func(tx *store.Tx) (err error) {
		if table, err = idOf(tx, account, name); err != nil {
			return err
		}
		if b := tx.Get(bucketWatched, tableIDKey(table)); b != nil {
			w, err = decodeWatch(b)
			begun = err == nil && !w.lapsed(now)
		}
		return err
	})
	if err == nil && !begun && !keep {
		err = ErrNotLogged
	}
	if _, ok := s.db.Replication(); ok && err == nil && keep {
		s.watching.Store(table, watchedTable{account, name})
	}
	if err != nil || !keep || begun && w.asked <= now && now.Time().Sub(w.asked.Time()) <= askedEvery {
		return table, err
	}
	// Before the transaction that begins the log: a writer that is ordered after it must not pass over the log.
	s.changes.on.Store(true)
	err = s.db.Update(func(tx *store.Tx) (err error) {
		if table, err = idOf(tx, account, name); err == nil {
			err = s.changes.watch(tx, table, now)
		}
		return err
	})
	return table, err
}

// A position names the table's id, so that a position in a deleted table is not taken for one in a new table of its
// name, and the history of the log if it is not the first one.
func formatPosition(table, number, timeline uint64) string {
	text := strconv.FormatUint(table, 36) + "-" + strconv.FormatUint(number, 36)
	if timeline != 0 {
		text += "-" + strconv.FormatUint(timeline, 36)
	}
	return text
}

func parsePosition(text string, table uint64) (number, timeline uint64, ok bool) {
	if text == FromCreation {
		return 0, 0, true
	}
	parts := strings.Split(text, "-")
	if len(parts) < 2 || len(parts) > 3 {
		return 0, 0, false
	}
	of, err := strconv.ParseUint(parts[0], 36, 64)
	if err != nil || of != table {
		return 0, 0, false
	}
	if number, err = strconv.ParseUint(parts[1], 36, 64); err == nil && len(parts) == 3 {
		timeline, err = strconv.ParseUint(parts[2], 36, 64)
	}
	return number, timeline, err == nil && number < 1<<63
}
