package natsserver

import (
	"fmt"
	"log/slog"
	"strings"
)

// logger passes warnings and errors of the embedded server to the log. Its messages on start and stop are of no use to operators of Lazuli.
type logger struct{ out *slog.Logger }

func (l *logger) Noticef(string, ...any)         {}
func (l *logger) Debugf(string, ...any)          {}
func (l *logger) Tracef(string, ...any)          {}
func (l *logger) Warnf(format string, v ...any)  { l.out.Warn("nats: " + fmt.Sprintf(format, v...)) }
func (l *logger) Errorf(format string, v ...any) { l.out.Error("nats: " + fmt.Sprintf(format, v...)) }
func (l *logger) Fatalf(format string, v ...any) { l.out.Error("nats: " + fmt.Sprintf(format, v...)) }

// nodeLogger is the logger of a node of a cluster. What happens between nodes is logged by this package, once; the embedded server repeats it with
// each attempt to connect.
type nodeLogger struct{ logger }

// Warnf implements server.Logger.
func (l *nodeLogger) Warnf(format string, v ...any) {
	l.out.Debug("nats: " + fmt.Sprintf(format, v...))
}

// Errorf implements server.Logger.
func (l *nodeLogger) Errorf(format string, v ...any) {
	text := fmt.Sprintf(format, v...)
	for _, part := range []string{"route", "Route", "authentication error", "duplicate name"} {
		if strings.Contains(text, part) {
			l.out.Debug("nats: " + text)
			return
		}
	}
	l.out.Error("nats: " + text)
}
