package hub

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/lazuli-storage/lazuli/internal/sdk/sdkerr"
)

// engineLog writes the engine's log. Its news about single instances are for debugging.
type engineLog struct{ log *slog.Logger }

func (l engineLog) write(level slog.Level, text func(v ...any) string, v []any) {
	if !l.log.Enabled(context.Background(), level) {
		return
	}
	for i, x := range v {
		if err, ok := x.(error); ok {
			v[i] = sdkerr.Text(err)
		}
	}
	l.log.Log(context.Background(), level, text(v...))
}

func (l engineLog) writef(level slog.Level, format string, v []any) {
	l.write(level, func(v ...any) string { return fmt.Sprintf(format, v...) }, v)
}

func (l engineLog) Debug(v ...any)            { l.write(slog.LevelDebug, fmt.Sprint, v) }
func (l engineLog) Debugf(f string, v ...any) { l.writef(slog.LevelDebug, f, v) }
func (l engineLog) Info(v ...any)             { l.write(slog.LevelDebug, fmt.Sprint, v) }
func (l engineLog) Infof(f string, v ...any)  { l.writef(slog.LevelDebug, f, v) }
func (l engineLog) Warn(v ...any)             { l.write(slog.LevelWarn, fmt.Sprint, v) }
func (l engineLog) Warnf(f string, v ...any)  { l.writef(slog.LevelWarn, f, v) }
func (l engineLog) Error(v ...any)            { l.write(slog.LevelError, fmt.Sprint, v) }
func (l engineLog) Errorf(f string, v ...any) { l.writef(slog.LevelError, f, v) }
