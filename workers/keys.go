package workers

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// ConcurrencyPerKey lets at most n messages with the same key be in work at once, on one instance; with n = 1 the messages of a key
// are handled one after another, in the order in which they came. key is called with the body, decoded from JSON as a T, before the
// handler; it must be quick. A body that is not a T, and an empty key, are not limited.
//
// A message that waits for its key's turn counts as in work: its lease is renewed, and it takes one of the places that WithConcurrency
// gives. So give enough of them for several keys. Its timeout begins with its turn. At a stop it is given back without having counted as an attempt
// that failed. Other instances have limits of their own.
func ConcurrencyPerKey[T any](key func(T) string, n int) QueueOption {
	return queueOption(func(s *settings) {
		s.perKey = n
		s.key = nil
		if key != nil {
			s.key = func(body []byte) string {
				var v T
				if json.Unmarshal(body, &v) != nil {
					return ""
				}
				return key(v)
			}
		}
	})
}

// validateKeys names what is wrong with the settings of ConcurrencyPerKey.
func (s settings) validateKeys() error {
	switch {
	case s.perKey == 0 && s.key == nil:
		return nil
	case s.key == nil:
		return errors.New("concurrency per key without a function that tells the key")
	case s.perKey < 1:
		return fmt.Errorf("concurrency per key %d is less than 1", s.perKey)
	}
	return nil
}

// errNotBegun: the app stopped before the message had its key's turn.
var errNotBegun = errors.New("workers: the app is stopping, and the message was not begun")

// keyLimit hands out the turns of keys, first come first served.
type keyLimit struct {
	most int

	mu   sync.Mutex
	keys map[string]*keyTurns
}

type keyTurns struct {
	inWork  int
	waiting []chan struct{} // closed when it is its turn
}

func newKeyLimit(most int) *keyLimit { return &keyLimit{most: most, keys: make(map[string]*keyTurns)} }

// join takes a turn at once and returns nil, or returns what to wait for. The order of calls is that of the turns.
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

// leave ends a turn, be it one that was waited for and has not come. turn is what join returned.
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

// pass hands a turn to who waits longest, or takes it back.
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
