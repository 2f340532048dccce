package sidecar

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/lazuli-storage/lazuli/internal/durable/protocol"
	"github.com/lazuli-storage/lazuli/internal/durable/record"
	"github.com/lazuli-storage/lazuli/internal/durable/workkind"
	"github.com/lazuli-storage/lazuli/workers"
)

// Errors of work that was handed out.
var (
	errNoWorker   = errors.New("durable: no connected worker takes the work")
	errWorkerLost = errors.New("durable: the worker has disconnected before it completed the work")
	errAbandoned  = errors.New("durable: the worker has abandoned the work")
)

// item is a work item that waits for a worker, or runs at one.
type item struct {
	kind          workkind.Kind
	name, version string
	// key identifies the item to SDKs that do not repeat its token: the instance, or the instance and number of an
	// activity.
	key string
	// past are the events that the worker of a workflow can fetch with StreamInstanceHistory.
	past []*record.Event
	// parts are those of an answer that comes in parts, by number, with their size.
	parts     map[int32]*protocol.OrchestratorResponse
	partBytes int
	// send sends the item to a worker.
	send func(w *worker, token string) error

	token  string
	worker *worker // that runs it; nil while it waits
	tally  *tally  // of the worker, while it runs
	done   chan outcome
}

// outcome is a worker's answer, or the reason why it has not answered.
type outcome struct {
	answer proto.Message
	err    error
}

// worker is a connection that fetches work.
type worker struct {
	send    func(proto.Message) error
	filters filters
	// newer says that the worker takes the newer form of entities' work items.
	newer   bool
	streams bool                  // histories
	pings   bool                  // are to be sent
	limits  map[workkind.Kind]int // items at once; none: no limit
	running map[workkind.Kind]int
	tallies map[task]*tally // of what it runs or has run
	wake    chan struct{}   // has a token while there may be work
}

func (w *worker) takes(i *item) bool {
	return w.filters.accept(i.kind, i.name, i.version)
}

func (w *worker) free(kind workkind.Kind) bool {
	limit, ok := w.limits[kind]
	return !ok || w.running[kind] < limit
}

func (w *worker) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// filters are the work that a worker takes; the zero value takes all.
type filters struct {
	set bool
	// names has, by kind and name, the versions; none means every version.
	names map[workkind.Kind]map[string][]string
}

// filtersOf reads the filters of a worker. A worker whose filters have no name takes everything: the SDK for .NET sends
// such filters unless the program asks for others. If one kind has names, the worker takes nothing of the other kinds.
// https://github.com/microsoft/durabletask-dotnet/blob/main/src/Worker/Core/DurableTaskWorkerWorkItemFilters.cs
func filtersOf(f *protocol.WorkItemFilters) filters {
	if len(f.GetOrchestrations())+len(f.GetActivities())+len(f.GetEntities()) == 0 {
		return filters{}
	}
	r := filters{true, map[workkind.Kind]map[string][]string{}}
	add := func(kind workkind.Kind, name string, versions []string) {
		if r.names[kind] == nil {
			r.names[kind] = map[string][]string{}
		}
		known, listed := r.names[kind][name]
		switch {
		case listed && len(known) == 0, len(versions) == 0:
			// An entry without versions stands for all, whatever other entries of the name list.
			versions = nil
		default:
			versions = append(known, versions...)
		}
		r.names[kind][name] = versions
	}
	for _, o := range f.Orchestrations {
		add(workkind.Orchestration, o.Name, o.Versions)
	}
	for _, a := range f.Activities {
		add(workkind.Activity, a.Name, a.Versions)
	}
	for _, e := range f.Entities {
		add(workkind.Entity, strings.ToLower(e.Name), nil)
	}
	return r
}

func (f filters) accept(kind workkind.Kind, name, version string) bool {
	if !f.set {
		return true
	}
	if kind == workkind.Entity {
		name = strings.ToLower(name) // SDKs write the names of entities in IDs without capital letters.
	}
	versions, ok := f.names[kind][name]
	return ok && (len(versions) == 0 || slices.Contains(versions, version))
}

// dispatcher hands the work of a hub to the workers that are connected.
type dispatcher struct {
	mu      sync.Mutex // guards the rest
	workers map[*worker]struct{}
	waiting []*item
	running map[string]*item // by token
	byKey   map[string]*item
}

func newDispatcher() *dispatcher {
	return &dispatcher{workers: map[*worker]struct{}{}, running: map[string]*item{}, byKey: map[string]*item{}}
}

// accepts reports whether a connected worker takes the work.
func (d *dispatcher) accepts(kind workkind.Kind, name, version string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for w := range d.workers {
		if w.filters.accept(kind, name, version) {
			return true
		}
	}
	return false
}

// run hands out an item and waits for the answer.
func (d *dispatcher) run(ctx context.Context, i *item) (proto.Message, error) {
	i.token, i.done = uuid.NewString(), make(chan outcome, 1)
	d.mu.Lock()
	// One lock covers this look and the entry into the list: a worker that leaves in between would leave the item
	// without an end.
	taken := false
	for w := range d.workers {
		if w.takes(i) {
			taken = true
			w.signal()
		}
	}
	if !taken {
		d.mu.Unlock()
		return nil, errNoWorker
	}
	d.waiting = append(d.waiting, i)
	d.mu.Unlock()
	select {
	case o := <-i.done:
		// The channel has room for one, so that finish, which holds the lock, never waits for this.
		return o.answer, o.err
	case <-ctx.Done():
		d.mu.Lock()
		d.forget(i)
		d.mu.Unlock()
		return nil, ctx.Err()
	}
}

// forget removes an item; mu is held.
func (d *dispatcher) forget(i *item) {
	d.waiting = slices.DeleteFunc(d.waiting, func(x *item) bool { return x == i })
	if i.worker != nil && d.running[i.token] == i {
		delete(d.running, i.token)
		// A later item of the instance may have the key by now.
		if d.byKey[i.key] == i {
			delete(d.byKey, i.key)
		}
		i.worker.running[i.kind]--
		i.tally.inFlight--
		i.worker.signal()
	}
}

// join adds a worker until leave is called.
func (d *dispatcher) join(w *worker) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.workers[w] = struct{}{}
	w.declare()
}

// lostAfter is the time that a worker that has disconnected can still complete its work: one that stops ends its stream
// first, and one whose connection broke comes back with another.
const lostAfter = 2 * time.Second

// leave removes a worker. The work that only it would have taken is given back at once, its own after lostAfter.
func (d *dispatcher) leave(w *worker) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.workers, w)
	for _, i := range d.running {
		if i.worker == w {
			// If the item is done by then, nothing has the token, and this has no effect.
			time.AfterFunc(lostAfter, func() { d.complete(i.token, "", outcome{err: errWorkerLost}) })
		}
	}
	for _, i := range slices.Clone(d.waiting) {
		taken := false
		for w := range d.workers {
			taken = taken || w.takes(i)
		}
		if !taken {
			d.finish(i, outcome{err: errNoWorker})
		}
	}
}

// finish ends an item; mu is held.
func (d *dispatcher) finish(i *item, o outcome) {
	d.forget(i)
	if i.tally != nil {
		i.tally.end(o)
	}
	i.done <- o
}

// next takes the next item for a worker; nil without one.
func (d *dispatcher) next(w *worker) *item {
	d.mu.Lock()
	defer d.mu.Unlock()
	for at, i := range d.waiting {
		// The item stays for another worker, or for later. Those behind it may suit this one.
		if !w.takes(i) || !w.free(i.kind) {
			continue
		}
		d.waiting = slices.Delete(d.waiting, at, at+1)
		i.worker = w
		w.running[i.kind]++
		i.tally = w.tallyOf(i.kind, i.name)
		i.tally.inFlight++
		d.running[i.token], d.byKey[i.key] = i, i
		return i
	}
	return nil
}

// complete ends the item with the token, or with the key for SDKs that do not repeat tokens. It is false if no such
// item runs.
func (d *dispatcher) complete(token, key string, o outcome) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	i := d.find(token, key)
	if i == nil {
		return false
	}
	d.finish(i, o)
	return true
}

// find returns the running item with the token, or with the key for SDKs that do not repeat tokens; mu is held.
func (d *dispatcher) find(token, key string) *item {
	if token == "" {
		return d.byKey[key]
	}
	return d.running[token]
}

// errOutOfParts: an answer in parts is too large, or lacks one.
var errOutOfParts = status.Errorf(codes.InvalidArgument,
	"the answer lacks one of its parts, or they have more than %d bytes", maxMessage)

// assemble returns the whole answer to a workflow's item when its last part has come; nil before. A part that is sent
// again takes the place of the first.
func (d *dispatcher) assemble(r *protocol.OrchestratorResponse) (*protocol.OrchestratorResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	i := d.find(r.CompletionToken, r.InstanceId)
	// An answer in one message needs no parts. One whose item does not run any more is refused when it is completed.
	if i == nil || !r.IsPartial && len(i.parts) == 0 {
		if r.IsPartial {
			return nil, notAtWorker(r.InstanceId)
		}
		return r, nil
	}
	number := r.ChunkIndex.GetValue()
	if i.parts == nil {
		i.parts = map[int32]*protocol.OrchestratorResponse{}
	}
	i.partBytes += proto.Size(r) - proto.Size(i.parts[number])
	if i.partBytes > maxMessage {
		return nil, errOutOfParts
	}
	i.parts[number] = r
	if r.IsPartial {
		return nil, nil
	}
	whole := i.parts[0]
	// The last part to be sent has the highest number; those before it must all be there.
	for n := int32(1); n <= number; n++ {
		if i.parts[n] == nil || whole == nil {
			return nil, errOutOfParts
		}
		whole.Actions = append(whole.Actions, i.parts[n].Actions...)
	}
	return whole, nil
}

// past returns the past events of an instance whose work item is at a worker, if any.
func (d *dispatcher) past(instance string) ([]*record.Event, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	i := d.byKey[instance]
	if i == nil || i.kind != workkind.Orchestration {
		return nil, false
	}
	return i.past, true
}

// pingAfter is the time without work after which a worker gets a health ping. SDKs give a connection up when 120 s pass
// without a message.
const pingAfter = 30 * time.Second

// serve sends work to a worker until ctx is done.
func (d *dispatcher) serve(ctx context.Context, clock workers.Clock, w *worker) error {
	for {
		i := d.next(w)
		if i == nil {
			ping := clock.NewTimer(pingAfter)
			select {
			case <-w.wake:
				ping.Stop()
				continue
			case <-ping.C():
				if w.pings {
					if err := w.send(healthPing); err != nil {
						return err
					}
				}
				continue
			case <-ctx.Done():
				ping.Stop()
				return nil
			}
		}
		// An error ends the stream, and leave gives the item back.
		if err := i.send(w, i.token); err != nil {
			return err
		}
	}
}
