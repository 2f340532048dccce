package sidecar

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/proto"

	"github.com/lazuli-storage/lazuli/internal/durable/protocol"
	"github.com/lazuli-storage/lazuli/internal/durable/workkind"
	"github.com/lazuli-storage/lazuli/internal/sdk/hostrow"
)

const (
	// maxReported bounds the workers that show at once: each costs a request in a heartbeat.
	maxReported = 100
	// maxTasks bounds the tasks of a worker that are counted apart. A worker without filters gets work of any name.
	maxTasks = 500
	// maxTaskName bounds the characters of a task's name that show.
	maxTaskName = 200
)

// task is what a worker runs: a workflow, an activity or an entity.
type task struct {
	kind workkind.Kind
	name string
}

// anyTask stands for all work without a count of its own. A worker without filters begins with it, so that
// it shows before it has got work.
var anyTask = task{name: "*"}

// tally counts the work items of a task at a worker.
type tally struct{ inFlight, succeeded, failed int64 }

// tallyOf returns the counts of a task; the dispatcher's mutex is held.
func (w *worker) tallyOf(kind workkind.Kind, name string) *tally {
	if len(name) > maxTaskName {
		name = fmt.Sprintf("%.*s", maxTaskName, name)
	}
	if kind == workkind.Entity {
		name = strings.ToLower(name) // as filters have it
	}
	key := task{kind, name}
	if w.tallies[key] == nil && len(w.tallies) >= maxTasks {
		key = anyTask
	}
	if w.tallies[key] == nil {
		if w.tallies == nil {
			w.tallies = map[task]*tally{}
		}
		w.tallies[key] = &tally{}
	}
	return w.tallies[key]
}

// declare makes the tasks of the worker's filters show before they have work.
func (w *worker) declare() {
	if !w.filters.set {
		w.tallyOf(anyTask.kind, anyTask.name)
	}
	for kind, names := range w.filters.names {
		for name := range names {
			w.tallyOf(kind, name)
		}
	}
}

// end counts the end of an item.
func (t *tally) end(o outcome) {
	if o.err != nil || failed(o.answer) {
		t.failed++
	} else {
		t.succeeded++
	}
}

// failed reports whether an answer says that the activity, the batch of an entity, or the workflow has failed.
func failed(answer proto.Message) bool {
	switch a := answer.(type) {
	case *protocol.ActivityResponse:
		return a.FailureDetails != nil
	case *protocol.EntityBatchResult:
		return a.FailureDetails != nil
	case *protocol.OrchestratorResponse:
		return slices.ContainsFunc(a.Actions, func(x *protocol.OrchestratorAction) bool {
			return x.GetCompleteOrchestration().GetOrchestrationStatus() ==
				protocol.OrchestrationStatus_ORCHESTRATION_STATUS_FAILED
		})
	}
	return false
}

// functions is what the row of a worker says of its tasks. They cannot be paused: a worker that is connected takes what
// its filters name.
func (d *dispatcher) functions(w *worker) (list []hostrow.Function) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for key, t := range w.tallies {
		list = append(list, hostrow.Function{Name: key.name, Trigger: cmp.Or(string(key.kind), "any") + "Trigger",
			Fixed: true, InFlight: t.inFlight, Succeeded: t.succeeded, Failed: t.failed})
	}
	slices.SortFunc(list, func(a, b hostrow.Function) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Trigger, b.Trigger))
	})
	// Readers tell functions apart by their name, and an activity may have that of a workflow.
	for i := len(list) - 1; i > 0; i-- {
		if list[i].Name == list[i-1].Name {
			list[i].Name += " (" + strings.TrimSuffix(list[i].Trigger, "Trigger") + ")"
		}
	}
	return list
}

// report shows a worker in its account's list of processes until ctx, that of its stream, is done. Its row is one of
// this server, which the worker needs nothing for.
func (s *Server) report(ctx context.Context, h *openHub, w *worker) {
	if s.options.Heartbeat <= 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed: // Stop waits already.
		return
	case s.reported >= maxReported:
		h.log.Info("a worker does not show in the account's list of workers: it has too many", "shown", maxReported)
		return
	}
	s.reported++
	s.reports.Go(func() {
		s.reporter(ctx, h, w).Run(ctx)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.reported--
	})
}

// reporter returns what writes the row of a worker.
func (s *Server) reporter(ctx context.Context, h *openHub, w *worker) *hostrow.Reporter {
	machine := ""
	if p, ok := peer.FromContext(ctx); ok {
		machine = p.Addr.String()
	}
	about := "Durable Task worker"
	// Workers of the Scheduler name themselves in "workerid".
	for _, key := range []string{"user-agent", "workerid"} {
		if text := first(ctx, key); text != "" {
			about += fmt.Sprintf(", %.150s", text)
		}
	}
	clock := h.backend.Clock()
	r := &hostrow.Reporter{Store: hostrow.Open(s.options.Durable.Storage.Tables), Log: h.log,
		Process: hostrow.Process{App: "durable-" + h.stored, ID: strings.ToLower(rand.Text()), About: about,
			Machine: machine, Started: clock.Now().UTC(), Every: s.options.Heartbeat},
		Snapshot: func() ([]hostrow.Function, bool) { return h.dispatcher.functions(w), false },
		Timer: func(d time.Duration) (<-chan time.Time, func()) {
			timer := clock.NewTimer(d)
			return timer.C(), timer.Stop
		}}
	r.Begin(ctx)
	return r
}
