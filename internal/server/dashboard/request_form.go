package dashboard

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/lazuli-storage/lazuli/internal/server/dashboard/frame"
	"github.com/lazuli-storage/lazuli/internal/server/dashboard/requestlog"
)

// requestFilter reads the filter of a page's address.
func (d *dashboard) requestFilter(r *http.Request) (f requestlog.Filter, err error) {
	q := r.URL.Query()
	f = requestlog.Filter{Service: q.Get("service"), Account: q.Get("in"), Failed: q.Get("failed") != "",
		Quiet: q.Get("quiet") != "", Text: q.Get("text"), Container: q.Get("container"), Blob: q.Get("blob"),
		Queue: q.Get("queue"), Table: q.Get("table"), Client: q.Get("client"), Status: strings.ToLower(q.Get("status")),
		FromText: q.Get("from"), UntilText: q.Get("until")}
	if f.Status != "" && !validStatus(f.Status) {
		return f, frame.NewProblem(http.StatusBadRequest, "The status "+f.Status+" is not one",
			"Write a status such as 404, or a class such as 4xx.")
	}
	now := d.Now()
	for _, t := range []struct {
		text string
		to   *time.Time
	}{{f.FromText, &f.From}, {f.UntilText, &f.Until}} {
		if *t.to, err = parseTime(t.text, now); err != nil {
			return f, frame.NewProblem(http.StatusBadRequest, "The time "+t.text+" is not one",
				"Write a time of the last day in UTC, 15:04 or 15:04:05, a whole time, 2006-01-02T15:04:05Z, or how long ago "+
					"it is, 10m.")
		}
	}
	return f, nil
}

// validStatus accepts 404 and 4xx.
func validStatus(text string) bool {
	if class, ok := strings.CutSuffix(text, "xx"); ok {
		return len(class) == 1 && class[0] >= '1' && class[0] <= '5'
	}
	n, err := strconv.Atoi(text)
	return err == nil && n >= 100 && n < 600
}

// parseTime reads a time: a whole one, one of the last 24 hours in UTC, or a duration before now. "" is the zero time.
func parseTime(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t, nil
	}
	for _, layout := range []string{"15:04", "15:04:05", "15:04:05.000"} {
		t, err := time.Parse(layout, text)
		if err != nil {
			continue
		}
		day := now.UTC().Truncate(24 * time.Hour)
		t = day.Add(t.Sub(time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC)))
		if t.After(now) { // shortly after midnight, 23:50 is that of yesterday
			t = t.Add(-24 * time.Hour)
		}
		return t, nil
	}
	return time.Time{}, fmt.Errorf("%q is no time", text)
}
