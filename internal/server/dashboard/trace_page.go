package dashboard

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/lazuli-storage/lazuli/internal/server/dashboard/chart"
	"github.com/lazuli-storage/lazuli/internal/server/dashboard/frame"
	"github.com/lazuli-storage/lazuli/internal/server/dashboard/requestlog"
)

// traceRow is a span on the page.
type traceRow struct {
	requestlog.Span
	After time.Duration // since the first one
	chart.Bar
}

// Class returns the style of the row's bar.
func (r traceRow) Class() string { return r.Kind }

// StatusClass returns the style of its status.
func (r traceRow) StatusClass() string {
	if r.Error != "" {
		return "bad"
	}
	return ""
}

// tracePage holds the way of one unit of work.
type tracePage struct {
	ID   string
	Rows []traceRow
	Took time.Duration
	More bool
}

func (tracePage) Template() string { return "trace" }

// trace shows the way of one unit of work, by any of its IDs.
func (d *dashboard) trace(w http.ResponseWriter, r *http.Request) error {
	id := r.URL.Query().Get("id")
	if len(id) > requestlog.MaxTraceID {
		return frame.NewProblem(http.StatusBadRequest, "The ID is too long", "It has up to 256 characters.")
	}
	t := d.options.Requests.Trace(id)
	data := tracePage{ID: t.ID, More: t.More}
	if len(t.Spans) > 0 {
		begin, end := t.Spans[0].At, t.Spans[0].At
		for _, s := range t.Spans {
			if at := s.At.Add(s.Took); at.After(end) {
				end = at
			}
		}
		data.Took = end.Sub(begin)
		whole := max(int64(data.Took), 1)
		for _, s := range t.Spans {
			row := traceRow{Span: s, After: s.At.Sub(begin)}
			row.From = int(int64(row.After) * 1000 / whole)
			row.Width = max(4, int(int64(s.Took)*1000/whole))
			row.From = min(row.From, 1000-4)
			data.Rows = append(data.Rows, row)
		}
	}
	return d.Show(w, r, "Trace", nil, data)
}

// traceJSON answers the command that prints a trace.
func (d *dashboard) traceJSON(w http.ResponseWriter, r *http.Request) error {
	id := r.URL.Query().Get("id")
	if len(id) > requestlog.MaxTraceID {
		return frame.NewProblem(http.StatusBadRequest, "The ID is too long", "It has up to 256 characters.")
	}
	w.Header().Set("Content-Type", "application/json")
	return json.NewEncoder(w).Encode(d.options.Requests.Trace(id))
}
