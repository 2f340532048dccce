package queuepages

import (
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"

	"github.com/lazuli-storage/lazuli/internal/sdk/jobrow"
	"github.com/lazuli-storage/lazuli/internal/server/dashboard/display"
	"github.com/lazuli-storage/lazuli/internal/server/dashboard/frame"
)

// shownJobs is the number of jobs that the page of a queue's jobs shows.
const shownJobs = 100

// jobRow is a job in the list, or on its page.
type jobRow struct {
	jobrow.Row
	ID string // with the queue
}

// Class returns the style of the state.
func (j jobRow) Class() string {
	switch j.State {
	case jobrow.Done:
		return "good"
	case jobrow.Poisoned:
		return "bad"
	case jobrow.Retrying, jobrow.Cancelled, jobrow.Cancelling:
		return "warn"
	}
	return ""
}

// LastError returns the beginning of the last error.
func (j jobRow) LastError() string {
	if len(j.Failures) == 0 {
		return ""
	}
	text, _ := display.Clip(j.Failures[len(j.Failures)-1].Text, 200)
	return text
}

// jobsPage holds the jobs of a queue.
type jobsPage struct {
	Queue  string
	State  jobrow.State // "" for all
	States []jobrow.State
	Rows   []jobRow
	More   bool
	Now    time.Time
}

func (jobsPage) Template() string { return "jobs" }

// jobPage holds one job.
type jobPage struct {
	Job              jobRow
	Progress, Result string
	Now              time.Time
}

func (jobPage) Template() string { return "job" }

// jobs lists the jobs of a queue, or shows the one that the query names.
func (d *queuePages) jobs(w http.ResponseWriter, r *http.Request, client *aztables.ServiceClient) error {
	account, queue := r.PathValue("account"), r.PathValue("queue")
	store, err := jobrow.Open(client)
	if err != nil {
		return err
	}
	if id := r.URL.Query().Get("id"); id != "" {
		return d.job(w, r, store, id)
	}
	page := jobsPage{Queue: queue, State: jobrow.State(r.URL.Query().Get("state")), States: jobrow.States, Now: d.Now()}
	states := page.States
	if page.State != "" {
		if !slices.Contains(states, page.State) {
			return frame.NewProblem(http.StatusBadRequest, "There is no such state of jobs", "The form lists them.")
		}
		states = []jobrow.State{page.State}
	}
	// One state after the other, as rows are stored by state: those that wait come before those that are done.
	for _, state := range states {
		for row, err := range store.List(r.Context(), queue, state) {
			if err != nil {
				return err
			}
			// The row after the last one that is shown says that there are more, without counting them.
			if page.More = len(page.Rows) == shownJobs; page.More {
				break
			}
			page.Rows = append(page.Rows, jobRow{row, row.FullID()})
		}
	}
	return d.Show(w, r, "Jobs of "+queue, frame.CrumbsOf(account, "queues", queue), page)
}

// errNoJob is the answer to IDs of jobs that are not there.
var errNoJob = frame.NewProblem(http.StatusNotFound, "There is no such job",
	"It may have ended: only jobs that were put with Keep stay after that.")

// job shows one job.
func (d *queuePages) job(w http.ResponseWriter, r *http.Request, store *jobrow.Store, id string) error {
	account, queue := r.PathValue("account"), r.PathValue("queue")
	of, rest, ok := jobrow.SplitID(id)
	if !ok || of != queue {
		return errNoJob
	}
	row, err := store.Get(r.Context(), queue, rest)
	if errors.Is(err, jobrow.ErrNotFound) || err == nil && row.State == jobrow.Dropped {
		return errNoJob
	}
	if err != nil {
		return err
	}
	page := jobPage{Job: jobRow{row, id}, Now: d.Now()}
	page.Progress, _ = display.Readable(string(row.Progress))
	page.Result, _ = display.Readable(string(row.Result))
	return d.Show(w, r, id, frame.CrumbsOf(account, "queues", queue, "jobs"), page)
}

// cancelJobs cancels the jobs that the form names. One that has ended meanwhile is no failure.
func (d *queuePages) cancelJobs(w http.ResponseWriter, r *http.Request, client *aztables.ServiceClient) error {
	queue := r.PathValue("queue")
	chosen := r.PostForm["chosen"]
	switch {
	case r.PostFormValue("action") != "cancel":
		return frame.ErrAction
	case len(chosen) == 0:
		return frame.ErrNothingChosen
	}
	store, err := jobrow.Open(client)
	if err != nil {
		return err
	}
	for _, id := range chosen {
		of, rest, ok := jobrow.SplitID(id)
		if !ok || of != queue {
			return errNoJob
		}
		// The time is that of workers, also with a test clock: they compare it with theirs.
		_, err := store.Cancel(r.Context(), queue, rest, time.Now())
		if errors.Is(err, jobrow.ErrNotFound) {
			return errNoJob
		}
		if err != nil && !errors.Is(err, jobrow.ErrEnded) {
			return err
		}
	}
	return frame.Back(w, r, nil, frame.Link("accounts", r.PathValue("account"), "queues", queue, "jobs"), "cancelled")
}
