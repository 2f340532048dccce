package workerproc

import (
	"context"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/console"
	"github.com/lazuli-storage/lazuli/functions"
)

// consoleHandler writes records as Core Tools do: the time in brackets, then the message as it is, so that people can
// read what functions log and tools find the lines that they look for. Attributes follow, except those of an
// invocation, whose lines name both.
type consoleHandler struct {
	out   io.Writer
	mu    *sync.Mutex // guards out
	least slog.Level
	attrs []slog.Attr
	group string // of the names of attributes, with a dot at its end
}

func newConsoleHandler(w io.Writer, least slog.Level) slog.Handler {
	return &consoleHandler{out: w, mu: &sync.Mutex{}, least: least}
}

// Enabled implements slog.Handler.
func (h *consoleHandler) Enabled(_ context.Context, level slog.Level) bool {
	return level >= h.least
}

// WithAttrs implements slog.Handler.
func (h *consoleHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	with := *h
	with.attrs = slices.Clip(h.attrs)
	for _, a := range attrs {
		with.attrs = append(with.attrs, slog.Attr{Key: h.group + a.Key, Value: a.Value})
	}
	return &with
}

// WithGroup implements slog.Handler.
func (h *consoleHandler) WithGroup(name string) slog.Handler {
	with := *h
	with.group += name + "."
	return &with
}

// Handle implements slog.Handler.
func (h *consoleHandler) Handle(_ context.Context, r slog.Record) error {
	var b strings.Builder
	b.WriteString("[" + r.Time.UTC().Format("2006-01-02T15:04:05.000Z") + "] ")
	if r.Level != slog.LevelInfo {
		b.WriteString(functions.LevelName(r.Level) + " ")
	}
	b.WriteString(r.Message)
	attrs := slices.Clone(h.attrs)
	r.Attrs(func(a slog.Attr) bool {
		attrs = append(attrs, slog.Attr{Key: h.group + a.Key, Value: a.Value})
		return true
	})
	invoked := slices.ContainsFunc(attrs, func(a slog.Attr) bool { return a.Key == "invocation_id" })
	for _, a := range attrs {
		if invoked && (a.Key == "function" || a.Key == "invocation_id") {
			continue
		}
		text := a.Value.Resolve().String()
		if a.Value.Kind() == slog.KindTime {
			text = a.Value.Time().Format(time.RFC3339)
		}
		if text == "" || strings.ContainsFunc(text, func(r rune) bool {
			return !unicode.IsPrint(r) || strings.ContainsRune(` "=`, r)
		}) {
			text = strconv.Quote(text)
		}
		b.WriteString(" " + a.Key + "=" + text)
	}
	b.WriteByte('\n')
	h.mu.Lock()
	defer h.mu.Unlock()
	_, err := io.WriteString(h.out, b.String())
	return err
}

// NewLog returns the log of a process with workers in a format, and activates the fault plan of the environment.
func NewLog(w io.Writer, format string, least slog.Level) (*slog.Logger, error) {
	var h slog.Handler
	switch o := (&slog.HandlerOptions{Level: least}); format {
	case "text":
		h = slog.NewTextHandler(w, o)
	case "json":
		h = slog.NewJSONHandler(w, o)
	case "console":
		h = newConsoleHandler(w, least)
	default:
		return nil, console.Usagef("--log-format is %q, not text, json or console", format)
	}
	log := slog.New(h)
	return log, FaultsFromEnvironment(log)
}
