package dashboard

import (
	"bytes"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
)

// isSignature reports whether a part of a query string is a signature, however its name is written.
func isSignature(part string) bool {
	name, _, _ := strings.Cut(part, "=")
	decoded, err := url.QueryUnescape(name)
	return err != nil || strings.EqualFold(decoded, "sig")
}

func requestFilter(r *http.Request) RequestFilter {
	q := r.URL.Query()
	return RequestFilter{Service: q.Get("service"), Account: q.Get("in"), Failed: q.Get("failed") != "",
		Polling: q.Get("polling") != "", Text: q.Get("text")}
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
}

func (requestsPage) template() string { return "requests" }

// requests is the live log.
func (d *dashboard) requests(w http.ResponseWriter, r *http.Request) error {
	f := requestFilter(r)
	before, _ := strconv.ParseInt(r.URL.Query().Get("before"), 10, 64) // the newest ones for what is not a number
	list := d.Requests.Latest(f, shownRequests+1, before)
	data := requestsPage{Filter: f, Before: before > 0, Live: r.URL.RawQuery}
	if len(list) > shownRequests {
		list = list[:shownRequests]
		q := r.URL.Query()
		q.Set("before", strconv.FormatInt(list[shownRequests-1].Number, 10))
		data.Next = "?" + q.Encode()
	}
	data.List = list
	return d.show(w, r, "Requests", nil, data)
}

// keepAlive is the interval at which a comment is sent on a live log without requests, so that a browser that has gone
// is noticed.
const keepAlive = 20 * time.Second

// liveRequests sends each new request as a server-sent event: a row of the table.
func (d *dashboard) liveRequests(w http.ResponseWriter, r *http.Request) error {
	requests, end := d.Requests.follow()
	if requests == nil {
		return problem{http.StatusServiceUnavailable, "Too many pages follow the requests", "Close one of them."}
	}
	defer end()
	f := requestFilter(r)
	w.Header().Set("Content-Type", "text/event-stream")
	control := http.NewResponseController(w)
	tick := time.NewTicker(keepAlive)
	defer tick.Stop()
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
			"The server keeps the latest " + count(keptRequests) + " requests."}
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
	if account := d.Accounts.Get(q.Account); !d.ReadOnly && account != nil && len(account.Keys) > 0 &&
		q.Mechanism != auth.Anonymous.String() {
		now := d.Now().UTC()
		svc := map[string]wire.Service{"blob": wire.Blob, "queue": wire.Queue, "table": wire.Table}[q.Service]
		token := auth.Token{VersionText: auth.SASVersion, Services: q.Service[:1], ResourceTypes: "sco",
			Permissions: "rwdlacuptfi",
			Start:       now.Add(-5 * time.Minute).Format("2006-01-02T15:04:05Z"),
			Expiry:      now.Add(time.Hour).Format("2006-01-02T15:04:05Z")}
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
