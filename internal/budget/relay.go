package budget

import (
	"os"
	"runtime"
	"sync"
)

// relay lets goroutines run again behind those for which the network has something.
//
// The runtime asks the network when a processor finds no goroutine to run, and otherwise every 10 ms. Requests that
// hand a processor on to each other always leave one to run, as does runtime.Gosched, so that a request of another
// account would not even be read for 10 ms. A goroutine that waits for a pipe is found where the connections are found,
// behind those that were ready before it.
type relay struct {
	open sync.Once
	out  *os.File // the end of the pipe to write to, nil if there is no pipe

	mu       sync.Mutex // guards released
	released []chan struct{}
}

// network is the relay of this process.
var network relay

// release closes c once what the network has brought before was found.
func (r *relay) release(c chan struct{}) {
	r.open.Do(r.start)
	if r.out == nil {
		close(c)
		return
	}
	r.mu.Lock()
	r.released = append(r.released, c)
	r.mu.Unlock()
	if _, err := r.out.Write([]byte{0}); err != nil {
		r.run()
	}
}

// yield lets those run for which the network has something.
func (r *relay) yield() {
	c := make(chan struct{})
	r.release(c)
	<-c
}

// start opens the pipe and reads from it as long as the process lives.
func (r *relay) start() {
	in, out, err := os.Pipe()
	if err != nil { // too many open files: turns are then as fair as the runtime
		return
	}
	r.out = out
	go func() {
		var b [64]byte
		for {
			_, err := in.Read(b[:])
			// What the network has brought with it is behind this goroutine in the queue of the processor. One that is
			// released here would run before it, as the runtime takes the goroutine that was made ready last.
			runtime.Gosched()
			r.run()
			if err != nil {
				return
			}
		}
	}()
}

// run closes all that was released. More bytes than one may stand for it, so that a later read may find none.
func (r *relay) run() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.released {
		close(c)
	}
	r.released = r.released[:0]
}
