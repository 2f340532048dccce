package changes

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
)

// Log stores events.
type Log interface {
	// Begin durably stores the events of a request that has not changed anything, and returns their numbers.
	Begin(r *wire.Request, list []*Event) (numbers []uint64, err error)
	// End stores the outcome. After an error the events are delivered with an unknown outcome.
	End(r *wire.Request, numbers []uint64, list []*Event, o Outcome) error
}

// Outcome holds what is known about a change after its request.
type Outcome uint8

// The outcomes.
const (
	// Made: the change was made.
	Made Outcome = iota
	// Refused: the change was not made.
	Refused
	// Unknown: the change may have been made; the client got no success.
	Unknown
)

// Interest holds what the subscriptions of one account want.
type Interest struct {
	// Types are types of events.
	Types []string
	// Destinations are the queues to which events are delivered. Their own events would never end, and are not recorded.
	Destinations []string
}

// Recorder records changes. A nil Recorder, and one for which [Recorder.Configure] was not called, records nothing. It
// is safe for concurrent use.
type Recorder struct{ state atomic.Pointer[configuration] }

type configuration struct {
	log      Log
	accounts map[string]Interest
}

// Configure sets where events go, and what each account's subscriptions want. Accounts without interest cost their
// requests one map access.
func (rec *Recorder) Configure(log Log, accounts map[string]Interest) {
	rec.state.Store(&configuration{log, accounts})
}

// Wants reports whether an event of one of the types is recorded for an account.
func (rec *Recorder) Wants(account string, types ...string) bool {
	if rec == nil {
		return false
	}
	c := rec.state.Load()
	if c == nil {
		return false
	}
	wanted := c.accounts[account].Types
	return slices.ContainsFunc(types, func(t string) bool { return slices.Contains(wanted, t) })
}

// WantsQueue is like Wants, for events of a queue.
func (rec *Recorder) WantsQueue(account, queue string, types ...string) bool {
	return rec.Wants(account, types...) && !slices.Contains(rec.state.Load().accounts[account].Destinations, queue)
}

// Record calls change, which makes the change of a request and may complete the events. With an empty list it does
// nothing else. If the events cannot be stored before the change, it fails and does not call change.
func (rec *Recorder) Record(r *wire.Request, list []*Event, change func() error) error {
	if len(list) == 0 {
		return change()
	}
	log := rec.state.Load().log
	numbers, err := log.Begin(r, list)
	if err != nil {
		return fmt.Errorf("logging an event: %w", err)
	}
	outcome := Unknown
	defer func() { // also after a panic
		_ = log.End(r, numbers, list, outcome) // the log delivers the events with an unknown outcome then
	}()
	err = change()
	outcome = outcomeOf(err)
	for _, e := range list {
		e.Unchanged = e.Unchanged || !rec.Wants(r.Account, e.Type) // the change decided the type
	}
	return err
}

// outcomeOf returns what the answer to a request says about its change.
func outcomeOf(err error) Outcome {
	var e *wire.Error
	switch {
	case err == nil:
		return Made
	case errors.As(err, &e) && e.Status < http.StatusInternalServerError:
		return Refused
	}
	return Unknown
}
