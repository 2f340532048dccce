package requestlog

import (
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/lazuli-storage/lazuli/internal/azure/frontend"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/server/dashboard/figures"
)

// The bounds of [Log].
const (
	KeptRequests = 1000 // requests of programs
	KeptQuiet    = 500  // requests of runtimes, which would otherwise push out the others
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

// Log keeps the latest requests and the rates of the last minutes, in bounded memory. Its methods are safe for
// concurrent use.
type Log struct {
	now func() time.Time

	mu       sync.Mutex // guards the next fields
	last     int64      // the number of the newest request
	rings    [2]ring    // of programs, and of runtimes
	hubs     map[hubName]bool
	watchers int   // pages that follow
	changes  int64 // requests that changed something, for pages that follow
	seconds  [keptSeconds]second
	readers  map[chan *Request]struct{}

	// Figures are those of the queues.
	Figures *figures.History
}

// ring keeps the latest requests of a kind.
type ring struct {
	kept []Request
	most int
	n    int // requests so far
}

// add keeps a request in place of the oldest.
func (r *ring) add(q *Request) {
	if len(r.kept) < r.most {
		r.kept = append(r.kept, *q)
	} else {
		r.kept[r.n%r.most] = *q
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

// New makes an empty log.
func New(now func() time.Time) *Log {
	return &Log{now: now, readers: make(map[chan *Request]struct{}), Figures: figures.New(now),
		rings: [2]ring{{most: KeptRequests}, {most: KeptQuiet}}, hubs: make(map[hubName]bool)}
}

// Observer returns Observe, or nil for a nil log.
func (l *Log) Observer() func(*wire.Request, frontend.Outcome) {
	if l == nil {
		return nil
	}
	return l.Observe
}

// Observe takes a request that was answered. It is for [frontend.Common.Observe].
func (l *Log) Observe(r *wire.Request, o frontend.Outcome) {
	l.Figures.Observe(r, l.now())
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
		l.rings[1].add(&q)
	} else {
		l.rings[0].add(&q)
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

// Latest returns up to limit requests that the filter takes, the newest first. before, if it is not 0, is a number that
// their numbers are below.
func (l *Log) Latest(f Filter, limit int, before int64) (list []*Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for next := l.newestFirst(f.Quiet); len(list) < limit; {
		q := next()
		if q == nil {
			break
		}
		if (before <= 0 || q.Number < before) && f.Takes(q) {
			found := *q
			list = append(list, &found)
		}
	}
	return list
}

// newestFirst returns a function that returns the kept requests, those of runtimes only with quiet, and nil after the
// last. l.mu is held meanwhile.
func (l *Log) newestFirst(quiet bool) func() *Request {
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
func (l *Log) Get(id string) *Request {
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

// Follow returns a channel of the requests from now on, and what ends it; nil if there are too many readers.
func (l *Log) Follow() (<-chan *Request, func()) {
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

// Watch counts one more page that follows, unless there are too many.
func (l *Log) Watch() (end func(), ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.watchers >= maxReaders {
		return nil, false
	}
	l.watchers++
	return func() {
		l.mu.Lock()
		l.watchers--
		l.mu.Unlock()
	}, true
}

// Changed returns a number that grows with each request that changed something.
func (l *Log) Changed() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changes
}

// QuietCount returns how many requests of runtimes there were.
func (l *Log) QuietCount() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.rings[1].n
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
func (l *Log) Rates() (r Rates) {
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
