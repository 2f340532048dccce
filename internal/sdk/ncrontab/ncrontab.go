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
	monthNames = []string{"January", "February", "March", "April", "May", "June", "July", "August", "September",
		"October", "November", "December"}
	dayNames = []string{"Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"}
)

// Parse reads a schedule by the rules of the library NCrontab, and of the timers of Azure Functions for intervals. One
// that never comes, such as 30 February, is no error: Next returns the zero time.
// https://github.com/atifaziz/NCrontab/blob/d122d58/NCrontab/CrontabFieldImpl.cs
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
	if err != nil {
		return Schedule{}, fmt.Errorf("schedule %q: %w", text, err)
	}
	return s, nil
}

// parseInterval reads a time span.
func parseInterval(text string) (time.Duration, error) {
	d, err := ParseTimeSpan(text)
	if err != nil {
		return 0, errors.New("a single field must be an interval hh:mm:ss")
	}
	if d < time.Second || d > 100*365*24*time.Hour {
		return 0, errors.New("the interval is not between a second and a hundred years")
	}
	return d, nil
}

func (s *Schedule) parseFields(fields []string) error {
	for i, f := range []struct {
		name        string
		to          *uint64
		first, last int
		names       []string // of the values, from first on
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
// value. A range whose end comes first is turned round: 22-4 are the values from 4 to 22. A step that is not positive
// is 1, and one that leads past the last value is allowed.
func parsePart(text string, first, last int, names []string) (uint64, error) {
	span, stepText, stepped := strings.Cut(text, "/")
	step := 1
	if stepped {
		n, err := strconv.ParseInt(stepText, 10, 32)
		if err != nil {
			return 0, fmt.Errorf("%q is not a step", stepText)
		}
		step = max(1, int(n))
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
	var bits uint64
	for v := min(from, to); v <= max(from, to); v += step {
		bits |= 1 << v
	}
	return bits, nil
}

// parseValue reads a number, or the beginning of a name in any case: "M" is Monday, and March.
func parseValue(text string, first, last int, names []string) (int, error) {
	v, err := number(text, last)
	if err == nil && v >= first {
		return v, nil
	}
	for i, name := range names {
		if text != "" && len(text) <= len(name) && strings.EqualFold(text, name[:len(text)]) {
			return first + i, nil
		}
	}
	if names != nil {
		return 0, fmt.Errorf("%q is neither a value from %d to %d nor the beginning of a name, %s to %s", text, first, last,
			names[0], names[len(names)-1])
	}
	return 0, fmt.Errorf("%q is not a value from %d to %d", text, first, last)
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

// Interval returns the interval of a schedule hh:mm:ss, and 0 for an expression.
func (s Schedule) Interval() time.Duration { return s.interval }

// Next returns the first time after t that the schedule matches, in UTC and to the second, or the zero time if it never
// does. For an interval it is t plus the interval.
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
