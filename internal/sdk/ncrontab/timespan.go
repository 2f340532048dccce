package ncrontab

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// maxSpanDays bounds the days of a time span: a hundred years.
const maxSpanDays = 36_500

// ParseTimeSpan reads the text of a TimeSpan of .NET: "[d.]hh:mm[:ss[.fffffff]]", "d:hh:mm:ss", or whole days. Where
// the hours of "hh:mm:ss" are more than 23 it is "d:hh:mm": "24:00:00" is 24 days, as in .NET.
// https://learn.microsoft.com/dotnet/api/system.timespan.parse
func ParseTimeSpan(s string) (time.Duration, error) {
	bad := fmt.Errorf("%q is not a time span like 00:05:00", s)
	text, negative := strings.CutPrefix(strings.TrimSpace(s), "-")
	parts := strings.Split(text, ":")
	dotted := false // the days are before a period
	if len(parts) > 1 {
		if days, hours, ok := strings.Cut(parts[0], "."); ok {
			parts, dotted = append([]string{days, hours}, parts[1:]...), true
		}
	}
	fraction, fractional := "", false
	if last := len(parts) - 1; last >= 2 {
		parts[last], fraction, fractional = strings.Cut(parts[last], ".")
	}
	values := make([]int64, len(parts))
	for i, part := range parts {
		n, err := strconv.ParseUint(part, 10, 31)
		if err != nil {
			return 0, bad
		}
		values[i] = int64(n)
	}
	var days, hours, minutes, seconds int64
	switch v := values; {
	case len(v) == 1:
		days = v[0]
	case len(v) == 2:
		hours, minutes = v[0], v[1]
	case len(v) == 3 && (dotted || v[0] > 23) && !fractional:
		days, hours, minutes = v[0], v[1], v[2]
	case len(v) == 3 && !dotted:
		hours, minutes, seconds = v[0], v[1], v[2]
	case len(v) == 4:
		days, hours, minutes, seconds = v[0], v[1], v[2], v[3]
	default:
		return 0, bad
	}
	if days > maxSpanDays || hours > 23 || minutes > 59 || seconds > 59 || len(fraction) > 7 {
		return 0, bad
	}
	d := time.Duration(days)*24*time.Hour + time.Duration(hours)*time.Hour + time.Duration(minutes)*time.Minute +
		time.Duration(seconds)*time.Second
	if fractional {
		ticks, err := strconv.ParseUint((fraction + "0000000")[:7], 10, 31)
		if err != nil || fraction == "" {
			return 0, bad
		}
		d += time.Duration(ticks) * 100
	}
	if negative {
		d = -d
	}
	return d, nil
}
