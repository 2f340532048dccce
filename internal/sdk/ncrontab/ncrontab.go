// Package ncrontab reads the schedules of Azure Functions' timers.
//
// A schedule is an NCRONTAB expression, "{second} {minute} {hour} {day} {month} {day of week}", of which the seconds
// may be left out, or a constant interval "hh:mm:ss". Fields are *, numbers, names (JAN, MON), ranges, lists and steps.
// Unlike in cron, a day must match both day and day of week when both are given.
// https://learn.microsoft.com/azure/azure-functions/functions-bindings-timer#ncrontab-expressions
package ncrontab

import (
	"errors"
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"time"
)

// Schedule determines the times of runs. The zero value is not usable.
type Schedule struct {
	interval time.Duration // if not 0, the rest does not count

	seconds, minutes, hours, days, months, weekdays uint64 // bit n: the value n matches

	location *time.Location // nil: UTC
}

var (
	monthNames = map[string]int{"JAN": 1, "FEB": 2, "MAR": 3, "APR": 4, "MAY": 5, "JUN": 6, "JUL": 7, "AUG": 8, "SEP": 9,
		"OCT": 10, "NOV": 11, "DEC": 12}
	dayNames = map[string]int{"SUN": 0, "MON": 1, "TUE": 2, "WED": 3, "THU": 4, "FRI": 5, "SAT": 6}
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

// parsePart parses one item of a field's list: "*", "n" or "n-m", optionally with "/step". "n/step" extends to the last
// value.
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

// In returns the schedule with its fields read as local times of a place. An interval does not depend on it.
func (s Schedule) In(location *time.Location) Schedule {
	s.location = location
	return s
}

// Next returns the first time after t that the schedule matches, in UTC and to the second. For an interval it is t plus
// the interval.
//
// A schedule for all hours matches every hour that passes, also the one that is repeated when clocks are set back. A
// schedule for certain hours matches once a day: of a local time that comes twice the first, and one that is left out
// when clocks are set forward is moved by the time that is left out.
func (s Schedule) Next(t time.Time) time.Time {
	const allHours = 1<<24 - 1
	t = t.UTC()
	switch {
	case s.interval > 0:
		return t.Add(s.interval)
	case s.location == nil || s.location == time.UTC || s.hours == allHours:
		return s.nextElapsed(t)
	}
	return s.nextOnWall(t)
}

// nextOnWall finds the next match on a clock that is never set, and converts it.
func (s Schedule) nextOnWall(t time.Time) time.Time {
	local := t.In(s.location)
	wall := time.Date(local.Year(), local.Month(), local.Day(), local.Hour(), local.Minute(), local.Second(), 0, time.UTC)
	onWall := s
	onWall.location = nil
	for {
		wall = onWall.nextElapsed(wall)
		if wall.IsZero() {
			return wall
		}
		if at := fromWall(wall, s.location); at.After(t) {
			return at
		}
	}
}

// fromWall returns the time at which clocks at a place show what wall says in UTC: the first one, if they show it
// twice. If they never show it, it is the time that counts from the offset before the change.
func fromWall(wall time.Time, location *time.Location) time.Time {
	const day = 24 * time.Hour // Clocks are not changed twice within two days.
	_, before := wall.Add(-day).In(location).Zone()
	_, after := wall.Add(day).In(location).Zone()
	first := wall.Add(-time.Duration(before) * time.Second)
	if _, offset := first.In(location).Zone(); offset == before {
		return first
	}
	second := wall.Add(-time.Duration(after) * time.Second)
	if _, offset := second.In(location).Zone(); offset == after {
		return second
	}
	return first
}

// nextElapsed finds the next match by adding time that passes.
func (s Schedule) nextElapsed(t time.Time) time.Time {
	location := s.location
	if location == nil {
		location = time.UTC
	}
	t = t.Truncate(time.Second).Add(time.Second).In(location)
	// 29 February on a given weekday comes at least every 40 years, across a century without a leap year.
	for end := t.AddDate(41, 0, 0); t.Before(end); {
		sinceMinute := time.Duration(t.Second()) * time.Second
		sinceHour := time.Duration(t.Minute())*time.Minute + sinceMinute
		next := t
		switch {
		case s.months>>t.Month()&1 == 0:
			next = time.Date(t.Year(), t.Month()+1, 1, 0, 0, 0, 0, location)
		case s.days>>t.Day()&1 == 0 || s.weekdays>>t.Weekday()&1 == 0:
			next = time.Date(t.Year(), t.Month(), t.Day()+1, 0, 0, 0, 0, location)
		case s.hours>>t.Hour()&1 == 0:
			next = t.Add(time.Hour - sinceHour)
		case s.minutes>>t.Minute()&1 == 0:
			next = t.Add(time.Minute - sinceMinute)
		case s.seconds>>t.Second() == 0:
			next = t.Add(time.Minute - sinceMinute)
		case s.seconds>>t.Second()&1 == 0:
			next = t.Add(time.Duration(bits.TrailingZeros64(s.seconds>>t.Second())) * time.Second)
		default:
			return t.UTC()
		}
		if !next.After(t) { // A midnight that is left out when clocks are set forward can be converted to a time before it.
			next = t.Add(time.Hour - sinceHour)
		}
		t = next
	}
	return time.Time{}
}
