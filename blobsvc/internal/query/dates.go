package query

import "time"

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
