package logstore

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// prefixOf begins the names of a slot's blobs, "orders/2026/03/01/0200/".
func prefixOf(service string, t time.Time, slot time.Duration) string {
	return service + "/" + t.UTC().Truncate(slot).Format("2006/01/02/1504") + "/"
}

// nameOf is the name of a blob.
func nameOf(prefix string, number int) string { return fmt.Sprintf("%s%06d.log", prefix, number) }

// numberOf reads a blob's number from its name.
func numberOf(name string) (int, bool) {
	digits, ok := strings.CutSuffix(name[strings.LastIndexByte(name, '/')+1:], ".log")
	n, err := strconv.Atoi(digits)
	return n, ok && err == nil && n >= 0
}

// slotOf reads the beginning of a blob's slot from its name; false if the name is not in the layout.
func slotOf(service, name string) (time.Time, bool) {
	rest, ok := strings.CutPrefix(name, service+"/")
	const layout = "2006/01/02/1504"
	if _, numbered := numberOf(name); !ok || !numbered || len(rest) < len(layout)+2 || strings.Count(rest, "/") != 4 {
		return time.Time{}, false
	}
	t, err := time.Parse(layout, rest[:len(layout)])
	return t, err == nil
}

// cover returns the fewest prefixes of whole hours and days that contain every slot from the hour of from to before to.
func cover(service string, from, to time.Time) (prefixes []string) {
	at := from.UTC().Truncate(time.Hour)
	for at.Before(to) {
		day := time.Date(at.Year(), at.Month(), at.Day(), 0, 0, 0, 0, time.UTC)
		if at.Equal(day) && at.AddDate(0, 0, 1).Add(-time.Hour).Before(to) {
			prefixes = append(prefixes, service+"/"+at.Format("2006/01/02/"))
			at = at.AddDate(0, 0, 1)
			continue
		}
		prefixes = append(prefixes, service+"/"+at.Format("2006/01/02/15"))
		at = at.Add(time.Hour)
	}
	return prefixes
}
