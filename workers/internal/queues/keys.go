package queues

import (
	"slices"
	"sync"
)

// KeyLimit limits concurrency per key, first in, first out.
type KeyLimit struct {
	most int

	mu   sync.Mutex
	keys map[string]*keyTurns
}

type keyTurns struct {
	inWork  int
	waiting []chan struct{} // closed when the message is admitted
}

// NewKeyLimit returns a limit of most messages of one key, at least 1.
func NewKeyLimit(most int) *KeyLimit { return &KeyLimit{most: most, keys: make(map[string]*keyTurns)} }

// Join admits a message and returns nil, or returns a channel that is closed when the message is admitted. Messages are
// admitted in the order of the calls.
func (l *KeyLimit) Join(key string) chan struct{} {
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

// Leave removes a message, which may still be waiting. turn is the result of Join.
func (l *KeyLimit) Leave(key string, turn chan struct{}) {
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
func (l *KeyLimit) pass(key string, k *keyTurns) {
	if len(k.waiting) > 0 {
		close(k.waiting[0])
		k.waiting = k.waiting[1:]
		return
	}
	if k.inWork--; k.inWork == 0 {
		delete(l.keys, key)
	}
}
