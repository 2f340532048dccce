package trigger

import (
	"fmt"
	"slices"

	"github.com/lazuli-storage/lazuli/workers/internal/queues"
)

// maxPriorityQueues is the largest number of queues of one function.
const maxPriorityQueues = 16

// Priority has the queues of a function that listens to several.
type Priority struct {
	Strict  bool
	Names   []string
	weights []int
}

// Add appends a queue to the list.
func (p *Priority) Add(name string, weight int) {
	p.Names, p.weights = append(p.Names, name), append(p.weights, weight)
}

func (p *Priority) validate() error {
	if p == nil {
		return nil
	}
	if n := len(p.Names); n < 1 || n > maxPriorityQueues {
		return fmt.Errorf("%d queues by priority are not within 1 to %d", n, maxPriorityQueues)
	}
	for i, name := range p.Names {
		switch {
		case slices.Contains(p.Names[:i], name):
			return fmt.Errorf("queue %q has two priorities", name)
		case p.weights[i] < 1 || p.weights[i] > 1000:
			return fmt.Errorf("the weight %d of queue %q is not within 1 to 1000", p.weights[i], name)
		}
		if err := queues.ValidateName(name); err != nil {
			return err
		}
	}
	return nil
}

// order returns the indices of the queues in the order in which they are to be asked.
func (p *Priority) order(random func(n int) int) []int {
	left := make([]int, len(p.Names))
	for i := range left {
		left[i] = i
	}
	if p.Strict {
		return left
	}
	var order []int
	for len(left) > 0 {
		total := 0
		for _, i := range left {
			total += p.weights[i]
		}
		n := random(total)
		chosen := 0
		for ; n >= p.weights[left[chosen]]; chosen++ {
			n -= p.weights[left[chosen]]
		}
		order = append(order, left[chosen])
		left = slices.Delete(left, chosen, chosen+1)
	}
	return order
}
