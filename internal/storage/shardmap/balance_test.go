package shardmap

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/test/check"
)

const gib = 1 << 30

// after returns the table after moves, each of which it allows.
func after(t *testing.T, h *Hosts, steps []Step) *Hosts {
	t.Helper()
	for _, s := range steps {
		h = check.Must(h.Moved(s.Shard, s.From, s.To))(t)
	}
	return h
}

// spread returns the fewest and the most shards and bytes of a node.
func spread(h *Hosts, sizes Sizes) (fewest, most int, least, largest int64) {
	for i, name := range h.Names() {
		n, bytes := len(h.Of(name)), h.Bytes(name, sizes)
		if i == 0 {
			fewest, most, least, largest = n, n, bytes, bytes
		}
		fewest, most, least, largest = min(fewest, n), max(most, n), min(least, bytes), max(largest, bytes)
	}
	return fewest, most, least, largest
}

// Whatever the sizes are, the moves of Balance leave the numbers of shards within one and make the bytes no less equal,
// and the table after them has none.
func TestBalanceByBytes(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for nodes := Copies + 1; nodes <= MaxNodes; nodes++ {
		for _, zones := range []int{0, 3} {
			if zones > 0 && nodes%zones > 0 {
				continue
			}
			for range 5 {
				h := check.Must(NewHosts(places(nodes, zones), min(4*nodes, Max)))(t)
				sizes := make(Sizes, len(h.Shards))
				for i := range sizes {
					sizes[i] = random.Int64N(4*gib) + gib
				}
				what := fmt.Sprintf("%d nodes, %d zones, %v", nodes, zones, sizes)
				_, _, leastBefore, largestBefore := spread(h, sizes)
				steps := h.Balance(sizes)
				next := after(t, h, steps)
				fewest, most, least, largest := spread(next, sizes)
				if most-fewest > 1 || largest > largestBefore || least < leastBefore {
					t.Errorf("%s: %d to %d shards, %d to %d bytes, %d to %d before", what, fewest, most, least, largest, leastBefore,
						largestBefore)
				}
				// Shards that differ five times in size, four for each node, can always be divided so.
				if next.Uneven(sizes) {
					t.Errorf("%s: %d to %d bytes after %d moves", what, least, largest, len(steps))
				}
				if again := next.Balance(sizes); len(again) > 0 {
					t.Errorf("%s: balanced, and then %v", what, again)
				}
				if !h.Uneven(sizes) && most-fewest <= 1 && len(steps) > 0 && even(h) {
					t.Errorf("%s: an even table is changed: %v", what, steps)
				}
			}
		}
	}
}

func even(h *Hosts) bool {
	fewest, most, _, _ := spread(h, nil)
	return most-fewest <= 1
}

// What Balance does with tables of which each line says why.
func TestBalanceCases(t *testing.T) {
	four := func() *Hosts { return check.Must(NewHosts(places(4, 0), 4))(t) } // three shards a node
	for what, tc := range map[string]struct {
		sizes  Sizes
		uneven bool
		moves  bool
	}{
		"sizes are not known":                  {nil, false, false},
		"equal shards":                         {Sizes{gib, gib, gib, gib}, false, false},
		"differences that are not worth it":    {Sizes{60 << 20, 1, 1, 1}, false, false},
		"each node has all but one shard":      {Sizes{8 * gib, gib, gib, gib}, true, false},
		"sizes of fewer shards than there are": {Sizes{gib}, true, false},
	} {
		h := four()
		if got := h.Uneven(tc.sizes); got != tc.uneven {
			t.Errorf("%s: uneven: %v", what, got)
		}
		// With three of four nodes, a swap only exchanges which of them lacks the large shard.
		if steps := h.Balance(tc.sizes); len(steps) > 0 != tc.moves {
			t.Errorf("%s: %v", what, steps)
		}
	}

	one := check.Must(NewHosts(places(5, 0), 6))(t)
	if steps := one.Balance(Sizes{70 << 10, 70 << 10, 70 << 10, gib, 70 << 10, 70 << 10}); len(steps) > 0 {
		t.Errorf("one large shard changes its place: %v", steps)
	}

	h := check.Must(NewHosts(places(6, 0), 6))(t)
	sizes := make(Sizes, 6)
	node := h.Names()[0]
	for shard := range sizes {
		if sizes[shard] = gib; h.On(node, shard) {
			sizes[shard] = 4 * gib
		}
	}
	steps := h.Balance(sizes)
	if len(steps) == 0 || len(steps)%2 > 0 {
		t.Fatalf("the node with three large shards gives none away: %v", steps)
	}
	if next := after(t, h, steps); next.Bytes(node, sizes) >= h.Bytes(node, sizes) || !even(next) {
		t.Errorf("after %v it has %d bytes", steps, next.Bytes(node, sizes))
	}
}

// A node that joins gets shards from the nodes with the most bytes, and such that it has its share of them.
func TestFillByBytes(t *testing.T) {
	h := check.Must(check.Must(NewHosts(places(4, 0), 16))(t).Added(Place{Node: "m"}))(t)
	random := rand.New(rand.NewPCG(3, 4))
	sizes := make(Sizes, 16)
	for i := range sizes {
		sizes[i] = random.Int64N(4*gib) + gib
	}
	fill := func(sizes Sizes) (next *Hosts) {
		next = h
		for {
			step, more := next.Fill("m", sizes, nil)
			if !more {
				return next
			}
			next = after(t, next, []Step{step})
		}
	}
	without, with := fill(nil), fill(sizes)
	if len(with.Of("m")) != len(without.Of("m")) {
		t.Errorf("the node gets %v with sizes, and %v without", with.Of("m"), without.Of("m"))
	}
	if with.Uneven(sizes) || with.Bytes("m", sizes)*10 < with.mean(sizes)*9 {
		t.Errorf("the node has %d bytes of %d", with.Bytes("m", sizes), with.mean(sizes))
	}
}

// Shards of a node that is drained go to the nodes that have the fewest bytes, of those with as many shards.
func TestDrainByBytes(t *testing.T) {
	h := check.Must(NewHosts(places(8, 0), 8))(t)
	sizes := Sizes{8 * gib, 4 * gib, 2 * gib, gib, gib, 2 * gib, 4 * gib, 8 * gib}
	for _, node := range h.Names() {
		steps := check.Must(h.Drain(node, sizes))(t)
		first := steps[0]
		for _, to := range h.Names() {
			if _, err := h.Moved(first.Shard, node, to); err == nil && h.Bytes(to, sizes) < h.Bytes(first.To, sizes) {
				t.Errorf("%s gives %v, and %s has less", node, first, to)
			}
		}
	}
}
