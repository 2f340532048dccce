package ticks

import "time"

const (
	perDay = 86400 * Second
	// fileTimeEpoch is 1601-01-01 in ticks.
	fileTimeEpoch = 504_911_232_000_000_000
)

// FileTime returns t in units of 100 ns since 1601, the form that Azure uses in the continuation tokens of table listings.
func (t Ticks) FileTime() int64 { return int64(t - fileTimeEpoch) }

// Append appends t as 2017-11-10T02:46:53.636692Z: up to seven decimals, without trailing zeros. colon replaces ":", because entity tags have
// "%3A".
func (t Ticks) Append(dst []byte, colon string) []byte {
	day, rest := int64(t)/perDay, int64(t)%perDay
	year, month, dom := civil(day)
	dst = append(dst, byte('0'+year/1000), byte('0'+year/100%10), byte('0'+year/10%10), byte('0'+year%10), '-',
		byte('0'+month/10), byte('0'+month%10), '-', byte('0'+dom/10), byte('0'+dom%10), 'T')
	second, fraction := rest/Second, rest%Second
	h, m, s := second/3600, second/60%60, second%60
	dst = append(dst, byte('0'+h/10), byte('0'+h%10))
	dst = append(dst, colon...)
	dst = append(dst, byte('0'+m/10), byte('0'+m%10))
	dst = append(dst, colon...)
	dst = append(dst, byte('0'+s/10), byte('0'+s%10))
	if fraction > 0 {
		dst = append(dst, '.')
		for unit := int64(Second / 10); fraction > 0; unit /= 10 {
			dst = append(dst, byte('0'+fraction/unit))
			fraction %= unit
		}
	}
	return append(dst, 'Z')
}

// String returns t in the JSON form.
func (t Ticks) String() string { return string(t.Append(nil, ":")) }

// civil converts a day number since 0001-01-01 to a date of the proleptic Gregorian calendar. It counts in eras of 400 years that begin on 1
// March, so that the leap day is the last day of its year.
func civil(day int64) (year, month, dom int64) {
	const daysPerEra = 146097
	day += 306 // to 0000-03-01
	era := day / daysPerEra
	d := day % daysPerEra
	y := (d - d/1460 + d/36524 - d/146096) / 365
	d -= 365*y + y/4 - y/100
	m := (5*d + 2) / 153
	dom = d - (153*m+2)/5 + 1
	year = y + era*400
	month = m + 3
	if month > 12 {
		month -= 12
		year++
	}
	return year, month, dom
}

// timeLayouts are the accepted forms of DateTime. A form without a zone is UTC.
// https://learn.microsoft.com/rest/api/storageservices/formatting-datetime-values
var timeLayouts = []string{
	"2006-01-02T15:04:05Z07:00", "2006-01-02T15:04:05", "2006-01-02T15:04Z07:00", "2006-01-02T15:04",
	"2006-01-02Z07:00", "2006-01-02",
}

// Parse parses a DateTime in any of the ISO 8601 forms that Azure documents. It keeps seven decimals and drops the rest.
// It does not check the range: clients send 0001-01-01 for a Timestamp that is ignored.
func Parse(s string) (Ticks, bool) {
	if t, ok := parseUTC(s); ok {
		return t, true
	}
	for _, layout := range timeLayouts {
		if t, err := time.Parse(layout, s); err == nil {
			return Of(t), t.Year() >= 1 && t.Year() <= 9999
		}
	}
	return 0, false
}

// parseUTC reads the common form 2006-01-02T15:04:05[.0000000]Z without package time.
func parseUTC(s string) (Ticks, bool) {
	if len(s) < 20 || s[4] != '-' || s[7] != '-' || s[10] != 'T' || s[13] != ':' || s[16] != ':' || s[len(s)-1] != 'Z' {
		return 0, false
	}
	year, a := digits(s[0:4])
	month, b := digits(s[5:7])
	dom, c := digits(s[8:10])
	h, d := digits(s[11:13])
	m, e := digits(s[14:16])
	sec, f := digits(s[17:19])
	if !(a && b && c && d && e && f) || year < 1 || month < 1 || month > 12 || dom < 1 || h > 23 || m > 59 || sec > 59 ||
		dom > daysIn(year, month) {
		return 0, false
	}
	var fraction int64
	if rest := s[19 : len(s)-1]; rest != "" {
		if rest[0] != '.' || len(rest) < 2 {
			return 0, false
		}
		rest = rest[1:]
		unit := int64(Second)
		for i := range len(rest) {
			if rest[i] < '0' || rest[i] > '9' {
				return 0, false
			}
			unit /= 10 // 0 past the seventh decimal: cut off
			fraction += unit * int64(rest[i]-'0')
		}
	}
	day := daysBefore(year, month) + int64(dom) - 1
	return Ticks(day*perDay + (int64(h)*3600+int64(m)*60+int64(sec))*Second + fraction), true
}

func digits(s string) (n int, ok bool) {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
		n = n*10 + int(s[i]-'0')
	}
	return n, true
}

func leap(year int) bool { return year%4 == 0 && (year%100 != 0 || year%400 == 0) }

func daysIn(year, month int) int {
	switch month {
	case 2:
		if leap(year) {
			return 29
		}
		return 28
	case 4, 6, 9, 11:
		return 30
	}
	return 31
}

// daysBefore counts the days from 0001-01-01 to the first of the month.
func daysBefore(year, month int) int64 {
	y := int64(year - 1)
	days := y*365 + y/4 - y/100 + y/400
	for m := 1; m < month; m++ {
		days += int64(daysIn(year, m))
	}
	return days
}

// AppendDateTimeETag appends the entity tag of a table entity that was changed at t: W/"datetime'2017-11-10T02%3A46%3A53.636692Z'".
func (t Ticks) AppendDateTimeETag(dst []byte) []byte {
	dst = append(dst, `W/"datetime'`...)
	dst = t.Append(dst, "%3A")
	return append(dst, `'"`...)
}

// DateTimeETag returns the entity tag of a table entity that was changed at t.
func (t Ticks) DateTimeETag() string { return string(t.AppendDateTimeETag(make([]byte, 0, 48))) }
