package tables

import (
	"errors"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
	"time"
)

// Key names an entity of a table.
type Key struct{ PartitionKey, RowKey string }

// maxTicks are the 100 ns from year 1 to the end of year 9999: DateTime.MaxValue.Ticks of .NET.
const maxTicks = 3155378975999999999

// ticksOf counts the 100 ns since the beginning of the year 1, as .NET's DateTime.Ticks.
func ticksOf(t time.Time) int64 {
	const unixEpoch = 621355968000000000
	return unixEpoch + t.Unix()*1e7 + int64(t.Nanosecond())/100
}

// InvertedTicks is a key that sorts the latest time first (log tail pattern): DateTime.MaxValue.Ticks minus the time's,
// in 19 digits, as the design guide has it for .NET. Times after the year 9999 and before the year 1 are an error.
func InvertedTicks(t time.Time) (string, error) {
	n := maxTicks - ticksOf(t.UTC())
	if n < 0 || n > maxTicks {
		return "", fmt.Errorf("tables: the time %v is not between the years 1 and 9999", t)
	}
	return fmt.Sprintf("%019d", n), nil
}

// ParseInvertedTicks returns the time, in UTC, of a key that InvertedTicks made.
func ParseInvertedTicks(key string) (time.Time, error) {
	n, err := strconv.ParseInt(key, 10, 64)
	if err != nil || len(key) != 19 || n < 0 || n > maxTicks {
		return time.Time{}, fmt.Errorf("tables: %q is not a key of inverted ticks", key)
	}
	ticks := maxTicks - n
	const unixEpoch = 621355968000000000
	return time.Unix(ticks/1e7-unixEpoch/1e7, ticks%1e7*100).UTC(), nil
}

// Int64Key is a key that sorts as the numbers do, negative ones included: 20 digits with an offset.
func Int64Key(n int64) string { return fmt.Sprintf("%020d", uint64(n)^(1<<63)) }

// ParseInt64Key returns the number of a key that Int64Key made.
func ParseInt64Key(key string) (int64, error) {
	n, err := strconv.ParseUint(key, 10, 64)
	if err != nil || len(key) != 20 {
		return 0, fmt.Errorf("tables: %q is not the key of a number", key)
	}
	return int64(n ^ (1 << 63)), nil
}

// ZeroPad is a key that sorts as the numbers from 0 on do, if all have the same width. A number with more digits is an
// error: its key would sort wrongly.
func ZeroPad(n uint64, width int) (string, error) {
	s := strconv.FormatUint(n, 10)
	if len(s) > width {
		return "", fmt.Errorf("tables: %d has more than %d digits", n, width)
	}
	return strings.Repeat("0", width-len(s)) + s, nil
}

// DateKey is a key for a day, "2026-11-22", in UTC.
func DateKey(t time.Time) string { return t.UTC().Format(time.DateOnly) }

// TimeKey is a key that sorts as times do, with the service's precision: "2026-11-22T10:05:00.0000000Z".
func TimeKey(t time.Time) string { return t.UTC().Format(timeLayout) }

// HashPrefix spreads keys evenly over partitions: it returns one of so many prefixes, "00" to "15" for 16, always the
// same for a key. Use it before keys that grow steadily, so that writes do not all go to the last partition; a reader
// of a range must query all [HashPrefixes].
func HashPrefix(key string, partitions int) string {
	h := fnv.New32a()
	h.Write([]byte(key))
	return prefix(int(h.Sum32()%uint32(max(partitions, 1))), partitions)
}

// HashPrefixes are all prefixes that HashPrefix returns.
func HashPrefixes(partitions int) []string {
	var all []string
	for i := range max(partitions, 1) {
		all = append(all, prefix(i, partitions))
	}
	return all
}

func prefix(i, partitions int) string {
	return fmt.Sprintf("%0*d", len(strconv.Itoa(max(partitions, 1)-1)), i)
}

// Period is the time that a table of a series lasts.
type Period int

// The periods of a series of tables.
const (
	Daily Period = iota
	Monthly
	Yearly
)

func (p Period) layout() string {
	return map[Period]string{Daily: "20060102", Monthly: "200601", Yearly: "2006"}[p]
}

// start returns the beginning of the period that t is in, next that of the one after it.
func (p Period) start(t time.Time) time.Time {
	t, err := time.Parse(p.layout(), t.UTC().Format(p.layout()))
	if err != nil {
		panic(err) // a layout reads what it wrote
	}
	return t
}

func (p Period) next(t time.Time) time.Time {
	switch p {
	case Daily:
		return p.start(t).AddDate(0, 0, 1)
	case Monthly:
		return p.start(t).AddDate(0, 1, 0)
	}
	return p.start(t).AddDate(1, 0, 0)
}

// PeriodName is the name of the table for a time, "Logins20261122" (high-volume delete pattern: deleting a table is one
// request).
func PeriodName(base string, p Period, t time.Time) string { return base + t.UTC().Format(p.layout()) }

// maxPeriods bounds PeriodNames.
const maxPeriods = 100_000

// PeriodNames are the names of the tables for the times from <= t < to, the earliest first. More than 100,000 are an
// error.
func PeriodNames(base string, p Period, from, to time.Time) ([]string, error) {
	var names []string
	for t := p.start(from); t.Before(to); t = p.next(t) {
		if len(names) == maxPeriods {
			return nil, errors.New("tables: more than 100,000 periods")
		}
		names = append(names, PeriodName(base, p, t))
	}
	return names, nil
}

// ParsePeriodName returns when the period of a table's name begins and ends, or false if the name is not of the series.
// Names of tables compare without case, as the service does.
func ParsePeriodName(base string, p Period, name string) (from, to time.Time, ok bool) {
	if len(name) != len(base)+len(p.layout()) || !strings.EqualFold(name[:len(base)], base) {
		return from, to, false
	}
	from, err := time.Parse(p.layout(), name[len(base):])
	return from, p.next(from), err == nil
}

// successor returns the smallest text that is greater than all texts that begin with prefix, in the service's order,
// which is that of UTF-16 code units. ok is false if no such text exists: if the prefix consists of U+FFFF only.
func successor(prefix string) (s string, ok bool) {
	runes := []rune(prefix)
	for i := len(runes) - 1; i >= 0; i-- {
		switch r := runes[i]; r {
		case 0xFFFF: // the last code unit
			continue
		case 0xD7FF: // surrogates come next, and with them what is beyond U+FFFF
			runes[i] = 0x10000
		case 0x10FFFF: // the last pair of surrogates
			runes[i] = 0xE000
		default:
			runes[i] = r + 1
		}
		return string(runes[:i+1]), true
	}
	return "", false
}
