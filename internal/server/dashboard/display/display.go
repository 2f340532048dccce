package display

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

// Bytes is a number of bytes for people.
func Bytes(n int64) string {
	if n < 1024 {
		return strconv.FormatInt(n, 10) + " B"
	}
	v, unit := float64(n), ""
	for _, unit = range []string{"KiB", "MiB", "GiB", "TiB", "PiB"} {
		if v /= 1024; v < 1024 {
			break
		}
	}
	return strconv.FormatFloat(v, 'f', 1, 64) + " " + unit
}

// Count is a number with commas: 1,234,567.
func Count(n int) string {
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// Plural is "1 message" or "3 messages".
func Plural(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return Count(n) + " " + noun
}

// AtLeast is a number that is a lower bound if there is more: "1,000+".
func AtLeast(n int, more bool) string {
	if more {
		return Count(n) + "+"
	}
	return Count(n)
}

// When is a time in UTC, "" for the zero time.
func When(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05 UTC")
}

// Ago is the time since t.
func Ago(t, now time.Time) string {
	if t.IsZero() {
		return ""
	}
	return Short(now.Sub(t)) + " ago"
}

// Until is the time up to t. The year 9999 is that of messages without expiry.
func Until(t, now time.Time) string {
	switch {
	case t.IsZero():
		return ""
	case t.Year() >= 9999:
		return "never"
	}
	if !t.After(now) {
		return "now"
	}
	return "in " + Short(t.Sub(now))
}

// Short is a duration in its two largest units.
func Short(d time.Duration) string {
	d = max(d, 0)
	switch {
	case d < time.Second:
		return strconv.FormatInt(d.Milliseconds(), 10) + " ms"
	case d < time.Minute:
		return strconv.Itoa(int(d.Seconds())) + " s"
	case d < time.Hour:
		return fmt.Sprintf("%d min %d s", int(d.Minutes()), int(d.Seconds())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%d days", int(d.Hours())/24)
}

// Took is a duration that may be short: "12.5 ms", "7.5 s", "2 min 3 s".
func Took(d time.Duration) string {
	switch {
	case d < time.Second:
		return Milliseconds(d)
	case d < time.Minute:
		return strconv.FormatFloat(max(1, math.Floor(d.Seconds()*10)/10), 'f', 1, 64) + " s" // 59.96 s is not 60.0 s
	}
	return Short(d)
}

// Milliseconds is a duration in milliseconds: "12.5 ms".
func Milliseconds(d time.Duration) string {
	return strconv.FormatFloat(float64(d.Microseconds())/1000, 'f', 1, 64) + " ms"
}
