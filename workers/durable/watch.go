package durable

import (
	"slices"
	"sync"
)

// watches are the calls of this process that wait for a change of an instance.
type watches struct {
	mu   sync.Mutex // guards list
	list map[string][]chan struct{}
}

// watch returns a channel that is closed when this process has next written the instance's row. forget must be called.
func (w *watches) watch(instance string) (changed <-chan struct{}, forget func()) {
	c := make(chan struct{})
	w.mu.Lock()
	defer w.mu.Unlock()
	w.list[instance] = append(w.list[instance], c)
	return c, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		rest := slices.DeleteFunc(w.list[instance], func(x chan struct{}) bool { return x == c })
		if len(rest) == 0 {
			delete(w.list, instance)
		} else {
			w.list[instance] = rest
		}
	}
}

func (w *watches) changed(instance string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.list[instance] {
		close(c)
	}
	delete(w.list, instance)
}
