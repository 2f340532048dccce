package requestlog

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/lazuli-storage/lazuli/internal/azure/longpoll"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/server/dashboard/display"
)

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
				value = display.MaskURL(value)
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
	return q.Path + "?" + display.Mask(q.Query)
}

// polls reports whether a worker has looked for work: it follows a queue, container or table and waits for what is new,
// or has found no message, or a queue that does not exist, which it does again and again.
func (q *Request) polls() bool {
	if len(q.header[longpoll.AfterHeader]) > 0 {
		return true
	}
	switch q.Operation {
	case "PeekMessages":
		return q.Status == http.StatusNotFound || len(q.header[longpoll.WaitHeader]) > 0
	case "GetMessages":
		return q.Status == http.StatusNotFound || q.Status == http.StatusOK && len(q.Touched) == 0
	}
	return false
}

// names returns the container, queue or table of a request, and the blob or what else follows it in the path.
func (q *Request) names() (first, rest string) {
	if q.BatchTable != "" {
		return q.BatchTable, ""
	}
	path := q.Resource()
	if decoded, err := url.PathUnescape(path); err == nil {
		path = decoded
	}
	first, rest, _ = strings.Cut(strings.TrimPrefix(path, "/"), "/")
	if q.Service == wire.Table.String() {
		var keys string
		first, keys, _ = strings.Cut(first, "(")
		return first, keys
	}
	return first, rest
}
