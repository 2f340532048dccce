package demo

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// progress says what happens: passing news, each of which replaces the one before, and lasting lines.
type progress struct {
	mu   sync.Mutex // guards the rest
	w    io.Writer
	show func(string) // may be nil
	left string       // the rate of the rounds, and the time left
}

func newProgress(w io.Writer, show func(string)) *progress {
	if w == nil {
		w = io.Discard
	}
	return &progress{w: w, show: show}
}

// update shows passing news.
func (p *progress) update(format string, args ...any) {
	if p.show == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.show(fmt.Sprintf(format, args...) + p.left)
}

// line writes a lasting line.
func (p *progress) line(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintf(p.w, format+"\n", args...)
}

// rounds notes that done of total rounds took a time.
func (p *progress) rounds(done, total int, took time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if done > 0 && took > 0 {
		p.left = fmt.Sprintf("; %.1f rounds/min, %v left", float64(done)/took.Minutes(),
			(took / time.Duration(done) * time.Duration(total-done)).Round(time.Second))
	}
}
