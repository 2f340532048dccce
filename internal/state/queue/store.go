package queue

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/lazuli-storage/lazuli/internal/budget"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/sweep"
)

// Options configure [Open].
type Options struct {
	// Store are the options of the file. Buckets and Applied are ignored.
	Store store.Options
	// Properties is called with the service properties of an account whenever a node has changed them; nil are those that
	// were removed. It must not block and must not call the Store; it may be nil.
	Properties func(account string, value []byte)
	// Now is the clock of the work in the background; nil is time.Now.
	Now func() time.Time
	// Log is for messages that a person should see; nil is slog.Default().
	Log *slog.Logger
	// FirstID is the least id of a queue, by which those of two shards differ; 0 is 1.
	FirstID uint64
}

// Store has all queues of all accounts. It is safe for concurrent use. Close it.
type Store struct {
	db         *store.DB
	log        *slog.Logger
	now        func() time.Time
	firstID    queueID
	properties func(account string, value []byte)
	receipts   *receiptKey
	hints      hints
	leads      func() bool // this node removes what is expired, cleared or deleted
	cleaner    *sweep.Loop
	stopClock  func()
	close      sync.Once

	mu      sync.Mutex                      // guards the rest
	aside   map[queueID]map[uint64]struct{} // numbers of messages that cannot be read
	damaged map[string]struct{}             // keys of queues of which other records cannot be read
}

// openFile opens or creates the file of a Queue service, for [Check] and other tools.
func openFile(path string, o store.Options) (*store.DB, error) {
	o.Buckets = Buckets()
	return store.Open(path, o)
}

// Open opens or creates the file and starts background work.
func Open(path string, o Options) (*Store, error) {
	s := &Store{log: o.Log, now: o.Now, firstID: queueID(max(o.FirstID, 1)), properties: o.Properties,
		aside:   make(map[queueID]map[uint64]struct{}),
		damaged: make(map[string]struct{})}
	if s.log == nil {
		s.log = slog.Default()
	}
	if s.now == nil {
		s.now = time.Now
	}
	switch {
	case o.Store.Log != nil:
		o.Store.Applied, s.leads = s.applied, o.Store.Log.Leads
	case o.Store.ReadOnly: // the file of a standby
		s.leads = func() bool { return false }
	default:
		return nil, errors.New("opening queue store: Options.Store.Log is required")
	}
	var err error
	if s.db, err = openFile(path, o.Store); err != nil {
		return nil, fmt.Errorf("opening queue store: %w", err)
	}
	if err := s.openReceiptKey(); err != nil {
		return nil, errors.Join(fmt.Errorf("opening queue store: %w", err), s.db.Close())
	}
	s.startCleaning()
	return s, nil
}

// applied keeps what is in memory in step with the records. The store calls it for each write of any node, in the order
// of the log.
func (s *Store) applied(b store.Bucket, w store.Write) {
	switch b {
	case bucketVisible:
		if !w.Deleted() && len(w.Key) == len(visibleKey{}) {
			s.hints.inserted(w.Key)
		}
	case bucketMessages, bucketGarbage:
		s.noLongerAside(b, w)
	case bucketService:
		if account, ok := bytes.CutPrefix(w.Key, propertiesKey("")); ok && s.properties != nil {
			s.properties(string(account), bytes.Clone(w.Value))
		}
	}
}

// noLongerAside stops counting messages that were set aside and are removed: by their deletion or expiry, or with their
// queue, which a clear or a deletion makes garbage.
func (s *Store) noLongerAside(b store.Bucket, w store.Write) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.aside) == 0 || len(w.Key) < 8 {
		return
	}
	id := queueID(binary.BigEndian.Uint64(w.Key))
	switch {
	case b == bucketGarbage:
		delete(s.aside, id)
	case w.Deleted() && len(w.Key) == 16 && s.aside[id] != nil:
		delete(s.aside[id], binary.BigEndian.Uint64(w.Key[8:]))
	}
}

// Database returns the database.
func (s *Store) Database() *store.DB { return s.db }

// Close ends background work and closes the file. It may be called twice; the second call returns nil.
func (s *Store) Close() (err error) {
	s.close.Do(func() {
		s.stopCleaning()
		err = s.db.Close()
	})
	return err
}

// Damage returns the number of messages that are set aside because they cannot be read, and of queues of which other
// records cannot be read: those that were used since the start.
func (s *Store) Damage() (messages, queues int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, numbers := range s.aside {
		messages += len(numbers)
	}
	return messages, len(s.damaged)
}

// Create creates a queue. created is false if it existed with the same metadata. The name of a deleted queue can be
// used again at once.
func (s *Store) Create(account, name string, metadata []Meta) (created bool, err error) {
	err = s.db.Update(func(tx *store.Tx) error {
		created = false
		key := queueKey(account, name)
		if old := tx.Get(bucketQueues, key); old != nil {
			_, info, err := decodeQueue(old)
			if err == nil && !sameMetadata(info.Metadata, metadata) {
				err = ErrQueueExists
			}
			return err
		}
		created = true
		tx.Note("create queue " + account + "/" + name)
		return putQueue(tx, key, s.newID(tx), &queueInfo{Metadata: metadata})
	})
	return created, err
}

// newID takes the next id of a queue.
func (s *Store) newID(tx *store.Tx) queueID {
	id := s.firstID
	if v := tx.Get(bucketService, keyNextID); len(v) == 8 {
		id = max(id, queueID(binary.BigEndian.Uint64(v))) // a repair begins with 1 where it finds no queue
	}
	tx.Put(bucketService, keyNextID, (id + 1).key())
	tx.Put(bucketCounters, id.key(), counters{next: 1}.encode())
	return id
}

func putQueue(tx *store.Tx, key []byte, id queueID, info *queueInfo) error {
	value, err := encodeQueue(id, info)
	if err == nil {
		tx.Put(bucketQueues, key, value)
	}
	return err
}

// Delete deletes a queue and its messages. The time does not depend on their number.
func (s *Store) Delete(account, name string) error {
	err := s.db.Update(func(tx *store.Tx) error {
		key := queueKey(account, name)
		value := tx.Get(bucketQueues, key)
		if value == nil {
			return ErrQueueNotFound
		}
		if len(value) >= 8 { // a damaged record has no messages that could be found
			tx.Put(bucketGarbage, bytes.Clone(value[:8]), nil)
		}
		tx.Note("delete queue " + account + "/" + name)
		tx.Delete(bucketQueues, key)
		return nil
	})
	if err == nil {
		s.cleaner.Wake()
	}
	return err
}

// edit changes what operations on the queue itself read. change may run more than once.
func (s *Store) edit(account, name, what string, change func(*queueInfo)) error {
	return s.db.Update(func(tx *store.Tx) error {
		key := queueKey(account, name)
		value := tx.Get(bucketQueues, key)
		if value == nil {
			return ErrQueueNotFound
		}
		id, info, err := decodeQueue(value)
		if err != nil {
			return err
		}
		change(&info)
		tx.Note(what + " " + account + "/" + name)
		return putQueue(tx, key, id, &info)
	})
}

// SetMetadata replaces a queue's metadata.
func (s *Store) SetMetadata(account, name string, metadata []Meta) error {
	return s.edit(account, name, "set the metadata of", func(i *queueInfo) { i.Metadata = metadata })
}

// SetPolicies replaces a queue's stored access policies, a JSON document.
func (s *Store) SetPolicies(account, name string, policies json.RawMessage) error {
	return s.edit(account, name, "set the policies of", func(i *queueInfo) { i.Policies = policies })
}

// Policies returns the policies that SetPolicies stored for a queue, nil by default.
func (s *Store) Policies(account, name string) (policies json.RawMessage, err error) {
	err = s.db.View(func(tx *store.Tx) error {
		value := tx.Get(bucketQueues, queueKey(account, name))
		if value == nil {
			return ErrQueueNotFound
		}
		_, info, err := decodeQueue(value)
		policies = info.Policies
		return err
	})
	return policies, err
}

// Listed is a queue in a listing.
type Listed struct {
	Name     string
	Metadata []Meta
}

// List returns up to n queues, sorted by name, that begin with prefix and do not sort before from. next is the name to
// continue from, "" at the end. With metadata a page also ends at [budget.Answer] bytes of it.
func (s *Store) List(account, prefix, from string, n int, metadata bool) (queues []Listed, next string, err error) {
	err = s.db.View(func(tx *store.Tx) error {
		queues, next = nil, ""
		size := 0
		within := queueKey(account, prefix)
		c := tx.Cursor(bucketQueues)
		for k, v := c.Seek(queueKey(account, max(prefix, from))); k != nil && bytes.HasPrefix(k, within); k, v = c.Next() {
			name := string(k[len(account)+1:])
			if len(queues) == n || size >= budget.Answer {
				next = name
				return nil
			}
			if !metadata {
				queues = append(queues, Listed{Name: name})
				continue
			}
			size += len(v)
			_, info, err := decodeQueue(v)
			if err != nil {
				return err
			}
			queues = append(queues, Listed{name, info.Metadata})
		}
		return nil
	})
	return queues, next, err
}

// Current returns once changes that any node has made before the call are known to this node.
func (s *Store) Current() error {
	return s.db.View(func(*store.Tx) error { return nil })
}

// EachProperties calls fn with the stored service properties of every account that has any.
func (s *Store) EachProperties(fn func(account string, value []byte) error) error {
	return s.db.View(func(tx *store.Tx) error {
		prefix := propertiesKey("")
		c := tx.Cursor(bucketService)
		for k, v := c.Seek(prefix); bytes.HasPrefix(k, prefix); k, v = c.Next() {
			if err := fn(string(k[len(prefix):]), v); err != nil {
				return err
			}
		}
		return nil
	})
}

// ChangeProperties replaces an account's service properties by what change returns for the current ones, nil for none.
// The values are opaque to this package. change may run several times; if it fails, nothing is replaced.
func (s *Store) ChangeProperties(account string, change func(old []byte) ([]byte, error)) error {
	return s.db.Update(func(tx *store.Tx) error {
		key := propertiesKey(account)
		value, err := change(tx.Get(bucketService, key))
		switch {
		case err != nil:
			return err
		case value == nil:
			tx.Delete(bucketService, key)
		default:
			tx.Put(bucketService, key, value)
		}
		tx.Note("set the service properties of " + account)
		return nil
	})
}

// sameMetadata compares metadata as the service does: names are case-insensitive.
func sameMetadata(a, b []Meta) bool {
	fold := func(pairs []Meta) map[string]string {
		m := make(map[string]string, len(pairs))
		for _, p := range pairs {
			m[strings.ToLower(p.Name)] = p.Value
		}
		return m
	}
	return maps.Equal(fold(a), fold(b))
}
