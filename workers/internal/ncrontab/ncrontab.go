// Package ncrontab reads the schedules of Azure Functions' timers.
//
// A schedule is an NCRONTAB expression, "{second} {minute} {hour} {day} {month} {day of week}", of which the seconds may be left
// out, or a constant interval "hh:mm:ss". Fields are *, numbers, names (JAN, MON), ranges, lists and steps. Unlike in cron, a
// day must match both day and day of week when both are given.
// https://learn.microsoft.com/azure/azure-functions/functions-bindings-timer#ncrontab-expressions
package ncrontab

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Schedule tells when to run. The zero value is not usable.
type Schedule struct {
	interval time.Duration // if not 0, the rest does not count

	seconds, minutes, hours, days, months, weekdays uint64 // bit n: the value n matches
}

var (
	monthNames = map[string]int{"JAN": 1, "FEB": 2, "MAR": 3, "APR": 4, "MAY": 5, "JUN": 6, "JUL": 7, "AUG": 8, "SEP": 9, "OCT": 10, "NOV": 11, "DEC": 12}
	dayNames   = map[string]int{"SUN": 0, "MON": 1, "TUE": 2, "WED": 3, "THU": 4, "FRI": 5, "SAT": 6}
)

// Parse reads a schedule. One that never comes, such as 30 February, is an error.
func Parse(text string) (Schedule, error) {
	var s Schedule
	fields := strings.Fields(text)
	var err error
	switch len(fields) {
	case 1:
		s.interval, err = parseInterval(fields[0])
	case 5:
		err = s.parseFields(append([]string{"0"}, fields...))
	case 6:
		err = s.parseFields(fields)
	default:
		err = fmt.Errorf("it has %d fields, not six", len(fields))
	}
	if err == nil && s.Next(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)).IsZero() {
		err = errors.New("there is no such day")
	}
	if err != nil {
		return Schedule{}, fmt.Errorf("schedule %q: %w", text, err)
	}
	return s, nil
}

// parseInterval reads "hh:mm:ss" or "d.hh:mm:ss".
func parseInterval(text string) (time.Duration, error) {
	refused := errors.New("a single field must be an interval hh:mm:ss")
	var days int
	rest := text
	if before, after, ok := strings.Cut(text, "."); ok {
		var err error
		if days, err = number(before, 10_000_000); err != nil {
			return 0, refused
		}
		rest = after
	}
	parts := strings.Split(rest, ":")
	if len(parts) != 3 {
		return 0, refused
	}
	d := time.Duration(days) * 24 * time.Hour
	for i, unit := range []struct {
		length time.Duration
		most   int
	}{{time.Hour, 23}, {time.Minute, 59}, {time.Second, 59}} {
		n, err := number(parts[i], unit.most)
		if err != nil {
			return 0, refused
		}
		d += time.Duration(n) * unit.length
	}
	if d <= 0 || d > 100*365*24*time.Hour {
		return 0, errors.New("the interval is not between a second and a hundred years")
	}
	return d, nil
}

func (s *Schedule) parseFields(fields []string) error {
	for i, f := range []struct {
		name        string
		to          *uint64
		first, last int
		names       map[string]int
	}{
		{"second", &s.seconds, 0, 59, nil},
		{"minute", &s.minutes, 0, 59, nil},
		{"hour", &s.hours, 0, 23, nil},
		{"day", &s.days, 1, 31, nil},
		{"month", &s.months, 1, 12, monthNames},
		{"day of week", &s.weekdays, 0, 6, dayNames},
	} {
		for part := range strings.SplitSeq(fields[i], ",") {
			bits, err := parsePart(part, f.first, f.last, f.names)
			if err != nil {
				return fmt.Errorf("%s %q: %w", f.name, fields[i], err)
			}
			*f.to |= bits
		}
	}
	return nil
}

// parsePart reads one of a field's list: "*", "n", "n-m", each perhaps with "/step". "n/step" goes on to the last value.
func parsePart(text string, first, last int, names map[string]int) (uint64, error) {
	span, stepText, stepped := strings.Cut(text, "/")
	step := 1
	if stepped {
		var err error
		if step, err = number(stepText, last); err != nil || step == 0 {
			return 0, fmt.Errorf("%q is not a step", stepText)
		}
	}
	from, to := first, last
	if span != "*" {
		low, high, ranged := strings.Cut(span, "-")
		var err error
		if from, err = parseValue(low, first, last, names); err != nil {
			return 0, err
		}
		switch {
		case ranged:
			if to, err = parseValue(high, first, last, names); err != nil {
				return 0, err
			}
		case !stepped:
			to = from
		}
	}
	if from > to {
		return 0, fmt.Errorf("the range %q ends before it begins", span)
	}
	var bits uint64
	for v := from; v <= to; v += step {
		bits |= 1 << v
	}
	return bits, nil
}

func parseValue(text string, first, last int, names map[string]int) (int, error) {
	if len(text) >= 3 {
		for name, v := range names {
			if strings.EqualFold(text, name) {
				return v, nil
			}
		}
	}
	v, err := number(text, last)
	if err != nil || v < first {
		return 0, fmt.Errorf("%q is not a value from %d to %d", text, first, last)
	}
	return v, nil
}

// number reads a decimal number without a sign.
func number(text string, most int) (int, error) {
	if text == "" || len(text) > 8 || strings.Trim(text, "0123456789") != "" {
		return 0, errors.New("not a number")
	}
	n, err := strconv.Atoi(text)
	if err != nil || n > most {
		return 0, errors.New("out of range")
	}
	return n, nil
}

// Next returns the first time after t at which the schedule comes, in UTC, to the second. For an interval it is t plus the interval.
func (s Schedule) Next(t time.Time) time.Time {
	t = t.UTC()
	if s.interval > 0 {
		return t.Add(s.interval)
	}
	t = t.Truncate(time.Second).Add(time.Second)
	// 29 February on a given weekday comes at least every 40 years, across a century without a leap year.
	for end := t.AddDate(41, 0, 0); t.Before(end); {
		switch {
		case s.months>>t.Month()&1 == 0:
			t = time.Date(t.Year(), t.Month()+1, 1, 0, 0, 0, 0, time.UTC)
		case s.days>>t.Day()&1 == 0 || s.weekdays>>t.Weekday()&1 == 0:
			t = time.Date(t.Year(), t.Month(), t.Day()+1, 0, 0, 0, 0, time.UTC)
		case s.hours>>t.Hour()&1 == 0:
			t = t.Truncate(time.Hour).Add(time.Hour)
		case s.minutes>>t.Minute()&1 == 0:
			t = t.Truncate(time.Minute).Add(time.Minute)
		case s.seconds>>t.Second()&1 == 0:
			t = t.Add(time.Second)
		default:
			return t
		}
	}
	return time.Time{}
}
