// Package ticks defines the time format of records, entity tags and snapshot ids: 100 ns since year 1, the precision
// and the epoch of Azure's times. [Source] assigns a unique time to each change of a process.
//
// It does not depend on a storage format or on HTTP; entity tags of the Table service are in package entity.
package ticks

import "time"

// Ticks is a UTC time in units of 100 ns since 0001-01-01T00:00:00. The zero value is the zero [time.Time]; in records
// it means "no time".
type Ticks int64

// Second is the number of ticks in a second.
const Second = 10_000_000

// unixEpoch is 1970-01-01 in ticks.
const unixEpoch = 621_355_968_000_000_000

// Of converts t and truncates it to 100 ns.
func Of(t time.Time) Ticks {
	return Ticks(t.Unix()*Second + int64(t.Nanosecond())/100 + unixEpoch)
}

// Time returns t as a time in UTC.
func (t Ticks) Time() time.Time {
	if t == 0 {
		return time.Time{}
	}
	n := int64(t) - unixEpoch
	return time.Unix(n/Second, n%Second*100).UTC()
}

// Add returns t+d.
func (t Ticks) Add(d time.Duration) Ticks { return t + Ticks(d/100) }

// RFC1123 returns t in the format of Last-Modified: "Fri, 26 Jun 2015 23:39:12 GMT".
func (t Ticks) RFC1123() string { return string(t.AppendRFC1123(make([]byte, 0, 29))) }

// AppendRFC1123 appends [Ticks.RFC1123] to b. It avoids package time's layouts because listings format two times for
// each item.
func (t Ticks) AppendRFC1123(b []byte) []byte {
	day, second := uint64(t)/perDay, uint64(t)%perDay/Second
	d := dateOf(day)
	var x [len("Fri, 26 Jun 2015 23:39:12 GMT")]byte
	copy(x[0:], "SunMonTueWedThuFriSat"[3*((day+1)%7):][:3]) // day 0 is a Monday
	x[3], x[4] = ',', ' '
	put2(x[5:], d.dom)
	x[7] = ' '
	copy(x[8:], "JanFebMarAprMayJunJulAugSepOctNovDec"[3*(d.month-1):][:3])
	x[11] = ' '
	put2(x[12:], d.year/100%100) // never past the table, whatever a damaged file says
	put2(x[14:], d.year%100)
	x[16] = ' '
	putClock(x[17:], second)
	copy(x[25:], " GMT")
	return append(b, x[:]...)
}

// iso7 is the layout of snapshot and version ids.
const iso7 = "2006-01-02T15:04:05.0000000Z"

// ISO returns t with seven decimals, the format of snapshot and version ids: "2015-06-26T23:39:12.1234567Z".
func (t Ticks) ISO() string { return t.Time().Format(iso7) }

// ParseISO parses the format of [Ticks.ISO], also with fewer decimals, as Azure accepts it. ok is false for other text
// and for years before 1601.
func ParseISO(s string) (t Ticks, ok bool) {
	if len(s) > len(iso7) || len(s) == 0 || s[len(s)-1] != 'Z' {
		return 0, false
	}
	parsed, err := time.Parse("2006-01-02T15:04:05.9999999Z", s)
	if err != nil || parsed.Year() < 1601 {
		return 0, false
	}
	return Of(parsed), true
}

// HexETag returns the entity tag of a change made at t, without quotes: hexadecimal, the format of blobs and
// containers.
func (t Ticks) HexETag() string { return string(t.AppendHexETag(make([]byte, 0, 18))) }

// AppendHexETag appends [Ticks.HexETag] to b.
func (t Ticks) AppendHexETag(b []byte) []byte {
	const digits = "0123456789ABCDEF"
	b = append(b, "0x"...)
	started := false
	for shift := 60; shift >= 0; shift -= 4 {
		digit := int64(t) >> shift & 15
		if digit != 0 || started || shift == 0 {
			started = true
			b = append(b, digits[digit])
		}
	}
	return b
}

// QuotedHexETag returns [Ticks.HexETag] in quotes, for the ETag header.
func (t Ticks) QuotedHexETag() string {
	b := append(make([]byte, 0, 20), '"')
	return string(append(t.AppendHexETag(b), '"'))
}
