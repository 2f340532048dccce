package natsserver

import (
	"fmt"
	"log/slog"
)

// logger passes the embedded server's log on, from warnings up: what it reports of its start and stop is of no use to
// who runs Lazuli.
type logger struct{ out *slog.Logger }

func (l *logger) Noticef(string, ...any)         {}
func (l *logger) Debugf(string, ...any)          {}
func (l *logger) Tracef(string, ...any)          {}
func (l *logger) Warnf(format string, v ...any)  { l.out.Warn("nats: " + fmt.Sprintf(format, v...)) }
func (l *logger) Errorf(format string, v ...any) { l.out.Error("nats: " + fmt.Sprintf(format, v...)) }
func (l *logger) Fatalf(format string, v ...any) { l.out.Error("nats: " + fmt.Sprintf(format, v...)) }
