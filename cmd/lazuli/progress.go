package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"
)

const (
	// meterAfter is the time after which work shows its progress, and meterEvery the interval of doing so.
	meterAfter = 2 * time.Second
	meterEvery = 500 * time.Millisecond
)

// meter shows the progress of work that takes more than two seconds, with its rate and the time left, in one line of a
// terminal. Its methods are safe for concurrent use. A nil meter shows nothing.
type meter struct {
	out  io.Writer
	what string // a verb: "exported"
	unit func(float64) string
	now  func() time.Time

	mu    sync.Mutex // guards what follows
	began time.Time
	last  time.Time
	width int // of the line that is shown
}

// newMeter returns a meter on the command's standard error, nil unless that is a terminal. unit formats an amount.
func newMeter(cmd *cobra.Command, what string, unit func(float64) string) *meter {
	f, ok := cmd.ErrOrStderr().(*os.File)
	if !ok || !isatty.IsTerminal(f.Fd()) || os.Getenv("TERM") == "dumb" {
		return nil
	}
	return &meter{out: f, what: what, unit: unit, now: time.Now, began: time.Now()}
}

// at shows that done of total is done; total 0 is not known.
func (m *meter) at(done, total int64) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	if now.Sub(m.began) < meterAfter || now.Sub(m.last) < meterEvery {
		return
	}
	m.last = now
	rate := float64(done) / now.Sub(m.began).Seconds()
	line := m.what + " " + m.unit(float64(done))
	if total > 0 {
		line += fmt.Sprintf(" of %s, %d %%", m.unit(float64(total)), min(done*100/total, 100))
	}
	line += ", " + m.unit(rate) + "/s"
	if total > done && rate > 0 {
		left := time.Duration(float64(total-done) / rate * float64(time.Second))
		line += ", " + left.Round(time.Second).String() + " left"
	}
	m.show(line)
}

// line prints a line above the progress.
func (m *meter) line(text string) {
	m.end()
	fmt.Fprintln(m.out, text)
}

// end removes the progress from the terminal.
func (m *meter) end() {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.width > 0 {
		fmt.Fprint(m.out, "\r"+strings.Repeat(" ", m.width)+"\r")
		m.width = 0
	}
}

// show replaces the line.
func (m *meter) show(line string) {
	fmt.Fprint(m.out, "\r"+line+strings.Repeat(" ", max(m.width-len(line), 0)))
	m.width = len(line)
}

// bytesUnit formats a number of bytes.
func bytesUnit(n float64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	i := 0
	for n >= 1024 && i < len(units)-1 {
		n, i = n/1024, i+1
	}
	if i == 0 {
		return fmt.Sprintf("%.0f B", n)
	}
	return fmt.Sprintf("%.1f %s", n, units[i])
}
