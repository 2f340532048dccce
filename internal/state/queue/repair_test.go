package queue

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/nats/jetstreamfiles"
	"github.com/lazuli-storage/lazuli/internal/nats/natsserver"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// TestRepair removes records at random, up to all of a bucket, and repairs the file. It is consistent then, and has
// every message whose text was left, in its queue or in one that has another name; what could not be kept is reported.
func TestRepair(t *testing.T) {
	t.Parallel()
	s := open(t, startNATS(t, natsserver.Config{Dir: t.TempDir()}))
	for _, name := range []string{"orders", "mails"} {
		q := create(t, s, name)
		for i := range 30 {
			ttl := Forever
			if i%3 == 0 {
				ttl = time.Hour
			}
			if _, err := q.Put(fmt.Appendf(nil, "%s %d", name, i), 0, ttl, epoch); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := q.Get(10, time.Minute, epoch); err != nil {
			t.Fatal(err)
		}
	}
	create(t, s, "empty")
	create(t, s, "deleted")
	if err := s.Delete("acct", "deleted"); err != nil {
		t.Fatal(err)
	}
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 7))
		path := filepath.Join(t.TempDir(), "queues.db")
		if err := s.db.Extract(path); err != nil {
			t.Fatal(err)
		}
		texts := removeRecords(t, path, rng)
		lost := 0
		if err := Repair(path, noValues, nil, func(what string, isLost bool) {
			if isLost {
				lost++
			}
		}); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		db, err := openFile(path, store.Options{ReadOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		n, err := Check(db, noValues, func(err error) { t.Errorf("seed %d: after the repair: %v", seed, err) })
		if err != nil || n.Messages != texts {
			t.Errorf("seed %d: %d messages, want the %d whose texts were left; %v", seed, n.Messages, texts, err)
		}
		if n.Messages < 60 && lost == 0 {
			t.Errorf("seed %d: %d messages of 60, and nothing was reported as lost", seed, n.Messages)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// removeRecords removes records, and returns the number of texts of messages that are left.
func removeRecords(t *testing.T, path string, rng *rand.Rand) (texts int) {
	t.Helper()
	db, err := openFile(path, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	buckets := Buckets()
	of := rng.IntN(len(buckets))
	some := []int{1, 2, 10}[rng.IntN(3)]
	err = db.Update(func(tx *store.Tx) error {
		texts = 0
		for i, b := range buckets {
			c := tx.Cursor(b)
			for k, _ := c.Seek(nil); k != nil; k, _ = c.Next() {
				gone := i == of && rng.IntN(some) == 0 || rng.IntN(40) == 0
				if gone {
					tx.Delete(b, slices.Clone(k))
				} else if b == bucketMessages {
					texts++
				}
			}
		}
		return nil
	})
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return texts
}

// TestDescribe covers the names of keys.
func TestDescribe(t *testing.T) {
	t.Parallel()
	s := open(t, startNATS(t, natsserver.Config{Dir: t.TempDir()}))
	q := create(t, s, "orders")
	putOne(t, q, "text", epoch)
	path := filepath.Join(t.TempDir(), "queues.db")
	if err := s.db.Extract(path); err != nil {
		t.Fatal(err)
	}
	var got []string
	if err := Describe(path, func(name func(store.Bucket, []byte) string) {
		place := makeVisibleKey(1, 5, 1)
		for _, k := range []struct {
			bucket store.Bucket
			key    []byte
		}{{bucketQueues, q.key}, {bucketCounters, queueID(1).key()}, {bucketMessages, messageKey(1, 1)},
			{bucketVisible, place[:]}, {bucketExpiring, expiringKey(5, 2, 1)}, {bucketMessages, []byte("x")}} {
			got = append(got, name(k.bucket, k.key))
		}
	}); err != nil {
		t.Fatal(err)
	}
	want := []string{"queue acct/orders", "the number of messages in queue acct/orders", "queue acct/orders, message 1",
		"queue acct/orders, place of message 1", "queue number 2, which is gone, expiry of message 1", `messages, key "x"`}
	if !slices.Equal(got, want) {
		t.Errorf("got %s\nwant %s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestOpenFolder opens a folder of which several files of the log have what an older queues.db lacks.
func TestOpenFolder(t *testing.T) {
	t.Parallel()
	n := startNATS(t, natsserver.Config{Dir: t.TempDir()})
	s := open(t, n)
	create(t, s, "orders")
	check.OK(t, s.Close())
	older := check.Must(os.ReadFile(n.path()))(t)
	s = open(t, n)
	q := find(t, s, "orders")
	const messages = 200
	for i := range messages {
		_, err := q.Put(fmt.Appendf(nil, "%d %s", i, strings.Repeat("x", 60_000)), 0, Forever, epoch)
		check.OK(t, err)
	}
	check.OK(t, s.Close())
	n.Close()
	check.OK(t, os.WriteFile(n.path(), older, 0o600))
	if blocks := check.Must(jetstreamfiles.Blocks(StreamDir(n.dir, LogName)))(t); len(blocks) < 2 {
		t.Fatalf("the log has blocks %v, want several", blocks)
	}
	db := check.Must(OpenFolder(n.path(), n.dir, func(d jetstreamfiles.Damage) { t.Error(d) }))(t)
	found, err := Check(db, noValues, func(err error) { t.Errorf("check: %v", err) })
	if err != nil || found.Queues != 1 || found.Messages != messages {
		t.Errorf("%d queues with %d messages, want 1 with %d; %v", found.Queues, found.Messages, messages, err)
	}
	check.OK(t, db.Close())
}
