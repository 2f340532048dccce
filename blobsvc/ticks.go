package blobsvc

import (
	"strings"
	"sync/atomic"
	"time"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
)

// ticks is a time in units of 100 ns since year 1 UTC: the precision and the epoch of Azure's snapshot times and entity
// tags. 0 means none.
type ticks int64

// unixEpochTicks is 1970-01-01 in ticks.
const unixEpochTicks = 621355968000000000

func ticksOf(t time.Time) ticks {
	if t.IsZero() {
		return 0
	}
	return ticks(t.Unix()*1e7+int64(t.Nanosecond())/100) + unixEpochTicks
}

func (t ticks) time() time.Time {
	if t == 0 {
		return time.Time{}
	}
	n := int64(t - unixEpochTicks)
	return time.Unix(n/1e7, n%1e7*100).UTC()
}

// rfc1123 is the form of Last-Modified. It is spelled out because listings format two of them for each item.
func (t ticks) rfc1123() string { return string(t.appendRFC1123(make([]byte, 0, 29))) }

func (t ticks) appendRFC1123(b []byte) []byte {
	u := t.time()
	year, month, day := u.Date()
	hour, minute, second := u.Clock()
	b = append(b, "SunMonTueWedThuFriSat"[3*u.Weekday():][:3]...)
	b = append(b, ',', ' ')
	b = appendTwo(b, day)
	b = append(b, ' ')
	b = append(b, "JanFebMarAprMayJunJulAugSepOctNovDec"[3*(month-1):][:3]...)
	b = append(b, ' ')
	b = appendTwo(b, year/100)
	b = appendTwo(b, year%100)
	b = append(b, ' ')
	b = appendTwo(b, hour)
	b = append(b, ':')
	b = appendTwo(b, minute)
	b = append(b, ':')
	b = appendTwo(b, second)
	return append(b, " GMT"...)
}

func appendTwo(b []byte, n int) []byte { return append(b, byte('0'+n/10%10), byte('0'+n%10)) }

// iso is the form of snapshot and version ids: 7 digits of a second.
func (t ticks) iso() string { return wire.FormatISO7(t.time()) }

// parseSnapshotTime reads a snapshot or version id. Azure accepts fewer digits of the second, too.
func parseSnapshotTime(s string) (ticks, bool) {
	if len(s) > len(wire.ISO7) || !strings.HasSuffix(s, "Z") {
		return 0, false
	}
	t, err := time.Parse("2006-01-02T15:04:05.9999999Z", s)
	if err != nil || t.Year() < 1601 {
		return 0, false
	}
	return ticksOf(t), true
}

const upperHex = "0123456789ABCDEF"

// etag is the entity tag of a change made at t, without quotes. Every change has its own time, see [tickSource].
func (t ticks) etag() string { return string(t.appendETag(make([]byte, 0, 18))) }

func (t ticks) appendETag(b []byte) []byte {
	b = append(b, "0x"...)
	started := false
	for shift := 60; shift >= 0; shift -= 4 {
		digit := int64(t) >> shift & 15
		if digit != 0 || started || shift == 0 {
			started = true
			b = append(b, upperHex[digit])
		}
	}
	return b
}

func (t ticks) quotedETag() string {
	b := append(make([]byte, 0, 20), '"')
	return string(append(t.appendETag(b), '"'))
}

// tickSource gives every change of one process a time of its own, so that entity tags and snapshot ids never repeat.
type tickSource struct{ last atomic.Int64 }

// next returns now, or the first later tick that was not given out.
func (s *tickSource) next(now time.Time) ticks {
	t := int64(ticksOf(now))
	for {
		last := s.last.Load()
		if t <= last {
			t = last + 1
		}
		if s.last.CompareAndSwap(last, t) {
			return ticks(t)
		}
	}
}
