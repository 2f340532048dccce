package natsserver

import (
	"fmt"
	"log/slog"
)

// logger passes warnings and errors of the embedded server to the log. Its messages on start and stop are of no use to operators of Lazuli.
type logger struct{ out *slog.Logger }

func (l *logger) Noticef(string, ...any)         {}
func (l *logger) Debugf(string, ...any)          {}
func (l *logger) Tracef(string, ...any)          {}
func (l *logger) Warnf(format string, v ...any)  { l.out.Warn("nats: " + fmt.Sprintf(format, v...)) }
func (l *logger) Errorf(format string, v ...any) { l.out.Error("nats: " + fmt.Sprintf(format, v...)) }
func (l *logger) Fatalf(format string, v ...any) { l.out.Error("nats: " + fmt.Sprintf(format, v...)) }
