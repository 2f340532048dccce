package eventlog

import (
	"bytes"
	"errors"

	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// The errors of subscriptions.
var (
	ErrSubscriptionExists   = errors.New("the event subscription exists")
	ErrSubscriptionNotFound = errors.New("the event subscription does not exist")
)

// Subscription is a stored event subscription. Config and Progress are opaque here.
type Subscription struct {
	Account, Name    string
	Config, Progress []byte
}

// The first byte of a key of the subscriptions is the kind of its value.
const (
	configKind   = 'c'
	progressKind = 'p'
)

// subscriptionKey is the key of a subscription's configuration or progress:
//
//	kind account 0x00 name 0x00
func subscriptionKey(kind byte, account, name string) []byte {
	return append(append(append(append([]byte{kind}, account...), 0), name...), 0)
}

func parseSubscriptionKey(k []byte) (kind byte, account, name string, err error) {
	if len(k) < 2 || k[len(k)-1] != 0 || k[0] != configKind && k[0] != progressKind {
		return 0, "", "", ErrKey
	}
	a, n, ok := bytes.Cut(k[1:len(k)-1], []byte{0})
	if !ok || len(a) == 0 || len(n) == 0 || bytes.IndexByte(n, 0) >= 0 {
		return 0, "", "", ErrKey
	}
	return k[0], string(a), string(n), nil
}

// IsSubscription reports whether a key of the subscriptions has a configuration, and not the progress.
func IsSubscription(k []byte) bool { return len(k) > 0 && k[0] == configKind }

// CheckSubscription checks a key of the subscriptions in bucket.
func CheckSubscription(tx *store.Tx, bucket store.Bucket, k []byte) error {
	kind, account, name, err := parseSubscriptionKey(k)
	if err == nil && kind == progressKind && tx.Get(bucket, subscriptionKey(configKind, account, name)) == nil {
		err = errors.New("the progress of a subscription that does not exist")
	}
	return err
}

// Subscribed reports whether an account has a subscription, so that its events are logged.
func (l *Log) Subscribed(tx *store.Tx, account string) bool {
	if l.Shared { // another node may have added a subscription just now
		scope := append(append([]byte{configKind}, account...), 0)
		k, _ := tx.Cursor(l.Subscriptions).Seek(scope)
		return bytes.HasPrefix(k, scope)
	}
	return (*l.subscribers.Load())[account] > 0
}

// count counts the subscriptions of each account.
func (l *Log) count() error {
	list, err := l.List()
	if err != nil {
		return err
	}
	accounts := map[string]int{}
	for _, s := range list {
		accounts[s.Account]++
	}
	l.subscribers.Store(&accounts)
	return nil
}

// List returns all subscriptions, by account and name.
func (l *Log) List() (list []Subscription, err error) {
	err = l.DB.View(func(tx *store.Tx) error {
		list = nil
		cur := tx.Cursor(l.Subscriptions)
		for k, v := cur.Seek([]byte{configKind}); IsSubscription(k); k, v = cur.Next() {
			_, account, name, err := parseSubscriptionKey(k)
			if err != nil {
				return err
			}
			list = append(list, Subscription{Account: account, Name: name, Config: bytes.Clone(v),
				Progress: bytes.Clone(tx.Get(l.Subscriptions, subscriptionKey(progressKind, account, name)))})
		}
		return nil
	})
	return list, err
}

// Subscribe stores a subscription that does not exist. It begins with the next event: progress makes its initial
// progress from the number of the last one, and may be called twice. It fails with [ErrSubscriptionExists].
func (l *Log) Subscribe(account, name string, config []byte, progress func(last uint64) []byte) error {
	return l.change(account, name, true, func(tx *store.Tx, exists bool) error {
		if exists {
			return ErrSubscriptionExists
		}
		tx.Put(l.Subscriptions, subscriptionKey(configKind, account, name), config)
		tx.Put(l.Subscriptions, subscriptionKey(progressKind, account, name), progress(l.Last(tx)))
		return nil
	})
}

// Unsubscribe deletes a subscription. It fails with [ErrSubscriptionNotFound].
func (l *Log) Unsubscribe(account, name string) error {
	return l.change(account, name, true, func(tx *store.Tx, exists bool) error {
		if !exists {
			return ErrSubscriptionNotFound
		}
		tx.Delete(l.Subscriptions, subscriptionKey(configKind, account, name))
		tx.Delete(l.Subscriptions, subscriptionKey(progressKind, account, name))
		return nil
	})
}

// Set stores what is not nil of config and progress. It fails with [ErrSubscriptionNotFound].
func (l *Log) Set(account, name string, config, progress []byte) error {
	return l.change(account, name, false, func(tx *store.Tx, exists bool) error {
		if !exists {
			return ErrSubscriptionNotFound
		}
		if config != nil {
			tx.Put(l.Subscriptions, subscriptionKey(configKind, account, name), config)
		}
		if progress != nil {
			tx.Put(l.Subscriptions, subscriptionKey(progressKind, account, name), progress)
		}
		return nil
	})
}

// change runs fn in a transaction with whether a subscription exists. recount is set if their number may change.
func (l *Log) change(account, name string, recount bool, fn func(tx *store.Tx, exists bool) error) error {
	if recount {
		l.subscribing.Lock()
		defer l.subscribing.Unlock()
	}
	err := l.DB.Update(func(tx *store.Tx) error {
		if err := l.Check(tx); err != nil {
			return err
		}
		return fn(tx, tx.Get(l.Subscriptions, subscriptionKey(configKind, account, name)) != nil)
	})
	if err != nil || !recount {
		return err
	}
	return l.count()
}
