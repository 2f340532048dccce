package store

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/natscluster"
)

// step is a call of a client on one key.
type step struct {
	key, kind string // kind is get, put or swap
	value     string
	expect    string // of a swap
}

// callResult holds what the client saw.
type callResult struct {
	value   string // of a get, or of a swap that expected another one
	swapped bool
	unknown bool // the call may take effect later, or never
}

// register is the model of a key, for calls whose outcome is known; see [settled].
var register = porcupine.Model{
	Init: func() any { return "" },
	Step: func(state, in, out any) (bool, any) {
		s, o := in.(step), out.(callResult)
		switch {
		case s.kind == "put":
			return true, s.value
		case s.kind == "swap" && o.swapped:
			return state == s.expect, s.value
		case s.kind == "swap":
			return state == o.value && o.value != s.expect, state
		}
		return state == o.value, state
	},
	Partition: func(history []porcupine.Operation) (parts [][]porcupine.Operation) {
		by := map[string]int{}
		for _, op := range history {
			key := op.Input.(step).key
			i, ok := by[key]
			if !ok {
				i = len(parts)
				by[key] = i
				parts = append(parts, nil)
			}
			parts[i] = append(parts[i], op)
		}
		return parts
	},
}

// settled returns a history without unknown outcomes, which is linearizable if the history is. All values are
// different, so it is known which calls have seen a write. One that was seen has had its effect before the first call
// that saw it returned. One that no call has seen could only be overwritten: without it the others see the same.
//
// With unknown outcomes, each of which may be anywhere after its call, the check of a history with some twenty of them,
// as a busy machine makes it, did not end.
func settled(history []porcupine.Operation) (known []porcupine.Operation) {
	seen := map[string]int64{} // by value: when the first call that saw it returned
	see := func(op porcupine.Operation) {
		value := op.Output.(callResult).value
		switch {
		case op.Input.(step).kind == "put":
			return
		case op.Output.(callResult).swapped:
			value = op.Input.(step).expect
		}
		if at, ok := seen[value]; !ok || op.Return < at {
			seen[value] = op.Return
		}
	}
	var unknown []porcupine.Operation
	for _, op := range history {
		if op.Output.(callResult).unknown {
			unknown = append(unknown, op)
			continue
		}
		known = append(known, op)
		see(op)
	}
	// A swap with an unknown outcome that had its effect has seen what it expected, which moves others.
	for changed := true; changed; {
		changed = false
		for i := range unknown {
			op := &unknown[i]
			if at, ok := seen[op.Input.(step).value]; ok && at < op.Return {
				op.Return, op.Output, changed = at, callResult{swapped: op.Input.(step).kind == "swap"}, true
				see(*op)
			}
		}
	}
	for _, op := range unknown {
		if !op.Output.(callResult).unknown {
			known = append(known, op)
		}
	}
	return known
}

func TestSettledHistories(t *testing.T) {
	t.Parallel()
	op := func(client int, s step, o callResult, from, to int64) porcupine.Operation {
		return porcupine.Operation{ClientId: client, Input: s, Output: o, Call: from, Return: to}
	}
	get := func(value string, from, to int64) porcupine.Operation {
		return op(0, step{key: "k", kind: "get"}, callResult{value: value}, from, to)
	}
	lost := func(kind, value, expect string, from int64) porcupine.Operation {
		return op(1, step{"k", kind, value, expect}, callResult{unknown: true}, from, math.MaxInt64)
	}
	put := op(2, step{"k", "put", "3", ""}, callResult{}, 3, 4)
	saw := op(2, step{"k", "swap", "3", ""}, callResult{value: "1"}, 1, 2)
	const ok, illegal = porcupine.Ok, porcupine.Illegal
	type calls []porcupine.Operation
	for name, c := range map[string]struct {
		history calls
		calls   int // of the settled history
		want    porcupine.CheckResult
	}{
		"never seen":           {calls{lost("put", "1", "", 0), get("", 1, 2)}, 1, ok},
		"seen late":            {calls{lost("put", "1", "", 0), get("", 1, 2), get("1", 3, 4)}, 3, ok},
		"seen, and then not":   {calls{lost("put", "1", "", 0), get("1", 1, 2), get("", 3, 4)}, 3, illegal},
		"seen before the call": {calls{get("1", 0, 1), lost("put", "1", "", 2)}, 2, illegal},
		"a swap of a put":      {calls{lost("put", "1", "", 0), lost("swap", "2", "1", 1), get("2", 2, 3)}, 3, ok},
		"a swap of what was overwritten": {calls{lost("put", "1", "", 0), get("1", 1, 2), put,
			lost("swap", "2", "1", 5), get("2", 6, 7)}, 5, illegal},
		"a swap that saw another value": {calls{lost("put", "1", "", 0), saw, get("", 3, 4)}, 3, illegal},
	} {
		got := settled(c.history)
		if result := porcupine.CheckOperationsTimeout(register, got, 0); result != c.want || len(got) != c.calls {
			t.Errorf("%s: %v of %d calls, want %v of %d", name, result, len(got), c.want, c.calls)
		}
	}
}

// workload records the calls of clients of several nodes.
type workload struct {
	began time.Time
	nodes []*atomic.Pointer[DB]
	ids   atomic.Int64

	mu      sync.Mutex // guards the rest
	history []porcupine.Operation
	done    []int // successful writes, by node
	seen    map[string]string
}

var errMismatch = errors.New("mismatch")

// call makes one call and records it.
func (w *workload) call(client, node int, rng *rand.Rand) {
	s := step{key: fmt.Sprint("k", rng.IntN(4)), value: fmt.Sprint(w.ids.Add(1)),
		kind: []string{"get", "put", "swap", "swap"}[rng.IntN(4)]}
	w.mu.Lock()
	s.expect = w.seen[s.key]
	w.mu.Unlock()
	db := w.nodes[node].Load()
	var o callResult
	var err error
	from := time.Since(w.began).Nanoseconds()
	switch s.kind {
	case "get":
		err = db.View(func(tx *Tx) error { o.value = string(tx.Get("a", []byte(s.key))); return nil })
	case "put":
		err = db.Update(func(tx *Tx) error { tx.Put("a", []byte(s.key), []byte(s.value)); return nil })
	case "swap":
		err = db.Update(func(tx *Tx) error {
			if o.value = string(tx.Get("a", []byte(s.key))); o.value != s.expect {
				return errMismatch
			}
			tx.Put("a", []byte(s.key), []byte(s.value))
			return nil
		})
		o.swapped = err == nil
		if errors.Is(err, errMismatch) {
			err = nil
		}
	}
	to := time.Since(w.began).Nanoseconds()
	switch {
	case errors.Is(err, ErrUnavailable) || err != nil && s.kind == "get":
		return // nothing was done
	case err != nil: // ErrUnknown, ErrClosed
		o.unknown, to = true, math.MaxInt64
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.history = append(w.history, porcupine.Operation{ClientId: client, Input: s, Output: o, Call: from, Return: to})
	if err != nil {
		return
	}
	w.done[node]++
	switch {
	case s.kind == "get":
		w.seen[s.key] = o.value
	case s.kind == "put" || o.swapped:
		w.seen[s.key] = s.value
	}
}

// progress waits until every node but one has served calls.
func (w *workload) progress(t *testing.T, except int) {
	t.Helper()
	w.mu.Lock()
	want := append([]int(nil), w.done...)
	w.mu.Unlock()
	for i := range want {
		if i != except {
			want[i] += 60
		}
	}
	check.Eventually(t, func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		for i := range want {
			if w.done[i] < want[i] {
				return false
			}
		}
		return true
	}, "all nodes but %d have served %v calls", except, want)
}

// TestHistoriesOfThreeNodesAreLinearizable lets clients read, write and swap through three nodes while servers are
// stopped and cut off, and nodes crash. No acknowledged write may be lost, and no read may be stale.
func TestHistoriesOfThreeNodesAreLinearizable(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	t.Parallel()
	c := natscluster.Start(t, 3)
	w := &workload{began: time.Now(), done: make([]int, 3), seen: map[string]string{}}
	paths := make([]string, 3)
	for i := range 3 {
		paths[i] = filepath.Join(t.TempDir(), "db")
		db := openAt(t, paths[i], Options{Log: openLog(t, c, i, "shared")})
		db.memtableSize = 40 * entryOverhead
		w.nodes = append(w.nodes, new(atomic.Pointer[DB]))
		w.nodes[i].Store(db)
	}
	stop := make(chan struct{})
	var clients sync.WaitGroup
	for i := range 6 {
		clients.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(i), 14))
			for {
				select {
				case <-stop:
					return
				default:
					w.call(i, i%3, rng)
				}
			}
		})
	}
	const all = -1
	stream := "LAZULI_LOG_shared"
	for round := range 1 {
		w.progress(t, all)
		leader := max(c.Leads(stream), 0)
		c.Stop(leader)
		w.progress(t, leader)
		c.Start(leader)
		w.progress(t, all)
		leader = max(c.Leads(stream), 0)
		c.Cut(leader, true)
		w.progress(t, leader)
		c.Cut(leader, false)
		w.progress(t, all)
		// A node crashes: its successor has the file as it was at some moment.
		crashed := openAt(t, copyFile(t, paths[round]), Options{Log: openLog(t, c, round, "shared")})
		w.nodes[round].Swap(crashed)
		if err := w.nodes[2].Load().Snapshot(t.Context()); err != nil {
			t.Logf("snapshot: %v", err)
		}
	}
	w.progress(t, all)
	close(stop)
	clients.Wait()
	// Unknown means that not all orders were tried, which says nothing about the history.
	result := porcupine.CheckOperationsTimeout(register, settled(w.history), check.Patience)
	if result == porcupine.Illegal {
		t.Errorf("the history of %d calls is not that of a register", len(w.history))
	}
	first := content(t, w.nodes[0].Load())
	for i := range w.nodes {
		if content(t, w.nodes[i].Load()) != first {
			t.Errorf("node %d has other content than node 0", i)
		}
	}
	unknown := 0
	for _, op := range w.history {
		if op.Output.(callResult).unknown {
			unknown++
		}
	}
	t.Logf("%d calls, %d of them with an unknown outcome, in %v: %v", len(w.history), unknown,
		time.Since(w.began).Round(time.Second), result)
}
