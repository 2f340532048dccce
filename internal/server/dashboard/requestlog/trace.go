package requestlog

import (
	"cmp"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
)

// The bounds of a trace.
const (
	maxTraced   = 300 // requests
	maxTraceIDs = 200 // that are followed
	traceRounds = 6   // from one ID to the next
	MaxTraceID  = 256 // characters of an ID
)

// Trace is what a server knows of one unit of work.
type Trace struct {
	ID    string
	Spans []Span // in the order in which they began
	// More says that there was more than is shown: a bound was reached.
	More bool
}

// Span is a part of a trace: a request, or the time in which a message waited or was handled.
type Span struct {
	// Kind is "request", "wait" for a message that waits in a queue, or "handle" for one that a worker has.
	Kind     string
	At       time.Time
	Took     time.Duration
	Name     string // the operation, or what the message does
	Resource string // the path below the account, or the queue
	Account  string
	Status   string // of a request
	Error    string
	Request  string // its x-ms-request-id
	Work     string // the client's request id: of the runtime an invocation, and the message or instance
	Message  string // ID of the message, where it is about one
	Attempt  int    // how often it was received
}

// Trace follows an ID through the kept requests: of a message, an invocation, a workflow instance, a request, or a
// trace of W3C Trace Context. What is found names further IDs, which are followed as well.
func (l *Log) Trace(id string) (t Trace) {
	t.ID = strings.TrimSpace(id)
	ids := map[string]bool{normalID(t.ID): true}
	if first, _, both := strings.Cut(t.ID, "/"); both && uuid.Validate(first) == nil { // a handler's client request id
		for _, id := range appendIDs(nil, t.ID) {
			ids[id] = true
		}
	}
	if t.ID == "" || len(t.ID) > MaxTraceID {
		return t
	}
	var kept []*Request
	l.mu.Lock()
	for next := l.newestFirst(true); ; {
		q := next()
		if q == nil {
			break
		}
		found := *q
		kept = append(kept, &found)
	}
	l.mu.Unlock() // what follows takes longer than requests may wait
	taken := make([]bool, len(kept))
	var list []*Request
	for range traceRounds {
		before := len(list)
		for i, q := range kept {
			if taken[i] || !q.belongs(ids, t.ID) {
				continue
			}
			if len(list) >= maxTraced {
				t.More = true
				break
			}
			taken[i] = true
			list = append(list, q)
			for _, other := range q.leads(ids) {
				if len(ids) >= maxTraceIDs {
					t.More = true
					break
				}
				ids[other] = true
			}
		}
		if len(list) == before {
			break
		}
	}
	slices.SortStableFunc(list, func(a, b *Request) int { return a.began().Compare(b.began()) })
	t.Spans = spansOf(list, ids)
	return t
}

// normalID is an ID as they are compared: in lower case, a GUID and a trace id without hyphens.
func normalID(id string) string {
	if u, err := uuid.Parse(id); err == nil {
		return strings.ReplaceAll(u.String(), "-", "")
	}
	if parts := strings.Split(id, "-"); len(parts) == 4 && len(parts[1]) == 32 { // a traceparent
		return parts[1]
	}
	return strings.ToLower(id)
}

// appendIDs appends the ID of an invocation, and that behind a slash of its message or workflow instance.
func appendIDs(list []string, text string) []string {
	first, second, _ := strings.Cut(text, "/")
	for _, id := range []string{first, second} {
		if id != "" {
			list = append(list, normalID(id))
		}
	}
	return list
}

// invocation returns the invocation that a worker of a function app names beside the trace, with its message or
// instance behind a slash; "" for other requests.
func (q *Request) invocation() string {
	for entry := range strings.SplitSeq(q.header.Get("Tracestate"), ",") {
		if id, ok := strings.CutPrefix(strings.TrimSpace(entry), "lazuli="); ok {
			return id
		}
	}
	return ""
}

// TraceID returns the ID of the trace that the client has sent, "" without one.
func (q *Request) TraceID() string {
	if parts := strings.Split(q.header.Get("Traceparent"), "-"); len(parts) == 4 {
		return parts[1]
	}
	return ""
}

// works are the IDs that the client has given with a request: the parts of its request id, and its trace.
func (q *Request) works() (list []string) {
	list = appendIDs(list, q.ClientID)
	if id := q.TraceID(); id != "" {
		list = append(list, id)
	}
	return appendIDs(list, q.invocation())
}

// belongs reports whether a request is part of the work with these IDs. written is the ID that a person asked for,
// which can be a part of a path as well: a row key, or an instance.
func (q *Request) belongs(ids map[string]bool, written string) bool {
	if ids[normalID(q.ID)] || slices.ContainsFunc(q.works(), func(id string) bool { return ids[id] }) {
		return true
	}
	for _, t := range q.Touched {
		if ids[messageID(t)] {
			return true
		}
	}
	if id := q.instance(); id != "" && ids[normalID(id)] {
		return true
	}
	path, err := url.PathUnescape(q.Path)
	if q.Made != "" {
		path, err = url.PathUnescape(q.Made)
	}
	return err == nil && len(written) >= 3 &&
		(strings.Contains(path, "'"+strings.ReplaceAll(written, "'", "''")+"'") || strings.HasSuffix(path, "/"+written))
}

// leads are the further IDs that a request of the work names. A request can receive or delete the messages of others as
// well, so that only those are followed that it put by itself.
func (q *Request) leads(ids map[string]bool) (list []string) {
	works := q.works()
	own := slices.ContainsFunc(works, func(id string) bool { return ids[id] })
	if own || len(q.Touched) <= 1 {
		list = works
	}
	if id := q.instance(); id != "" {
		list = append(list, normalID(id))
	}
	for _, t := range q.Touched {
		if len(q.Touched) == 1 || own && t.Kind == wire.MessagePut {
			list = append(list, messageID(t))
		}
	}
	return list
}

// instance is the workflow instance whose row a request reads or writes, in the table of a task hub's instances; "" for
// other requests.
func (q *Request) instance() string {
	name, keys := q.names()
	if !q.Quiet || q.Service != wire.Table.String() || !strings.HasSuffix(strings.ToLower(name), "instances") {
		return ""
	}
	if q.Made != "" {
		keys, _ = url.PathUnescape(q.Made) // ours: it is one
	}
	_, id, ok := strings.Cut(keys, "PartitionKey='")
	id, _, end := strings.Cut(id, "',")
	if !ok || !end {
		return ""
	}
	return strings.ReplaceAll(id, "''", "'")
}

// messageID is the normal form of a message's ID.
func messageID(t wire.Touch) string { return strings.ReplaceAll(uuid.UUID(t.ID).String(), "-", "") }

// began returns the time at which the work of a request began: after the wait for a change that the client wanted.
func (q *Request) began() time.Time { return q.At.Add(q.Waited) }

// spansOf makes spans of requests, and of the times between those of the messages that are followed.
func spansOf(list []*Request, ids map[string]bool) (spans []Span) {
	type state struct {
		kind    string
		since   time.Time
		attempt int
	}
	open := map[string]*state{}
	for _, q := range list {
		first, _ := q.names()
		span := Span{Kind: "request", At: q.began(), Took: q.Duration, Name: q.Name(), Resource: q.Resource(),
			Account: q.Account,
			Status:  q.StatusText(), Error: q.Code, Request: q.ID,
			Work: cmp.Or(q.invocation(), q.ClientID)} // SDKs choose a client request id of their own
		if q.BatchTable != "" {
			span.Resource += " " + q.BatchTable
		}
		for _, t := range q.Touched {
			id := messageID(t)
			if !ids[id] {
				continue
			}
			span.Message, span.Attempt = uuid.UUID(t.ID).String(), t.Attempts
			end := q.began().Add(q.Duration)
			if s := open[id]; s != nil && t.Kind != wire.MessageUpdated {
				name := map[string]string{"wait": "waits", "handle": "is handled"}[s.kind]
				spans = append(spans, Span{Kind: s.kind, At: s.since, Took: max(0, end.Sub(s.since)), Name: name, Resource: first,
					Account: q.Account, Message: span.Message, Attempt: s.attempt})
				delete(open, id)
			}
			switch t.Kind {
			case wire.MessagePut:
				open[id] = &state{"wait", end, 0}
			case wire.MessageReceived:
				open[id] = &state{"handle", end, t.Attempts}
			case wire.MessageUpdated, wire.MessageDeleted:
			}
		}
		spans = append(spans, span)
	}
	slices.SortStableFunc(spans, func(a, b Span) int { return a.At.Compare(b.At) })
	return spans
}
