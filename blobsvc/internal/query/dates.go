package query

import (
	"fmt"
	"strings"
	"time"
)

// datePart is a part of a date.
type datePart byte

const (
	year datePart = iota
	month
	day
	hour
	minute
	second
	zoneHour // this and the next are only valid in EXTRACT
	zoneMinute
)

var dateParts = map[string]datePart{"YEAR": year, "MONTH": month, "DAY": day, "HOUR": hour, "MINUTE": minute,
	"SECOND":        second,
	"TIMEZONE_HOUR": zoneHour, "TIMEZONE_MINUTE": zoneMinute}

// unit maps the parts of fixed length to their length.
var unit = map[datePart]time.Duration{day: 24 * time.Hour, hour: time.Hour, minute: time.Minute, second: time.Second}

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

// timeOf evaluates to a timestamp or null.
func timeOf(e expression, r *row) (value, error) {
	v, err := r.argument(e)
	if err != nil || v.absent() {
		return nullValue, err
	}
	return v.time()
}

type dateAdd struct {
	part     datePart
	quantity expression
	to       expression
}

func (e *dateAdd) eval(r *row) (value, error) {
	q, err := r.argument(e.quantity)
	if err != nil || q.absent() {
		return nullValue, err
	}
	if q, err = q.cast(integer); err != nil {
		return q, err
	}
	v, err := timeOf(e.to, r)
	if err != nil || v.absent() {
		return v, err
	}
	const most = 10_000 * 366 * 24 * 3600 // seconds in all supported years
	if q.n > most || q.n < -most {
		return value{}, errOverflow
	}
	n := int(q.n)
	switch e.part {
	case year:
		return addMonths(v.t, 12*n)
	case month:
		return addMonths(v.t, n)
	case day:
		return timestampOf(v.t.AddDate(0, 0, n))
	}
	seconds := int64(n) * int64(unit[e.part]/time.Second)
	if seconds > most || seconds < -most {
		return value{}, errOverflow
	}
	return timestampOf(time.Unix(v.t.Unix()+seconds, int64(v.t.Nanosecond())).In(v.t.Location()))
}

// addMonths adds months and limits the day to the length of the resulting month: a month after January 31 is the end of
// February.
func addMonths(t time.Time, n int) (value, error) {
	if n > 12*10_000 || n < -12*10_000 {
		return value{}, errOverflow
	}
	first := time.Date(t.Year(), t.Month()+time.Month(n), 1, t.Hour(), t.Minute(), t.Second(), t.Nanosecond(),
		t.Location())
	if y := first.Year(); y < 1 || y > 9999 {
		return value{}, errOverflow
	}
	return timestampOf(first.AddDate(0, 0, min(t.Day(), daysIn(first.Year(), int(first.Month())))-1))
}

// dateDiff returns the number of whole parts between two times.
type dateDiff struct {
	part     datePart
	from, to expression
}

func (e *dateDiff) eval(r *row) (value, error) {
	a, err := timeOf(e.from, r)
	if err != nil || a.absent() {
		return a, err
	}
	b, err := timeOf(e.to, r)
	if err != nil || b.absent() {
		return b, err
	}
	from, to := a.t.UTC(), b.t.UTC()
	if u, ok := unit[e.part]; ok {
		// Compute in seconds first: a Duration is limited to 292 years.
		seconds := to.Unix() - from.Unix()
		switch nano := to.Nanosecond() - from.Nanosecond(); {
		case seconds > 0 && nano < 0:
			seconds--
		case seconds < 0 && nano > 0:
			seconds++
		}
		return intValue(seconds / int64(u/time.Second)), nil
	}
	months := monthsBetween(from, to)
	if e.part == year {
		months /= 12
	}
	return intValue(months), nil
}

// monthsBetween returns the number of whole months, negative if to is before from.
func monthsBetween(from, to time.Time) int64 {
	if to.Before(from) {
		return -monthsBetween(to, from)
	}
	n := (to.Year()-from.Year())*12 + int(to.Month()-from.Month())
	if v, err := addMonths(from, n); n > 0 && err == nil && v.t.After(to) {
		n--
	}
	return int64(n)
}

// extract implements EXTRACT(part FROM timestamp).
type extract struct {
	part datePart
	of   expression
}

func (e *extract) eval(r *row) (value, error) {
	v, err := timeOf(e.of, r)
	if err != nil || v.absent() {
		return v, err
	}
	_, offset := v.t.Zone()
	return intValue(int64([...]int{v.t.Year(), int(v.t.Month()), v.t.Day(), v.t.Hour(), v.t.Minute(), v.t.Second(),
		offset / 3600, offset % 3600 / 60}[e.part])), nil
}

// toString implements TO_STRING(timestamp, format).
type toString struct{ of, format expression }

func (e *toString) eval(r *row) (value, error) {
	v, err := timeOf(e.of, r)
	if err != nil || v.absent() {
		return v, err
	}
	f, err := r.argument(e.format)
	if err != nil || f.absent() {
		return nullValue, err
	}
	pattern := f.text().b
	if err := r.Spend(20 * len(pattern)); err != nil {
		return value{}, err
	}
	return textValue(formatTime(v.t, string(pattern))), nil
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
