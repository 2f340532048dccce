package dashboard

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
)

// isSignature reports whether a part of a query string is a signature, however its name is written.
func isSignature(part string) bool {
	name, _, _ := strings.Cut(part, "=")
	decoded, err := url.QueryUnescape(name)
	return err != nil || strings.EqualFold(decoded, "sig")
}

// shownRequests is the number of requests that a page shows at first.
const shownRequests = pageSize

// requestsPage holds a page of the latest requests.
type requestsPage struct {
	Filter RequestFilter
	List   []*Request
	Before bool   // these are not the latest
	Live   string // the query of the requests that follow
	Next   string // the query of the next page
	CSV    string // the query of all of them
	ByEnd  bool   // in the order in which they ended
	Hidden int    // requests of runtimes, so far
}

func (requestsPage) template() string { return "requests" }

// requests is the live log.
func (d *dashboard) requests(w http.ResponseWriter, r *http.Request) error {
	f, err := d.requestFilter(r)
	if err != nil {
		return err
	}
	q := r.URL.Query()
	before, _ := strconv.ParseInt(q.Get("before"), 10, 64) // the newest ones for what is not a number
	list := d.Requests.Latest(f, shownRequests+1, before)
	data := requestsPage{Filter: f, Before: before > 0, Live: r.URL.RawQuery, ByEnd: q.Get("order") == "end"}
	if len(list) > shownRequests {
		list = list[:shownRequests]
		q.Set("before", strconv.FormatInt(list[shownRequests-1].Number, 10))
		data.Next = "?" + q.Encode()
	}
	q.Del("before")
	if data.CSV = "/ui/requests.csv?" + q.Encode(); !f.Quiet {
		data.Hidden = d.Requests.quiet()
	}
	data.List = list
	// They are kept in the order in which they ended, and a long one stands above those that began after it.
	if !data.ByEnd {
		slices.SortStableFunc(list, func(a, b *Request) int { return b.At.Compare(a.At) })
	}
	return d.show(w, r, "Requests", nil, data)
}

// quiet returns how many requests of runtimes there were.
func (l *Requests) quiet() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.rings[1].n
}

// requestsCSV sends all kept requests that the filter chooses, in the order in which they began.
func (d *dashboard) requestsCSV(w http.ResponseWriter, r *http.Request) error {
	f, err := d.requestFilter(r)
	if err != nil {
		return err
	}
	list := d.Requests.Latest(f, keptRequests+keptQuiet, 0)
	slices.SortStableFunc(list, func(a, b *Request) int { return a.At.Compare(b.At) })
	w.Header().Set("Content-Type", "text/csv; charset=utf-8")
	w.Header().Set("Content-Disposition", `attachment; filename="requests.csv"`)
	out := csv.NewWriter(w)
	_ = out.Write([]string{"time", "operation", "status", "error", "account", "service", "method", "path", "milliseconds",
		"received", "sent", "client", "request-id", "client-request-id"})
	for _, q := range list {
		line := []string{q.At.UTC().Format("2006-01-02T15:04:05.000Z"), q.Operation, q.StatusText(), q.Code, q.Account,
			q.Service, q.Method, q.URL(), strconv.FormatFloat(float64(q.Duration.Microseconds())/1000, 'f', 3, 64),
			strconv.FormatInt(q.Received, 10), strconv.FormatInt(q.Sent, 10), q.Client, q.ID, q.ClientID}
		for i, cell := range line {
			// Spreadsheets run a cell that begins so as a formula, and clients choose the texts.
			if cell != "" && strings.ContainsRune("=+-@\t\r", rune(cell[0])) && cell != "-1" {
				line[i] = "'" + cell
			}
		}
		_ = out.Write(line) // fails if the browser has gone
	}
	out.Flush()
	return nil
}

// keepAlive is the interval at which a comment is sent on a live log without requests, so that a browser that has gone
// is noticed.
const keepAlive = 20 * time.Second

// liveRequests sends each new request as a server-sent event: a row of the table.
func (d *dashboard) liveRequests(w http.ResponseWriter, r *http.Request) error {
	f, err := d.requestFilter(r)
	if err != nil {
		return err
	}
	// Bounded, as in live.
	requests, end := d.Requests.follow()
	if requests == nil {
		return problem{http.StatusServiceUnavailable, "Too many pages follow the requests", "Close one of them."}
	}
	defer end()
	w.Header().Set("Content-Type", "text/event-stream")
	control := http.NewResponseController(w)
	tick := time.NewTicker(keepAlive)
	defer tick.Stop()
	// The headers are sent at once, or the browser would show the stream as loading until the first request.
	fmt.Fprint(w, ": follow\n\n")
	for {
		if control.Flush() != nil {
			return nil
		}
		select {
		case q := <-requests:
			if !f.takes(q) {
				continue
			}
			var row bytes.Buffer
			if err := d.pages["requests"].ExecuteTemplate(&row, "row", q); err != nil {
				return err
			}
			// A line break ends the field of an event.
			fmt.Fprintf(w, "data: %s\n\n", strings.ReplaceAll(strings.TrimSpace(row.String()), "\n", " "))
		case <-tick.C:
			fmt.Fprint(w, ": no requests\n\n")
		case <-r.Context().Done():
			return nil
		}
	}
}

// requestPage holds one request.
type requestPage struct {
	Request *Request
	Curl    string     // repeats it
	Rule    url.Values // of the form of a fault rule
}

func (requestPage) template() string { return "request" }

// request shows one request with its headers, its error and a command that repeats it.
func (d *dashboard) request(w http.ResponseWriter, r *http.Request) error {
	q := d.Requests.Get(r.PathValue("id"))
	if q == nil {
		return problem{http.StatusNotFound, "The request is not kept any more",
			"The server keeps the latest " + count(keptRequests) + " requests of programs, and " + count(keptQuiet) +
				" of runtimes."}
	}
	return d.show(w, r, q.Name(), []crumb{{"Requests", link("requests")}},
		requestPage{Request: q, Curl: d.curl(q), Rule: faultQuery(q)})
}

// Name is the operation, or the method of a request without an operation.
func (q *Request) Name() string {
	if q.Operation == "" {
		return q.Method + " (no operation)"
	}
	return q.Operation
}

// Messages are the IDs of the messages that the request put, received, changed or deleted.
func (q *Request) Messages() (list []string) {
	for _, t := range q.Touched {
		list = append(list, uuid.UUID(t.ID).String())
	}
	return list
}

// faultQuery fills in the form of a fault rule for requests like q.
func faultQuery(q *Request) url.Values {
	path := strings.TrimPrefix(strings.TrimPrefix(q.Path, "/"+q.Account), "/")
	if decoded, err := url.PathUnescape(path); err == nil {
		path = decoded
	}
	return url.Values{"service": {q.Service}, "operation": {q.Operation}, "resource": {path}, "account": {q.Account}}
}

// ownHeaders are the headers that curl sends by itself, or that a new request has other values of.
var ownHeaders = map[string]bool{"authorization": true, "content-length": true, "x-ms-date": true, "date": true,
	"accept-encoding": true, "connection": true, "expect": true,
	"x-ms-client-request-id": true, "x-ms-return-client-request-id": true}

// curl is a shell command that sends the request again, with an account SAS for an hour in place of the signature.
// Without the account's key, and in a read-only dashboard, the signature is left out.
func (d *dashboard) curl(q *Request) string {
	scheme, _, _ := strings.Cut(d.Backend().URL(wire.Blob, q.Account), ":")
	address := scheme + "://" + q.Host + q.Path
	query := withoutSignature(q.Query)
	// A read-only dashboard must not hand out a signature that writes.
	if account := d.Accounts.Get(q.Account); !d.ReadOnly && account != nil && len(account.Keys) > 0 &&
		q.Mechanism != auth.Anonymous.String() {
		now := d.Now().UTC()
		svc := map[string]wire.Service{"blob": wire.Blob, "queue": wire.Queue, "table": wire.Table}[q.Service]
		token := auth.Token{VersionText: auth.SASVersion, Services: q.Service[:1], ResourceTypes: "sco",
			// All permissions: the request is to be repeated as it was, and what it needs is not known here. The hour limits
			// what a shared command can do.
			Permissions: "rwdlacuptfi",
			// Five minutes back, as clocks differ.
			Start:  now.Add(-5 * time.Minute).Format("2006-01-02T15:04:05Z"),
			Expiry: now.Add(time.Hour).Format("2006-01-02T15:04:05Z")}
		if sas, err := token.Sign(q.Account, account.Keys[0], svc, ""); err == nil {
			query = strings.Trim(query+"&"+sas, "&")
		}
	}
	if query != "" {
		address += "?" + query
	}
	var out strings.Builder
	out.WriteString("curl -i")
	if q.Method == http.MethodHead {
		out.WriteString(" -I")
	} else if q.Method != http.MethodGet {
		out.WriteString(" -X " + q.Method)
	}
	for _, h := range q.Headers() {
		// Headers that curl computes, and values that were never kept.
		if !ownHeaders[h.Name] && h.Value != "(not shown)" {
			out.WriteString(" \\\n  -H " + quote(h.Name+": "+h.Value))
		}
	}
	if q.Received > 0 {
		out.WriteString(" \\\n  --data-binary @BODY # " + strconv.FormatInt(q.Received, 10) + " bytes, which are not kept")
	} else if q.Method != http.MethodGet && q.Method != http.MethodHead {
		out.WriteString(" \\\n  --data-binary ''")
	}
	text := out.String()
	// The comment must be the end of the line, so the address goes before it.
	if before, body, found := strings.Cut(text, " # "); found {
		return before + " \\\n  " + quote(address) + "   # BODY: " + body
	}
	return text + " \\\n  " + quote(address)
}

// sasParameters are the parameters of a shared access signature.
var sasParameters = strings.Fields(
	"sv sig st se sp sr ss srt sip spr si ses sdd snapshot-sig tn spk srk epk erk rscc rscd rsce rscl rsct skoid sktid " +
		"skt ske sks skv saoid suoid scid sduoid srh srq skdutid")

// withoutSignature is a query string without the parameters of a shared access signature.
func withoutSignature(query string) string {
	var kept []string
	for _, part := range strings.Split(query, "&") {
		name, _, _ := strings.Cut(part, "=")
		if decoded, err := url.QueryUnescape(name); err == nil && part != "" && !contains(sasParameters, decoded) {
			kept = append(kept, part)
		}
	}
	return strings.Join(kept, "&")
}

func contains(list []string, name string) bool {
	for _, s := range list {
		if strings.EqualFold(s, name) {
			return true
		}
	}
	return false
}

// quote quotes a word for a POSIX shell.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// StatusText is the status for people.
func (q *Request) StatusText() string {
	if q.Status == 0 {
		return "no response"
	}
	return strconv.Itoa(q.Status)
}

// Resource is the path without the account, which is in the path or in the host name.
func (q *Request) Resource() string {
	if rest, ok := strings.CutPrefix(q.Path, "/"+q.Account); ok && q.Account != "" && (rest == "" || rest[0] == '/') {
		return rest
	}
	return q.Path
}

// Class groups statuses for the style sheet.
func (q *Request) Class() string {
	switch {
	case q.Status == 0 || q.Status >= 500:
		return "bad"
	case q.Status >= 400:
		return "warn"
	}
	return "good"
}
