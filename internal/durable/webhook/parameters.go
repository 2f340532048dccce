package webhook

import (
	"math"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/lazuli-storage/lazuli/internal/durable/hub"
	"github.com/lazuli-storage/lazuli/internal/durable/record"
)

// parameters are those of a query string. Names are compared in any case, as in ASP.NET. A value that cannot be read is
// refused with 400; the extension of Azure Functions ignores it, and a purge with a misspelled filter would delete more
// than was meant.
type parameters map[string][]string // keys in lower case

func parseParameters(raw string) (parameters, error) {
	values, err := url.ParseQuery(raw)
	if err != nil {
		return nil, badRequest("the query string cannot be read: %v", err)
	}
	p := parameters{}
	for name, list := range values {
		name = strings.ToLower(name)
		p[name] = append(p[name], list...)
	}
	return p, nil
}

// text returns the first value, or "" if the parameter is missing.
func (p parameters) text(name string) string {
	if list := p[strings.ToLower(name)]; len(list) > 0 {
		return list[0]
	}
	return ""
}

func (p parameters) boolean(name string, fallback bool) (bool, error) {
	switch text := strings.ToLower(p.text(name)); text {
	case "":
		return fallback, nil
	case "true":
		return true, nil
	case "false":
		return false, nil
	default:
		return false, badRequest("%s=%s is neither true nor false", name, text)
	}
}

// timeForms are the accepted formats of times, of the many that .NET's DateTime.TryParse reads; without a zone they are
// in UTC.
var timeForms = []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999", "2006-01-02T15:04",
	"2006-01-02T15:04Z07:00",
	"2006-01-02 15:04:05.999999999", "2006-01-02 15:04:05.999999999Z07:00", "2006-01-02 15:04", "2006-01-02 15:04Z07:00",
	"2006-01-02", "01/02/2006 15:04:05", "01/02/2006 15:04", "01/02/2006"}

// time returns a time, or the zero time if the parameter is missing.
func (p parameters) time(name string) (time.Time, error) {
	text := p.text(name)
	if text == "" {
		return time.Time{}, nil
	}
	for _, form := range timeForms {
		if t, err := time.Parse(form, text); err == nil {
			return t, nil
		}
	}
	return time.Time{}, badRequest("%s=%s is not a time such as 2006-01-02T15:04:05Z", name, text)
}

// maxWait bounds the time that a request may wait for the end of an instance.
const maxWait = time.Hour

// seconds returns a duration, and whether there is one.
func (p parameters) seconds(name string) (time.Duration, bool, error) {
	text := p.text(name)
	if text == "" {
		return 0, false, nil
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(n) || n < 0 || n > maxWait.Seconds() {
		return 0, false, badRequest("%s=%s is not a number of seconds from 0 to %.0f", name, text, maxWait.Seconds())
	}
	return time.Duration(n * float64(time.Second)), true, nil
}

// statuses returns the list runtimeStatus: names with commas between them, and the parameter can be repeated.
func (p parameters) statuses() ([]string, error) {
	var list []string
	for _, value := range p["runtimestatus"] {
		for name := range strings.SplitSeq(value, ",") {
			if name = strings.TrimSpace(name); name == "" {
				continue
			}
			if _, err := record.ParseStatus(name); err != nil {
				return nil, badRequest("runtimeStatus=%s is not the name of a status", name)
			}
			if len(list) == 16 {
				return nil, badRequest("runtimeStatus has more than 16 names")
			}
			list = append(list, name)
		}
	}
	return list, nil
}

// maxPage is the most that one answer to a query of a table has.
const maxPage = 1000

// filter reads the parameters that select instances.
func (p parameters) filter() (q hub.Query, err error) {
	if q.From, err = p.time("createdTimeFrom"); err != nil {
		return q, err
	}
	if q.To, err = p.time("createdTimeTo"); err != nil {
		return q, err
	}
	q.Status, err = p.statuses()
	return q, err
}
