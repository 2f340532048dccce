package rig

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// NewRandom is the source of the choices of a run: the same seed makes the same choices.
func NewRandom(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0)) }

// Shuffle puts the items in a random order, those of each kind together.
func (r *Run) Shuffle() {
	r.Random.Shuffle(len(r.Work), func(i, j int) { r.Work[i], r.Work[j] = r.Work[j], r.Work[i] })
	slices.SortStableFunc(r.Work, func(a,
		b Key) int {
		return strings.Compare(r.Pattern.Kind(a), r.Pattern.Kind(b))
	})
}

// Kill is one death of a worker: at the nth hit of a point.
type Kill struct {
	Point string
	Hit   int
}

// String is the kill as a fault plan.
func (k Kill) String() string { return fmt.Sprintf("%s=kill@%d", k.Point, k.Hit) }

// Text is the kill in words.
func (k Kill) Text() string { return fmt.Sprintf("killed at %s, hit %d", k.Point, k.Hit) }

// roundPlan is a share of the items and the deaths that come over the workers that work on them.
type roundPlan struct {
	Keys  []Key
	kills []Kill
}

// frozen reports whether the plan is to freeze a worker.
func (p roundPlan) frozen() bool { return len(p.kills) > 0 && p.kills[0].Point == Frozen }

func (p roundPlan) String() string {
	if p.frozen() {
		return fmt.Sprintf("frozen after %d messages", p.kills[0].Hit)
	}
	if len(p.kills) == 0 {
		return "no kill"
	}
	var texts []string
	for _, k := range p.kills {
		texts = append(texts, fmt.Sprintf("%s, hit %d", k.Point, k.Hit))
	}
	return "killed at " + strings.Join(texts, "; then at ")
}

// Rounds is the number of rounds that there are.
func (r *Run) Rounds() int {
	steps := len(slices.DeleteFunc(slices.Clone(r.Points), func(p string) bool { return p == Frozen }))
	switch {
	case !r.Pairs:
		return max(1, len(r.Points))
	case r.SamplePairs > 0:
		return len(r.Points) + min(r.SamplePairs, steps*steps)
	}
	return len(r.Points) + steps*steps
}

// Plan deals the items to the rounds.
func (r *Run) Plan() []roundPlan {
	var sequences, pairs [][]string
	for _, p := range r.Points {
		sequences = append(sequences, []string{p})
		for _, q := range r.Points {
			if p != Frozen && q != Frozen {
				pairs = append(pairs, []string{p, q})
			}
		}
	}
	if r.Pairs {
		if r.SamplePairs > 0 {
			r.Random.Shuffle(len(pairs), func(i, j int) { pairs[i], pairs[j] = pairs[j], pairs[i] })
			pairs = pairs[:min(len(pairs), r.SamplePairs)]
		}
		sequences = append(sequences, pairs...)
	}
	if len(sequences) == 0 {
		sequences = [][]string{nil} // One round without a kill.
	}
	rounds := make([]roundPlan, len(sequences))
	for i, k := range r.Work {
		round := &rounds[i%len(rounds)]
		round.Keys = append(round.Keys, k)
	}
	for i, points := range sequences {
		for _, p := range points {
			if p == Frozen {
				rounds[i].kills = []Kill{{Frozen, min(lastInWork, r.Pattern.Concurrency()/2+1, len(rounds[i].Keys))}}
				continue
			}
			// Each death has messages of its own, of which some must be left undone.
			most := max(1, r.Pattern.Passes(p, len(rounds[i].Keys)/len(points))-r.Pattern.Concurrency())
			switch {
			case r.Plain:
				most = 1
			case r.Mistake != nil:
				most = min(mistakeHits, len(rounds[i].Keys)/3+1)
			}
			rounds[i].kills = append(rounds[i].kills, Kill{p, 1 + r.Random.IntN(most)})
		}
	}
	return rounds
}

// batches deals a round's items to its deaths.
func (p roundPlan) batches() [][]Key {
	if p.frozen() {
		// From the end and the middle, which are of different kinds.
		n, half := p.kills[0].Hit, len(p.Keys)/2
		end, middle := len(p.Keys)-n/2, half-(n-n/2)
		if middle < 0 || end < half {
			return [][]Key{p.Keys[:n], p.Keys[n:]}
		}
		return [][]Key{slices.Concat(p.Keys[end:], p.Keys[middle:half]),
			slices.Concat(p.Keys[:middle], p.Keys[half:end])}
	}
	batches := make([][]Key, max(1, len(p.kills)))
	for i, k := range p.Keys {
		batch := &batches[i%len(batches)]
		*batch = append(*batch, k)
	}
	return batches
}

// lastInWork is the maximum number of in-flight messages of a frozen worker: the number that it receives in one
// request.
const lastInWork = 10
