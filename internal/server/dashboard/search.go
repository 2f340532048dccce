package dashboard

import (
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/lazuli-storage/lazuli/internal/sdk/findtool"
	"github.com/lazuli-storage/lazuli/internal/server/dashboard/frame"
)

// foundRow is something that a search has found.
type foundRow struct {
	findtool.Found
	URL string // of its page
}

// Title returns what a link to it says.
func (f foundRow) Title() string {
	if f.Kind != findtool.Entity {
		return f.Name
	}
	return "PartitionKey " + quoted(f.PartitionKey) + ", RowKey " + quoted(f.RowKey)
}

// quoted shows where a key begins and ends: it can be empty or end with blanks.
func quoted(key string) string { return "“" + key + "”" }

// searchPage holds what a search has found.
type searchPage struct {
	Text    string
	Asked   bool
	Problem string // with the text
	Steps   int    // of the trace that the text has as an ID
	Rows    []foundRow
	Read    int // entities, messages and names
	Bytes   int64
	Took    time.Duration
	Stopped string
	Where   string
	Next    string
	After   bool // the page goes on from an earlier one
	Notes   []string
}

func (searchPage) Template() string { return "search" }

// search looks for a text in everything that an account has. Every page is bounded, and leads to the next one.
func (d *dashboard) search(w http.ResponseWriter, r *http.Request) error {
	account, err := d.AccountOf(r)
	if err != nil {
		return err
	}
	blobs, err1 := d.BlobClient(r)
	queues, err2 := d.QueueClient(r)
	tables, err3 := d.TableClient(r)
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	q := r.URL.Query()
	data := searchPage{Text: q.Get("q"), Asked: q.Has("q"), After: q.Get("after") != ""}
	// Without a text the page is the form; an empty text is an error that the search reports.
	if !data.Asked {
		return d.Show(w, r, "Search", frame.CrumbsOf(account), data)
	}
	got, err := findtool.Find(r.Context(), findtool.Account{Blobs: blobs, Queues: queues, Tables: tables}, data.Text,
		q.Get("after"), findtool.Usual)
	switch {
	case errors.Is(err, findtool.ErrText):
		data.Problem = err.Error()
		return d.ShowStatus(w, r, http.StatusBadRequest, "Search", frame.CrumbsOf(account), data)
	case errors.Is(err, findtool.ErrAfter):
		return frame.NewProblem(http.StatusBadRequest, "There is no such page of results", "Search again from the beginning.")
	case err != nil:
		return err
	}
	// The trace is asked once, for the first page.
	if !data.After {
		data.Steps = len(d.options.Requests.Trace(data.Text).Spans)
	}
	for _, f := range got.Found {
		data.Rows = append(data.Rows, foundRow{f, pageOf(account, f)})
	}
	data.Read, data.Bytes, data.Took, data.Notes = got.Rows, got.Bytes, got.Took, got.Notes
	data.Stopped, data.Where, data.Next = got.Stopped, got.Where, got.Next
	return d.Show(w, r, "Search", frame.CrumbsOf(account), data)
}

// pageOf returns the address of the page of what was found.
func pageOf(account string, f findtool.Found) string {
	at := func(parts ...string) string { return frame.Link(append([]string{"accounts", account}, parts...)...) }
	switch f.Kind {
	case findtool.Container:
		return at("containers", f.Name)
	case findtool.Queue:
		return at("queues", f.Name)
	case findtool.Table:
		return at("tables", f.Name)
	case findtool.Instance:
		return at("workflows", f.In, "instance") + string(frame.Query("id", f.Name))
	case findtool.Job:
		return at("queues", f.In, "jobs") + string(frame.Query("id", f.Name))
	case findtool.Blob:
		return at("blob", f.In) + string(frame.Query("name", f.Name))
	case findtool.Message:
		return at("queues", f.In) + string(frame.Query("after", f.After)) + "#m-" + url.PathEscape(f.Name)
	}
	return at("tables", f.In, "entity") + string(frame.EntityQuery(f.PartitionKey, f.RowKey))
}
