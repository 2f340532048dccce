package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"time"

	natsgo "github.com/nats-io/nats.go"

	"github.com/lazuli-storage/lazuli/internal/azure/changes"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/eventlog"
	"github.com/lazuli-storage/lazuli/internal/server/events"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// The subscriptions of an account, and the events of its queues and tables, are in the shard of its blobs, which a node
// with the queues or tables may not have. Such a node reads by calls what the subscriptions want, and stores events by
// calls: before a change, and with its outcome afterwards. A node that has the shard does the same, by calls to
// itself.

const (
	// interestReload is the time after which the subscriptions of a shard are read again without a reason, interestRetry
	// that after a failure.
	interestReload = 30 * time.Second
	interestRetry  = time.Second
	// interestWait bounds the wait of a request for subscriptions that are not known yet.
	interestWait = 5 * time.Second
	// interestSettle bounds the wait after a change of a subscription for the nodes that record changes.
	interestSettle = 5 * time.Second
	// eventCall bounds a call about events, and eventPatience its repetitions while no node takes it: longer than an
	// election takes.
	eventCall     = 10 * time.Second
	eventPatience = 10 * time.Second
	eventRetry    = 100 * time.Millisecond
	// subscribedSubject is the subject of messages between nodes with the number of a shard whose subscriptions have
	// changed. A node answers with its name when it knows the change.
	subscribedSubject = "lazuli.events.subscribed"
)

// eventOperations adds the operations for events. A node without Config.Events has them as well: it knows what is
// subscribed.
func (o *services) eventOperations(handle handleCall) {
	handle(http.MethodGet, "subscriptions", func(of *shard, w http.ResponseWriter, _ *http.Request) error {
		wanted, err := events.Interests(of.blobs.State.EventLog())
		if err != nil {
			return err
		}
		return answerCall(w, wanted)
	})
	handle(http.MethodGet, "deliverer", func(of *shard, w http.ResponseWriter, _ *http.Request) error {
		member := of.blobs.State.Membership
		if member.Worker() == member.Name() {
			return answerCall(w, o.node.Name())
		}
		return answerCall(w, of.deliverer())
	})
	handle(http.MethodPost, "events/{account}", func(of *shard, w http.ResponseWriter, r *http.Request) error {
		var list []eventlog.Change
		if err := json.NewDecoder(r.Body).Decode(&list); err != nil {
			return err
		}
		numbers, err := of.blobs.State.EventLog().BeginFor(r.PathValue("account"), list)
		if err != nil {
			return err
		}
		return answerCall(w, numbers)
	})
	handle(http.MethodPut, "events/{account}", func(of *shard, _ http.ResponseWriter, r *http.Request) error {
		var list []eventlog.Settled
		if err := json.NewDecoder(r.Body).Decode(&list); err != nil {
			return err
		}
		return of.blobs.State.EventLog().Settle(r.PathValue("account"), list)
	})
}

// interests keep what the event subscriptions of all shards want of the changes of queues and tables, and store the
// events. They implement [events.Intents].
type interests struct {
	open     *services
	recorder *changes.Recorder
	log      *slog.Logger
	session  uint64
	shards   []*interestsOf // by number

	mu sync.Mutex // guards what the recorder is configured with
}

// interestsOf are the interests of one shard.
type interestsOf struct {
	number int
	known  chan struct{} // closed when they were read first
	again  chan struct{} // they are to be read again

	wanted map[string]changes.Interest // guarded by interests.mu

	mu    sync.Mutex // guards asked
	asked []func()   // are called when they were read again
}

func newInterests(o *services, recorder *changes.Recorder, log *slog.Logger) *interests {
	i := &interests{open: o, recorder: recorder, log: log, session: eventlog.NewSession()}
	for n := range o.having.Load().numbered {
		i.shards = append(i.shards,
			&interestsOf{number: n, known: make(chan struct{}), again: make(chan struct{}, 1)})
	}
	return i
}

// nudge makes the subscriptions of a shard be read again.
func (i *interests) nudge(shard int) { i.shards[shard].ask(nil) }

// ask makes the interests be read again, and then calls done, if it is not nil.
func (s *interestsOf) ask(done func()) {
	if done != nil {
		s.mu.Lock()
		s.asked = append(s.asked, done)
		s.mu.Unlock()
	}
	select {
	case s.again <- struct{}{}:
	default:
	}
}

// run follows the subscriptions of all shards until ctx ends.
func (i *interests) run(ctx context.Context, running *sync.WaitGroup) error {
	conn := i.open.nats.Conn()
	sub, err := conn.Subscribe(subscribedSubject, func(m *natsgo.Msg) {
		n, err := strconv.Atoi(string(m.Data))
		if err != nil || n < 0 || n >= len(i.shards) {
			return
		}
		var done func()
		if m.Reply != "" {
			done = func() { _ = m.Respond([]byte(i.open.node.Name())) } // who asks does not wait without a limit
		}
		i.shards[n].ask(done)
	})
	if err != nil {
		return err
	}
	for _, s := range i.shards {
		running.Go(func() { i.follow(ctx, s) })
	}
	running.Go(func() {
		<-ctx.Done()
		_ = sub.Unsubscribe()
	})
	return nil
}

// follow keeps the interests of a shard as its subscriptions are, until ctx ends.
func (i *interests) follow(ctx context.Context, s *interestsOf) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	failing := false
	for ctx.Err() == nil {
		// Those who ask from now on may mean a later change than the one that is read.
		s.mu.Lock()
		asked := s.asked
		s.asked = nil
		s.mu.Unlock()
		err := i.read(ctx, s)
		pause := interestReload
		if err == nil {
			for _, done := range asked {
				done()
			}
		} else {
			s.mu.Lock()
			s.asked = append(asked, s.asked...)
			s.mu.Unlock()
			pause = interestRetry
			if !failing && ctx.Err() == nil {
				i.log.Warn("the event subscriptions of a shard cannot be read; trying again", "shard", s.number,
					"err", err)
			}
		}
		failing = err != nil
		timer.Reset(pause)
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-s.again:
		}
	}
}

// read reads what the subscriptions of a shard want.
func (i *interests) read(ctx context.Context, s *interestsOf) error {
	ctx, cancel := context.WithTimeout(ctx, eventCall)
	defer cancel()
	wanted := map[string]changes.Interest{}
	err := i.open.call(ctx, s.number, http.MethodGet, "subscriptions", nil, nil, &wanted)
	if err != nil && !errors.Is(err, errNoOperation) { // a release without the operation has no subscriptions
		return err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	first := s.wanted == nil
	if !first && reflect.DeepEqual(s.wanted, wanted) {
		return nil
	}
	s.wanted = wanted
	all := map[string]changes.Interest{}
	for _, s := range i.shards {
		maps.Copy(all, s.wanted) // the blobs of an account are in one shard
	}
	events.Configure(i.recorder, i, all)
	if first {
		close(s.known)
	} else if i.open.numbered(s.number) != nil {
		// This node has seen the change in the log. Others may not have heard of it from the one that made it.
		return i.open.nats.Conn().Publish(subscribedSubject, []byte(strconv.Itoa(s.number)))
	}
	return nil
}

// announce makes all nodes that serve read the subscriptions of an account's shard, and waits until they have.
func (i *interests) announce(account string) {
	ctx, cancel := context.WithTimeout(i.open.stopping, interestSettle)
	defer cancel()
	n := i.open.placed.Of(named[wire.Blob], account)
	conn := i.open.nats.Conn()
	inbox := conn.NewInbox()
	sub, err := conn.SubscribeSync(inbox)
	if err != nil {
		return
	}
	defer func() { _ = sub.Unsubscribe() }()
	if err := conn.PublishRequest(subscribedSubject, inbox, []byte(strconv.Itoa(n))); err != nil {
		return
	}
	missing := append(i.open.elsewhere.forward.Serving(), i.open.node.Name())
	for len(missing) > 0 {
		m, err := sub.NextMsgWithContext(ctx)
		if err != nil {
			i.log.Warn("not all nodes know a change of the event subscriptions yet; they read them again soon",
				"account", account, "nodes", missing, "err", err)
			return
		}
		missing = slices.DeleteFunc(missing, func(name string) bool { return name == string(m.Data) })
	}
}

// await waits until it is known what the subscriptions of an account want. It returns false if that takes too long.
func (i *interests) await(ctx context.Context, account string) bool {
	known := i.shards[i.open.placed.Of(named[wire.Blob], account)].known
	select {
	case <-known:
		return true
	default:
	}
	limit := time.NewTimer(interestWait)
	defer limit.Stop()
	select {
	case <-known:
		return true
	case <-limit.C:
	case <-ctx.Done():
	}
	return false
}

// knowsEvents waits for a request that this node serves until it is known whether its change has an event, see
// interests.await. n is the shard of the request.
func (o *services) knowsEvents(svc wire.Service, n int, account string, r *http.Request) bool {
	if o.eventNode == nil || o.eventNode.interests == nil || svc != wire.Queue && svc != wire.Table ||
		o.numbered(n) == nil || r.Method == http.MethodGet || r.Method == http.MethodHead ||
		r.Method == http.MethodOptions {
		return true
	}
	return o.eventNode.interests.await(r.Context(), account)
}

// Begin implements [events.Intents]. While no node takes the events, it tries again.
func (i *interests) Begin(account string, list []eventlog.Change) (numbers []uint64, err error) {
	list = slices.Clone(list)
	for n := range list {
		list[n].Session = i.session
	}
	// After an unknown outcome the events would be there twice.
	refused := func(err error) bool { return errors.Is(err, store.ErrUnavailable) }
	err = i.repeat(refused, func(ctx context.Context) error {
		return i.call(ctx, account, http.MethodPost, list, &numbers)
	})
	if err == nil && len(numbers) != len(list) {
		err = fmt.Errorf("%d events have %d numbers", len(list), len(numbers))
	}
	return numbers, err
}

// Settle implements [events.Intents]. While the outcome is not stored, it tries again: an event without one is
// delivered later, as unconfirmed.
func (i *interests) Settle(account string, list []eventlog.Settled) error {
	return i.repeat(func(err error) bool {
		return errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrUnknown)
	}, func(ctx context.Context) error {
		return i.call(ctx, account, http.MethodPut, list, nil)
	})
}

func (i *interests) call(ctx context.Context, account, method string, body, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, eventCall)
	defer cancel()
	return i.open.call(ctx, i.open.placed.Of(named[wire.Blob], account), method, "events/"+account, nil, body, answer)
}

// repeat makes a call until its error is not one after which it can be repeated, or for eventPatience.
func (i *interests) repeat(again func(error) bool, call func(context.Context) error) error {
	ctx := i.open.stopping
	for end := time.Now().Add(eventPatience); ; {
		err := call(ctx)
		if err == nil || !again(err) || ctx.Err() != nil || !time.Now().Before(end) {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(eventRetry):
		}
	}
}

// delivererOf names the other node that delivers the events of an account, "" if none is known.
func (o *services) delivererOf(account string) (name string) {
	if of := o.of(wire.Blob, account); of != nil && !of.leaving.Load() {
		return of.deliverer()
	}
	ctx, cancel := context.WithTimeout(o.stopping, eventCall)
	defer cancel()
	_ = o.call(ctx, o.placed.Of(named[wire.Blob], account), http.MethodGet, "deliverer", nil, nil, &name)
	return name
}

// delivery gives the delivery of events what it needs of the services.
func (o *services) delivery(s *Server, node *eventNode) {
	c := s.config
	node.logs = o.eventLogs()
	var changed func(account string)
	if node.interests != nil {
		changed = node.interests.announce
	}
	node.start = func(held []*eventlog.Log) (*events.Manager, error) {
		return events.Start(events.Config{Logs: node.logs, Held: held, Deliverer: o.delivererOf,
			Blob: o.handler(wire.Blob), Queue: o.handler(wire.Queue), Changes: node.changes, Changed: changed,
			Hosts: c.EventHosts, HasAccount: func(name string) bool { return c.Accounts.Get(name) != nil },
			ValidationURL: c.EventURL, Now: s.now, Logger: c.Log})
	}
}
