package rig

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// Progress says what happens: passing news, each of which replaces the one before, and lasting lines.
type Progress struct {
	mu   sync.Mutex // guards the rest
	w    io.Writer
	show func(string) // may be nil
	left string       // the rate of the rounds, and the time left
}

// NewProgress writes lasting lines to w, and passes passing news to show; both may be nil.
func NewProgress(w io.Writer, show func(string)) *Progress {
	if w == nil {
		w = io.Discard
	}
	return &Progress{w: w, show: show}
}

// Update shows passing news.
func (p *Progress) Update(format string, args ...any) {
	if p.show == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.show(fmt.Sprintf(format, args...) + p.left)
}

// Line writes a lasting line.
func (p *Progress) Line(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintf(p.w, format+"\n", args...)
}

// Rounds notes that done of total rounds took a time.
func (p *Progress) Rounds(done, total int, took time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if done > 0 && took > 0 {
		p.left = fmt.Sprintf("; %.1f rounds/min, %v left", float64(done)/took.Minutes(),
			(took / time.Duration(done) * time.Duration(total-done)).Round(time.Second))
	}
}
