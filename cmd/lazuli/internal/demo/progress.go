package demo

import (
	"fmt"
	"io"
	"sync"
)

// progress writes what happens. Live, passing news is shown on one line that the next overwrites; otherwise it is left
// out and only lasting lines are written.
type progress struct {
	mu   sync.Mutex // guards w and shown
	w    io.Writer
	live bool
	// shown is true when the line under the cursor is passing news.
	shown bool
}

func newProgress(w io.Writer, live bool) *progress {
	if w == nil {
		w = io.Discard
	}
	return &progress{w: w, live: live}
}

const eraseLine = "\r\x1b[K"

// update shows passing news.
func (p *progress) update(format string, args ...any) {
	if !p.live {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintf(p.w, eraseLine+format, args...)
	p.shown = true
}

// line writes a lasting line.
func (p *progress) line(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shown {
		fmt.Fprint(p.w, eraseLine)
		p.shown = false
	}
	fmt.Fprintf(p.w, format+"\n", args...)
}

// clear removes passing news.
func (p *progress) clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shown {
		fmt.Fprint(p.w, eraseLine)
		p.shown = false
	}
}
