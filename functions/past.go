package functions

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/lazuli-storage/lazuli/internal/minutes"
	"github.com/lazuli-storage/lazuli/internal/recent"
)

// Bounds of what a host keeps of each invocation; package recent bounds their number.
const (
	keptLogs    = 100      // records
	keptLogText = 2 << 10  // bytes of one record, and of an error
	keptLogAll  = 32 << 10 // bytes of all records
)

// past holds the last invocations of a host's functions, by the functions' names.
type past struct {
	mu        sync.Mutex // guards the rest, and what is below it
	origin    string     // for Status
	functions map[string]*functionPast
}

type functionPast struct {
	running           int
	succeeded, failed int64
	hour              minutes.Ring // 0: succeeded, 1: failed
	calls             recent.Calls[*invocationPast]
}

type invocationPast struct {
	InvocationStatus
	past   *past
	number uint64 // among the calls of the function
	logged int    // bytes of Logs
}

// begin notes that an invocation of a function begins, as s says.
func (p *past) begin(function string, i *invocationPast, s InvocationStatus) {
	i.past, i.InvocationStatus = p, s
	i.Running = true
	p.mu.Lock()
	defer p.mu.Unlock()
	f := p.functions[function]
	if f == nil {
		f = &functionPast{}
		p.functions[function] = f
	}
	f.running++
	i.number = f.calls.Add(i)
}

// end notes the end of an invocation.
func (p *past) end(function string, i *invocationPast, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f := p.functions[function]
	if f == nil || !i.Running {
		return
	}
	now := time.Now()
	i.Running, i.Milliseconds = false, milliseconds(now.Sub(i.Began))
	f.running--
	if err != nil {
		f.failed++
		f.hour.Add(now, 1, 1)
		i.Error = cut(err.Error())
		f.calls.Fail(i.number, i)
	} else {
		f.succeeded++
		f.hour.Add(now, 0, 1)
	}
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// cut bounds a text that is kept.
func cut(text string) string {
	if len(text) > keptLogText {
		return strings.ToValidUTF8(text[:keptLogText], "") + "..."
	}
	return text
}

// keeper is a handler of log records that keeps those of an invocation and passes them on.
type keeper struct {
	slog.Handler
	kept *invocationPast
}

// Handle implements slog.Handler.
func (k keeper) Handle(ctx context.Context, r slog.Record) error {
	k.kept.add(r)
	return k.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (k keeper) WithAttrs(attrs []slog.Attr) slog.Handler {
	return keeper{k.Handler.WithAttrs(attrs), k.kept}
}

// WithGroup implements slog.Handler.
func (k keeper) WithGroup(name string) slog.Handler { return keeper{k.Handler.WithGroup(name), k.kept} }

func (i *invocationPast) add(r slog.Record) {
	if i.past == nil {
		return // The invocation has not begun.
	}
	i.past.mu.Lock()
	defer i.past.mu.Unlock()
	if len(i.Logs) == keptLogs || i.logged >= keptLogAll {
		i.Dropped++
		return
	}
	text := cut(r.Message)
	r.Attrs(func(a slog.Attr) bool {
		text += " " + cut(a.String())
		return len(text) <= keptLogText
	})
	text = cut(text)
	i.logged += len(text)
	i.Logs = append(i.Logs, LogRecord{r.Time, LevelName(r.Level), text})
}

// at returns the status of an invocation at a time.
func (i *invocationPast) at(now time.Time) InvocationStatus {
	s := i.InvocationStatus
	if s.Running {
		s.Milliseconds = milliseconds(now.Sub(s.Began))
	}
	return s
}
