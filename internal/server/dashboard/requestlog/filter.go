package requestlog

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
)

// Filter chooses requests; empty fields choose all.
type Filter struct {
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
func (f Filter) More() bool {
	return f.Container+f.Blob+f.Queue+f.Table+f.Client+f.Status+f.FromText+f.UntilText != ""
}

// Any reports whether a field is set.
func (f Filter) Any() bool {
	return f.More() || f.Text+f.Service+f.Account != "" || f.Failed
}

// Takes reports whether the filter chooses a request.
func (f *Filter) Takes(q *Request) bool {
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
func (f *Filter) takesResource(q *Request) bool {
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
