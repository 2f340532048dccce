package table

import (
	"bytes"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lazuli-storage/lazuli/internal/state/table/entity"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// feedFixture is a store with the table Orders, whose id is 1, and a clock.
type feedFixture struct {
	*Store
	now time.Time
	dir string
}

func newFeedFixture(t *testing.T) *feedFixture {
	t.Helper()
	f := &feedFixture{now: time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC), dir: t.TempDir()}
	f.Store = open(t, filepath.Join(f.dir, "tables.db"))
	numberTables(t, f.db)
	check.OK(t, f.CreateTable("acc", "Orders", f.now))
	return f
}

// insert inserts an entity of the partition p.
func (f *feedFixture) insert(t *testing.T, row string) {
	t.Helper()
	_, err := f.Write("acc", "Orders",
		&Mutation{Change: Insert, Partition: []byte("p"), Row: []byte(row), Record: entity.NewRecord(0, 0)}, f.now)
	check.OK(t, err)
}

// want fails the test unless the page after position has these rows; nil rows are an unknown position. It returns the
// position after it.
func (f *feedFixture) want(t *testing.T, position string, rows []string) string {
	t.Helper()
	page, err := f.Changes("acc", "orders", position, f.now, true)
	check.OK(t, err)
	if page.Known != (rows != nil) {
		t.Errorf("position %q: known is %v, want %v", position, page.Known, rows != nil)
	}
	var got []string
	for _, c := range page.Changes {
		got = append(got, string(c.Row))
	}
	if diff := cmp.Diff(strings.Join(rows, " "), strings.Join(got, " ")); diff != "" {
		t.Errorf("rows after %q (-want +got):\n%s", position, diff)
	}
	return page.Position
}

// Without a call for a week the log ends. The next call learns that its position is unknown.
func TestLogEndsAfterAWeek(t *testing.T) {
	t.Parallel()
	f := newFeedFixture(t)
	begin := f.want(t, "", nil)
	f.insert(t, "1")
	at := f.want(t, begin, []string{"1"})

	f.now = f.now.Add(watchFor - time.Minute)
	f.insert(t, "2")
	at = f.want(t, at, []string{"2"})

	f.now = f.now.Add(watchFor + askedEvery)
	f.insert(t, "3")
	at = f.want(t, at, nil)
	f.insert(t, "4")
	f.want(t, at, []string{"4"})
}

// Changes that are removed while a page is read make its position unknown: they are not skipped.
func TestPageWhoseChangesAreRemovedMeanwhile(t *testing.T) {
	t.Parallel()
	f := newFeedFixture(t)
	begin := f.want(t, "", nil)
	f.insert(t, "1")
	table, err := f.watch("acc", "orders", ticks.Of(f.now), true)
	check.OK(t, err)
	// Another call ends the log and begins it again, between the two steps of this one.
	f.now = f.now.Add(watchFor + askedEvery)
	next := f.want(t, begin, nil)
	page, err := f.page(table, begin)
	if err != nil || page.Known || page.Position != next {
		t.Errorf("the page is known: %v, at %q, %v; want an unknown position, at %q", page.Known, page.Position, err, next)
	}
	check.OK(t, f.DeleteTable("acc", "Orders"))
	if page, err := f.page(table, begin); err != nil || page.Known {
		t.Errorf("the page of a deleted table is known: %v, %v", page.Known, err)
	}
}

// A change of a time at which the log had ended is not skipped when the clock, which was ahead, is set right.
func TestLogAfterAClockThatWasAhead(t *testing.T) {
	t.Parallel()
	f := newFeedFixture(t)
	begin := f.want(t, "", nil)
	f.insert(t, "1")
	right := f.now
	f.now = right.Add(2 * watchFor)
	f.insert(t, "2")
	f.now = right
	f.insert(t, "3")
	at := f.want(t, begin, nil)
	f.insert(t, "4")
	f.want(t, at, []string{"4"})

	// A call while it was ahead is noted again with the right time, so that the log ends a week after the last call.
	f.now = right.Add(time.Hour * 24 * 365)
	at = f.want(t, at, nil)
	f.now = right
	f.want(t, at, []string{})
	f.now = right.Add(watchFor + askedEvery)
	f.insert(t, "5")
	f.want(t, at, nil)
}

// A writer that adds a change removes the oldest one beyond those that are kept.
func TestLogIsBounded(t *testing.T) {
	t.Parallel()
	f := newFeedFixture(t)
	f.want(t, "x", nil)
	at := ticks.Of(f.now)
	check.OK(t, f.db.Update(func(tx *store.Tx) error { // as after a million changes
		tx.Put(bucketWatched, tableIDKey(1), watchRecord{next: keepChanges + 1, first: 1, asked: at}.encode())
		tx.Put(bucketChanges, changeKey(1, 1),
			(&FeedChange{Kind: Inserted, At: at, Partition: []byte("p"), Row: []byte("1"),
				After: entity.NewRecord(0, 0)}).encode())
		return f.changes.append(tx, 1,
			FeedChange{Kind: Inserted, At: at, Partition: []byte("p"), Row: []byte(strings.Repeat("r", 100)),
				After: entity.NewRecord(0, 0)}, at)
	}))
	f.want(t, formatPosition(1, 0, 0), nil)
	f.want(t, formatPosition(1, 1, 0), []string{strings.Repeat("r", 100)})
}

// A follower of a server in memory must not take the log of the next server, with a table of the same name, for the one
// that it knows.
func TestPositionsOfAnotherStore(t *testing.T) {
	t.Parallel()
	former := &feedFixture{Store: open(t, filepath.Join(t.TempDir(), "tables.db")),
		now: time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC)}
	check.OK(t, former.CreateTable("acc", "Orders", former.now))
	next := &feedFixture{Store: open(t, filepath.Join(t.TempDir(), "tables.db")), now: former.now.Add(time.Second)}
	check.OK(t, next.CreateTable("acc", "Orders", next.now))
	next.want(t, former.want(t, "x", nil), nil)
}

func TestPositions(t *testing.T) {
	t.Parallel()
	for _, timeline := range []uint64{0, 1 << 60} {
		if n, of, ok := parsePosition(formatPosition(7, 1<<40, timeline), 7); !ok || n != 1<<40 || of != timeline {
			t.Errorf("got %d, %d, %v", n, of, ok)
		}
	}
	for _, text := range []string{"", "x", "-", "7", "8-1", "7--1", "7-1-", "7-1-2-3", "7-zzzzzzzzzzzzzzzzzzzzzzz"} {
		if n, _, ok := parsePosition(text, 7); ok {
			t.Errorf("%q is parsed as %d", text, n)
		}
	}
}

// The log has the states around each change, as the entity had them then.
func TestLogHasTheStatesAroundChanges(t *testing.T) {
	t.Parallel()
	f := newFeedFixture(t)
	begin := f.want(t, "", nil)
	at := func(n int64) ticks.Ticks { return ticks.Of(f.now) + ticks.Ticks(n) }
	for _, change := range []Change{Insert, Update, Remove} {
		m := &Mutation{Change: change, Partition: []byte("p"), Row: []byte("r")}
		if change != Remove {
			m.Record = entity.NewRecord(0, 0)
		}
		_, err := f.Write("acc", "Orders", m, f.now)
		check.OK(t, err)
	}
	page, err := f.Changes("acc", "Orders", begin, f.now, true)
	check.OK(t, err)
	state := func(r entity.Record) ticks.Ticks {
		if r == nil {
			return -1
		}
		return r.Timestamp() - at(0)
	}
	var got [][2]ticks.Ticks
	for i := range page.Changes {
		c := &page.Changes[i]
		got = append(got, [2]ticks.Ticks{state(c.Before), state(c.After)})
	}
	if diff := cmp.Diff([][2]ticks.Ticks{{-1, 1}, {1, 2}, {2, -1}}, got); diff != "" {
		t.Errorf("times before and after (-want +got):\n%s", diff)
	}
	// Each change has the position after it.
	f.want(t, page.Changes[1].Position(), []string{"r"})
}

// A record of version 1, without states, is still read.
func TestOldRecordsOfChanges(t *testing.T) {
	t.Parallel()
	old := append([]byte{1, byte(Deleted), 0, 0, 0, 0, 0, 0, 0, 5, 0, 1}, "prow"...)
	c, err := decodeChange(changeKey(1, 7), old)
	if err != nil || string(c.Partition) != "p" || string(c.Row) != "row" || c.Before != nil || c.number != 7 {
		t.Errorf("%+v, %v", c, err)
	}
	w, err := decodeWatch([]byte{1, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 4})
	if err != nil || w.next != 9 || w.first != 3 || w.asked != 4 || w.bytes != 0 {
		t.Errorf("%+v, %v", w, err)
	}
}

// States take room: a page ends after some megabytes, and the log forgets its oldest changes when it is too large.
func TestLogIsBoundedInBytes(t *testing.T) {
	t.Parallel()
	f := newFeedFixture(t)
	begin := f.want(t, "", nil)
	large := entity.NewRecord(ticks.Of(f.now), maxFeedBytes/2)
	large = append(large, make([]byte, maxFeedBytes/2)...)
	add := func(row string) {
		check.OK(t, f.db.Update(func(tx *store.Tx) error {
			return f.changes.append(tx, 1,
				FeedChange{Kind: Inserted, At: ticks.Of(f.now), Partition: []byte("p"), Row: []byte(row), After: large},
				ticks.Of(f.now))
		}))
	}
	add("1")
	add("2")
	at := f.want(t, begin, []string{"1"})
	f.want(t, at, []string{"2"})
	check.OK(t, f.db.Update(func(tx *store.Tx) error {
		w, err := decodeWatch(tx.Get(bucketWatched, tableIDKey(1)))
		w.bytes = keepChangeBytes - maxFeedBytes/4
		tx.Put(bucketWatched, tableIDKey(1), w.encode())
		return err
	}))
	add("3")
	f.want(t, begin, nil)
	f.want(t, at, []string{"2"})
}

// A call for a table that does not exist lets the log begin with its creation, once more for a table of the same name,
// and not after a week.
func TestLogBeginsWithTheCreation(t *testing.T) {
	t.Parallel()
	f := newFeedFixture(t)
	if _, err := f.Changes("acc", "later", "", f.now, true); !errors.Is(err, ErrTableNotFound) {
		t.Fatal(err)
	}
	write := func(row string) {
		t.Helper()
		_, err := f.Write("acc", "Later",
			&Mutation{Change: Insert, Partition: []byte("p"), Row: []byte(row), Record: entity.NewRecord(0, 0)}, f.now)
		check.OK(t, err)
	}
	known := func(want int) {
		t.Helper()
		page, err := f.Changes("acc", "Later", FromCreation, f.now, true)
		check.OK(t, err)
		if page.Known != (want > 0) || len(page.Changes) != want {
			t.Errorf("known %v, %d changes; want %d", page.Known, len(page.Changes), want)
		}
	}
	check.OK(t, f.CreateTable("acc", "Later", f.now))
	write("1")
	write("2")
	known(2)
	check.OK(t, f.DeleteTable("acc", "Later"))
	check.OK(t, f.CreateTable("acc", "Later", f.now))
	write("1")
	known(1)
	check.OK(t, f.DeleteTable("acc", "Later"))
	f.now = f.now.Add(watchFor + askedEvery)
	check.OK(t, f.CreateTable("acc", "Later", f.now))
	write("1")
	known(0)

	// A log that begins later does not go back to the creation.
	f.insert(t, "1")
	f.want(t, "", nil)
	f.want(t, FromCreation, nil)
	_, err := Check(f.db, values, func(f Finding) { t.Error(f.String()) })
	check.OK(t, err)
}

// A record of a log that cannot be read is an error of each call that needs it, and of the writes of its table. To
// begin the log again in its place would hide that changes are missing.
func TestADamagedLogIsNotBegunAgain(t *testing.T) {
	t.Parallel()
	f := newFeedFixture(t)
	f.want(t, "", nil)
	for name, record := range map[string][]byte{
		"short":            {changeVersion},
		"later version":    append([]byte{changeVersion + 5}, make([]byte, watchSize-1)...),
		"first after next": watchRecord{next: 3, first: 4}.encode(),
		"first is missing": watchRecord{next: 3}.encode(),
	} {
		check.OK(t, f.db.Update(func(tx *store.Tx) error {
			tx.Put(bucketWatched, tableIDKey(1), record)
			return nil
		}))
		if page, err := f.Changes("acc", "Orders", "", f.now, true); err == nil {
			t.Errorf("%s: the log is read: %+v", name, page)
		}
		_, err := f.Write("acc", "Orders",
			&Mutation{Change: Insert, Partition: []byte("p"), Row: []byte("r"), Record: entity.NewRecord(0, 0)}, f.now)
		if err == nil {
			t.Errorf("%s: a change is written that the log does not have", name)
		}
	}
}

// A call for a table that does not exist removes the notes of those before it that have lapsed: clients choose the
// names, and could fill the file.
func TestLapsedNotesOfAwaitedTablesAreRemoved(t *testing.T) {
	t.Parallel()
	f := newFeedFixture(t)
	ask := func(name string, want ...string) {
		t.Helper()
		if _, err := f.Changes("acc", name, "", f.now, true); !errors.Is(err, ErrTableNotFound) {
			t.Fatal(err)
		}
		var notes []string
		check.OK(t, f.db.View(func(tx *store.Tx) error {
			prefix := awaitedKey("acc", "")
			cur := tx.Scan(bucketService)
			for k, _ := cur.Seek(prefix); bytes.HasPrefix(k, prefix); k, _ = cur.Next() {
				notes = append(notes, string(k[len(prefix):]))
			}
			return nil
		}))
		if diff := cmp.Diff(want, notes); diff != "" {
			t.Errorf("notes after a call for %s (-want +got):\n%s", name, diff)
		}
	}
	ask("first", "first")
	ask("second", "first", "second")
	f.now = f.now.Add(watchFor)
	ask("third", "first", "second", "third")
	f.now = f.now.Add(askedEvery)
	ask("fourth", "fourth", "third")
}
