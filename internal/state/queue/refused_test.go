package queue

import (
	"bytes"
	"errors"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/nats/jetstreamfiles"
	"github.com/lazuli-storage/lazuli/internal/nats/natsserver"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// openWith opens a store with other options.
func openWith(t *testing.T, n *testNATS, change func(*Options)) *Store {
	t.Helper()
	options := check.Must(StoreOptions(t.Context(), n.Server, slog.New(slog.DiscardHandler)))(t)
	o := Options{Store: options, Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return epoch }}
	change(&o)
	s := check.Must(Open(n.path(), o))(t)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// A call that has to put the times of a queue right first, and cannot, fails: without that it would not find what is
// there.
func TestTimesThatCannotBePutRight(t *testing.T) {
	t.Parallel()
	refused := errors.New("refused")
	var groups atomic.Int64 // that may still write
	groups.Store(math.MaxInt32)
	s := openWith(t, startNATS(t, natsserver.Config{}), func(o *Options) {
		o.Store.Guard = func(*store.Tx) error {
			if groups.Add(-1) < 0 {
				return refused
			}
			return nil
		}
	})
	q := create(t, s, "ahead")
	ahead := epoch.Add(24 * time.Hour)
	putForever(t, q, "x", ahead)
	if getFor(t, q, time.Hour, ahead) == nil {
		t.Fatal("the message is not handed out")
	}
	groups.Store(1) // that of Get itself
	if list, err := q.Get(1, time.Hour, epoch); !errors.Is(err, refused) {
		t.Errorf("get: %d messages, %v; want the error", len(list), err)
	}
	groups.Store(0)
	if list, err := q.Peek(1, epoch); !errors.Is(err, refused) {
		t.Errorf("peek: %d messages, %v; want the error", len(list), err)
	}
	groups.Store(math.MaxInt32)
}

// The removal of expired messages takes a batch in a transaction, so that it delays no request for long.
func TestExpiredMessagesAreRemovedInBatches(t *testing.T) {
	t.Parallel()
	s := memory(t)
	q := create(t, s, "expiring")
	list := make([]NewMessage, cleanBatch+1)
	for i := range list {
		list[i] = NewMessage{Body: []byte("x")}
	}
	for some := range slices.Chunk(list, 100) {
		check.Must(q.PutAll(some, time.Minute, epoch))(t)
	}
	for _, want := range []struct {
		more bool
		left int
	}{{true, 1}, {false, 0}, {false, 0}} {
		more, err := s.removeSomeExpired(epoch.Add(time.Hour).UnixNano())
		left := wantConsistent(t, s).Messages
		if err != nil || more != want.more || left != want.left {
			t.Errorf("%d messages are left, more: %v, %v; want %d, %v", left, more, err, want.left, want.more)
		}
	}
}

// Who asked for it learns of each change of the service properties, also of a removal.
func TestChangesOfPropertiesAreTold(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex // guards told
	var told []string
	s := openWith(t, startNATS(t, natsserver.Config{}), func(o *Options) {
		o.Properties = func(account string, value []byte) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, account+"="+string(value))
		}
	})
	create(t, s, "orders")
	for _, value := range [][]byte{[]byte("one"), []byte("two"), nil} {
		check.OK(t, s.ChangeProperties("acct", func([]byte) ([]byte, error) { return value, nil }))
	}
	mu.Lock()
	defer mu.Unlock()
	if got := strings.Join(told, " "); got != "acct=one acct=two acct=" {
		t.Errorf("told: %s", got)
	}
}

// A place that a transaction gives to a message is found by later ones of its group, also where an earlier one has
// taken all that was there.
func TestPlacesOfOneGroup(t *testing.T) {
	t.Parallel()
	const id, group = 7, 1
	var h hints
	h.look(id)
	early, late := makeVisibleKey(id, 10, 1), makeVisibleKey(id, 20, 2)
	begin := makeVisibleKey(id, 0, 0)
	h.taken(id, group, late)
	if from := h.within(id, group, begin); from != late {
		t.Errorf("after what was taken a transaction searches from %x", from)
	}
	if from := h.within(id, group+1, begin); from != begin {
		t.Errorf("a transaction of another group searches from %x", from)
	}
	h.placed(id, group+1, &early)
	if from := h.within(id, group, begin); from != late {
		t.Errorf("a place of another group: a transaction searches from %x", from)
	}
	h.placed(id, group, &early)
	if from := h.within(id, group, begin); from != early {
		t.Errorf("a place before what was taken: a transaction searches from %x", from)
	}
}

// The key of the receipts is stored, and no other store has it: no client can make receipts.
func TestTheKeyOfReceiptsIsStored(t *testing.T) {
	t.Parallel()
	var keys [][]byte
	for range 2 {
		s := memory(t)
		check.OK(t, s.db.View(func(tx *store.Tx) error {
			keys = append(keys, bytes.Clone(tx.Get(bucketService, keyReceiptKey)))
			return nil
		}))
	}
	if len(keys[0]) != receiptKeyBytes || len(keys[1]) != receiptKeyBytes || bytes.Equal(keys[0], keys[1]) {
		t.Errorf("the keys are %x and %x", keys[0], keys[1])
	}
}

// Each change of a queue says in the log what it was, which `lazuli queue log` shows.
func TestChangesHaveNotes(t *testing.T) {
	t.Parallel()
	n := startNATS(t, natsserver.Config{Dir: t.TempDir()})
	s := open(t, n)
	q := create(t, s, "orders")
	putOne(t, q, "x", epoch)
	m := getOne(t, q, epoch)
	check.OK(t, q.Delete(m.ID, m.Receipt, epoch))
	check.OK(t, s.Close())
	var notes []string
	check.Must(ReadLog(n.dir, LogName, func(r jetstreamfiles.Record) error {
		for line := range strings.Lines(string(r.Header)) {
			if note, ok := strings.CutPrefix(line, store.HeaderChange+": "); ok {
				notes = append(notes, strings.TrimSpace(note))
			}
		}
		return nil
	}))(t)
	for _, want := range []string{"1 create the key of the pop receipts", "1 put acct/orders", "1 get acct/orders",
		"1 delete acct/orders"} {
		if !slices.Contains(notes, want) {
			t.Errorf("no change has the note %q: %q", want, notes)
		}
	}
}

// A file that is not one of a Queue service is refused, whatever its log has.
func TestOpenFolderRefusesAnotherFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "queues.db")
	check.OK(t, os.WriteFile(path, bytes.Repeat([]byte("text "), 10_000), 0o600))
	db, err := OpenFolder(path, t.TempDir(), func(d jetstreamfiles.Damage) { t.Error(d) })
	if err == nil || db != nil {
		t.Errorf("%v, %v; want an error", db, err)
	}
}

// Messages of a queue that has lost its record come back in the account that the rest of the file names.
func TestAQueueWithoutAnAccountGetsOne(t *testing.T) {
	t.Parallel()
	for want, properties := range map[string]string{"devstoreaccount1": "", "other": "other"} {
		s := memory(t)
		putOne(t, create(t, s, "orders"), "x", epoch)
		if properties != "" {
			check.OK(t, s.ChangeProperties(properties, func([]byte) ([]byte, error) { return []byte("{}"), nil }))
		}
		path := filepath.Join(t.TempDir(), "queues.db")
		check.OK(t, s.db.Extract(path))
		check.OK(t, edit(path, func(tx *store.Tx) { tx.Delete(bucketQueues, queueKey("acct", "orders")) }))
		check.OK(t, Repair(path, noValues, nil, func(string, bool) {}))
		check.OK(t, edit(path, func(tx *store.Tx) {
			k, _ := tx.Cursor(bucketQueues).Seek(nil)
			if account, name, _ := splitQueueKey(k); account != want || name != "lost-1" {
				t.Errorf("the messages are in queue %s of account %s, want lost-1 of %s", name, account, want)
			}
		}))
	}
}

// edit runs fn on the file of a stopped service.
func edit(path string, fn func(*store.Tx)) error {
	db, err := openFile(path, store.Options{})
	if err != nil {
		return err
	}
	return errors.Join(db.Update(func(tx *store.Tx) error { fn(tx); return nil }), db.Close())
}
