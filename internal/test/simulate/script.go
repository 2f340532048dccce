package simulate

import (
	"math/rand/v2"
	"slices"
)

// Event is a step of a script.
type Event struct {
	Kind   int
	Random uint64 // all choices of the step come from it
}

// Script returns n events of a seed. weights has the share of each kind.
func Script(seed uint64, n int, weights []int) []Event {
	r := rand.New(rand.NewPCG(seed, 0x5eed))
	total := 0
	for _, weight := range weights {
		total += weight
	}
	script := make([]Event, n)
	for i := range script {
		at := r.IntN(total)
		kind := 0
		for at >= weights[kind] {
			at -= weights[kind]
			kind++
		}
		script[i] = Event{Kind: kind, Random: r.Uint64()}
	}
	return script
}

// Minimise returns a part of a script that fails as well, from which no single event can be left out, after at most
// limit runs. It is delta debugging: halves first, then ever smaller pieces.
//
// Zeller and Hildebrandt, Simplifying and Isolating Failure-Inducing Input, 2002.
func Minimise(script []Event, limit int, fails func([]Event) bool) []Event {
	for size := len(script) / 2; size > 0; {
		removed := false
		for at := 0; at < len(script) && limit > 0; limit-- {
			shorter := slices.Concat(script[:at], script[min(at+size, len(script)):])
			if fails(shorter) {
				script, removed = shorter, true
			} else {
				at += size
			}
		}
		if limit <= 0 {
			break
		}
		// A piece that was needed before may be free once others are gone.
		if !removed || size > 1 {
			size /= 2
		}
	}
	return script
}
