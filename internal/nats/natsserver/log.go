package natsserver

import (
	"fmt"
	"log/slog"

	"github.com/nats-io/nats-server/v2/server"
)

// Logger passes warnings and errors of the embedded server to the log. Its messages on start and stop are of no use to
// operators of Lazuli.
type Logger struct{ Out *slog.Logger }

func (l *Logger) Noticef(string, ...any)         {}
func (l *Logger) Debugf(string, ...any)          {}
func (l *Logger) Tracef(string, ...any)          {}
func (l *Logger) Warnf(format string, v ...any)  { l.Out.Warn("nats: " + fmt.Sprintf(format, v...)) }
func (l *Logger) Errorf(format string, v ...any) { l.Out.Error("nats: " + fmt.Sprintf(format, v...)) }
func (l *Logger) Fatalf(format string, v ...any) { l.Out.Error("nats: " + fmt.Sprintf(format, v...)) }

// startLogger keeps the reason for which a server cannot start.
type startLogger struct {
	server.Logger
	fatal chan string
}

func (l *startLogger) Fatalf(format string, v ...any) {
	l.Logger.Fatalf(format, v...)
	select {
	case l.fatal <- fmt.Sprintf(format, v...):
	default:
	}
}
