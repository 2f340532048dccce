package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lazuli-storage/lazuli/internal/cluster/peering"
	"github.com/lazuli-storage/lazuli/internal/killrig"
	"github.com/lazuli-storage/lazuli/internal/storage/shardmap"
)

// The faults that move shards. They are made one after the other beside the other faults, so that those hit a move at
// any of its steps.
const (
	faultMove   = "moved"          // a shard's copy goes to another node
	faultCancel = "move cancelled" // the same, and it is taken back
	faultDrain  = "drained"        // all copies of a node go to others
)

var moveFaults = []string{faultMove, faultCancel, faultDrain}

const (
	// movePause bounds the pause before a move.
	movePause = 3 * time.Second
	// moveTimeout is the time that a move may take once all nodes run.
	moveTimeout = 3 * time.Minute
	// cancelWithin bounds the time from the begin of a move to its cancelling.
	cancelWithin = 2 * time.Second
)

// mover moves shards.
type mover struct {
	r     *nodesRun
	rnd   *rand.Rand
	kinds []string

	busy sync.Mutex // held while a move is under way, or must not begin

	mu     sync.Mutex     // guards the rest
	ended  map[string]int // by kind
	longer time.Duration  // what a move took at most
}

func newMover(r *nodesRun, kinds []string) *mover {
	return &mover{r: r, rnd: rand.New(rand.NewPCG(r.Seed, 6000)), kinds: kinds, ended: map[string]int{}}
}

// work moves shards until ctx ends.
func (m *mover) work(ctx context.Context) {
	for n := 0; ctx.Err() == nil; n++ {
		pause(ctx, time.Duration(m.rnd.Int64N(int64(movePause))))
		kind := m.kinds[m.rnd.IntN(len(m.kinds))]
		if n < len(m.kinds) { // each one once
			kind = m.kinds[n]
		}
		m.busy.Lock()
		switch {
		case ctx.Err() != nil:
		case kind == faultDrain:
			m.drain(ctx)
		default:
			m.move(ctx, kind)
		}
		m.busy.Unlock()
	}
}

// move moves a shard, and takes that back if the kind is faultCancel.
func (m *mover) move(ctx context.Context, kind string) {
	hosts := m.layout().Hosts
	if hosts == nil {
		return
	}
	step := shardmap.Step{Shard: m.rnd.IntN(len(hosts.Shards))}
	step.From = hosts.Shards[step.Shard][m.rnd.IntN(shardmap.Copies)]
	names := slices.DeleteFunc(hosts.Names(), func(name string) bool { return hosts.On(name, step.Shard) })
	if len(names) == 0 {
		return
	}
	step.To = names[m.rnd.IntN(len(names))]
	length := time.Duration(m.rnd.Int64N(int64(cancelWithin)))
	number := m.begin(ctx, step)
	if number == 0 {
		return
	}
	if kind == faultCancel {
		pause(ctx, length)
		for ctx.Err() == nil && m.cancel(ctx) != nil && m.underWay(number) {
			pause(ctx, 100*time.Millisecond)
			if l := m.layout(); l.Move != nil && l.Move.Number == number && l.Move.Step == peering.StepStreams {
				kind = faultMove // it is too late
				break
			}
		}
	}
	m.await(ctx, kind, step, number)
}

// drain moves all shards of a node away.
func (m *mover) drain(ctx context.Context) {
	hosts := m.layout().Hosts
	if hosts == nil {
		return
	}
	node := hosts.Names()[m.rnd.IntN(len(hosts.Nodes))]
	for ctx.Err() == nil {
		if hosts = m.layout().Hosts; hosts == nil {
			return
		}
		steps, err := hosts.Drain(node, nil)
		if err != nil || len(steps) == 0 {
			break
		}
		number := m.begin(ctx, steps[0])
		if number == 0 {
			return // a node is away
		}
		m.await(ctx, faultMove, steps[0], number)
	}
	if ctx.Err() == nil {
		m.count(faultDrain, 0)
	}
}

// await waits until a move has ended, however long other faults hold it up.
func (m *mover) await(ctx context.Context, kind string, step shardmap.Step, number uint64) {
	begun := time.Now()
	for m.underWay(number) {
		if ctx.Err() != nil {
			return
		}
		pause(ctx, 100*time.Millisecond)
	}
	m.count(kind, time.Since(begun))
	m.r.say("shard %d %s from %s to %s within %v", step.Shard, kind, step.From, step.To,
		time.Since(begun).Round(time.Millisecond))
}

func (m *mover) count(kind string, took time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ended[kind]++
	m.longer = max(m.longer, took)
}

// fill copies the numbers to the report.
func (m *mover) fill(r *NodesReport) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r.Moves, r.LongestMove = m.ended, m.longer
}

// finish waits for the move that may be under way: all nodes run, so it must end.
func (m *mover) finish(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, moveTimeout)
	defer cancel()
	for {
		l := m.layout()
		if l.Hosts != nil && l.Moving() == nil {
			return nil
		}
		if ctx.Err() != nil {
			if l.Hosts == nil {
				return errors.New("no node says where the shards are")
			}
			return fmt.Errorf("the move of %s is at the step %q after %v", l.Moving(), l.Moving().Step, moveTimeout)
		}
		pause(ctx, 100*time.Millisecond)
	}
}

// underWay reports whether a move has not ended, as far as the nodes say.
func (m *mover) underWay(number uint64) bool {
	l := m.layout()
	return l.Move == nil || l.Move.Number < number || l.Move.Number == number && !l.Ended
}

// begin begins a move at any node. It returns its number, 0 if no node has begun it.
func (m *mover) begin(ctx context.Context, step shardmap.Step) uint64 {
	body, err := json.Marshal(step)
	if err != nil {
		return 0
	}
	var move peering.Move
	for _, n := range m.r.nodes {
		if m.ask(ctx, n, http.MethodPost, body, &move) == nil {
			return move.Number
		}
	}
	// One that has not answered may have begun it all the same.
	if l := m.layout(); l.Moving() != nil {
		return l.Move.Number
	}
	return 0
}

// cancel takes the move under way back, at any node.
func (m *mover) cancel(ctx context.Context) (err error) {
	for _, n := range m.r.nodes {
		if err = m.ask(ctx, n, http.MethodDelete, nil, new(peering.Move)); err == nil {
			return nil
		}
	}
	return err
}

// layout returns the newest layout that a node knows; without Hosts if no node says one.
func (m *mover) layout() (newest peering.Layout) {
	for _, n := range m.r.nodes {
		var l peering.Layout
		if m.ask(context.Background(), n, http.MethodGet, nil, &l) == nil && l.Hosts != nil &&
			(newest.Hosts == nil || l.Version > newest.Version) {
			newest = l
		}
	}
	return newest
}

// ask asks a node, which may be away, about moves.
func (m *mover) ask(ctx context.Context, n *killrig.Node, method string, body []byte, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, nodeTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, "http://"+n.Admin+"/admin/cluster/move",
		bytes.NewReader(body))
	if err != nil {
		return err
	}
	r, err := m.r.admin.Do(request)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	text, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	if err == nil && r.StatusCode != http.StatusOK {
		err = errors.New(strings.TrimSpace(string(text)))
	}
	if err != nil {
		return err
	}
	return json.Unmarshal(text, answer)
}
