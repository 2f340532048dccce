package queue

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/nats/natsserver"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// Each inconsistency that Check promises to report is made alone, and reported, with nothing else than what follows
// from it. The file has a queue with messages 1 to 3, of which the third expires, and another queue without messages.
func TestCheckReportsEachInconsistency(t *testing.T) {
	t.Parallel()
	s := open(t, startNATS(t, natsserver.Config{Dir: t.TempDir()}))
	q := create(t, s, "orders") // the first queue, with id 1
	for i, ttl := range []time.Duration{Forever, Forever, time.Hour} {
		if _, err := q.Put(fmt.Append(nil, i), 0, ttl, epoch); err != nil {
			t.Fatal(err)
		}
	}
	create(t, s, "policies")
	clean := filepath.Join(t.TempDir(), "queues.db")
	check.OK(t, s.db.Extract(clean))

	const id = queueID(1)
	never := makeVisibleKey(id, epoch.UnixNano(), 1)
	expires := epoch.Add(time.Hour).UnixNano()
	expiring := makeVisibleKey(id, epoch.UnixNano(), 3)
	record := queueKey("acct", "orders")
	// changed returns a record with 8 bytes of it replaced by a number.
	changed := func(v []byte, at int, n uint64) []byte {
		v = bytes.Clone(v)
		binary.BigEndian.PutUint64(v[at:], n)
		return v
	}
	for _, c := range []struct {
		name string
		edit func(tx *store.Tx)
		want []string
	}{
		{"nothing", func(*store.Tx) {}, nil},
		{"a key without a name", func(tx *store.Tx) { tx.Put(bucketQueues, []byte("orders"), tx.Get(bucketQueues, record)) },
			[]string{`the key "orders" is not a queue's`}},
		{"a record that is short", func(tx *store.Tx) { tx.Put(bucketQueues, queueKey("acct", "x"), []byte("short")) },
			[]string{"queue x of account acct: "}},
		{"an id that is next", func(tx *store.Tx) {
			tx.Put(bucketQueues, queueKey("acct", "x"), changed(tx.Get(bucketQueues, record), 0, 3))
		}, []string{"its id 3 is not below the next id 3"}},
		{"an id of two queues", func(tx *store.Tx) {
			tx.Put(bucketQueues, queueKey("acct", "x"), tx.Get(bucketQueues, record))
		}, []string{"its id 1 is also that of queue orders of account acct"}},
		{"a policy that does not parse", func(tx *store.Tx) {
			tx.Put(bucketQueues, queueKey("acct", "policies"), append(queueID(2).key(), `{"policies":"bad"}`...))
		}, []string{"access policies: bad policies"}},
		{"a queue that is being removed", func(tx *store.Tx) { tx.Put(bucketGarbage, id.key(), nil) },
			[]string{"queue orders of account acct exists, and its messages are being removed"}},
		{"garbage without an id", func(tx *store.Tx) { tx.Put(bucketGarbage, []byte("x"), nil) },
			[]string{`the key "x" is not that of a deleted queue`}},
		{"counters of no queue", func(tx *store.Tx) {
			tx.Put(bucketCounters, queueID(9).key(), counters{}.encode())
		}, []string{"the counters 0000000000000009 belong to no queue"}},
		{"a place that cannot be read", func(tx *store.Tx) { tx.Put(bucketVisible, never[:], []byte("x")) },
			[]string{"it cannot be read", "has 3 messages, and places for 2"}},
		{"a place without a message", func(tx *store.Tx) { tx.Delete(bucketMessages, messageKey(id, 1)) },
			[]string{"message 1 has a place and no text", "has 2 messages, and places for 3"}},
		{"a message without a place", func(tx *store.Tx) { tx.Delete(bucketVisible, never[:]) },
			[]string{"has 3 messages, and places for 2"}},
		{"a place of no queue", func(tx *store.Tx) {
			k := makeVisibleKey(9, 1, 1)
			tx.Put(bucketVisible, k[:], tx.Get(bucketVisible, never[:]))
			tx.Put(bucketMessages, messageKey(9, 1), tx.Get(bucketMessages, messageKey(id, 1)))
		}, []string{"bucket visible, key 0000000000000009"}},
		{"a message that cannot be read", func(tx *store.Tx) { tx.Put(bucketMessages, messageKey(id, 1), []byte("x")) },
			[]string{"it cannot be read", "has 2 messages, and places for 3"}},
		{"a message that expires when it is put", func(tx *store.Tx) {
			v := tx.Get(bucketMessages, messageKey(id, 1))
			tx.Put(bucketMessages, messageKey(id, 1), changed(v, 8, binary.BigEndian.Uint64(v)))
		}, []string{"message 1 expires before it was put"}},
		{"counters that count wrongly", func(tx *store.Tx) {
			tx.Put(bucketCounters, id.key(), changed(tx.Get(bucketCounters, id.key()), 0, 4))
		}, []string{"has 3 messages, and counts 4"}},
		{"a number that is next", func(tx *store.Tx) {
			tx.Put(bucketCounters, id.key(), changed(tx.Get(bucketCounters, id.key()), 8, 3))
		}, []string{"message 3 has a number that is not below the next one"}},
		{"a message that expires without an entry", func(tx *store.Tx) {
			tx.Delete(bucketExpiring, expiringKey(expires, id, 3))
		}, []string{"the entry by which message 3 expires does not name its place",
			"differ from the entries in the order of expiry by 1"}},
		{"an entry of another place", func(tx *store.Tx) {
			tx.Put(bucketExpiring, expiringKey(expires, id, 3), make([]byte, 8))
		}, []string{"does not name its place", "has an entry by which it expires, and no place there"}},
		{"an entry too many", func(tx *store.Tx) {
			tx.Put(bucketExpiring, expiringKey(expires+1, id, 3), expiring[8:16])
		}, []string{"differ from the entries in the order of expiry by -1"}},
		{"an entry that cannot be read", func(tx *store.Tx) { tx.Put(bucketExpiring, []byte("x"), nil) },
			[]string{"bucket expiring, key 78: it cannot be read"}},
		{"a next id that is short", func(tx *store.Tx) { tx.Put(bucketService, keyNextID, []byte("x")) },
			[]string{"its id 1 is not below the next id 1", "its id 2 is not below the next id 1",
				"the next id of queues has 1 bytes"}},
		{"a key of receipts that is short", func(tx *store.Tx) { tx.Put(bucketService, keyReceiptKey, []byte("x")) },
			[]string{"the key of the pop receipts has 1 bytes"}},
		{"properties that do not parse", func(tx *store.Tx) { tx.Put(bucketService, propertiesKey("acct"), []byte("bad")) },
			[]string{"service properties of acct: bad properties"}},
		{"an unknown key", func(tx *store.Tx) { tx.Put(bucketService, []byte("other"), nil) },
			[]string{`bucket service has the unknown key "other"`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "queues.db")
			check.OK(t, s.db.Extract(path))
			db := check.Must(openFile(path, store.Options{}))(t)
			defer db.Close()
			check.OK(t, db.Update(func(tx *store.Tx) error {
				c.edit(tx)
				return nil
			}))
			bad := func(what string) func(v []byte) error {
				return func(v []byte) error {
					if bytes.Contains(v, []byte("bad")) {
						return errors.New("bad " + what)
					}
					return nil
				}
			}
			var got []string
			_, err := Check(db, Values{Properties: bad("properties"), Policies: bad("policies")},
				func(err error) { got = append(got, err.Error()) })
			check.OK(t, err)
			for _, want := range c.want {
				if !slices.ContainsFunc(got, func(s string) bool { return strings.Contains(s, want) }) {
					t.Errorf("no problem says %q", want)
				}
			}
			if len(got) != len(c.want) {
				t.Errorf("%d problems, want %d:\n%s", len(got), len(c.want), strings.Join(got, "\n"))
			}
		})
	}
}

// The hint when to poll again: at once, when the next message becomes visible, or in an hour.
func TestNextVisible(t *testing.T) {
	t.Parallel()
	s := memory(t)
	q := create(t, s, "orders")
	want := func(at time.Time, d time.Duration) {
		t.Helper()
		if got := q.NextVisible(at); got != d {
			t.Errorf("the next message is visible in %v, want %v", got, d)
		}
	}
	want(epoch, time.Hour)
	for i := range 2 {
		if _, err := q.Put(fmt.Append(nil, i), time.Minute, Forever, epoch); err != nil {
			t.Fatal(err)
		}
	}
	want(epoch, time.Minute)
	want(epoch.Add(50*time.Second), 10*time.Second)
	want(epoch.Add(time.Minute), 0)
	want(epoch.Add(time.Hour), 0)
	if d := s.Queue("acct", "missing").NextVisible(epoch); d != time.Hour {
		t.Errorf("a queue that does not exist has a message in %v", d)
	}
}
