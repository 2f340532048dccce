package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/natscluster"
)

// heldLogs are the logs of a moment, each of which three nodes view.
const heldLogs = 3

// openLogs opens a store of each log on each node: the first index is the node.
//
// The first node takes its time to apply the first log, so it lags behind in that one.
func openLogs(t *testing.T, c *natscluster.Cluster) (nodes [][]*DB) {
	t.Helper()
	nodes = make([][]*DB, c.Size())
	for log := range heldLogs {
		for i := range nodes {
			o := Options{Log: openLog(t, c, i, fmt.Sprint("log", log))}
			if i == 0 && log == 0 {
				o.Applied = func(Bucket, Write) {
					for began := time.Now(); time.Since(began) < time.Millisecond; {
						runtime.Gosched()
					}
				}
			}
			nodes[i] = append(nodes[i], openAt(t, filepath.Join(t.TempDir(), "db"), o))
		}
	}
	return nodes
}

func release(nodes [][]*DB, number uint64) {
	for _, node := range nodes {
		for _, db := range node {
			db.EndHold(number)
		}
	}
}

// number returns the number at a key of a transaction, 0 without one.
func number(tx *Tx, key string) (n int) {
	_, _ = fmt.Sscan(string(tx.Get("a", []byte(key))), &n)
	return n
}

// Writers go from log to log and from node to node, each with a write after the one before was acknowledged; readers
// copy what they have seen, acknowledged or not, to the log before. No pin has an effect without its cause.
func TestPinHeld(t *testing.T) {
	t.Parallel()
	c := natscluster.Start(t, 3)
	nodes := openLogs(t, c)
	ctx, stop := context.WithCancel(t.Context())
	var wait sync.WaitGroup
	defer func() { stop(); wait.Wait() }()
	const chains = 3
	for chain := range chains {
		key := fmt.Sprint("chain", chain)
		wait.Go(func() {
			for n := 1; ctx.Err() == nil; n++ {
				for log := range heldLogs {
					check.OK(t, nodes[(chain+log+n)%3][log].Update(func(tx *Tx) error {
						tx.Put("a", []byte(key), fmt.Append(nil, n))
						return nil
					}))
				}
			}
		})
	}
	wait.Go(func() {
		for ctx.Err() == nil {
			seen := 0
			check.OK(t, nodes[1][2].ViewLocal(func(tx *Tx) error { seen = number(tx, "chain0"); return nil }))
			check.OK(t, nodes[2][0].Update(func(tx *Tx) error {
				tx.Put("a", []byte("seen"), fmt.Append(nil, seen))
				return nil
			}))
		}
	})
	longest := time.Duration(0)
	for made := 0; made < check.Size(8, 200); made++ {
		at, hold, began := max(0, rand.IntN(6)-3), rand.Uint64(), time.Now()
		pins, err := PinHeld(hold, nodes[at]...)
		release(nodes, hold)
		if errors.Is(err, ErrNotHeld) { // a busy machine
			made--
			continue
		}
		check.OK(t, err)
		longest = max(longest, time.Since(began))
		found := make([]map[string]int, heldLogs)
		for log, p := range pins {
			found[log] = map[string]int{}
			check.OK(t, p.View(func(tx *Tx) error {
				for chain := range chains {
					key := fmt.Sprint("chain", chain)
					found[log][key] = number(tx, key)
				}
				found[log]["seen"] = number(tx, "seen")
				return nil
			}))
			p.Close()
		}
		for chain := range chains {
			key := fmt.Sprint("chain", chain)
			a, b, d := found[0][key], found[1][key], found[2][key]
			if a < b || b < d || a > d+1 {
				t.Fatalf("the pins of node %d have %d, %d and %d of %s", at, a, b, d, key)
			}
		}
		if seen, is := found[0]["seen"], found[2]["chain0"]; seen > is {
			t.Fatalf("a reader has seen %d, and the pin of what it has read has %d", seen, is)
		}
	}
	t.Logf("writes were held for %v at most", longest)
}

// A hold that is not released ends by itself, at every node.
func TestHoldEnds(t *testing.T) {
	t.Parallel()
	c := natscluster.Start(t, 3)
	nodes := openNodes(t, c, "held")
	for _, db := range nodes {
		began := time.Now()
		check.OK(t, nodes[0].hold(rand.Uint64()))
		put(t, db, "a", "k", "v")
		if took := time.Since(began); took < HoldLease {
			t.Errorf("a write was held for %v, want %v", took, HoldLease)
		}
	}
}

// A release may arrive before its hold, and ends no other hold.
func TestReleaseBeforeTheHold(t *testing.T) {
	t.Parallel()
	var h holds
	now := time.Now()
	left := func() time.Duration { d, _ := h.left(now); return d }
	h.release(1, now)
	h.add(1, now)
	if d := left(); d != 0 {
		t.Errorf("a hold that was released before holds for %v", d)
	}
	h.add(2, now)
	h.release(3, now)
	if d := left(); d != HoldLease {
		t.Errorf("a hold lasts %v, want %v", d, HoldLease)
	}
	_, changed := h.left(now)
	h.release(2, now)
	<-changed
	if d := left(); d != 0 {
		t.Errorf("after its release a hold lasts %v", d)
	}
	now = now.Add(2 * keepReleased)
	h.release(4, now)
	if len(h.released) != 1 {
		t.Errorf("%d releases are kept", len(h.released))
	}
	// A hold whose node never releases it is forgotten when it has ended.
	h.add(5, now)
	if now = now.Add(HoldLease); left() != 0 || len(h.until) != 0 {
		t.Errorf("%d holds are kept that have ended", len(h.until))
	}
}
