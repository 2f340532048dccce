package dashboard

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lazuli-storage/lazuli/internal/azure/frontend"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
)

// The bounds of [Requests].
const (
	keptRequests = 1000 // requests of programs
	keptQuiet    = 500  // requests of runtimes, which would otherwise push out the others
	keptSeconds  = 300  // of rates
	maxWaiting   = 256  // requests that wait for one reader of the live log
	maxReaders   = 32
	// keptHead is the length of the path, the query and the headers up to which they are kept whole, in bytes; each header
	// counts headerCost more. Of a request with a longer head, the headers are left out and the texts are cut to keptText
	// bytes: anyone can send heads of 256 KiB.
	keptHead   = 16 << 10
	headerCost = 64
	keptText   = 1 << 10
)

// Requests keeps the latest requests and the rates of the last minutes, in bounded memory. Its methods are safe for
// concurrent use.
type Requests struct {
	now func() time.Time

	mu       sync.Mutex // guards the next fields
	last     int64      // the number of the newest request
	rings    [2]ring    // of programs, and of runtimes
	hubs     map[queueName]bool
	watchers int   // pages that follow
	changes  int64 // requests that changed something, for pages that follow
	seconds  [keptSeconds]second
	readers  map[chan *Request]struct{}

	history *history
}

// Request is one request that was answered.
type Request struct {
	Number    int64 // counts up from 1
	At        time.Time
	Service   string
	Account   string
	Operation string
	Method    string
	Path      string // as sent, percent-encoded
	Query     string // as sent, with signatures left out
	Host      string
	Status    int    // 0: the connection broke before a response
	Code      string // the error's
	Fault     string
	Duration  time.Duration
	Sent      int64 // bytes of the response's body
	Received  int64 // Content-Length of the request, -1 if unknown
	Client    string
	From      string
	ID        string
	ClientID  string
	Version   string
	Mechanism string
	Message   string        // the error's
	Details   []wire.Detail // the error's
	Cut       bool          // the head was too long to be kept
	Quiet     bool          // a runtime sent it of its own accord
	Touched   []wire.Touch  // the messages
	// BatchTable is the table of a transaction.
	BatchTable string
	Made       string        // the Location of what the request made, "" for none
	Waited     time.Duration // that the client wanted to wait for a change, before Duration

	header http.Header
}

// ring keeps the latest requests of a kind.
type ring struct {
	kept []Request
	most int
	n    int // requests so far
}

// add keeps a request in place of the oldest.
func (r *ring) add(q Request) {
	if len(r.kept) < r.most {
		r.kept = append(r.kept, q)
	} else {
		r.kept[r.n%r.most] = q
	}
	r.n++
}

// at returns the i-th request, the newest being 0, or nil.
func (r *ring) at(i int) *Request {
	if i >= len(r.kept) {
		return nil
	}
	return &r.kept[(r.n-1-i)%r.most]
}

// second holds what happened in one second.
type second struct {
	unix     int64
	requests int
	failures int // 5xx, and connections that broke
	nanos    int64
}

// NewRequests makes an empty log.
func NewRequests(now func() time.Time) *Requests {
	return &Requests{now: now, readers: make(map[chan *Request]struct{}), history: newHistory(),
		rings: [2]ring{{most: keptRequests}, {most: keptQuiet}}, hubs: make(map[queueName]bool)}
}

// Observer returns Observe, or nil for a nil log.
func (l *Requests) Observer() func(*wire.Request, frontend.Outcome) {
	if l == nil {
		return nil
	}
	return l.Observe
}

// Observe takes a request that was answered. It is for [frontend.Common.Observe].
func (l *Requests) Observe(r *wire.Request, o frontend.Outcome) {
	l.history.observe(r, l.now())
	if len(r.Touched()) > 0 || o.Status/100 == 2 && r.HTTP.Method != http.MethodGet && r.HTTP.Method != http.MethodHead {
		l.mu.Lock()
		l.changes++
		l.mu.Unlock()
	}
	if r.System() {
		return
	}
	q := Request{At: r.Now, Service: r.Service.String(), Account: r.Account, Operation: r.Operation, Method: r.HTTP.Method,
		Path:  r.URIPath,
		Query: r.HTTP.URL.RawQuery, Host: r.HTTP.Host, Status: o.Status, Fault: r.Fault, Duration: o.Duration,
		Sent: o.Written, Received: r.HTTP.ContentLength,
		Client: r.HTTP.UserAgent(), From: r.HTTP.RemoteAddr, ID: r.ID, ClientID: r.ClientID, Version: r.VersionHeader,
		Mechanism: o.Identity.Mechanism.String(), header: r.HTTP.Header,
		Touched: slices.Clone(r.Touched()), BatchTable: r.BatchTable,
		Waited: o.Waited}
	if r.Operation == "InsertEntity" && r.Out != nil { // its path does not have the keys
		q.Made = r.Out.Header().Get("Location")
	}
	if r.Failure != nil {
		q.Code, q.Message, q.Details = r.Failure.Code, r.Failure.Message, r.Failure.Details
	}
	if len(r.HTTP.Header)*headerCost+r.HeaderBytes+len(q.Path)+len(q.Query) > keptHead {
		q.cut()
	}
	now := l.now().Unix()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last++
	q.Number = l.last
	if q.Quiet = l.background(&q); q.Quiet {
		l.rings[1].add(q)
	} else {
		l.rings[0].add(q)
	}
	s := &l.seconds[now%keptSeconds]
	if s.unix != now {
		*s = second{unix: now}
	}
	s.requests++
	s.nanos += int64(o.Duration)
	if o.Status == 0 || o.Status >= 500 {
		s.failures++
	}
	if len(l.readers) == 0 {
		return
	}
	shared := q // a copy on the heap, for readers only
	for c := range l.readers {
		select {
		case c <- &shared:
		default: // a slow reader misses requests; the numbers show it
		}
	}
}

// cut leaves out the headers, and copies the beginning of each text, so that the rest is not kept.
func (q *Request) cut() {
	q.Cut, q.header = true, nil
	for _, text := range []*string{&q.Method, &q.Path, &q.Query, &q.Host, &q.Client, &q.ClientID, &q.Version, &q.Account,
		&q.Message, &q.Made} {
		*text = strings.Clone((*text)[:min(len(*text), keptText)])
	}
	details := q.Details
	q.Details = nil
	for _, d := range details[:min(len(details), 8)] {
		q.Details = append(q.Details, wire.Detail{Name: d.Name, Value: strings.Clone(d.Value[:min(len(d.Value), keptText)])})
	}
}

// Latest returns up to limit requests that the filter takes, the newest first. before, if it is not 0, is a number that
// their numbers are below.
func (l *Requests) Latest(f RequestFilter, limit int, before int64) (list []*Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for next := l.newestFirst(f.Quiet); len(list) < limit; {
		q := next()
		if q == nil {
			break
		}
		if (before <= 0 || q.Number < before) && f.takes(q) {
			found := *q
			list = append(list, &found)
		}
	}
	return list
}

// newestFirst returns a function that returns the kept requests, those of runtimes only with quiet, and nil after the
// last. l.mu is held meanwhile.
func (l *Requests) newestFirst(quiet bool) func() *Request {
	var at [2]int
	return func() *Request {
		a, b := l.rings[0].at(at[0]), (*Request)(nil)
		if quiet {
			b = l.rings[1].at(at[1])
		}
		if a == nil || b != nil && b.Number > a.Number {
			at[1]++
			return b
		}
		at[0]++
		return a
	}
}

// Get returns a request by its x-ms-request-id, or nil.
func (l *Requests) Get(id string) *Request {
	l.mu.Lock()
	defer l.mu.Unlock()
	for next := l.newestFirst(true); ; {
		q := next()
		if q == nil {
			return nil
		}
		if q.ID == id {
			found := *q
			return &found
		}
	}
}

// follow returns a channel of the requests from now on, and what ends it; nil if there are too many readers.
func (l *Requests) follow() (<-chan *Request, func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.readers) >= maxReaders {
		return nil, nil
	}
	c := make(chan *Request, maxWaiting)
	l.readers[c] = struct{}{}
	return c, func() {
		l.mu.Lock()
		delete(l.readers, c)
		l.mu.Unlock()
	}
}

// Rates are the numbers of the last minute, and of each second of the last five.
type Rates struct {
	PerSecond   float64       // requests, over the last minute
	Failed      float64       // per second: 5xx and broken connections
	Mean        time.Duration // of a request
	Seconds     []int         // requests, the oldest first
	Most, Total int           // of Seconds
}

// Rates returns the rates up to now.
func (l *Requests) Rates() (r Rates) {
	now := l.now().Unix()
	l.mu.Lock()
	defer l.mu.Unlock()
	var requests, failures int
	var nanos int64
	for at := now - keptSeconds + 1; at <= now; at++ {
		s := l.seconds[((at%keptSeconds)+keptSeconds)%keptSeconds]
		if s.unix != at {
			s = second{}
		}
		r.Seconds = append(r.Seconds, s.requests)
		r.Most, r.Total = max(r.Most, s.requests), r.Total+s.requests
		if at > now-60 {
			requests, failures, nanos = requests+s.requests, failures+s.failures, nanos+s.nanos
		}
	}
	r.PerSecond, r.Failed = float64(requests)/60, float64(failures)/60
	if requests > 0 {
		r.Mean = time.Duration(nanos / int64(requests))
	}
	return r
}

// secrets are the headers that are not shown.
var secrets = map[string]bool{"Authorization": true, "X-Ms-Copy-Source-Authorization": true,
	"X-Ms-Encryption-Key": true, "X-Ms-Source-Encryption-Key": true, "Cookie": true,
	"Proxy-Authorization": true}

// Headers are the request's headers by name; secrets are left out. It also hides signatures in addresses.
func (q *Request) Headers() (list []wire.Detail) {
	for _, name := range slices.Sorted(maps.Keys(q.header)) {
		for _, value := range q.header[name] {
			switch {
			case name == "Authorization":
				scheme, _, _ := strings.Cut(value, " ")
				value = scheme + " (not shown)"
			case secrets[name]:
				value = "(not shown)"
			case strings.HasSuffix(name, "Source"), name == "Referer": // addresses, which may have a signature
				value = maskURL(value)
			}
			list = append(list, wire.Detail{Name: strings.ToLower(name), Value: value})
		}
	}
	return list
}

// URL is the path and the query of the request, without signatures.
func (q *Request) URL() string {
	if q.Query == "" {
		return q.Path
	}
	return q.Path + "?" + mask(q.Query)
}

func maskURL(u string) string {
	path, query, found := strings.Cut(u, "?")
	if !found {
		return u
	}
	return path + "?" + mask(query)
}

// mask replaces the values of signatures in a query string.
func mask(query string) string {
	parts := strings.Split(query, "&")
	for i, p := range parts {
		if isSignature(p) {
			name, _, _ := strings.Cut(p, "=")
			parts[i] = name + "=(not shown)"
		}
	}
	return strings.Join(parts, "&")
}
