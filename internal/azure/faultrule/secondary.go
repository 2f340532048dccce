package faultrule

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/lazyregexp"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// Secondary makes the secondary endpoint lag behind the primary one, or the account fail over to it.
//
// The secondary serves what was last changed before the last sync time, and answers 404 for what was changed after it.
// It does not have the former state of what was changed, which Azure would serve.
type Secondary struct {
	// Lag is the time by which the secondary is behind: the last sync time is Lag ago.
	Lag Duration `json:"lag,omitempty"`
	// Status is the status in Get Service Stats: "live" (the default), "bootstrap" or "unavailable". Only a live secondary
	// has a last sync time.
	Status string `json:"status,omitempty"`
	// FailedOver makes the account fail over when the rule is added: reads at the primary endpoint do not see what was
	// changed in the last Lag before that moment, and the secondary endpoint does not answer.
	FailedOver bool `json:"failedOver,omitempty"`
}

// maxLag bounds Secondary.Lag.
const maxLag = 365 * 24 * time.Hour

// The values of Rule.Endpoint.
const (
	primaryEndpoint   = "primary"
	secondaryEndpoint = "secondary"
)

func (s *Secondary) validate(r *Rule) error {
	switch {
	case s.Lag < 0 || time.Duration(s.Lag) > maxLag:
		return invalid("secondary: lag is %v, want a time from 0s to %v", time.Duration(s.Lag), maxLag)
	case !slices.Contains([]string{"", "live", "bootstrap", "unavailable"}, s.Status):
		return invalid("secondary: status is %q, want live, bootstrap or unavailable", s.Status)
	case s.FailedOver && s.Status != "":
		return invalid("secondary: an account that has failed over has no status of a secondary")
	case r.Endpoint != "":
		return invalid("endpoint cannot be combined with secondary")
	}
	return nil
}

// concerns reports whether the rule has an effect on a request.
func (s *Secondary) concerns(r *wire.Request) bool {
	if r.Secondary || !s.FailedOver {
		return r.Secondary
	}
	return r.HTTP.Method == http.MethodGet || r.HTTP.Method == http.MethodHead
}

// hidden are the times of changes that a read does not see: after from, up to to.
type hidden struct{ from, to time.Time }

// covers reports whether a change at t is not seen.
func (h hidden) covers(t time.Time) bool { return t.After(h.from) && !t.After(h.to) }

// serve answers a read of a secondary that lags, or after a failover. added is when the rule was added.
func (s *Secondary) serve(r *wire.Request, added time.Time, do func() error) error {
	if s.FailedOver && r.Secondary {
		cut(r.Out)
		return nil
	}
	h := hidden{from: r.Now.Add(-time.Duration(s.Lag)).Truncate(time.Second), to: r.Now.Add(maxLag)}
	if s.FailedOver {
		h = hidden{from: added.Add(-time.Duration(s.Lag)).Truncate(time.Second), to: added}
	}
	r.Replication = wire.Replication{Status: s.Status, LastSync: h.from}
	out := r.Out
	w := &stale{out: out, hidden: h}
	r.Out = w
	err := do()
	r.Out = out
	switch {
	case w.absent:
		return notFound(r)
	case err == nil:
		w.finish()
	}
	return err
}

// notFound is the error for a resource that the secondary does not have yet.
func notFound(r *wire.Request) error {
	switch {
	case r.Service == wire.Blob && strings.EqualFold(r.Restype, "container"):
		return &wire.Error{Status: http.StatusNotFound, Code: "ContainerNotFound",
			Message: "The specified container does not exist."}
	case r.Service == wire.Blob:
		return &wire.Error{Status: http.StatusNotFound, Code: "BlobNotFound", Message: "The specified blob does not exist."}
	}
	return wire.ErrResourceNotFound
}

// stale is the response of a read that does not see some changes. A response about one resource is replaced if its
// Last-Modified or entity tag is of a hidden time. Lists are held until the end, and lose the entries of hidden times.
type stale struct {
	out    http.ResponseWriter
	hidden hidden

	absent  bool // the response is about a hidden resource
	holding bool // the body is a list
	status  int
	body    bytes.Buffer
}

// Unwrap lets http.ResponseController reach the connection.
func (w *stale) Unwrap() http.ResponseWriter { return w.out }

// Header implements http.ResponseWriter.
func (w *stale) Header() http.Header { return w.out.Header() }

// WriteHeader implements http.ResponseWriter.
func (w *stale) WriteHeader(status int) {
	// As net/http does: the first status counts.
	if w.status != 0 {
		return
	}
	w.status = status
	h := w.out.Header()
	changed, one := lastModified(h)
	switch {
	case status >= 300 && status != http.StatusNotModified:
	// The secondary does not have this write yet, so its answer is that of an absent resource, without the headers that
	// describe it.
	case one && w.hidden.covers(changed):
		w.absent = true
		for _, name := range []string{"Last-Modified", "ETag", "Content-Length", "Content-Range", "Content-MD5",
			"Content-Encoding", "Content-Type"} {
			h.Del(name)
		}
		for name := range h {
			if strings.HasPrefix(strings.ToLower(name), "x-ms-meta-") || strings.HasPrefix(strings.ToLower(name), "x-ms-blob-") {
				delete(h, name)
			}
		}
		return
	case !one && listType(h.Get("Content-Type")):
		// A list may have resources of both kinds: it is kept until its end, and filtered.
		w.holding = true
		return
	}
	w.out.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (w *stale) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	switch {
	case w.absent:
		return len(b), nil
	case w.holding:
		return w.body.Write(b)
	}
	return w.out.Write(b)
}

// finish sends a list without its hidden entries.
func (w *stale) finish() {
	if !w.holding {
		return
	}
	body := w.hidden.filter(w.body.Bytes())
	w.out.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.out.WriteHeader(w.status)
	_, _ = w.out.Write(body) // the client is gone
}

func listType(contentType string) bool {
	return strings.HasPrefix(contentType, "application/xml") || strings.HasPrefix(contentType, "application/json") ||
		strings.HasPrefix(contentType, "application/atom+xml")
}

// lastModified returns the time of the last change of the resource that a response is about. ok is false for lists.
func lastModified(h http.Header) (t time.Time, ok bool) {
	if text := h.Get("Last-Modified"); text != "" {
		t, err := http.ParseTime(text)
		return t, err == nil
	}
	for name, values := range h { // the Table service writes ETag as Azure spells it
		if strings.EqualFold(name, "ETag") && len(values) > 0 {
			text, found := strings.CutPrefix(values[0], `W/"datetime'`)
			if !found {
				return t, false
			}
			at, ok := ticks.Parse(strings.ReplaceAll(strings.TrimSuffix(text, `'"`), "%3A", ":"))
			return at.Time(), ok
		}
	}
	return t, false
}

// entries find the entries of lists in XML, and times the time of an entry.
var (
	entries = lazyregexp.New(
		`(?s)<Blob>.*?</Blob>|<Container>.*?</Container>|<QueueMessage>.*?</QueueMessage>|<entry[ >].*?</entry>`)
	times = lazyregexp.New(`<(?:Last-Modified|InsertionTime|d:Timestamp[^>]*)>([^<]*)<`)
)

// filter removes the entries of hidden times from a list: of blobs, containers and messages in XML, of entities in JSON
// and Atom. Entries without a time stay.
func (h hidden) filter(body []byte) []byte {
	if bytes.HasPrefix(body, []byte("{")) {
		return h.filterJSON(body)
	}
	return entries().ReplaceAllFunc(body, func(entry []byte) []byte {
		m := times().FindSubmatch(entry)
		if m == nil {
			return entry
		}
		text := string(m[1])
		t, err := http.ParseTime(text)
		if err != nil {
			t, err = time.Parse(time.RFC3339, text)
		}
		if err == nil && h.covers(t) {
			return nil
		}
		return entry
	})
}

// filterJSON keeps the entities that are not hidden, as they are written. Entities follow each other in value in the
// order in which they are decoded.
func (h hidden) filterJSON(page []byte) []byte {
	var list struct{ Value []json.RawMessage }
	if json.Unmarshal(page, &list) != nil || len(list.Value) == 0 {
		return page
	}
	start := bytes.Index(page, list.Value[0])
	end := start
	var kept [][]byte
	for _, entity := range list.Value {
		at := bytes.Index(page[end:], entity)
		if at < 0 {
			return page // not as the Table service writes it
		}
		end += at + len(entity)
		var e struct{ Timestamp time.Time }
		if json.Unmarshal(entity, &e) != nil || !h.covers(e.Timestamp) {
			kept = append(kept, entity)
		}
	}
	return slices.Concat(page[:start], bytes.Join(kept, []byte(",")), page[end:])
}
