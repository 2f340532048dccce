package dashboard

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
)

// RequestFilter chooses requests; empty fields choose all.
type RequestFilter struct {
	Service string
	Account string
	Failed  bool   // with an error, or without a response
	Quiet   bool   // also those that runtimes send of their own accord
	Text    string // in the operation, path, error code, client, request ids or status
	// Container, Queue and Table name the resource, Blob the beginning of a blob's name.
	Container, Blob, Queue, Table string
	Client                        string // in the User-Agent
	Status                        string // a status, or 4xx
	From, Until                   time.Time
	FromText, UntilText           string // as a person wrote them
}

// More reports whether a field is set that the page shows only when asked.
func (f RequestFilter) More() bool {
	return f.Container+f.Blob+f.Queue+f.Table+f.Client+f.Status+f.FromText+f.UntilText != ""
}

// Any reports whether a field is set.
func (f RequestFilter) Any() bool {
	return f.More() || f.Text+f.Service+f.Account != "" || f.Failed
}

// requestFilter reads the filter of a page's address.
func (d *dashboard) requestFilter(r *http.Request) (f RequestFilter, err error) {
	q := r.URL.Query()
	f = RequestFilter{Service: q.Get("service"), Account: q.Get("in"), Failed: q.Get("failed") != "",
		Quiet: q.Get("quiet") != "", Text: q.Get("text"), Container: q.Get("container"), Blob: q.Get("blob"),
		Queue: q.Get("queue"), Table: q.Get("table"), Client: q.Get("client"), Status: strings.ToLower(q.Get("status")),
		FromText: q.Get("from"), UntilText: q.Get("until")}
	if f.Status != "" && !validStatus(f.Status) {
		return f, problem{http.StatusBadRequest, "The status " + f.Status + " is not one",
			"Write a status such as 404, or a class such as 4xx."}
	}
	now := d.Now()
	for _, t := range []struct {
		text string
		to   *time.Time
	}{{f.FromText, &f.From}, {f.UntilText, &f.Until}} {
		if *t.to, err = parseTime(t.text, now); err != nil {
			return f, problem{http.StatusBadRequest, "The time " + t.text + " is not one",
				"Write a time of the last day in UTC, 15:04 or 15:04:05, a whole time, 2006-01-02T15:04:05Z, or how long ago " +
					"it is, 10m."}
		}
	}
	return f, nil
}

// validStatus accepts 404 and 4xx.
func validStatus(text string) bool {
	if class, ok := strings.CutSuffix(text, "xx"); ok {
		return len(class) == 1 && class[0] >= '1' && class[0] <= '5'
	}
	n, err := strconv.Atoi(text)
	return err == nil && n >= 100 && n < 600
}

// parseTime reads a time: a whole one, one of the last 24 hours in UTC, or a duration before now. "" is the zero time.
func parseTime(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t, nil
	}
	for _, layout := range []string{"15:04", "15:04:05", "15:04:05.000"} {
		t, err := time.Parse(layout, text)
		if err != nil {
			continue
		}
		day := now.UTC().Truncate(24 * time.Hour)
		t = day.Add(t.Sub(time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC)))
		if t.After(now) { // shortly after midnight, 23:50 is that of yesterday
			t = t.Add(-24 * time.Hour)
		}
		return t, nil
	}
	return time.Time{}, fmt.Errorf("%q is no time", text)
}

func (f *RequestFilter) takes(q *Request) bool {
	if q.Number == 0 || f.Service != "" && f.Service != q.Service || f.Account != "" && f.Account != q.Account ||
		f.Failed && q.Status != 0 && q.Status < 400 || !f.Quiet && q.Quiet ||
		!f.From.IsZero() && q.At.Before(f.From) || !f.Until.IsZero() && q.At.After(f.Until) {
		return false
	}
	if f.Status != "" && f.Status != q.StatusText() && f.Status != strconv.Itoa(q.Status/100)+"xx" ||
		f.Client != "" && !holds(q.Client, f.Client) || !f.takesResource(q) {
		return false
	}
	return f.Text == "" || slices.ContainsFunc([]string{q.Operation, q.Method, q.Path, q.Code, q.Client, q.ID, q.ClientID,
		q.Fault, q.StatusText()}, func(s string) bool { return holds(s, f.Text) })
}

// takesResource applies the fields about the resource.
func (f *RequestFilter) takesResource(q *Request) bool {
	if f.Container == "" && f.Blob == "" && f.Queue == "" && f.Table == "" {
		return true
	}
	first, rest := q.names()
	for _, is := range []struct {
		want    string
		service wire.Service
		fold    bool // names of tables have no case
	}{{f.Container, wire.Blob, false}, {f.Queue, wire.Queue, false}, {f.Table, wire.Table, true}} {
		if is.want != "" && (q.Service != is.service.String() || first != is.want && !(is.fold && strings.EqualFold(first,
			is.want))) {
			return false
		}
	}
	return f.Blob == "" || q.Service == wire.Blob.String() && rest != "" && strings.HasPrefix(rest, f.Blob)
}

// holds reports whether a text has a part, whatever their case.
func holds(text, part string) bool {
	return strings.Contains(strings.ToLower(text), strings.ToLower(part))
}
