package state

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/url"
	"strings"

	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// The event log has the events that subscriptions wait for. It is apart from the change feed, since both are read at a
// pace of their own: the change feed removes an event once it is in a file, the log once every subscription of the
// account has finished with it.
//
// An account has a log while it has a subscription. Subscriptions are stored beside the log, so a write and the
// subscriptions that exist at that moment are one state: a write that was acknowledged after a subscription was created
// is in the log.
//
// In a cluster the worker (worker.go) delivers the events of all nodes. The transactions that change subscriptions and
// their progress, and that trim the log, fail with [ErrNotWorker] on another node, so that a node that was paused as
// the worker does no harm when it continues.

// maxTrimmed is the maximum number of events that one transaction removes from the log.
const maxTrimmed = 1000

// subscribed returns whether the events of an account are logged.
func (s *Store) subscribed(tx *store.Tx, account string) bool {
	if s.replicated { // another node may have added a subscription just now
		scope := append(append([]byte{subscriptionConfig}, account...), 0)
		k, _ := tx.Cursor(subscriptionsBucket).Seek(scope)
		return bytes.HasPrefix(k, scope)
	}
	accounts := s.subscribers.Load()
	return accounts != nil && (*accounts)[account] > 0
}

// logged reports whether the event log takes an event on b. Snapshots and previous versions are not blobs that a
// subscriber knows by name, so it takes their creation, and no other event on them.
func (c *change) logged(e event, b *Blob) bool {
	return c.s.logEvents && (b.slot == baseSlot || e == eventSnapshot) && c.s.subscribed(c.tx, c.Account)
}

// Subscription is a stored event subscription. Config and Progress are opaque here.
type Subscription struct {
	Account, Name    string
	Config, Progress []byte
}

// The first byte of a key of the subscriptions bucket is the kind of its value.
const (
	subscriptionConfig   = 'c'
	subscriptionProgress = 'p'
)

func subscriptionKey(kind byte, account, name string) []byte {
	return append(containerKey(string(kind)+account, name), 0)
}

func parseSubscriptionKey(k []byte) (kind byte, account, name string, err error) {
	if len(k) < 2 || k[len(k)-1] != 0 || k[0] != subscriptionConfig && k[0] != subscriptionProgress {
		return 0, "", "", errKey
	}
	account, name, err = parseContainerKey(k[1 : len(k)-1])
	return k[0], account, name, err
}

// loadSubscribers counts the subscriptions of each account.
func (s *Store) loadSubscribers() error {
	list, err := s.Subscriptions()
	if err != nil {
		return err
	}
	accounts := map[string]int{}
	for _, sub := range list {
		accounts[sub.Account]++
	}
	s.subscribers.Store(&accounts)
	return nil
}

// Subscriptions returns all subscriptions, by account and name.
func (s *Store) Subscriptions() (list []Subscription, err error) {
	err = s.db.View(func(tx *store.Tx) error {
		list = nil
		cur := tx.Cursor(subscriptionsBucket)
		for k, v := cur.Seek([]byte{subscriptionConfig}); k != nil && k[0] == subscriptionConfig; k, v = cur.Next() {
			_, account, name, err := parseSubscriptionKey(k)
			if err != nil {
				return err
			}
			list = append(list, Subscription{Account: account, Name: name, Config: bytes.Clone(v),
				Progress: bytes.Clone(tx.Get(subscriptionsBucket, subscriptionKey(subscriptionProgress, account, name)))})
		}
		return nil
	})
	return list, err
}

// AddSubscription stores a subscription that does not exist. It begins with the next event: progress makes its initial
// progress from the number of the last one, and may be called twice. It fails with [ErrSubscriptionExists].
func (s *Store) AddSubscription(account, name string, config []byte, progress func(last uint64) []byte) error {
	s.subscribing.Lock()
	defer s.subscribing.Unlock()
	err := s.db.Update(func(tx *store.Tx) error {
		if err := s.checkWorker(tx); err != nil {
			return err
		}
		key := subscriptionKey(subscriptionConfig, account, name)
		if tx.Get(subscriptionsBucket, key) != nil {
			return ErrSubscriptionExists
		}
		tx.Put(subscriptionsBucket, key, config)
		tx.Put(subscriptionsBucket, subscriptionKey(subscriptionProgress, account, name), progress(lastID(tx)))
		return nil
	})
	if err != nil {
		return err
	}
	return s.loadSubscribers()
}

// RemoveSubscription deletes a subscription. It fails with [ErrSubscriptionNotFound].
func (s *Store) RemoveSubscription(account, name string) error {
	s.subscribing.Lock()
	defer s.subscribing.Unlock()
	err := s.db.Update(func(tx *store.Tx) error {
		if err := s.checkWorker(tx); err != nil {
			return err
		}
		key := subscriptionKey(subscriptionConfig, account, name)
		if tx.Get(subscriptionsBucket, key) == nil {
			return ErrSubscriptionNotFound
		}
		tx.Delete(subscriptionsBucket, key)
		tx.Delete(subscriptionsBucket, subscriptionKey(subscriptionProgress, account, name))
		return nil
	})
	if err != nil {
		return err
	}
	return s.loadSubscribers()
}

// SetSubscription stores what is not nil of config and progress. It fails with [ErrSubscriptionNotFound].
func (s *Store) SetSubscription(account, name string, config, progress []byte) error {
	return s.db.Update(func(tx *store.Tx) error {
		if err := s.checkWorker(tx); err != nil {
			return err
		}
		key := subscriptionKey(subscriptionConfig, account, name)
		if tx.Get(subscriptionsBucket, key) == nil {
			return ErrSubscriptionNotFound
		}
		if config != nil {
			tx.Put(subscriptionsBucket, key, config)
		}
		if progress != nil {
			tx.Put(subscriptionsBucket, subscriptionKey(subscriptionProgress, account, name), progress)
		}
		return nil
	})
}

// LastEvent returns a number that no event committed so far exceeds.
func (s *Store) LastEvent() (last uint64, err error) {
	err = s.db.View(func(tx *store.Tx) error {
		last = lastID(tx)
		return nil
	})
	return last, err
}

// LoggedEvents returns the events of an account's log that follow the number after: at most n, no more after size
// bytes, and none from the first one on about which a request still decides. upTo is the number up to which list is
// complete.
func (s *Store) LoggedEvents(account string, after uint64, n, size int) (list []Event, upTo uint64, err error) {
	err = s.db.View(func(tx *store.Tx) error {
		list, upTo = nil, lastID(tx)
		scope := append([]byte(account), 0)
		cur := tx.Cursor(eventsBucket)
		sum := 0
		for k, v := cur.Seek(eventKey(account, after+1)); k != nil && bytes.HasPrefix(k, scope); k, v = cur.Next() {
			if len(list) == n || sum > size {
				upTo = list[len(list)-1].Sequence
				break
			}
			f, err := decodeEvent(k, v)
			if err != nil {
				return err
			}
			if s.pending(k, &f) {
				upTo = f.Sequence - 1
				break
			}
			list, sum = append(list, f), sum+len(v)
		}
		return nil
	})
	return list, upTo, err
}

// LoggedEvent returns one event of an account's log. ok is false if the log does not have it.
func (s *Store) LoggedEvent(account string, number uint64) (f Event, ok bool, err error) {
	err = s.db.View(func(tx *store.Tx) (err error) {
		key := eventKey(account, number)
		v := tx.Get(eventsBucket, key)
		if ok = v != nil; ok {
			f, err = decodeEvent(key, v)
		}
		return err
	})
	return f, ok, err
}

// TrimEvents removes the events of an account's log up to a number, some at a time. more is set if there are others.
func (s *Store) TrimEvents(account string, upTo uint64) (more bool, err error) {
	var keys [][]byte
	err = s.db.View(func(tx *store.Tx) error {
		keys, more = nil, false
		end := eventKey(account, upTo)
		cur := tx.Cursor(eventsBucket)
		for k, _ := cur.Seek(append([]byte(account), 0)); k != nil && bytes.Compare(k, end) <= 0; k, _ = cur.Next() {
			if len(keys) == maxTrimmed {
				more = true
				break
			}
			keys = append(keys, bytes.Clone(k))
		}
		return nil
	})
	if err != nil || len(keys) == 0 {
		return false, err
	}
	return more, s.db.Update(func(tx *store.Tx) error {
		if err := s.checkWorker(tx); err != nil { // the new worker may have subscriptions of which this node does not know
			return err
		}
		for _, k := range keys {
			tx.Delete(eventsBucket, k)
		}
		return nil
	})
}

// lastID is the last number that nextID returned.
func lastID(tx *store.Tx) uint64 {
	if v := tx.Get(metaBucket, nextKey); len(v) == 8 {
		return binary.BigEndian.Uint64(v) - 1
	}
	return 0
}

// ID identifies the event: the request's ID with the event's number in place of its last digits.
func (f *Event) ID() string {
	head := f.RequestID
	if len(head) < 24 {
		head = "00000000-0000-0000-0000-"
	}
	return fmt.Sprintf("%s%012x", head[:24], f.Sequence&(1<<48-1))
}

// Sequencer orders the events of a blob as strings.
func (f *Event) Sequencer() string { return fmt.Sprintf("%016x%016x%016x", 1, 0, f.Sequence) }

// URL is the blob's address, as the client that changed it wrote it; without a host for background work.
func (f *Event) URL() string {
	return f.Base + "/" + f.Container + "/" + strings.ReplaceAll(url.PathEscape(f.Blob), "%2F", "/")
}

// SourceURL is the address of the path that a file or directory was renamed from.
func (f *Event) SourceURL() string {
	return f.Base + "/" + strings.ReplaceAll(url.PathEscape(f.Source), "%2F", "/")
}

// Subject is the path of the blob within the account.
func (f *Event) Subject() string {
	return "/blobServices/default/containers/" + f.Container + "/blobs/" + f.Blob
}

// Topic is the account as Azure Resource Manager names it.
func (f *Event) Topic() string { return Topic(f.Account) }

// Topic is an account as Azure Resource Manager names it.
func Topic(account string) string {
	return "/subscriptions/00000000-0000-0000-0000-000000000000/resourceGroups/lazuli/providers/Microsoft.Storage/storageAccounts/" + account
}
