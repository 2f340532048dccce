package query

import (
	"fmt"
	"strings"
	"time"
)

// parseTime parses the formats of https://www.w3.org/TR/NOTE-datetime: a year, a month or a day, with or without a T
// after it; or a day with hours and minutes, seconds, fractions, and a zone, by default UTC.
func parseTime(s string) (time.Time, bool) {
	// Both closures take what they accept off s, which must be empty in the end.
	number := func(n int) (v int, ok bool) {
		if len(s) < n {
			return 0, false
		}
		for _, c := range []byte(s[:n]) {
			if c < '0' || c > '9' {
				return 0, false
			}
			v = v*10 + int(c-'0')
		}
		s = s[n:]
		return v, true
	}
	skip := func(c byte) bool {
		if len(s) > 0 && s[0] == c {
			s = s[1:]
			return true
		}
		return false
	}
	y, ok := number(4)
	mo, d := 1, 1
	if ok && skip('-') {
		if mo, ok = number(2); ok && skip('-') {
			d, ok = number(2)
		}
	}
	if !ok || y < 1 || mo < 1 || mo > 12 || d < 1 || d > daysIn(y, mo) {
		return time.Time{}, false
	}
	zone := time.UTC
	var h, mi, sec, nano int
	if (skip('T') || skip('t') || skip(' ')) && s != "" {
		if h, ok = number(2); !ok || !skip(':') {
			return time.Time{}, false
		}
		if mi, ok = number(2); ok && skip(':') {
			if sec, ok = number(2); ok && skip('.') {
				nano, s, ok = fraction(s)
			}
		}
		if ok {
			zone, s, ok = parseZone(s)
		}
	}
	if !ok || s != "" || h > 23 || mi > 59 || sec > 59 {
		return time.Time{}, false
	}
	return time.Date(y, time.Month(mo), d, h, mi, sec, nano, zone), true
}

func daysIn(y, m int) int { return time.Date(y, time.Month(m)+1, 0, 0, 0, 0, 0, time.UTC).Day() }

// fraction parses the digits after a decimal point as nanoseconds. Digits after the ninth are dropped.
func fraction(s string) (nano int, rest string, ok bool) {
	i := digits(s, 0)
	nano = 0
	for k := range 9 {
		nano *= 10
		if k < i {
			nano += int(s[k] - '0')
		}
	}
	return nano, s[i:], i > 0
}

// parseZone parses Z, ±hh:mm or ±hhmm. An empty zone is UTC.
func parseZone(s string) (*time.Location, string, bool) {
	if s == "" || s == "Z" || s == "z" {
		return time.UTC, "", true
	}
	sign := 1
	switch s[0] {
	case '-':
		sign = -1
	case '+':
	default:
		return nil, s, false
	}
	var h, m int
	digits := strings.Replace(s[1:], ":", "", 1)
	if n, err := fmt.Sscanf(digits, "%2d%2d", &h, &m); err != nil || n != 2 || len(digits) != 4 || h < 0 || h > 23 ||
		m < 0 || m > 59 {
		return nil, s, false
	}
	if h == 0 && m == 0 {
		return time.UTC, "", true
	}
	return time.FixedZone("", sign*(h*3600+m*60)), "", true
}

// formatTime formats t by a pattern: runs of the letters below are replaced by parts of t; quoted text and other
// characters are copied.
func formatTime(t time.Time, pattern string) string {
	var b strings.Builder
	for i := 0; i < len(pattern); {
		c := pattern[i]
		if c == '\'' {
			text, n, ok := quoted(pattern[i:])
			if !ok {
				// A quote that is not closed takes the rest, without an error: the pattern may come from the data.
				text, n = pattern[i+1:], len(pattern)-i
			}
			b.WriteString(text)
			i += n
			continue
		}
		n := 1
		for i+n < len(pattern) && pattern[i+n] == c {
			n++
		}
		// Most runs have a layout of Go's; fractions and zones are made by hand.
		if layout := timeLayout(c, n); layout != "" {
			b.WriteString(t.Format(layout))
		} else if s, ok := timeField(t, c, n); ok {
			b.WriteString(s)
		} else {
			b.WriteString(pattern[i : i+n])
		}
		i += n
	}
	return b.String()
}

// timeLayout returns the layout of package time for n letters c, or "" if package time has none.
func timeLayout(c byte, n int) string {
	// No layout has six letters, so that a longer run is cut to six and matches none.
	switch strings.Repeat(string(c), min(n, 6)) {
	case "yy":
		return "06"
	case "y", "yyyy":
		return "2006"
	case "M":
		return "1"
	case "MM":
		return "01"
	case "MMM":
		return "Jan"
	case "MMMM":
		return "January"
	case "d":
		return "2"
	case "dd":
		return "02"
	case "a":
		return "PM"
	case "h":
		return "3"
	case "hh":
		return "03"
	case "HH":
		return "15"
	case "m":
		return "4"
	case "mm":
		return "04"
	case "s":
		return "5"
	case "ss":
		return "05"
	case "XX", "XXXX":
		return "Z0700"
	case "XXX", "XXXXX":
		return "Z07:00"
	case "xx", "xxxx":
		return "-0700"
	case "xxx", "xxxxx":
		return "-07:00"
	}
	return ""
}

// timeField formats the parts for which package time has no layout.
func timeField(t time.Time, c byte, n int) (string, bool) {
	_, offset := t.Zone()
	switch {
	case c == 'H' && n == 1:
		return fmt.Sprint(t.Hour()), true
	case c == 'S' && n <= 9:
		return fmt.Sprintf("%09d", t.Nanosecond())[:n], true
	case c == 'X' && n == 1 && offset == 0:
		return "Z", true
	case (c == 'X' || c == 'x') && n == 1:
		return fmt.Sprint(offset / 3600), true
	}
	return "", false
}
