package workers

import (
	"errors"
	"fmt"
	"slices"
	"sync"
)

// ConcurrencyPerKey limits the number of messages with the same key that one instance handles at the same time to n.
// With n = 1, messages with the same key are handled one after another, in the order in which they were received. key
// is called with the body, decoded from JSON as a T, before the handler; it must be fast. Messages whose body is not a
// T or whose key is empty are not limited.
//
// A message that waits for its key is in flight: its lease is renewed, and it counts towards the limit of
// WithConcurrency, which should be high enough for several keys. Its timeout starts when its handler is called. When
// the app stops, it is released, and the attempt does not count as failed. The limit applies to each instance
// separately.
func ConcurrencyPerKey[T any](key func(T) string, n int) QueueOption {
	return queueOption(func(s *settings) {
		s.perKey = n
		s.key = nil
		if key != nil {
			s.key = keyOf(key)
		}
	})
}

// validateKeys checks the settings of ConcurrencyPerKey.
func (s settings) validateKeys() error {
	switch {
	case s.perKey == 0 && s.key == nil:
		return nil
	case s.key == nil:
		return errors.New("concurrency per key: the key function is nil")
	case s.perKey < 1:
		return fmt.Errorf("concurrency per key %d is less than 1", s.perKey)
	}
	return nil
}

// errNotBegun means that the app stopped before the handler of a message that waited for its key was called.
var errNotBegun = errors.New("workers: the app stopped before the handler was called")

// keyLimit limits concurrency per key, first in, first out.
type keyLimit struct {
	most int

	mu   sync.Mutex
	keys map[string]*keyTurns
}

type keyTurns struct {
	inWork  int
	waiting []chan struct{} // closed when the message is admitted
}

func newKeyLimit(most int) *keyLimit { return &keyLimit{most: most, keys: make(map[string]*keyTurns)} }

// join admits a message and returns nil, or returns a channel that is closed when the message is admitted. Messages are
// admitted in the order of the calls.
func (l *keyLimit) join(key string) chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := l.keys[key]
	if k == nil {
		k = &keyTurns{}
		l.keys[key] = k
	}
	if k.inWork < l.most {
		k.inWork++
		return nil
	}
	turn := make(chan struct{})
	k.waiting = append(k.waiting, turn)
	return turn
}

// leave removes a message, which may still be waiting. turn is the result of join.
func (l *keyLimit) leave(key string, turn chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := l.keys[key]
	if i := slices.Index(k.waiting, turn); turn != nil && i >= 0 {
		k.waiting = slices.Delete(k.waiting, i, i+1)
		return
	}
	l.pass(key, k)
}

// pass admits the next waiting message of the key, if there is one.
func (l *keyLimit) pass(key string, k *keyTurns) {
	if len(k.waiting) > 0 {
		close(k.waiting[0])
		k.waiting = k.waiting[1:]
		return
	}
	if k.inWork--; k.inWork == 0 {
		delete(l.keys, key)
	}
}
