// Package story tells what happens to one item of a demonstration: the requests of the workers for it, which pass
// through proxies on the loopback address, the death of a worker, and what was counted then. It writes the story as
// lines and draws it.
//
// Where to start: [Teller], [Story].
package story

import (
	"bytes"
	"cmp"
	"context"
	"encoding/xml"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo/lines"
	"github.com/lazuli-storage/lazuli/internal/lazyregexp"
	"github.com/lazuli-storage/lazuli/internal/sdk/connstr"
	"github.com/lazuli-storage/lazuli/internal/sdk/hostrow"
)

// Story is what happens to one item, with the requests of the workers in the order of their answers.
type Story struct {
	// Title names the demonstration, or the mistake, Item the item.
	Title, Item string
	Events      []Event
	// End is the final place of the item; Well reports whether that place is right.
	End  string
	Well bool
}

// Event is a line of a story.
type Event struct {
	At time.Duration
	// From and To are the ends of an arrow; To is empty for what happens to From.
	From, To string
	Text     string
	// Times counts the repetitions of the event.
	Times int
	// Kill marks the death of a worker, State what was counted.
	Kill, State bool

	// cause is the ID of the message, or of the workflow's instance, that a worker's request belongs to: empty for what
	// it does by itself, as sweepers do. message is the ID of the message that the request puts, receives or deletes.
	cause, message string
	// Kind says what To is: a queue, a table, and so on.
	Kind string
	// chance means that it is chance how often a worker does it: it is drawn once.
	chance bool
}

// text describes the event and its repetitions.
func (e *Event) text() string {
	if e.Times == 0 {
		return e.Text
	}
	return fmt.Sprintf("%s; done %d times", e.Text, e.Times+1)
}

// same reports whether two events differ at most in their time.
func (e *Event) same(o *Event) bool {
	return e.From == o.From && e.To == o.To && e.Text == o.Text && e.Kill == o.Kill && e.State == o.State
}

// Those that act in a story beside workers.
const (
	Program = "program"
	Harness = "census"
	worker  = "worker " // and its number
)

// Teller notes the events of a story. It carries the requests of each worker by proxies on the loopback address.
type Teller struct {
	id       string // of the run: it is cut from names
	settings connstr.Settings
	began    time.Time

	mu      sync.Mutex // guards the rest
	Story   Story
	workers int
	inHand  map[string]map[string]bool // the messages that each worker works on
	servers []*http.Server
	// Explain, if set, replaces what the teller says of a request; without a text the request is left out. Those that are
	// left must have one order.
	Explain func(x Exchange, to, text string) (string, string)
}

// NewTeller returns the teller of a run with an ID, which tells it apart in the names of its queues and tables.
func NewTeller(connection, id, title string) (*Teller, error) {
	s, err := connstr.Parse(connection)
	return &Teller{id: id, settings: s, began: time.Now(), Story: Story{Title: title}}, err
}

// Note adds an event, unless it is not of the item that is followed.
func (t *Teller) Note(e Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.Story.Item == "" {
		return // what comes before the item is not of its story
	}
	hand := t.inHand[e.From]
	switch {
	case t.Explain != nil: // It has left out what is not of the story, and the rest is in one order.
		e.cause, e.chance = "", e.To != History
	case strings.HasPrefix(e.Text, receivesText):
		if hand == nil {
			hand = map[string]bool{}
			t.inHand[e.From] = hand
		}
		hand[e.message], e.cause = true, e.message
	case e.cause == "" && strings.HasPrefix(e.Text, "queries "):
		return // the runtime looks for what was cancelled, or a sweeper around
	case e.cause == "" && hand[e.message]: // deleted by the runtime
		e.cause = e.message
	case e.cause == "" && len(hand) == 1: // a client that does not name the message in its requests
		for e.cause = range hand {
		}
	case e.cause == "" && strings.HasPrefix(e.Text, "reads "):
		return // a sweeper looks around
	}
	if strings.HasPrefix(e.Text, deletesText) {
		delete(hand, e.message)
	}
	e.At = time.Since(t.began)
	if n := len(t.Story.Events); n > 0 && t.Story.Events[n-1].same(&e) && t.Story.Events[n-1].cause == e.cause {
		t.Story.Events[n-1].Times++
		return
	}
	t.Story.Events = append(t.Story.Events, e)
}

// Follow begins the story of an item.
func (t *Teller) Follow(item string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.began, t.Story.Item, t.Story.Events, t.workers = time.Now(), item, nil, 0
	t.inHand = map[string]map[string]bool{}
}

// Item is the item that is followed.
func (t *Teller) Item() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.Story.Item
}

// Worker is the name of the worker that runs now.
func (t *Teller) Worker() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return fmt.Sprintf("%s%d", worker, t.workers)
}

// Connection begins another worker, and returns its connection string.
func (t *Teller) Connection() (string, error) {
	t.mu.Lock()
	t.workers++
	name := fmt.Sprintf("%s%d", worker, t.workers)
	t.mu.Unlock()
	s := t.settings
	var err error
	for _, e := range []struct {
		kind string
		url  *string
	}{{"blob", &s.BlobEndpoint}, {"queue", &s.QueueEndpoint}, {"table", &s.TableEndpoint}, {"dfs", &s.DFSEndpoint}} {
		if *e.url != "" && err == nil {
			*e.url, err = t.proxy(name, e.kind, *e.url)
		}
	}
	return s.Reveal(), err
}

// proxy carries requests to an endpoint, and returns the address that stands for it.
func (t *Teller) proxy(worker, kind, endpoint string) (string, error) {
	target, err := url.Parse(endpoint)
	if err != nil {
		return "", err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	p := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = target.Scheme, target.Host, target.Host
			if named := t.accountHost(r.In.Host); named != "" { // the account is in the name, not in the path
				r.Out.Host = net.JoinHostPort(named, target.Port())
			}
		},
		ModifyResponse: func(r *http.Response) error {
			switch named := t.accountHost(r.Request.Host); {
			case strings.Contains(named, ".dfs."):
				return t.observe(worker, "dfs", "", r)
			case named != "":
				return t.observe(worker, kind, "", r)
			}
			return t.observe(worker, kind, target.Path, r)
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
	s := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter,
		r *http.Request) {
		body, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		r.Body = struct {
			io.Reader
			io.Closer
		}{io.MultiReader(bytes.NewReader(body), r.Body), r.Body}
		p.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), requestBody{}, body)))
	})}
	t.mu.Lock()
	t.servers = append(t.servers, s)
	t.mu.Unlock()
	go func() { _ = s.Serve(l) }()
	return "http://" + l.Addr().String() + target.Path, nil
}

// accountHost is the host of a request whose host names the account, as the Data Lake SDK's do on this machine; "" if
// it is another one.
func (t *Teller) accountHost(address string) string {
	host, _, err := net.SplitHostPort(address)
	if err != nil || !strings.HasPrefix(host, t.settings.Account+".") {
		return ""
	}
	return host
}

// maxBody is the part of a request's body that is read for a story.
const maxBody = 256 << 10

// requestBody is the key of the beginning of a request's body in its context.
type requestBody struct{}

// Close ends the proxies.
func (t *Teller) Close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range t.servers {
		_ = s.Close()
	}
}

// observe notes a request with its answer.
func (t *Teller) observe(worker, kind, base string, r *http.Response) error {
	path := strings.TrimPrefix(strings.TrimPrefix(r.Request.URL.Path, strings.TrimSuffix(base, "/")), "/")
	body, _ := r.Request.Context().Value(requestBody{}).([]byte)
	x := Exchange{r.Request.Method, path, r.Request.URL.Query(), r.Request.Header, body, r.StatusCode}
	var answer []byte
	if kind == "queue" && x.Method != http.MethodDelete || path == "$batch" {
		var err error
		if answer, err = io.ReadAll(r.Body); err != nil {
			return err
		}
		r.Body = io.NopCloser(bytes.NewReader(answer))
	}
	if r.Header.Get("X-Ms-Error-Code") == "QueueNotFound" || bytes.Contains(answer, []byte("TableNotFound")) {
		return nil // It is made now, by whichever comes first, and the request is repeated.
	}
	var to, text, message string
	switch kind {
	case "queue":
		var list struct {
			QueueMessage []struct {
				MessageId    string //nolint:revive,staticcheck // Azure's name
				DequeueCount int
			}
		}
		if xml.Unmarshal(answer, &list) == nil && len(list.QueueMessage) > 0 {
			message = list.QueueMessage[0].MessageId
			if x.Method == http.MethodGet {
				to, text = x.received(list.QueueMessage[0].DequeueCount)
			}
		}
		if x.Method != http.MethodGet {
			to, text = x.queue()
		}
		if _, id, ok := strings.Cut(path, "/messages/"); ok {
			message = id
		}
	case "table":
		if refused := batchRefused().FindSubmatch(answer); refused != nil { // the answer's own status is 202
			x.status, _ = strconv.Atoi(string(refused[1]))
		}
		to, text = x.table()
	case "blob":
		to, text = x.blob()
	case "dfs":
		to, text = x.file()
	}
	if t.Explain != nil {
		to, text = t.Explain(x, to, text)
	}
	if text == "" {
		return nil
	}
	text = t.plain(text)
	switch s := x.status; {
	case s == http.StatusNotFound:
		text += ": nothing is there"
	case s == http.StatusConflict:
		text += ": it is there already"
	case s == http.StatusPreconditionFailed:
		text += ": refused, it has changed"
	case s >= 400:
		text += fmt.Sprintf(": refused with %d", s)
	}
	_, cause, _ := strings.Cut(r.Request.Header.Get("X-Ms-Client-Request-Id"), "/") // package workers writes it
	t.Note(Event{From: worker, To: t.lane(to, Kinds[kind]), Text: text, cause: cause, message: message,
		Kind: Kinds[kind]})
	return nil
}

// Kinds say what the lanes of the services are.
var Kinds = map[string]string{"queue": "queue", "table": "table", "blob": "blobs", "dfs": "files"}

// lane is the name of a table, queue or container without what tells runs apart; if nothing is left, what it is.
func (t *Teller) lane(name, kind string) string {
	return cmp.Or(strings.Trim(t.plain(name), "-"), kind)
}

func (t *Teller) plain(text string) string {
	text = strings.ReplaceAll(text, t.id, "")
	for _, prefix := range []string{"LazuliDemo", "lazulidemo"} {
		text = strings.ReplaceAll(text, prefix, "")
	}
	return uuids().ReplaceAllString(strings.ReplaceAll(text, "lazuli-demo-", "-"), "ID")
}

var uuids = lazyregexp.New(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)

// Exchange is a request and the status of its answer.
type Exchange struct {
	Method, path string
	query        url.Values
	header       http.Header
	Body         []byte
	status       int
}

// Beginnings of texts that tell which messages a worker has.
const (
	receivesText = "receives the message"
	deletesText  = "deletes the message"
)

// received says what Get Messages has received.
func (x Exchange) received(attempt int) (to, text string) {
	queue, ok := strings.CutSuffix(x.path, "/messages")
	if !ok || x.query.Has("peekonly") {
		return "", ""
	}
	hidden := x.query.Get("visibilitytimeout")
	if hidden == "" {
		hidden = "30"
	}
	return queue, fmt.Sprintf("%s, attempt %d; it is hidden for %s s", receivesText, attempt, hidden)
}

func (x Exchange) queue() (to, text string) {
	queue, rest, ok := strings.Cut(x.path, "/messages")
	switch {
	case !ok:
		return "", ""
	case x.Method == http.MethodPost:
		if hidden := x.query.Get("visibilitytimeout"); hidden != "" && hidden != "0" {
			return queue, fmt.Sprintf("puts a message, hidden for %s s", hidden)
		}
		return queue, "puts a message"
	case x.Method == http.MethodDelete && rest != "":
		return queue, deletesText
	case x.Method == http.MethodPut && x.query.Get("visibilitytimeout") == "0":
		return queue, "shows the message"
	}
	return "", "" // a lease that is renewed
}

// table says what a request does to a table. Scans of whole tables, as of sweepers, are left out.
func (x Exchange) table() (to, text string) {
	if x.path == "$batch" {
		return x.batch()
	}
	table, keys, _ := strings.Cut(x.path, "(")
	if table == hostrow.Table { // heartbeats of processes with workers are no part of a story
		return "", ""
	}
	if table == "Tables" {
		if x.Method == http.MethodDelete {
			return strings.Trim(keys, "')"), "deletes the table"
		}
		return "", ""
	}
	switch one := keys != "" && keys != ")"; {
	case x.Method == http.MethodGet && one:
		return table, "reads the entity"
	case x.Method == http.MethodGet && x.query.Get("$filter") != "":
		return table, "queries entities"
	case x.Method == http.MethodPost && !one:
		return table, "inserts the entity"
	case x.Method == http.MethodPut && one:
		return table, "writes the entity"
	case one && (x.Method == "MERGE" || x.Method == http.MethodPatch):
		return table, "merges into the entity"
	case x.Method == http.MethodDelete && one:
		return table, "deletes the entity"
	}
	return "", ""
}

var batchLine = lazyregexp.New(`(?m)^(POST|PUT|PATCH|MERGE|DELETE) \S*/([A-Za-z0-9]+)[( ?]`)

// batchRefused matches the status of a change that a service refused, with all others of its transaction.
var batchRefused = lazyregexp.New(`HTTP/1\.1 ([45]\d\d) `)

// batch says what a transaction writes.
func (x Exchange) batch() (to, text string) {
	writes, deletes := 0, 0
	for _, m := range batchLine().FindAllSubmatch(x.Body, -1) {
		if to = string(m[2]); string(m[1]) == http.MethodDelete {
			deletes++
		} else {
			writes++
		}
	}
	switch {
	// Heartbeats of the workers are no part of the story.
	case to == hostrow.Table:
		return "", ""
	case writes == 1 && deletes == 0:
		return to, "writes the entity"
	case writes == 0 && deletes == 1:
		return to, "deletes the entity"
	case deletes == 0:
		return to, fmt.Sprintf("writes %d in one transaction", writes)
	case writes == 0:
		return to, fmt.Sprintf("deletes %d in one transaction", deletes)
	}
	return to, fmt.Sprintf("writes %d and deletes %d in one transaction", writes, deletes)
}

// blob says what a request does to a blob. Lists, leases and properties are left out.
func (x Exchange) blob() (to, text string) {
	container, name, ok := strings.Cut(x.path, "/")
	if !ok || name == "" || strings.HasPrefix(container, "azure-webjobs-") {
		return "", ""
	}
	switch comp := x.query.Get("comp"); {
	case x.Method == http.MethodPut && (comp == "" || comp == "blocklist" || comp == "appendblock"):
		return container, "writes a blob"
	case x.Method == http.MethodGet && comp == "":
		return container, "reads a blob"
	case x.Method == http.MethodDelete:
		return container, "deletes a blob"
	}
	return "", ""
}

// file says what a request does to a file or directory.
func (x Exchange) file() (to, text string) {
	system, path, ok := strings.Cut(x.path, "/")
	if !ok || path == "" {
		return "", ""
	}
	name := shortPath(path)
	switch {
	case x.header.Get("X-Ms-Rename-Source") != "":
		return system, "renames to " + name
	case x.Method == http.MethodPut && x.query.Get("resource") == "directory":
		return system, "makes the directory " + name
	case x.Method == http.MethodPatch && x.query.Get("action") == "flush":
		return system, "writes the file " + name
	case x.Method == http.MethodDelete:
		return system, "deletes " + name
	}
	return "", ""
}

// shortPath is the last two parts of a path.
func shortPath(path string) string {
	parts := strings.Split(path, "/")
	return strings.Join(parts[max(0, len(parts)-2):], "/")
}

// byCause returns the events in an order that does not depend on which of several concurrent requests came first.
// Between two events that no worker's request is, those that belong to one message are together, in their order. A
// message comes after what put it, and else the queue of the demonstration before other ones; last is what workers do
// by themselves.
// It is an order in which they could have come.
func (s *Story) byCause() (list []Event) {
	var now []Event
	flush := func() {
		// grouped sorts only the run of requests since the last kill or state: across those an order would claim what was
		// not so.
		list, now = append(list, grouped(now)...), nil
	}
	for _, e := range s.Events {
		if !e.Kill && !e.State && strings.HasPrefix(e.From, worker) {
			now = append(now, e)
			continue
		}
		flush()
		list = append(list, e)
	}
	flush()
	// Written over the list that is read: there are never more merged events than events read.
	merged := list[:0]
	for _, e := range list {
		if e.chance {
			// The machine decides how often such a request is repeated, so the drawing shows it once, without a number.
			e.Times = 0
			if slices.ContainsFunc(merged, func(o Event) bool { return o.same(&e) }) {
				continue
			}
		}
		if n := len(merged); n > 0 && merged[n-1].same(&e) {
			merged[n-1].Times += e.Times + 1
			continue
		}
		merged = append(merged, e)
	}
	return merged
}

// grouped sorts requests as byCause does.
func grouped(events []Event) (list []Event) {
	groups, first := map[string][]Event{}, map[string]string{}
	for _, e := range events {
		if strings.HasPrefix(e.Text, receivesText) && first[e.cause] == "" {
			first[e.cause] = e.To
		}
		groups[e.cause] = append(groups[e.cause], e)
	}
	last := groups[""]
	delete(groups, "")
	for len(groups) > 0 {
		// A group waits for the one that puts its message. There is always one that waits for none: a message is put
		// before it is received. If a cycle is there all the same, the first one is taken.
		waits := map[string]bool{}
		for cause, group := range groups {
			for _, e := range group {
				if e.message != cause {
					waits[e.message] = true
				}
			}
		}
		causes := slices.SortedFunc(maps.Keys(groups), func(a, b string) int {
			if waits[a] != waits[b] {
				if waits[b] {
					return -1
				}
				return 1
			}
			return cmp.Or(cmp.Compare(rankOfQueue(first[a]), rankOfQueue(first[b])), strings.Compare(a, b))
		})
		list = append(list, groups[causes[0]]...)
		delete(groups, causes[0])
	}
	return append(list, last...)
}

// rankOfQueue sorts the queue of a demonstration before others.
func rankOfQueue(lane string) string {
	if lane == "queue" {
		return ""
	}
	return lane
}

// lane is a participant of a drawing, and kind what it is, if its name does not say it.
type lane struct{ name, kind string }

// lanes are those that take part in events, in the order of a drawing: the program, the queue, workers, then all
// others.
func lanes(events []Event) (list []lane) {
	add := func(want func(string) bool) {
		for _, e := range events {
			for _, l := range []lane{{name: e.From}, {e.To, e.Kind}} {
				known := func(k lane) bool { return k.name == l.name }
				if l.name == "" || l.name == Harness || !want(l.name) || slices.ContainsFunc(list, known) {
					continue
				}
				if l.kind == l.name {
					l.kind = ""
				}
				list = append(list, l)
			}
		}
	}
	add(func(l string) bool { return l == Program })
	add(func(l string) bool { return l == "queue" })
	add(func(l string) bool { return strings.HasPrefix(l, worker) })
	add(func(string) bool { return true })
	return list
}

// Write prints the story as a timeline.
func (s *Story) Write(p *lines.Printer) {
	p.Line("%s: the story of %s\n", s.Title, s.Item)
	for _, e := range s.Events {
		who := e.From
		if e.Kill {
			who = strings.ToUpper(who)
		}
		text := e.text()
		if e.To != "" && e.To != "queue" {
			text += "  (" + e.To + ")"
		}
		p.Hanging(fmt.Sprintf("%8.3f s  %-9s %s", e.At.Seconds(), who, text), strings.Repeat(" ", 22))
	}
	state := "It is as it should be."
	if !s.Well {
		state = "This is the DAMAGE."
	}
	p.Line("")
	p.Paragraph("", "At the end: "+s.End+". "+state)
}

// History is the lane of the workflow's state: the engine writes there what is done and what comes next.
const History = "history"
