package logstore

import (
	"log/slog"
	"math"
	"strconv"
	"strings"
)

// Levels beyond those of slog.
const (
	LevelTrace    = slog.LevelDebug - 4
	LevelNotice   = slog.LevelInfo + 2
	LevelCritical = slog.LevelError + 4
	LevelFatal    = slog.LevelError + 8
)

// levelNames are the names that logging libraries and syslog have for levels, in lower case.
var levelNames = map[string]slog.Level{
	"trace": LevelTrace, "verbose": LevelTrace,
	"debug": slog.LevelDebug,
	"info":  slog.LevelInfo, "information": slog.LevelInfo, "informational": slog.LevelInfo,
	"notice": LevelNotice,
	"warn":   slog.LevelWarn, "warning": slog.LevelWarn,
	"error": slog.LevelError, "err": slog.LevelError, "severe": slog.LevelError,
	"critical": LevelCritical, "crit": LevelCritical,
	"fatal": LevelFatal, "alert": LevelFatal, "panic": LevelFatal, "emergency": LevelFatal, "emerg": LevelFatal,
}

// ParseLevel parses a level: a name that is common in any letter case (trace, verbose, debug, info, information,
// notice, warn, warning, error, critical, fatal, ... ), slog's form with an offset (WARN+1), or a number. Numbers from
// 10 to 60 are those of Bunyan and Pino (10 trace, 20 debug, 30 info, 40 warn, 50 error, 60 fatal); numbers from -8 to
// 9 are slog's.
func ParseLevel(text string) (slog.Level, bool) {
	text = strings.TrimSpace(text)
	if l, ok := levelNames[strings.ToLower(text)]; ok {
		return l, true
	}
	var l slog.Level
	if l.UnmarshalText([]byte(text)) == nil {
		return l, true
	}
	// The scales overlap nowhere: slog's numbers end below 10, where those of Bunyan and Pino begin. JSON has them as
	// floats, and Pino allows levels between the named ones.
	n, err := strconv.ParseFloat(text, 64)
	// NaN is in no range, and is refused with the rest.
	switch {
	case err != nil:
		return 0, false
	case n >= -8 && n < 10:
		return slog.Level(math.Floor(n)), true
	case n >= 10 && n < 70:
		return []slog.Level{LevelTrace, slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError,
			LevelFatal}[int(n)/10-1], true
	}
	return 0, false
}

// LevelName returns the name under which a level is written: TRACE, NOTICE, CRITICAL, FATAL, or that of slog.
func LevelName(l slog.Level) string {
	switch l {
	case LevelTrace:
		return "TRACE"
	case LevelNotice:
		return "NOTICE"
	case LevelCritical:
		return "CRITICAL"
	case LevelFatal:
		return "FATAL"
	}
	return l.String()
}
