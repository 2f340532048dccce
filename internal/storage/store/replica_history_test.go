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
	value   string
	swapped bool
	unknown bool // the call may take effect later, or never
}

// register is the model of a key.
var register = porcupine.NondeterministicModel{
	Init: func() []any { return []any{""} },
	Step: func(state, in, out any) []any {
		s, o, now := in.(step), out.(callResult), state.(string)
		switch {
		case s.kind == "get" && o.value == now:
			return []any{now}
		case s.kind == "put" && o.unknown:
			return []any{now, s.value}
		case s.kind == "put":
			return []any{s.value}
		case s.kind == "swap" && o.unknown && now == s.expect:
			return []any{now, s.value}
		case s.kind == "swap" && o.unknown:
			return []any{now}
		case s.kind == "swap" && o.swapped && now == s.expect:
			return []any{s.value}
		case s.kind == "swap" && !o.swapped && now != s.expect:
			return []any{now}
		}
		return nil
	},
	Equal: func(a, b any) bool { return a == b },
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
			if string(tx.Get("a", []byte(s.key))) != s.expect {
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
	// The more outcomes are unknown, as on a busy machine, the more orders are possible. Unknown means that not all were
	// tried, which says nothing about the history.
	result := porcupine.CheckOperationsTimeout(register.ToModel(), w.history, check.Patience)
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
