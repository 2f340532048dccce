package durable_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/microsoft/durabletask-go/backend"
	"google.golang.org/protobuf/proto"

	"github.com/lazuli-storage/lazuli/internal/durable/hub"
	"github.com/lazuli-storage/lazuli/internal/durable/record"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/lazulitest"
	"github.com/lazuli-storage/lazuli/workers/durable"
)

// Checkpoints of an instance by several owners are checked against this model: a register with the digest of the
// history. A checkpoint names the history that its owner has read; it is committed if that is still the history, and
// refused otherwise.

type checkpointOp struct {
	instance   string
	base, next string // digests; a read has only the instance
	read       bool
}

var checkpointModel = porcupine.Model{
	Partition: func(all []porcupine.Operation) (parts [][]porcupine.Operation) {
		byInstance := map[string][]porcupine.Operation{}
		for _, op := range all {
			id := op.Input.(checkpointOp).instance
			byInstance[id] = append(byInstance[id], op)
		}
		for _, p := range byInstance {
			parts = append(parts, p)
		}
		return parts
	},
	Init: func() any { return digest(nil) },
	Step: func(state, input, output any) (bool, any) {
		op := input.(checkpointOp)
		switch {
		case op.read:
			return state == output, state
		case output == true:
			return state == op.base, op.next
		}
		return state != op.base, state
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v -> %v", input, output) },
}

func digest(events []*record.Event) string {
	h := sha256.New()
	for _, e := range events {
		text, _ := proto.MarshalOptions{Deterministic: true}.Marshal(e)
		fmt.Fprintf(h, "%d:%s", len(text), text)
	}
	return fmt.Sprintf("%x", h.Sum(nil)[:8])
}

// owners are processes that all believe to own every partition: they take no leases.
type owners struct {
	t        *testing.T
	clock    *lazulitest.Clock
	executor backend.Executor
	began    time.Time

	mu   sync.Mutex // guards the rest
	ops  []porcupine.Operation
	lost int
}

// take receives the next work item of an owner and runs its workflow, up to the checkpoint. It returns nil if no work
// item is ready.
func (o *owners) take(b *hub.Backend) *backend.OrchestrationWorkItem {
	wi, err := b.GetOrchestrationWorkItem(o.t.Context())
	if errors.Is(err, backend.ErrNoWorkItems) {
		return nil
	}
	if err != nil {
		o.t.Error(err)
		return nil
	}
	for _, e := range wi.NewEvents {
		if err := wi.State.AddEvent(e); err != nil {
			o.t.Error(err)
		}
	}
	results, err := o.executor.ExecuteOrchestrator(o.t.Context(), wi.InstanceID, wi.State.OldEvents(),
		wi.State.NewEvents())
	if err == nil {
		_, err = wi.State.ApplyActions(results.Response.Actions, nil)
	}
	if err != nil {
		o.t.Error(err)
	}
	return wi
}

// complete makes the checkpoint of an owner's work item.
func (o *owners) complete(owner int, b *hub.Backend, wi *backend.OrchestrationWorkItem) {
	old := wi.State.OldEvents()
	op := checkpointOp{instance: string(wi.InstanceID), base: digest(old),
		next: digest(append(old[:len(old):len(old)], wi.State.NewEvents()...))}
	call := time.Since(o.began)
	err := b.CompleteOrchestrationWorkItem(o.t.Context(), wi)
	o.note(owner, op, err == nil, call)
	if err == nil {
		return
	}
	if !errors.Is(err, backend.ErrWorkItemLockLost) {
		o.t.Errorf("owner %d, checkpoint of %s: %v", owner, wi.InstanceID, err)
	}
	o.mu.Lock()
	o.lost++
	o.mu.Unlock()
	if err := b.AbandonOrchestrationWorkItem(o.t.Context(), wi); err != nil {
		o.t.Error(err)
	}
}

func (o *owners) note(owner int, op checkpointOp, result any, call time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ops = append(o.ops, porcupine.Operation{ClientId: owner, Input: op, Output: result, Call: int64(call),
		Return: int64(time.Since(o.began))})
}

// deposed lets the messages that all owners hold appear again, as after their processes were frozen.
func (o *owners) deposed() { o.clock.Advance(time.Hour) }

// run does the work that there is, for one owner, until all instances have ended.
func (o *owners) run(owner int, b *hub.Backend, random *rand.Rand, ended func() bool) {
	for !o.t.Failed() && !ended() {
		if wi := o.take(b); wi != nil {
			if random.IntN(2) == 0 {
				o.deposed()
			}
			o.complete(owner, b, wi)
			continue
		}
		wi, err := b.GetActivityWorkItem(o.t.Context())
		switch {
		case errors.Is(err, backend.ErrNoWorkItems):
			o.deposed() // What another owner has refused or forgotten comes back.
		case err != nil:
			o.t.Error(err)
		default:
			wi.Result, err = o.executor.ExecuteActivity(o.t.Context(), wi.InstanceID, wi.NewEvent)
			if err := errors.Join(err, b.CompleteActivityWorkItem(o.t.Context(), wi)); err != nil {
				o.t.Error(err)
			}
		}
	}
}

// Two owners of all partitions work at the same time, and are deposed between receiving and committing at random: of
// two checkpoints that continue the same history, one is committed and the other one is refused; no step is lost or
// done twice.
func TestTwoOwnersNeverBothCommit(t *testing.T) {
	t.Parallel()
	const instances, steps = 12, 6
	clock := lazulitest.NewClock()
	h := newHub(t, lazulitest.Start(t, lazulitest.WithFakeClock(clock)), clock)
	o := &owners{t: t, clock: clock, began: time.Now(),
		executor: registry(t, workflows{
			"steps": func(ctx *durable.Context) (any, error) {
				sum := 0
				for i := range steps {
					var v int
					if err := ctx.CallActivity("double", durable.WithInput(1<<i)).Await(&v); err != nil {
						return nil, err
					}
					sum += v
				}
				return sum, nil
			}}, activities{"double": double})}
	both := []*hub.Backend{h.backend(), h.backend()}
	c := both[0].Client()

	// Both owners have the same message of one instance, and commit at once.
	start(t, c, "steps", hub.StartOptions{InstanceID: "i0"})
	var held []*backend.OrchestrationWorkItem
	for _, b := range both {
		wi := o.take(b)
		if wi == nil {
			t.Fatal("an owner does not receive the message that the other one has lost")
		}
		held = append(held, wi)
		o.deposed()
	}
	var race sync.WaitGroup
	for i, b := range both {
		race.Go(func() { o.complete(i, b, held[i]) })
	}
	race.Wait()
	if o.lost != 1 {
		t.Fatalf("of two owners that commit at once %d are refused, want 1", o.lost)
	}

	for i := 1; i < instances; i++ {
		start(t, c, "steps", hub.StartOptions{InstanceID: "i" + strconv.Itoa(i)})
	}
	ended := func() bool {
		page, err := c.Query(t.Context(), hub.Query{Status: []string{"Completed"}})
		return err != nil || len(page.Instances) == instances
	}
	var all sync.WaitGroup
	for i, b := range both {
		all.Go(func() { o.run(i, b, rand.New(rand.NewPCG(1, uint64(i))), ended) })
	}
	all.Wait()

	for i := range instances {
		id := "i" + strconv.Itoa(i)
		events, err := c.History(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		o.note(2, checkpointOp{instance: id, read: true}, digest(events), time.Since(o.began))
		scheduled, completed := map[int32]int{}, map[int32]int{}
		for _, e := range events {
			if e.GetTaskScheduled() != nil {
				scheduled[e.EventId]++
			}
			if x := e.GetTaskCompleted(); x != nil {
				completed[x.TaskScheduledId]++
			}
		}
		for n := range int32(steps) {
			if scheduled[n] != 1 || completed[n] != 1 {
				t.Errorf("%s: step %d was scheduled %d times and completed %d times, want once", id, n, scheduled[n],
					completed[n])
			}
		}
		if got, err := c.Get(t.Context(), id); err != nil || got.Output != strconv.Itoa(2*(1<<steps-1)) {
			t.Errorf("%s: %+v, %v", id, got, err)
		}
	}
	// Unknown means that the check was not at its end, which says nothing about the history.
	result := porcupine.CheckOperationsTimeout(checkpointModel, o.ops, check.Patience)
	if result == porcupine.Illegal {
		t.Errorf("the checkpoints are not those of one history")
	}
	t.Logf("%d checkpoints, %d refused: %v", len(o.ops)-instances, o.lost, result)
}
