package state

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
	"github.com/lazuli-storage/lazuli/tablesvc/internal/entity"
)

// feedFixture is a store with the table Orders, whose id is 1, and a clock.
type feedFixture struct {
	*Store
	now time.Time
}

func newFeedFixture(t *testing.T) *feedFixture {
	t.Helper()
	f := &feedFixture{open(t, filepath.Join(t.TempDir(), "tables.db")), time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC)}
	ok(t, f.CreateTable("acc", "Orders", f.now))
	return f
}

// insert inserts an entity of the partition p.
func (f *feedFixture) insert(t *testing.T, row string) {
	t.Helper()
	_, err := f.Write("acc", "Orders", &Mutation{Change: Insert, Partition: []byte("p"), Row: []byte(row), Record: entity.NewRecord(0, 0)}, f.now)
	ok(t, err)
}

// want fails the test unless the page after position has these rows; nil rows are an unknown position. It returns the position after it.
func (f *feedFixture) want(t *testing.T, position string, rows []string) string {
	t.Helper()
	page, err := f.Changes("acc", "orders", position, f.now)
	ok(t, err)
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

// A writer that adds a change removes the oldest one beyond those that are kept.
func TestLogIsBounded(t *testing.T) {
	t.Parallel()
	f := newFeedFixture(t)
	f.want(t, "x", nil)
	at := ticks.Of(f.now)
	ok(t, f.db.Update(func(tx *store.Tx) error { // as after a million changes
		tx.Put(bucketWatched, tableIDKey(1), watchRecord{next: keepChanges + 1, first: 1, asked: at}.encode())
		tx.Put(bucketChanges, changeKey(1, 1), (&FeedChange{Kind: Inserted, At: at, Partition: []byte("p"), Row: []byte("1")}).encode())
		return f.changes.append(tx, 1, FeedChange{Kind: Inserted, At: at, Partition: []byte("p"), Row: []byte(strings.Repeat("r", 100))})
	}))
	f.want(t, formatPosition(1, 0), nil)
	f.want(t, formatPosition(1, 1), []string{strings.Repeat("r", 100)})
}

func TestPositions(t *testing.T) {
	t.Parallel()
	if n, ok := parsePosition(formatPosition(7, 1<<40), 7); !ok || n != 1<<40 {
		t.Errorf("got %d, %v", n, ok)
	}
	for _, text := range []string{"", "x", "-", "7", "8-1", "7--1", "7-zzzzzzzzzzzzzzzzzzzzzzz"} {
		if n, ok := parsePosition(text, 7); ok {
			t.Errorf("%q is parsed as %d", text, n)
		}
	}
}
