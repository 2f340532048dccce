package trigger

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// Every order has every queue once.
func TestPriorityOrder(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	p := &Priority{Names: []string{"a", "b", "c"}, weights: []int{1, 1000, 3}}
	for range 100 {
		got := p.order(random.IntN)
		slices.Sort(got)
		if !slices.Equal(got, []int{0, 1, 2}) {
			t.Fatal(got)
		}
	}
}
