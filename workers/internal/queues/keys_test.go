package queues

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// Turns are handed out in the order in which they were asked for, never more than allowed, and none is lost.
func TestKeyLimitModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.IntRange(1, 3).Draw(t, "most")
		l := NewKeyLimit(most)
		type asked struct {
			key  string
			turn chan struct{}
		}
		var queue []asked // of those that have not left, in order
		has := func(a asked) bool {
			if a.turn == nil {
				return true
			}
			select {
			case <-a.turn:
				return true
			default:
				return false
			}
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			if len(queue) > 0 && rapid.Bool().Draw(t, "leave") {
				i := rapid.IntRange(0, len(queue)-1).Draw(t, "who")
				l.Leave(queue[i].key, queue[i].turn)
				queue = slices.Delete(queue, i, i+1)
			} else {
				key := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "key")
				queue = append(queue, asked{key, l.Join(key)})
			}
			for _, key := range []string{"a", "b"} {
				turns, waits := 0, false
				for _, a := range queue {
					switch {
					case a.key != key:
					case has(a) && waits:
						t.Fatalf("a later one has its turn before an earlier one")
					case has(a):
						turns++
					default:
						waits = true
					}
				}
				if turns > most || waits && turns < most {
					t.Fatalf("%d turns of %d are taken, somebody waits: %v", turns, most, waits)
				}
			}
		}
		for _, a := range queue {
			l.Leave(a.key, a.turn)
		}
		if len(l.keys) != 0 {
			t.Fatalf("%d keys are left behind", len(l.keys))
		}
	})
}
