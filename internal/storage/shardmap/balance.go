package shardmap

import (
	"cmp"
	"slices"
)

// Sizes are the bytes of the shards, by number; nil if they are not known, or do not matter.
type Sizes []int64

func (s Sizes) of(shard int) int64 {
	if shard < len(s) {
		return s[shard]
	}
	return 0
}

// Bytes returns the bytes of the shards that a node has.
func (h *Hosts) Bytes(node string, sizes Sizes) (n int64) {
	for _, shard := range h.Of(node) {
		n += sizes.of(shard)
	}
	return n
}

const (
	// unevenShare is the part of the mean by which the bytes of a node may differ from it: 1/5. Moves have a price as
	// well, which is a copy of the shard.
	unevenShare = 5
	// unevenLeast is a difference that is not worth a move.
	unevenLeast = 64 << 20
	// gainShare is the part of the mean by which a swap must bring two nodes closer at least: 1/20. Otherwise a shard that
	// is larger than all others together would change its place for the bytes of an empty one.
	gainShare = 20
)

// Uneven reports whether a node has a fifth more bytes than the mean of the nodes, or a fifth less.
func (h *Hosts) Uneven(sizes Sizes) bool {
	return slices.ContainsFunc(h.Names(), func(node string) bool { return h.uneven(node, sizes) })
}

func (h *Hosts) uneven(node string, sizes Sizes) bool {
	mean := h.mean(sizes)
	differs := h.Bytes(node, sizes) - mean
	return max(differs, -differs) > max(mean/unevenShare, unevenLeast)
}

// mean is the mean of the bytes of the nodes.
func (h *Hosts) mean(sizes Sizes) (mean int64) {
	for shard := range h.Shards {
		mean += Copies * sizes.of(shard)
	}
	return mean / int64(len(h.Nodes))
}

// Balance returns the moves after which the nodes have equally many shards, within one, as far as the zones allow, and
// none differs in its bytes by more than a fifth of the mean, as far as the shards allow. As each of the first goes
// from a node with at least two more shards to one with less, there is no shorter list to the same end. The others are
// swaps of two shards between two nodes, or the move of one where that leaves the numbers within one.
func (h *Hosts) Balance(sizes Sizes) (steps []Step) {
	for {
		step, next := h.even(sizes)
		if next == nil {
			break
		}
		h, steps = next, append(steps, step)
	}
	// Each swap makes the bytes more equal, so they come to an end; the bound is that of what a person would wait for.
	for range h.Shards {
		list, next := h.swap(sizes)
		if next == nil {
			break
		}
		h, steps = next, append(steps, list...)
	}
	return steps
}

// even returns a move from a node that has too much, and the table after it; nil without one.
func (h *Hosts) even(sizes Sizes) (Step, *Hosts) {
	order := h.byLoad(sizes)
	for _, from := range slices.Backward(order) {
		for _, to := range order {
			if len(h.Of(from))-len(h.Of(to)) < 2 {
				break
			}
			if shard, next := h.best(from, to, sizes, nil); next != nil {
				return Step{shard, from, to}, next
			}
		}
	}
	return Step{}, nil
}

// best returns the shard whose move between two nodes leaves their bytes closest to each other, of those that are
// allowed, and the table after the move; nil if none can move.
func (h *Hosts) best(from, to string, sizes Sizes, allowed func(shard int) bool) (shard int, next *Hosts) {
	gap, least := h.Bytes(from, sizes)-h.Bytes(to, sizes), int64(0)
	for _, n := range h.Of(from) {
		if allowed != nil && !allowed(n) {
			continue
		}
		left := gap - 2*sizes.of(n)
		if left = max(left, -left); next != nil && left >= least {
			continue
		}
		if moved, err := h.Moved(n, from, to); err == nil {
			shard, next, least = n, moved, left
		}
	}
	return shard, next
}

// swap returns the swap that makes the bytes of two nodes more equal than any other one, where one of the two differs
// too much from the mean, and the table after it; nil without one.
func (h *Hosts) swap(sizes Sizes) (steps []Step, next *Hosts) {
	var gain int64
	least := max(h.mean(sizes)/gainShare, 1)
	for _, full := range h.Names() {
		for _, empty := range h.Names() {
			gap := h.Bytes(full, sizes) - h.Bytes(empty, sizes)
			if gap <= 0 || !h.uneven(full, sizes) && !h.uneven(empty, sizes) {
				continue
			}
			back := h.Of(empty)
			if len(h.Of(full)) > len(back) {
				back = append(back, -1) // nothing
			}
			for _, there := range h.Of(full) {
				for _, here := range back {
					carried := sizes.of(there)
					if here >= 0 {
						carried -= sizes.of(here)
					}
					if closer := better(carried, gap); closer < least || closer <= gain {
						continue
					}
					if list, after := h.swapped(full, empty, there, here); after != nil {
						steps, next, gain = list, after, better(carried, gap)
					}
				}
			}
		}
	}
	return steps, next
}

// better says how much more equal two nodes are when some of the gap between them is carried over: most if it is half,
// and not at all if it is more than the gap.
func better(carried, gap int64) int64 { return min(carried, gap-carried) }

// swapped moves a shard from a node to another one, and one back unless that is negative. Without a table it cannot be.
func (h *Hosts) swapped(full, empty string, there, here int) ([]Step, *Hosts) {
	next, err := h.Moved(there, full, empty)
	steps := []Step{{there, full, empty}}
	if err == nil && here >= 0 {
		next, err = next.Moved(here, empty, full)
		steps = append(steps, Step{here, empty, full})
	}
	if err != nil {
		return nil, nil
	}
	return steps, next
}

// Fill returns the next move that gives a node its share: from the node that has the most shards, and at least two
// more, as far as zones and allowed permit; of several nodes and shards those that make the bytes most equal. It
// returns false when the node has its share. Each such move makes the numbers of two nodes more equal, and none leads
// away from the node, so they come to an end, and none is taken back.
func (h *Hosts) Fill(node string, sizes Sizes, allowed func(shard int) bool) (Step, bool) {
	for _, from := range slices.Backward(h.byLoad(sizes)) {
		if len(h.Of(from))-len(h.Of(node)) < 2 {
			break
		}
		if shard, next := h.best(from, node, sizes, allowed); next != nil {
			return Step{shard, from, node}, true
		}
	}
	return Step{}, false
}

// byLoad returns the names of the nodes, that with the fewest shards first, of several the one with the fewest bytes.
func (h *Hosts) byLoad(sizes Sizes) []string {
	names := h.Names()
	slices.SortStableFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(len(h.Of(a)), len(h.Of(b))), cmp.Compare(h.Bytes(a, sizes), h.Bytes(b, sizes)))
	})
	return names
}
