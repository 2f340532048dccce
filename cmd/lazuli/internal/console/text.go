package console

import (
	"fmt"
	"strings"
	"time"
)

// OneLine makes a body fit for a line of a table: control characters are escaped, and its end is left out if it is
// long.
func OneLine(body string) string {
	quoted := fmt.Sprintf("%q", body)
	text := []rune(strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`))
	if len(text) > 200 {
		return string(text[:199]) + "…"
	}
	return string(text)
}

// ClockText is a time as tables have it: "-" for the zero time, of what has not happened.
func ClockText(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format(time.RFC3339)
}

// Count is a number with its noun: "1 message", "2 messages", "3 entities".
func Count(n int, noun string) string {
	switch {
	case n == 1:
	case strings.HasSuffix(noun, "y"):
		noun = strings.TrimSuffix(noun, "y") + "ies"
	default:
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}
