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

	"github.com/lazuli-storage/lazuli/internal/server/dashboard/display"
	"github.com/lazuli-storage/lazuli/internal/server/dashboard/frame"
	"github.com/lazuli-storage/lazuli/internal/server/dashboard/requestlog"
)

// shownRequests is the number of requests that a page shows at first.
const shownRequests = frame.PageSize

// requestsPage holds a page of the latest requests.
type requestsPage struct {
	Filter requestlog.Filter
	List   []*requestlog.Request
	Before bool   // these are not the latest
	Live   string // the query of the requests that follow
	Next   string // the query of the next page
	CSV    string // the query of all of them
	ByEnd  bool   // in the order in which they ended
	Hidden int    // requests of runtimes, so far
}

func (requestsPage) Template() string { return "requests" }

// requests is the live log.
func (d *dashboard) requests(w http.ResponseWriter, r *http.Request) error {
	f, err := d.requestFilter(r)
	if err != nil {
		return err
	}
	q := r.URL.Query()
	before, _ := strconv.ParseInt(q.Get("before"), 10, 64) // the newest ones for what is not a number
	list := d.options.Requests.Latest(f, shownRequests+1, before)
	data := requestsPage{Filter: f, Before: before > 0, Live: r.URL.RawQuery, ByEnd: q.Get("order") == "end"}
	if len(list) > shownRequests {
		list = list[:shownRequests]
		q.Set("before", strconv.FormatInt(list[shownRequests-1].Number, 10))
		data.Next = "?" + q.Encode()
	}
	q.Del("before")
	if data.CSV = "/ui/requests.csv?" + q.Encode(); !f.Quiet {
		data.Hidden = d.options.Requests.QuietCount()
	}
	data.List = list
	// They are kept in the order in which they ended, and a long one stands above those that began after it.
	if !data.ByEnd {
		slices.SortStableFunc(list, func(a, b *requestlog.Request) int { return b.At.Compare(a.At) })
	}
	return d.Show(w, r, "Requests", nil, data)
}

// requestsCSV sends all kept requests that the filter chooses, in the order in which they began.
func (d *dashboard) requestsCSV(w http.ResponseWriter, r *http.Request) error {
	f, err := d.requestFilter(r)
	if err != nil {
		return err
	}
	list := d.options.Requests.Latest(f, requestlog.KeptRequests+requestlog.KeptQuiet, 0)
	slices.SortStableFunc(list, func(a, b *requestlog.Request) int { return a.At.Compare(b.At) })
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
	requests, end := d.options.Requests.Follow()
	if requests == nil {
		return frame.NewProblem(http.StatusServiceUnavailable, "Too many pages follow the requests", "Close one of them.")
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
			if !f.Takes(q) {
				continue
			}
			var row bytes.Buffer
			if err := d.Part(&row, "requests", "row", q); err != nil {
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
	Request *requestlog.Request
	Curl    string     // repeats it
	Rule    url.Values // of the form of a fault rule
}

func (requestPage) Template() string { return "request" }

// request shows one request with its headers, its error and a command that repeats it.
func (d *dashboard) request(w http.ResponseWriter, r *http.Request) error {
	q := d.options.Requests.Get(r.PathValue("id"))
	if q == nil {
		return frame.NewProblem(http.StatusNotFound, "The request is not kept any more",
			"The server keeps the latest "+display.Count(requestlog.KeptRequests)+" requests of programs, and "+
				display.Count(requestlog.KeptQuiet)+" of runtimes.")
	}
	return d.Show(w, r, q.Name(), []frame.Crumb{{Name: "Requests", URL: frame.Link("requests")}},
		requestPage{Request: q, Curl: d.curl(q), Rule: faultQuery(q)})
}
