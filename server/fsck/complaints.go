package fsck

import (
	"context"
	"log/slog"
)

// complaints is a log handler that adds a finding for each warning and error.
type complaints struct {
	found func(s Severity, where, format string, args ...any)
}

// Enabled implements slog.Handler.
func (*complaints) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }

// Handle implements slog.Handler.
func (h *complaints) Handle(_ context.Context, r slog.Record) error {
	text := r.Message
	r.Attrs(func(a slog.Attr) bool {
		text += " " + a.String()
		return true
	})
	h.found(Warning, "queues", "the server says: %s", text)
	return nil
}

// WithAttrs implements slog.Handler.
func (h *complaints) WithAttrs([]slog.Attr) slog.Handler { return h }

// WithGroup implements slog.Handler.
func (h *complaints) WithGroup(string) slog.Handler { return h }
