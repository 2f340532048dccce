package queue

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// Message is a message as returned to callers.
type Message struct {
	ID ID
	State
	Receipt Receipt
	Body    []byte
}

// Queue is a name of a queue, which may exist or not: its operations return [ErrQueueNotFound] if it does not. The
// callers pass the current time.
type Queue struct {
	// Account and Name identify the queue.
	Account, Name string

	store *Store
	key   []byte
}

// Queue returns the queue with a name.
func (s *Store) Queue(account, name string) *Queue {
	return &Queue{Account: account, Name: name, store: s, key: queueKey(account, name)}
}

// id returns the id of the queue.
func (q *Queue) id(tx *store.Tx) (queueID, error) {
	value := tx.Get(bucketQueues, q.key)
	if value == nil {
		return 0, ErrQueueNotFound
	}
	if len(value) < 8 {
		return 0, fmt.Errorf("%w: the record of queue %s", ErrDamaged, q.Name)
	}
	return queueID(binary.BigEndian.Uint64(value)), nil
}

// update runs fn in a transaction; see [store.DB.Update].
func (q *Queue) update(what string, fn func(tx *store.Tx, id queueID) error) error {
	note := what + " " + q.Account + "/" + q.Name
	return q.noted(q.store.db.UpdateFor(q.Account, func(tx *store.Tx) error {
		id, err := q.id(tx)
		if err == nil {
			tx.Note(note)
			err = fn(tx, id)
		}
		return err
	}))
}

// view runs fn on the current state; see [store.DB.View].
func (q *Queue) view(fn func(tx *store.Tx, id queueID) error) error {
	return q.noted(q.store.db.View(func(tx *store.Tx) error {
		id, err := q.id(tx)
		if err == nil {
			err = fn(tx, id)
		}
		return err
	}))
}

// noted counts the queue if it is damaged.
func (q *Queue) noted(err error) error {
	if !errors.Is(err, ErrDamaged) {
		return err
	}
	s := q.store
	s.mu.Lock()
	_, known := s.damaged[string(q.key)]
	s.damaged[string(q.key)] = struct{}{}
	s.mu.Unlock()
	if !known {
		s.log.Error("records of a queue cannot be read; `lazuli fsck` shows them", "account", q.Account, "queue", q.Name,
			"err", err)
	}
	return err
}

// changing begins the change of a number of messages.
func (q *Queue) changing(tx *store.Tx, id queueID, messages int) changing {
	return changing{tx, id, &q.store.hints, make([]byte, 0, messages*changingRoom)}
}

// stateOf returns the state of a message at a place.
func stateOf(key *visibleKey, p position, c *content) State {
	return State{Inserted: c.inserted, Expires: p.expires, NextVisible: key.visible(), DequeueCount: p.dequeues}
}

// content reads a message. ok is false if it cannot be read: it is set aside then.
func (q *Queue) content(tx *store.Tx, id queueID, number uint64) (c content, ok bool) {
	v, err := tx.Read(bucketMessages, messageKey(id, number))
	if err == nil {
		if c, ok = decodeContent(v); ok {
			return c, true
		}
		err = errors.New("its record is missing or too short")
	}
	s := q.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.aside[id] == nil {
		s.aside[id] = make(map[uint64]struct{})
	}
	if _, known := s.aside[id][number]; !known {
		s.aside[id][number] = struct{}{}
		s.log.Error("a message cannot be read and is set aside; `lazuli fsck` shows it", "account", q.Account, "queue",
			q.Name, "number", number, "err", err)
	}
	return c, false
}

// Clear deletes all messages, hidden ones included. The time does not depend on their number.
func (q *Queue) Clear() error {
	err := q.update("clear", func(tx *store.Tx, id queueID) error {
		_, info, err := decodeQueue(tx.Get(bucketQueues, q.key))
		if err != nil {
			return err
		}
		// The queue continues with a new id, under which there is nothing. The cleaner removes later what is under the old
		// one.
		tx.Put(bucketGarbage, id.key(), nil)
		return putQueue(tx, q.key, q.store.newID(tx), &info)
	})
	if err == nil {
		q.store.cleaner.Wake()
	}
	return err
}
