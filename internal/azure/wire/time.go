package wire

import (
	"net/http"
	"strings"
	"sync/atomic"
	"time"
)

// Layouts of times on the wire. All are UTC.
const (
	// RFC1123 is the form of Date, Last-Modified and the times in queue messages and listings.
	RFC1123 = http.TimeFormat
	// ISO7 has 100 ns: error messages, snapshots, table timestamps.
	ISO7 = "2006-01-02T15:04:05.0000000Z"
)

// FormatRFC1123 returns t as "Fri, 26 Jun 2015 23:39:12 GMT".
func FormatRFC1123(t time.Time) string {
	// Many answers have the same second, and a few others like an expiry a week later: the last formatted ones are kept.
	unix := t.Unix()
	kept := &lastRFC1123[uint64(unix)%uint64(len(lastRFC1123))]
	if c := kept.Load(); c != nil && c.unix == unix {
		return c.text
	}
	s := t.UTC().Format(RFC1123)
	kept.Store(&formatted{unix, s})
	return s
}

type formatted struct {
	unix int64
	text string
}

// lastRFC1123 has a prime number of entries, so that times whole minutes, hours or days apart do not displace each
// other.
var lastRFC1123 [31]atomic.Pointer[formatted]

// FormatISO7 returns t as "2015-06-26T23:39:12.1234567Z", cut to 100 ns.
func FormatISO7(t time.Time) string { return t.UTC().Format(ISO7) }

// httpLayouts are forms of HTTP dates besides those of net/http, all in UTC: those that .NET, in which the service is
// written, reads. Days and hours may have one digit, the day of the week, the zone and the century may be missing. What
// else the service reads is not documented.
var httpLayouts = []string{
	"Mon, _2 Jan 2006 15:04:05 GMT", "Mon, _2 Jan 2006 15:04:05", "_2 Jan 2006 15:04:05 GMT", "_2 Jan 2006 15:04:05",
	"Mon, _2 Jan 06 15:04:05 GMT", "_2 Jan 06 15:04:05 GMT", "Monday, _2-Jan-06 15:04:05 GMT",
	"Mon, _2 Jan 2006 15:04:05 -0700", "_2 Jan 2006 15:04:05 -0700", "Mon, _2 Jan 2006 15:04:05 -07:00",
	"_2 Jan 2006 15:04:05 -07:00",
}

// ParseRFC1123 parses an HTTP date: in the three forms that HTTP allows, or one of httpLayouts.
func ParseRFC1123(s string) (time.Time, error) {
	// The requests of one second have the same date: the last parsed one is kept.
	if c := lastParsed.Load(); c != nil && c.text == s {
		return c.time, nil
	}
	t, err := http.ParseTime(s)
	for i := 0; err != nil && i < len(httpLayouts); i++ {
		t, err = time.Parse(httpLayouts[i], s)
	}
	t = t.UTC()
	if err == nil {
		lastParsed.Store(&parsed{strings.Clone(s), t})
	}
	return t, err
}

type parsed struct {
	text string
	time time.Time
}

var lastParsed atomic.Pointer[parsed]

// isoLayouts are the forms of times that Azure accepts in SAS and stored access policies.
// https://learn.microsoft.com/rest/api/storageservices/formatting-datetime-values
var isoLayouts = []string{
	"2006-01-02", "2006-01-02T15:04Z07:00", "2006-01-02T15:04:05Z07:00", "2006-01-02T15:04:05.9999999Z07:00",
}

// ParseISO parses a time in one of the ISO 8601 forms that Azure accepts.
func ParseISO(s string) (time.Time, bool) {
	for _, layout := range isoLayouts {
		if t, err := time.Parse(layout, s); err == nil {
			return t.UTC(), true
		}
	}
	return time.Time{}, false
}
