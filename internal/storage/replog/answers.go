package replog

import (
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// answers receives the answers to reads, which have several messages each, by one subscription. With a subscription for
// each read, the node's server would announce it to every other server of the cluster, and withdraw it: more messages
// than the read itself, which the node's server answers.
type answers struct {
	mu      sync.Mutex // guards the rest
	sub     *nats.Subscription
	prefix  string // of the subjects of answers
	last    uint64 // number of the last read
	waiting map[string]*answer
	ended   bool
}

// answer receives the messages of one answer.
type answer struct {
	subject  string
	messages chan *nats.Msg // closed when no more come
}

// open returns where an answer of up to n messages, and one that says that it is at its end, will arrive. The caller
// closes it.
func (a *answers) open(conn *nats.Conn, n int) (*answer, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended {
		return nil, ErrClosed
	}
	if a.sub == nil {
		a.prefix, a.waiting = nats.NewInbox()+".", map[string]*answer{}
		sub, err := conn.Subscribe(a.prefix+"*", a.received)
		if err != nil {
			return nil, err
		}
		a.sub = sub
	}
	a.last++
	key := strconv.FormatUint(a.last, 36)
	// The room is for everything that may arrive: received must not wait, since the answers of all reads come through it.
	found := &answer{subject: a.prefix + key, messages: make(chan *nats.Msg, n+1)}
	a.waiting[key] = found
	return found, nil
}

// received passes a message on to the read that waits for it. What comes after its end is dropped.
func (a *answers) received(m *nats.Msg) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if found := a.waiting[strings.TrimPrefix(m.Subject, a.prefix)]; found != nil {
		select {
		case found.messages <- m:
		default: // more than was asked for
		}
	}
}

func (a *answers) close(found *answer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.waiting, strings.TrimPrefix(found.subject, a.prefix))
}

// end ends all reads, with ErrClosed.
func (a *answers) end() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ended = true
	for _, found := range a.waiting {
		close(found.messages)
	}
	clear(a.waiting)
	if a.sub == nil {
		return nil
	}
	return a.sub.Unsubscribe()
}

// next returns the next message of the answer. Errors: nats.ErrTimeout, nats.ErrNoResponders, ErrClosed.
func (a *answer) next(timeout time.Duration) (*nats.Msg, error) {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case m, open := <-a.messages:
		if !open {
			return nil, ErrClosed
		}
		if len(m.Data) == 0 && m.Header.Get(headerStatus) == "503" {
			return nil, nats.ErrNoResponders
		}
		return m, nil
	case <-timer.C:
		return nil, nats.ErrTimeout
	}
}
