package eventlog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// ErrRecord means that the record of a change cannot be read.
var ErrRecord = errors.New("event log: damaged record")

// MaxRequestID is the maximum length of a stored client request ID, in bytes.
const MaxRequestID = 256

// FlushWithClose is the operation of a flush that says that a file is written completely; see Origin.Operation.
const FlushWithClose = "FlushWithClose"

// Origin is the origin of a change. The zero value is background work.
type Origin struct {
	// Operation is the name of the operation in the REST reference.
	Operation                  string
	RequestID, ClientRequestID string
	// Base is the address of the account as the client wrote it, without a slash at its end.
	Base string
}

// Change is an event about a queue or table. Their changes are not part of a transaction of this database, so such an
// event is stored before the change, as an intent, and settled after it: confirmed, kept without knowledge of the
// outcome, or removed. So no change lacks its event, wherever the process is killed.
//
// Readers of the log wait at an intent of this process, which is settled when its request ends. An intent of an earlier
// process has an unknown outcome and is read as such. In a cluster it may also be of another node: readers wait for it
// as long as a request may take.
//
// Its record is a JSON object; the records of blobs begin with another byte.
type Change struct {
	Origin
	At ticks.Ticks
	// Type and Subject are those that subscribers get. Data is a JSON object.
	Type, Subject string
	Data          json.RawMessage
	// Confirmed is set if the change was made. Otherwise its outcome is not known.
	Confirmed bool
	// Session is the process that has not settled the event, 0 for an event that is settled.
	Session uint64 `json:",omitempty"`
}

func (c Change) encode() ([]byte, error) {
	c.ClientRequestID = c.ClientRequestID[:min(len(c.ClientRequestID), MaxRequestID)]
	return json.Marshal(&c)
}

func decodeChange(v []byte) (*Change, error) {
	c := &Change{}
	if err := json.Unmarshal(v, c); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRecord, err)
	}
	if c.Type == "" || !bytes.HasPrefix(c.Data, []byte("{")) {
		return nil, ErrRecord
	}
	return c, nil
}

// Begin durably adds intents to the log of an account, before the changes that they describe, and returns their
// numbers, in order. Each must be settled.
func (l *Log) Begin(account string, list []Change) ([]uint64, error) {
	list = slices.Clone(list)
	for i := range list {
		list[i].Session = l.session
	}
	var drawn []uint64
	numbers, err := l.add(account, list, func(number uint64) { drawn = append(drawn, number) })
	if err != nil {
		// If the outcome is unknown, they may be in the log, and nothing settles them.
		for _, number := range drawn {
			l.unsettled.Store(string(Key(account, number)), nil)
		}
	}
	return numbers, err
}

// BeginFor is Begin for another process, whose session the intents have, see [NewSession].
func (l *Log) BeginFor(account string, list []Change) ([]uint64, error) {
	return l.add(account, list, func(uint64) {})
}

// add adds events to the log. drew is called with each number that is drawn.
func (l *Log) add(account string, list []Change, drew func(number uint64)) (numbers []uint64, err error) {
	records := make([][]byte, len(list))
	for i, c := range list {
		if records[i], err = c.encode(); err != nil {
			return nil, err
		}
	}
	err = l.DB.Update(func(tx *store.Tx) error {
		numbers = make([]uint64, len(list))
		for i := range list {
			numbers[i] = l.Next(tx)
			drew(numbers[i])
			tx.Put(l.Events, Key(account, numbers[i]), records[i])
		}
		return nil
	})
	return numbers, err
}

// Settled is the outcome of an intent.
type Settled struct {
	Number uint64
	// Removed is set if the change was not made. Otherwise Change replaces what was stored.
	Removed bool
	Change  Change
}

// Settle stores the outcome of intents. Events that are no longer in the log are ignored. After an error, the events
// are read with an unknown outcome.
func (l *Log) Settle(account string, list []Settled) error {
	err := l.settle(account, list)
	if err != nil {
		for i := range list {
			l.unsettled.Store(string(Key(account, list[i].Number)), nil)
		}
	}
	l.Notify(account)
	return err
}

func (l *Log) settle(account string, list []Settled) error {
	records := make([][]byte, len(list))
	for i := range list {
		var err error
		if records[i], err = list[i].Change.encode(); err != nil {
			return err
		}
	}
	return l.DB.Update(func(tx *store.Tx) error {
		for i := range list {
			key := Key(account, list[i].Number)
			switch {
			case tx.Get(l.Events, key) == nil:
			case list[i].Removed:
				tx.Delete(l.Events, key)
			default:
				tx.Put(l.Events, key, records[i])
			}
		}
		return nil
	})
}

// intentPatience is the time that a reader waits for another node to settle an intent: longer than a change of a queue
// or table and the settlement take, with their retries.
const intentPatience = time.Minute

// pending reports whether a request may still decide about an entry.
func (l *Log) pending(k []byte, c *Change) bool {
	switch {
	case c == nil || c.Session == 0:
		return false
	case c.Session == l.session:
		return !l.isUnsettled(k)
	}
	return l.Shared && l.intents.waits(string(k), time.Now())
}

// isUnsettled reports whether an intent of this process could not be settled: readers do not wait for it.
func (l *Log) isUnsettled(k []byte) bool {
	_, ok := l.unsettled.Load(string(k))
	return ok
}

// seenIntents are the intents of other nodes for which readers wait, with the times at which this node first saw them.
type seenIntents struct {
	mu    sync.Mutex // guards first
	first map[string]time.Time
}

// waits reports whether an intent was first seen less than intentPatience ago.
func (s *seenIntents) waits(key string, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	first, ok := s.first[key]
	if !ok {
		if s.first == nil {
			s.first = map[string]time.Time{}
		}
		// Most were settled meanwhile. Others are read again soon, or were trimmed.
		maps.DeleteFunc(s.first, func(_ string, at time.Time) bool { return now.Sub(at) > 10*intentPatience })
		s.first[key] = now
		return true
	}
	return now.Sub(first) < intentPatience
}
