package events

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	mathrand "math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lazuli-storage/lazuli/internal/azure/changes"
	"github.com/lazuli-storage/lazuli/internal/azure/egress"
	"github.com/lazuli-storage/lazuli/internal/eventlog"
	"github.com/lazuli-storage/lazuli/internal/state/blob/replica"
)

// Config configures a [Manager].
type Config struct {
	// Logs are the event logs, with the subscriptions. Required.
	Logs Logs
	// Held are those of the logs whose events are delivered from the start, see [Manager.Take]; nil is all, for good.
	Held []*eventlog.Log
	// Deliverer names the node that delivers the events of an account whose log is not held; required with Held.
	Deliverer func(account string) string
	// Blob and Queue are the services, for dead letters and for queues. Required.
	Blob, Queue http.Handler
	// Changes records the changes of queues and tables; nil: their events cannot be had.
	Changes *changes.Recorder
	// Changed, if set, makes the services record what the subscriptions of an account want, and returns when they do; the
	// Manager leaves that to it. Nil: the Manager configures Changes.
	Changed func(account string)
	// Hosts are the hosts of webhooks; the zero value allows no host.
	Hosts egress.Policy
	// HasAccount reports whether an account exists. Required.
	HasAccount func(account string) bool
	// ValidationURL returns the address at which a person confirms a subscription; "" if no such address exists.
	ValidationURL func(account, name, code string) string
	// Now is the clock; nil is time.Now.
	Now func() time.Time
	// Jitter returns a number from 0 to 1; nil draws it at random.
	Jitter func() float64
	// Logger is for failures; nil is slog.Default().
	Logger *slog.Logger
}

// maxSubscriptions bounds the subscriptions of all accounts.
const maxSubscriptions = 100

// The errors of a Manager, in addition to [ErrInvalid] and [ErrHandshake].
var (
	ErrExists   = eventlog.ErrSubscriptionExists
	ErrNotFound = eventlog.ErrSubscriptionNotFound
	// ErrNotHere means that another node of the cluster delivers events now.
	ErrNotHere = replica.ErrNotWorker
	// ErrTooMany means that the server has as many subscriptions as it can.
	ErrTooMany = fmt.Errorf("the server has %d event subscriptions, and can have no more", maxSubscriptions)
	// ErrHost means that the server may not call the host of a webhook.
	ErrHost = errors.New("the server is not allowed to call the webhook's host; start lazuli with --allow-event-host " +
		"HOST:PORT, and with --allow-private-event-host for a private or loopback address. Without these options it calls " +
		"this machine alone, if all its listeners have loopback addresses")
	// ErrCode means that a validation code is wrong or has ended.
	ErrCode = errors.New("the validation code is wrong, or more than ten minutes old")
	// ErrUndelivered means that events were not delivered within the wait for them.
	ErrUndelivered = errors.New("events were not delivered in time")
)

// Manager delivers the events of all subscriptions. It is safe for concurrent use.
type Manager struct {
	Config
	couriers *couriers
	cancel   context.CancelFunc
	ctx      context.Context
	trims    chan struct{}
	trimmer  chan struct{} // closed when the trimmer has ended

	changing sync.Mutex // held while subscriptions are added or removed, and logs taken and dropped

	mu       sync.Mutex // guards the next fields
	runners  map[string]*runner
	finished map[*runner]uint64 // by what was stored
	// abandoned are the ends of the logs of accounts that have lost their last subscription.
	abandoned map[string]uint64
	held      map[*eventlog.Log]bool // nil if all are
}

// Start loads the subscriptions and delivers their events until Stop.
func Start(c Config) (*Manager, error) {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Jitter == nil {
		c.Jitter = mathrand.Float64
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.ValidationURL == nil {
		c.ValidationURL = func(string, string, string) string { return "" }
	}
	m := &Manager{Config: c, runners: map[string]*runner{}, finished: map[*runner]uint64{}, abandoned: map[string]uint64{},
		trims: make(chan struct{}, 1), trimmer: make(chan struct{})}
	m.couriers = newCouriers(m.Hosts.Client(responseTimeout), c.Blob, c.Queue)
	m.ctx, m.cancel = context.WithCancel(context.Background())
	logs := c.Logs.All
	if c.Held != nil {
		logs, m.held = c.Held, map[*eventlog.Log]bool{}
	}
	runners, err := m.load(logs)
	if err != nil {
		return nil, err
	}
	// All are loaded by now: after an error above, no runner was left running.
	for _, r := range runners {
		m.start(r)
	}
	for _, log := range c.Held {
		m.held[log] = true
	}
	m.recordChanges("")
	go m.trim()
	return m, nil
}

// load returns the runners of the subscriptions of logs, which do not run.
func (m *Manager) load(logs []*eventlog.Log) ([]*runner, error) {
	var runners []*runner
	for _, log := range logs {
		list, err := log.List()
		if err != nil {
			return nil, err
		}
		for _, s := range list {
			var rec record
			err := json.Unmarshal(s.Config, &rec)
			r := m.newRunner(&rec, log)
			if err == nil {
				err = r.load(s.Progress)
			}
			if err != nil {
				return nil, fmt.Errorf("event subscription %s of %s: %w", s.Name, s.Account, err)
			}
			runners = append(runners, r)
		}
	}
	return runners, nil
}

// Take begins to deliver the events of one more log; [Config.Held] was set. A log that is held is left as it is.
func (m *Manager) Take(log *eventlog.Log) error {
	m.changing.Lock()
	defer m.changing.Unlock()
	if m.holds(log) {
		return nil
	}
	// Before the log is held: after an error nothing has changed, and the caller tries again.
	runners, err := m.load([]*eventlog.Log{log})
	if err != nil {
		return err
	}
	for _, r := range runners {
		m.start(r)
	}
	m.mu.Lock()
	m.held[log] = true
	m.mu.Unlock()
	m.recordChanges("")
	return nil
}

// Drop ends the delivery of the events of a log that another node delivers from now on; [Config.Held] was set. Attempts
// under way are cancelled.
func (m *Manager) Drop(log *eventlog.Log) {
	m.changing.Lock()
	defer m.changing.Unlock()
	m.mu.Lock()
	delete(m.held, log)
	m.mu.Unlock()
	for _, r := range m.all() {
		if r.log != log {
			continue
		}
		// What a runner has delivered and not noted by now is delivered again by the other node.
		r.stop()
		<-r.done
		m.mu.Lock()
		delete(m.runners, key(r.sub.Account, r.sub.Name))
		delete(m.finished, r)
		m.mu.Unlock()
	}
	// The other node trims the log from now on.
	m.mu.Lock()
	maps.DeleteFunc(m.abandoned, func(account string, _ uint64) bool { return m.Logs.Of(account) == log })
	m.mu.Unlock()
}

// holds reports whether the events of a log are delivered here.
func (m *Manager) holds(log *eventlog.Log) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.held == nil || m.held[log]
}

// elsewhere returns [ErrNotHere], with the name of the node, if another node delivers the events of an account.
func (m *Manager) elsewhere(account string) error {
	if m.held == nil || m.holds(m.Logs.Of(account)) {
		return nil
	}
	if node := m.Deliverer(account); node != "" {
		return fmt.Errorf("%w: node %s delivers the events of account %s; use its admin listener", ErrNotHere, node, account)
	}
	return fmt.Errorf("%w, and its name is not known yet", ErrNotHere)
}

// Stop ends the delivery. Attempts under way are cancelled and made again after the next Start.
func (m *Manager) Stop() {
	m.cancel()
	for _, r := range m.all() {
		<-r.done
	}
	<-m.trimmer
	m.couriers.web.CloseIdleConnections()
}

func key(account, name string) string { return account + "/" + strings.ToLower(name) }

func (m *Manager) newRunner(rec *record, log *eventlog.Log) *runner {
	return &runner{manager: m, log: log, sub: rec.Subscription, state: rec.State, code: rec.Code, codeEnds: rec.CodeEnds,
		wake: make(chan struct{}, 1), done: make(chan struct{}), changed: make(chan struct{})}
}

func (m *Manager) start(r *runner) {
	var ctx context.Context
	ctx, r.stop = context.WithCancel(m.ctx)
	m.mu.Lock()
	m.runners[key(r.sub.Account, r.sub.Name)] = r
	m.finished[r] = r.lane.finished()
	m.mu.Unlock()
	go r.run(ctx)
}

// all returns the runners by account and name.
func (m *Manager) all() []*runner {
	m.mu.Lock()
	defer m.mu.Unlock()
	list := make([]*runner, 0, len(m.runners))
	for _, r := range m.runners {
		list = append(list, r)
	}
	slices.SortFunc(list, func(a, b *runner) int {
		return strings.Compare(key(a.sub.Account, a.sub.Name), key(b.sub.Account, b.sub.Name))
	})
	return list
}

// Wake makes the runners of an account look for events; "" is all accounts.
func (m *Manager) Wake(account string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.runners {
		if account == "" || r.sub.Account == account {
			r.nudge()
		}
	}
}

// List returns the subscriptions by account and name.
func (m *Manager) List() []Status {
	list := []Status{}
	for _, r := range m.all() {
		list = append(list, r.status())
	}
	return list
}

// Add adds a subscription once its endpoint has been validated. Events after Add has returned are delivered. It fails
// with an error that wraps [ErrInvalid], [ErrExists], [ErrTooMany], [ErrHost], [ErrHandshake] or [ErrNotHere]; nothing
// has changed then.
func (m *Manager) Add(ctx context.Context, s Subscription) (Status, error) {
	if err := s.normalize(); err != nil {
		return Status{}, err
	}
	if !m.HasAccount(s.Account) {
		return Status{}, invalid("account: %q does not exist", s.Account)
	}
	// This is held over the handshake, so that what is checked here is still true when the subscription is stored.
	m.changing.Lock()
	defer m.changing.Unlock()
	if err := m.elsewhere(s.Account); err != nil {
		return Status{}, err
	}
	log := m.Logs.Of(s.Account)
	if log == nil { // it has left this node meanwhile
		return Status{}, ErrNotHere
	}
	m.mu.Lock()
	count, taken := len(m.runners), m.runners[key(s.Account, s.Name)] != nil
	m.mu.Unlock()
	switch {
	case taken:
		return Status{}, ErrExists
	case count >= maxSubscriptions:
		return Status{}, ErrTooMany
	}
	if err := m.couriers.checkPlaces(ctx, &s); err != nil {
		return Status{}, err
	}
	rec := record{Subscription: s, Code: strings.ToLower(rand.Text()), CodeEnds: m.Now().Add(validationLifetime)}
	var err error
	rec.State, err = m.couriers.handshake(ctx, &s, rec.Code, m.ValidationURL(s.Account, s.Name, rec.Code), m.Now())
	if errors.Is(err, egress.ErrRefused) || errors.Is(err, egress.ErrNotPublic) {
		return Status{}, ErrHost
	}
	if err != nil {
		return Status{}, err
	}
	if rec.State == Succeeded {
		rec.Code = ""
	}
	r := m.newRunner(&rec, log)
	// The position is taken in the transaction that stores the subscription: no event is logged between the two.
	err = log.Subscribe(s.Account, s.Name, mustMarshal(&rec), func(last uint64) []byte {
		r.lane = lane{Position: last}
		return mustMarshal(&r.lane)
	})
	if err != nil {
		return Status{}, err
	}
	m.start(r)
	m.recordChanges(s.Account)
	return r.status(), nil
}

// Confirm validates the endpoint of a subscription by hand. It fails with [ErrNotFound], [ErrNotHere] or [ErrCode].
func (m *Manager) Confirm(account, name, code string) error {
	r := m.runner(account, name)
	if r == nil {
		return cmp.Or(m.elsewhere(account), ErrNotFound)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.code == "" || subtle.ConstantTimeCompare([]byte(r.code), []byte(code)) != 1 || m.Now().After(r.codeEnds) {
		return ErrCode
	}
	if err := r.log.Set(r.sub.Account, r.sub.Name,
		mustMarshal(&record{Subscription: r.sub, State: Succeeded}), nil); err != nil {
		return err
	}
	r.state, r.code = Succeeded, ""
	r.nudge()
	return nil
}

func (m *Manager) runner(account, name string) *runner {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.runners[key(account, name)]
}

// Remove removes a subscription; what it has not delivered is not delivered any more. It fails with [ErrNotFound] or
// [ErrNotHere].
func (m *Manager) Remove(account, name string) error {
	m.changing.Lock()
	defer m.changing.Unlock()
	r := m.runner(account, name)
	if r == nil {
		return cmp.Or(m.elsewhere(account), ErrNotFound)
	}
	// The record goes first. If that fails, nothing has changed and the runner goes on.
	if err := r.log.Unsubscribe(r.sub.Account, r.sub.Name); err != nil {
		return err
	}
	r.stop()
	<-r.done
	last, err := r.log.LastNumber()
	m.mu.Lock()
	delete(m.runners, key(account, name))
	delete(m.finished, r)
	m.abandoned[r.sub.Account] = last
	m.mu.Unlock()
	m.recordChanges(account)
	m.askTrim()
	return err
}

// Discard finishes all events of an account that were logged so far, without delivering them.
func (m *Manager) Discard(account string) error {
	log := m.Logs.Of(account)
	if log == nil {
		return nil // nothing of it is delivered here
	}
	last, err := log.LastNumber()
	if err != nil {
		return err
	}
	for _, r := range m.all() {
		if r.sub.Account == account {
			r.mu.Lock()
			r.lane.discard(last)
			r.noteChange()
			r.mu.Unlock()
			r.nudge()
		}
	}
	return nil
}

// Flushed is the result of a flush.
type Flushed struct {
	// Undelivered are the subscriptions that still had events at the end, as account/name, with their last errors.
	Undelivered map[string]string `json:"undelivered,omitempty"`
}

// Flush waits until all events that were logged so far are finished: delivered, dead-lettered or dropped. Events that
// wait for another attempt get one at once. If ctx ends first, it fails with [ErrUndelivered].
func (m *Manager) Flush(ctx context.Context) (Flushed, error) {
	// The end is fixed first: events that are logged during the wait are not waited for, or a busy account would never be
	// flushed.
	ends := map[*eventlog.Log]uint64{}
	for _, r := range m.all() {
		if _, known := ends[r.log]; known {
			continue
		}
		last, err := r.log.LastNumber()
		if err != nil {
			return Flushed{}, err
		}
		ends[r.log] = last
	}
	left := Flushed{}
	// First all lanes get their push, then each is waited for: one slow endpoint does not delay the others.
	for _, r := range m.all() {
		r.mu.Lock()
		r.lane.hurry()
		r.mu.Unlock()
		r.nudge()
	}
	for _, r := range m.all() {
		if r.await(ctx, ends[r.log]) {
			continue
		}
		if left.Undelivered == nil {
			left.Undelivered = map[string]string{}
		}
		s := r.status()
		left.Undelivered[s.Account+"/"+s.Name] = s.LastError
		// An endpoint that was never validated gets no event, so its last error is empty.
		if s.State != Succeeded {
			left.Undelivered[s.Account+"/"+s.Name] = "the endpoint has not been validated"
		}
	}
	if left.Undelivered != nil {
		return left, ErrUndelivered
	}
	return left, nil
}

// await waits until a runner has finished everything up to a number. It returns false if ctx ends before that.
func (r *runner) await(ctx context.Context, number uint64) bool {
	for {
		r.mu.Lock()
		finished, changed := r.lane.finished() >= number, r.changed
		r.mu.Unlock()
		if finished {
			return true
		}
		select {
		case <-changed:
		case <-r.done:
			return true // It was removed.
		case <-ctx.Done():
			return false
		}
	}
}

// stored notes up to which number a runner has finished, by its stored progress.
func (m *Manager) stored(r *runner, finished uint64) {
	m.mu.Lock()
	if _, ok := m.finished[r]; ok {
		m.finished[r] = finished
	}
	m.mu.Unlock()
	m.askTrim()
}

func (m *Manager) askTrim() {
	select {
	case m.trims <- struct{}{}:
	default:
	}
}

// trim removes from the log what all subscriptions of an account have finished, at most once a second.
func (m *Manager) trim() {
	defer close(m.trimmer)
	trimmed := map[string]uint64{}
	for {
		select {
		case <-m.ctx.Done():
			return
		case <-m.trims:
		}
		// An event is removed when all subscriptions of the account have read it.
		for account, upTo := range m.trimmable() {
			log := m.Logs.Of(account)
			// Trim removes a bounded number at a time, so that writers get the store in between.
			for more := trimmed[account] < upTo && log != nil; more && m.ctx.Err() == nil; {
				var err error
				if more, err = log.Trim(account, upTo); err != nil {
					m.Logger.Error("trimming the event log failed", "account", account, "err", err)
					break
				}
				if !more {
					trimmed[account] = upTo
				}
			}
		}
		// At most once a pause: each delivery would otherwise be followed by a write to the store.
		select {
		case <-m.ctx.Done():
			return
		case <-time.After(pollPause):
		}
	}
}

// trimmable returns, for each account, the number up to which its log is not needed any more.
func (m *Manager) trimmable() map[string]uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	accounts := maps.Clone(m.abandoned)
	clear(m.abandoned)
	used := map[string]bool{}
	// Where an account still has subscriptions, the one that has finished least decides, whatever was noted when another
	// was removed.
	for r, n := range m.finished {
		if old := accounts[r.sub.Account]; !used[r.sub.Account] || n < old {
			accounts[r.sub.Account] = n
		}
		used[r.sub.Account] = true
	}
	return accounts
}
