package handlerproc

import (
	"context"
	"fmt"
	"sync"
)

// Address is the address at which the handler takes invocations, while it runs.
type Address struct {
	// Suspect and Hangs have a token when MarkSuspect and Replace were called, for what keeps the handler running.
	Suspect, Hangs chan struct{}

	mu      sync.Mutex // guards the rest
	url     string     // of the handler, while it is ready; "http://127.0.0.1:port"
	changed chan struct{}
	fatal   error // no handler will ever be ready again
}

func newAddress() *Address {
	return &Address{Suspect: make(chan struct{}, 1), Hangs: make(chan struct{}, 1), changed: make(chan struct{})}
}

// Set says where the handler is: "" nowhere yet, and with fatal nowhere any more.
func (a *Address) Set(url string, fatal error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.url, a.fatal = url, fatal
	close(a.changed)
	a.changed = make(chan struct{})
}

// Await returns the handler's address as soon as it is ready.
func (a *Address) Await(ctx context.Context) (string, error) {
	for {
		a.mu.Lock()
		url, fatal, changed := a.url, a.fatal, a.changed
		a.mu.Unlock()
		switch {
		case fatal != nil:
			return "", fatal
		case url != "":
			return url, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return "", fmt.Errorf("the handler is not ready: %w", context.Cause(ctx))
		}
	}
}

// MarkSuspect records that a connection to the handler broke. It is not known for a moment whether the handler is
// alive; until then no more invocations are sent to it.
func (a *Address) MarkSuspect(url string) { a.leave(url, a.Suspect) }

// Replace ends the handler and starts another one. The handler's other invocations fail.
func (a *Address) Replace(url string) { a.leave(url, a.Hangs) }

// leave stops sending invocations to a handler, if it is still the current one. why receives a token.
func (a *Address) leave(url string, why chan<- struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.url != url {
		return
	}
	a.url = ""
	select {
	case why <- struct{}{}:
	default:
	}
}
