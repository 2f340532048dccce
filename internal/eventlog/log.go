// Package eventlog keeps the events that subscriptions wait for, of all services, in the database of the Blob service.
//
// A change of a blob adds its event in its own transaction, as a record that only the Blob service reads ([Entry]).
// Queues and tables are in other databases, so that their changes cannot: they store an intent before the change and
// settle it afterwards ([Log.Begin], [Log.Settle]). Either way an acknowledged change has its event.
//
// The log is apart from the change feed of blobs, since both are read at a pace of their own: the change feed removes
// an event once it is in a file, the log once every subscription of the account has finished with it.
//
// An account has a log while it has a subscription. Subscriptions are stored beside the log, so a write and the
// subscriptions that exist at that moment are one state: a write that was acknowledged after a subscription was created
// is in the log.
//
// In a cluster one node delivers the events of all. The transactions that change subscriptions and their progress, and
// that trim the log, fail on another node (Config.Check), so that a node that was paused while it delivered does no
// harm when it continues.
//
// Where to start: [Log].
package eventlog

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// maxTrimmed is the maximum number of events that one transaction removes from the log.
const maxTrimmed = 1000

// ErrKey means that a key of the log or of the subscriptions cannot be parsed.
var ErrKey = errors.New("event log: damaged key")

// Config configures a [Log]. All fields but Notify are required.
type Config struct {
	DB *store.DB
	// Events and Subscriptions are the buckets of the log.
	Events, Subscriptions store.Bucket
	// Next draws the number of an event, and Last returns the last one that was drawn.
	Next, Last func(*store.Tx) uint64
	// Check fails if another node delivers the events.
	Check func(*store.Tx) error
	// Shared is set if other processes write to the database as well: the nodes of a cluster.
	Shared bool
	// Notify is called with an account after events of it have been settled. It must not block.
	Notify func(account string)
}

// Log is the event log. It is safe for concurrent use.
type Log struct {
	Config
	// subscribers counts the subscriptions of each account. subscribing guards its changes.
	subscribers atomic.Pointer[map[string]int]
	subscribing sync.Mutex
	// session identifies this process in intents; unsettled has the keys of those that could not be settled.
	session   uint64
	unsettled sync.Map
	intents   seenIntents
}

// Open returns the log in a database.
func Open(c Config) (*Log, error) {
	l := &Log{Config: c, session: NewSession()}
	if l.Notify == nil {
		l.Notify = func(string) {}
	}
	return l, l.count()
}

// NewSession returns a number that identifies a process in intents.
func NewSession() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return binary.BigEndian.Uint64(b[:]) | 1
}

// Entry is an event in the log.
type Entry struct {
	Account string
	// Number orders the events of all accounts by their commits.
	Number uint64
	// Change is a change of a queue or table. If it is nil, Record is what the Blob service stored.
	Change *Change
	Record []byte
}

// Key is the key of an entry:
//
//	account 0x00 number (8 bytes, big-endian)
func Key(account string, number uint64) []byte {
	return binary.BigEndian.AppendUint64(append([]byte(account), 0), number)
}

// ParseKey is the inverse of [Key].
func ParseKey(k []byte) (account string, number uint64, err error) {
	n := len(k) - 9
	if n < 1 || k[n] != 0 {
		return "", 0, ErrKey
	}
	return string(k[:n]), binary.BigEndian.Uint64(k[n+1:]), nil
}

// ParseEntry returns the entry of a key and a value, which may belong to a transaction.
func ParseEntry(k, v []byte) (e Entry, err error) {
	if e.Account, e.Number, err = ParseKey(k); err != nil {
		return e, err
	}
	if len(v) > 0 && v[0] == '{' {
		e.Change, err = decodeChange(v)
		return e, err
	}
	e.Record = bytes.Clone(v)
	return e, nil
}

// LastNumber returns a number that no event committed so far exceeds.
func (l *Log) LastNumber() (last uint64, err error) {
	err = l.DB.View(func(tx *store.Tx) error {
		last = l.Last(tx)
		return nil
	})
	return last, err
}

// Read returns the events of an account that follow the number after: at most n, no more after size bytes, and none
// from the first one on about which a request still decides. upTo is the number up to which list is complete.
func (l *Log) Read(account string, after uint64, n, size int) (list []Entry, upTo uint64, err error) {
	err = l.DB.View(func(tx *store.Tx) error {
		list, upTo = nil, l.Last(tx)
		scope := append([]byte(account), 0)
		cur := tx.Cursor(l.Events)
		sum := 0
		for k, v := cur.Seek(Key(account, after+1)); k != nil && bytes.HasPrefix(k, scope); k, v = cur.Next() {
			if len(list) == n || sum > size {
				upTo = list[len(list)-1].Number
				break
			}
			e, err := ParseEntry(k, v)
			if err != nil {
				return err
			}
			if l.pending(k, e.Change) {
				upTo = e.Number - 1
				break
			}
			list, sum = append(list, e), sum+len(v)
		}
		return nil
	})
	return list, upTo, err
}

// Get returns one event of an account. ok is false if the log does not have it.
func (l *Log) Get(account string, number uint64) (e Entry, ok bool, err error) {
	err = l.DB.View(func(tx *store.Tx) (err error) {
		key := Key(account, number)
		v := tx.Get(l.Events, key)
		if ok = v != nil; ok {
			e, err = ParseEntry(key, v)
		}
		return err
	})
	return e, ok, err
}

// Trim removes the events of an account up to a number, some at a time. more is set if there are others.
func (l *Log) Trim(account string, upTo uint64) (more bool, err error) {
	var keys [][]byte
	err = l.DB.View(func(tx *store.Tx) error {
		keys, more = nil, false
		end := Key(account, upTo)
		cur := tx.Cursor(l.Events)
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
	return more, l.DB.Update(func(tx *store.Tx) error {
		if err := l.Check(tx); err != nil { // the other node may have subscriptions of which this one does not know
			return err
		}
		for _, k := range keys {
			tx.Delete(l.Events, k)
		}
		return nil
	})
}

// ID identifies an event: the request's ID with the event's number in place of its last digits.
func ID(requestID string, number uint64) string {
	if len(requestID) < 24 {
		requestID = "00000000-0000-0000-0000-"
	}
	return fmt.Sprintf("%s%012x", requestID[:24], number&(1<<48-1))
}

// Sequencer orders the events of a resource as strings.
func Sequencer(number uint64) string { return fmt.Sprintf("%016x%016x%016x", 1, 0, number) }

// Topic is an account as Azure Resource Manager names it, the source of its events.
func Topic(account string) string {
	return "/subscriptions/00000000-0000-0000-0000-000000000000/resourceGroups/lazuli/providers/Microsoft.Storage/" +
		"storageAccounts/" + account
}
