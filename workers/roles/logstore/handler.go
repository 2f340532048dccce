package logstore

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"time"
)

// NewHandler returns a slog.Handler that writes records to a service's log with Writer.Enqueue. level is the minimum
// level; nil means slog.LevelInfo.
func NewHandler(w *Writer, service string, level slog.Leveler) slog.Handler {
	if level == nil {
		level = slog.LevelInfo
	}
	return &handler{writer: w, service: service, level: level}
}

type handler struct {
	writer  *Writer
	service string
	level   slog.Leveler
	groups  []string
	attrs   []grouped
}

// grouped is an attribute with the groups that were open when it was added.
type grouped struct {
	groups []string
	attr   slog.Attr
}

// Enabled implements slog.Handler.
func (h *handler) Enabled(_ context.Context, l slog.Level) bool { return l >= h.level.Level() }

// Handle implements slog.Handler. Its error is the writer's: ErrFull, ErrClosed.
func (h *handler) Handle(_ context.Context, r slog.Record) error {
	values := map[string]any{}
	for _, g := range h.attrs {
		put(values, g.groups, g.attr)
	}
	r.Attrs(func(a slog.Attr) bool {
		put(values, h.groups, a)
		return true
	})
	record := Record{Service: h.service, Time: r.Time, Level: r.Level, Message: r.Message}
	if len(values) > 0 {
		b, err := json.Marshal(values)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrRecord, err)
		}
		record.Attrs = b
	}
	return h.writer.Enqueue(record)
}

// WithAttrs implements slog.Handler.
func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	next := *h
	next.attrs = slices.Clone(h.attrs)
	for _, a := range attrs {
		next.attrs = append(next.attrs, grouped{h.groups, a})
	}
	return &next
}

// WithGroup implements slog.Handler.
func (h *handler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	next := *h
	next.groups = append(slices.Clone(h.groups), name)
	return &next
}

// put sets an attribute within groups, which are objects in objects.
func put(values map[string]any, groups []string, a slog.Attr) {
	v := a.Value.Resolve()
	if v.Kind() == slog.KindGroup {
		if a.Key != "" {
			groups = append(slices.Clone(groups), a.Key)
		}
		for _, inner := range v.Group() {
			put(values, groups, inner)
		}
		return
	}
	// slog: an empty attribute is left out; a group without a key is inlined, as above.
	if a.Key == "" && v.Any() == nil {
		return
	}
	for _, g := range groups {
		inner, ok := values[g].(map[string]any)
		// A value of that name that is no group is replaced: the later one counts, as in slog's JSON.
		if !ok {
			inner = map[string]any{}
			values[g] = inner
		}
		values = inner
	}
	values[a.Key] = plain(v)
}

// plain converts a value for JSON. Values that JSON cannot represent become text.
func plain(v slog.Value) any {
	switch x := v.Any().(type) {
	case error:
		return x.Error()
	case time.Duration:
		return x.String()
	case json.Marshaler:
		return x
	case fmt.Stringer:
		return x.String()
	default:
		if _, err := json.Marshal(x); err != nil {
			return fmt.Sprint(x)
		}
		return x
	}
}
