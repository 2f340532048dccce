package state

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// The event log also has changes of queues and tables, so that a subscription has one order and one position for
// everything. Queues are not in this database, so such an event cannot be part of the change's transaction. It is
// stored before the change, as an intent, and settled after it: confirmed, kept without knowledge of the outcome, or
// removed. So no change lacks its event, wherever the process is killed.
//
// Readers of the log wait at an intent of this process, which is settled when its request ends. An intent of an earlier
// process has an unknown outcome and is read as such. In a cluster it may also be of another node: readers wait for it
// as long as a request may take.

// ForeignEvent is an event of another service.
type ForeignEvent struct {
	// Type and Subject are those that subscribers get. Data is a JSON object.
	Type, Subject string
	Data          []byte
	// Confirmed is set if the change was made. Otherwise its outcome is not known.
	Confirmed bool
	// session is the process that has not settled the event, 0 for an event that is settled.
	session uint64
}

// eventForeign is the kind of the records of foreign events. It is not a kind of a blob's event.
const eventForeign event = 0x40

// Intent is a foreign event before its change.
type Intent struct {
	Origin
	At ticks.Ticks
	ForeignEvent
}

// newSession identifies this process in intents. It is not 0.
func newSession() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return binary.BigEndian.Uint64(b[:]) | 1
}

// isUnsettled reports whether an intent of this process could not be settled: readers do not wait for it.
func (s *Store) isUnsettled(k []byte) bool {
	_, ok := s.unsettled.Load(string(k))
	return ok
}

// LogIntents durably adds intents to the log of an account and returns their numbers, in order.
func (s *Store) LogIntents(account string, list []Intent) (numbers []uint64, err error) {
	err = s.db.Update(func(tx *store.Tx) error {
		numbers = make([]uint64, len(list))
		for i := range list {
			n := nextID(tx)
			f := list[i].event()
			f.Foreign.session = s.session
			tx.Put(eventsBucket, eventKey(account, n), f.encode())
			numbers[i] = n
		}
		return nil
	})
	return numbers, err
}

// Settled is the outcome of an intent.
type Settled struct {
	Number uint64
	// Removed is set if the change was not made. Otherwise Intent replaces what was stored.
	Removed bool
	Intent  Intent
}

// SettleIntents stores the outcome of intents. Events that are no longer in the log are ignored. After an error, the
// events are read with an unknown outcome.
func (s *Store) SettleIntents(account string, list []Settled) error {
	err := s.db.Update(func(tx *store.Tx) error {
		for i := range list {
			key := eventKey(account, list[i].Number)
			switch {
			case tx.Get(eventsBucket, key) == nil:
			case list[i].Removed:
				tx.Delete(eventsBucket, key)
			default:
				f := list[i].Intent.event()
				tx.Put(eventsBucket, key, f.encode())
			}
		}
		return nil
	})
	if err != nil {
		for i := range list {
			s.unsettled.Store(string(eventKey(account, list[i].Number)), nil)
		}
	}
	if s.eventLogged != nil {
		s.eventLogged(account)
	}
	return err
}

// event is the intent as an entry of the log.
func (i *Intent) event() Event {
	foreign := i.ForeignEvent
	i.ClientRequestID = i.ClientRequestID[:min(len(i.ClientRequestID), maxEventRequestID)]
	return Event{kind: eventForeign, Origin: i.Origin, At: i.At, Foreign: &foreign}
}

// foreignTexts are the fields that are strings, in the order in which they are stored.
func (f *Event) foreignTexts() [6]*string {
	return [...]*string{&f.Operation, &f.RequestID, &f.ClientRequestID, &f.Base, &f.Foreign.Type, &f.Foreign.Subject}
}

// encodeForeign appends a foreign event after its kind:
//
//	the texts | time, uvarint (ticks) | session, uvarint | 1 if confirmed, else 0 | data
func (f *Event) encodeForeign(e *encoder) {
	for _, s := range f.foreignTexts() {
		e.string(*s)
	}
	e.uvarint(uint64(f.At))
	e.uvarint(f.Foreign.session)
	e.uvarint(map[bool]uint64{true: 1}[f.Foreign.Confirmed])
	e.string(string(f.Foreign.Data))
}

func (f *Event) decodeForeign(d *decoder) error {
	f.Foreign = &ForeignEvent{}
	for _, s := range f.foreignTexts() {
		*s = d.string()
	}
	f.At = ticks.Ticks(d.uint())
	f.Foreign.session = d.uint()
	f.Foreign.Confirmed = d.uint() == 1
	f.Foreign.Data = []byte(d.string())
	if d.err() == nil && (d.more() || f.Foreign.Type == "" || !bytes.HasPrefix(f.Foreign.Data, []byte("{"))) {
		return fmt.Errorf("%w: event %d", errRecord, f.Sequence)
	}
	return d.err()
}

// intentPatience is the time that a reader waits for another node to settle an intent: longer than a change of a queue
// or table and the settlement take, with their retries.
const intentPatience = time.Minute

// pending reports whether a request may still decide about the event.
func (s *Store) pending(k []byte, f *Event) bool {
	switch {
	case f.Foreign == nil || f.Foreign.session == 0:
		return false
	case f.Foreign.session == s.session:
		return !s.isUnsettled(k)
	}
	return s.replicated && s.intents.waits(string(k), time.Now())
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
