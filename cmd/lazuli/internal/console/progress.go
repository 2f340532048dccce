package console

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
)

const (
	// meterAfter is the time after which work shows its progress, and meterEvery the interval of doing so.
	meterAfter = 2 * time.Second
	meterEvery = 500 * time.Millisecond
)

// Meter shows the progress of work that takes more than two seconds, with its rate and the time left, in one line of a
// terminal. Its methods are safe for concurrent use. A nil meter shows nothing.
type Meter struct {
	out io.Writer
	now func() time.Time

	mu    sync.Mutex // guards what follows
	what  string     // a verb: "exported"
	unit  func(float64) string
	began time.Time
	last  time.Time
	width int // of the line that is shown
}

// NewMeter returns a meter on the command's standard error, nil unless that is a terminal. unit formats an amount; nil
// shows none, only the share and the time left.
func NewMeter(cmd *cobra.Command, what string, unit func(float64) string) *Meter {
	if !Screen(cmd.ErrOrStderr()) {
		return nil
	}
	return &Meter{out: cmd.ErrOrStderr(), what: what, unit: unit, now: time.Now, began: time.Now()}
}

// Begin begins another part of the work, unless it is the one that is under way.
func (m *Meter) Begin(what string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if what != m.what {
		m.what, m.began = what, m.now()
	}
}

// At shows that done of total is done; total 0 is not known.
func (m *Meter) At(done, total int64) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	// Short work shows nothing, and At is called for each item: a line for each would take longer than the items.
	now := m.now()
	if now.Sub(m.began) < meterAfter || now.Sub(m.last) < meterEvery {
		return
	}
	m.last = now
	spent := now.Sub(m.began)
	rate := float64(done) / spent.Seconds()
	line := m.what
	if m.unit != nil {
		line += " " + m.unit(float64(done))
		if total > 0 {
			line += " of " + m.unit(float64(total)) + ","
		}
	}
	if total > 0 {
		line += fmt.Sprintf(" %d %%", min(done*100/total, 100))
	}
	if m.unit != nil {
		line += ", " + m.unit(rate) + "/s"
	}
	if total > done && rate > 0 {
		left := time.Duration(float64(total-done) / rate * float64(time.Second))
		line += ", " + left.Round(time.Second).String() + " left"
	} else if total == 0 && m.unit == nil {
		line += ", " + spent.Round(time.Second).String()
	}
	m.show(line)
}

// Reader returns a reader of r that shows how much of total was read, of which before was read from other readers.
func (m *Meter) Reader(r io.Reader, total, before int64) io.Reader {
	if m == nil {
		return r
	}
	return &meteredReader{Reader: r, m: m, done: before, total: total}
}

type meteredReader struct {
	io.Reader
	m           *Meter
	done, total int64
}

func (r *meteredReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	r.done += int64(n)
	r.m.At(r.done, r.total)
	return n, err
}

// Wait shows the time that passes, for work whose progress is not known, until the returned function is called.
func (m *Meter) Wait() (end func()) {
	if m == nil {
		return func() {}
	}
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(meterEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				m.At(0, 0)
			case <-done:
				m.End()
				return
			}
		}
	}()
	return func() { close(done); <-ended }
}

// Say shows a text until the next one.
func (m *Meter) Say(text string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.show(text)
}

// Line prints a line above the progress.
func (m *Meter) Line(text string) {
	m.End()
	fmt.Fprintln(m.out, text)
}

// Above is a writer of lines to a terminal that come above the progress, which end removes.
type Above struct {
	io.Writer
	End func()
}

func (w Above) Write(p []byte) (int, error) {
	w.End()
	return w.Writer.Write(p)
}

// End removes the progress from the terminal.
func (m *Meter) End() {
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
func (m *Meter) show(line string) {
	fmt.Fprint(m.out, "\r"+line+strings.Repeat(" ", max(m.width-len(line), 0)))
	m.width = len(line)
}

// BytesUnit formats a number of bytes.
func BytesUnit(n float64) string {
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

// CountUnit formats a number of things.
func CountUnit(n float64) string { return fmt.Sprintf("%.0f", n) }
