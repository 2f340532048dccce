package ticks

import (
	"sync/atomic"
	"time"
)

const (
	perDay = 86400 * Second
	// fileTimeEpoch is 1601-01-01 in ticks.
	fileTimeEpoch = 504_911_232_000_000_000
)

// FileTime returns t in units of 100 ns since 1601, the form that Azure uses in the continuation tokens of table
// listings.
func (t Ticks) FileTime() int64 { return int64(t - fileTimeEpoch) }

// Append appends t as 2017-11-10T02:46:53.636692Z: up to seven decimals, without trailing zeros.
func (t Ticks) Append(dst []byte) []byte {
	var b [maxText]byte
	putSecond(&b, uint64(t)/Second)
	return append(dst, b[:putFraction(&b, uint64(t)%Second)]...)
}

// AppendEscaped is like Append, with "%3A" for ":", as in entity tags.
func (t Ticks) AppendEscaped(dst []byte) []byte {
	x := t.Text()
	return append(dst, x.Escaped()...)
}

// maxText is the length of the longest text of a time.
const maxText = len("2017-11-10T02:46:53.6366920Z")

// Text is the text of a time, for callers that write it more than once.
type Text struct {
	at      Ticks
	b       [maxText]byte
	n       int // 0 before the first Set
	escaped [maxText + 4]byte
}

// Is reports whether x is the text of t.
func (x *Text) Is(t Ticks) bool { return x.n > 0 && x.at == t }

// Plain returns the text as [Ticks.Append] has it.
func (x *Text) Plain() []byte { return x.b[:x.n] }

// Escaped returns the text as [Ticks.AppendEscaped] has it.
func (x *Text) Escaped() []byte {
	const escape = "%3A"
	dst := append(append(x.escaped[:0], x.b[:13]...), escape...)
	dst = append(append(dst, x.b[14:16]...), escape...)
	return append(dst, x.b[17:x.n]...)
}

// Text returns the text of t.
func (t Ticks) Text() (x Text) {
	x.Set(t)
	return x
}

// Set makes x the text of t. It costs less if x was the text of a time in the same second.
func (x *Text) Set(t Ticks) {
	second := uint64(t) / Second
	if x.n == 0 || uint64(x.at)/Second != second {
		putSecond(&x.b, second)
	}
	x.at, x.n = t, putFraction(&x.b, uint64(t)%Second)
}

// putSecond writes the text up to the fraction.
func putSecond(b *[maxText]byte, second uint64) {
	const perDay = perDay / Second
	date := dateOf(second / perDay)
	put2(b[0:], date.year/100%100) // never past the table, whatever a damaged file says
	put2(b[2:], date.year%100)
	b[4] = '-'
	put2(b[5:], date.month)
	b[7] = '-'
	put2(b[8:], date.dom)
	b[10] = 'T'
	putClock(b[11:], second%perDay)
}

// putFraction writes the rest of the text, and returns the length of all of it.
func putFraction(b *[maxText]byte, fraction uint64) (n int) {
	n = len("2017-11-10T02:46:53")
	if fraction > 0 {
		b[19] = '.'
		put2(b[20:], fraction/100_000)
		put2(b[22:], fraction/1000%100)
		put2(b[24:], fraction/10%100)
		b[26] = byte('0' + fraction%10)
		n = 27
		for b[n-1] == '0' {
			n--
		}
	}
	b[n] = 'Z'
	return n + 1
}

// putClock writes seconds of a day as "23:39:12".
func putClock(b []byte, second uint64) {
	put2(b, second/3600)
	b[2] = ':'
	put2(b[3:], second/60%60)
	b[5] = ':'
	put2(b[6:], second%60)
}

// put2 writes a number below 100 as two digits.
func put2(b []byte, n uint64) {
	const digits = "0001020304050607080910111213141516171819" + "2021222324252627282930313233343536373839" +
		"4041424344454647484950515253545556575859" +
		"6061626364656667686970717273747576777879" + "8081828384858687888990919293949596979899"
	b[0], b[1] = digits[2*n], digits[2*n+1]
}

type date struct{ year, month, dom uint64 }

// dates caches the dates of days, since a page of entities has few: the number of the day in the upper half, then year,
// month and day of the month.
var dates [64]atomic.Uint64

// dateOf returns the date of a day number since 0001-01-01.
func dateOf(day uint64) date {
	slot := &dates[day%uint64(len(dates))]
	p := slot.Load()
	if p>>32 != day || p == 0 {
		year, month, dom := civil(int64(day))
		p = day<<32 | uint64(year)<<16 | uint64(month)<<8 | uint64(dom)
		slot.Store(p)
	}
	return date{p >> 16 & 0xffff, p >> 8 & 0xff, p & 0xff}
}

// String returns t in the JSON form.
func (t Ticks) String() string { return string(t.Append(nil)) }

// civil converts a day number since 0001-01-01 to a date of the proleptic Gregorian calendar. It counts in eras of 400
// years that begin on 1 March, so that the leap day is the last day of its year.
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

// Parse parses a DateTime in any of the ISO 8601 forms that Azure documents. It keeps seven decimals and drops the
// rest. It does not check the range: clients send 0001-01-01 for a Timestamp that is ignored.
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

// AppendDateTimeETag appends the entity tag of a table entity that was changed at t:
// W/"datetime'2017-11-10T02%3A46%3A53.636692Z'".
func (t Ticks) AppendDateTimeETag(dst []byte) []byte {
	dst = append(dst, `W/"datetime'`...)
	dst = t.AppendEscaped(dst)
	return append(dst, `'"`...)
}

// DateTimeETag returns the entity tag of a table entity that was changed at t.
func (t Ticks) DateTimeETag() string { return string(t.AppendDateTimeETag(make([]byte, 0, 48))) }
