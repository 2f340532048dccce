package queuepages

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"

	"github.com/lazuli-storage/lazuli/internal/sdk/ptr"
	"github.com/lazuli-storage/lazuli/internal/sdk/schedulerow"
	"github.com/lazuli-storage/lazuli/internal/server/dashboard/frame"
)

// queueScheduleRow is a schedule in the list.
type queueScheduleRow struct {
	Name, Expression, TimeZone, Queue, CatchUp, Body string
	Paused                                           bool
	Next, Last                                       time.Time
	Runs                                             int64
}

// queueSchedulesPage holds the schedules of an account that put messages into queues.
type queueSchedulesPage struct {
	Rows []queueScheduleRow
	Now  time.Time
}

func (queueSchedulesPage) Template() string { return "queue_schedules" }

// maxScheduleBody is the length of a body in the list, in characters.
const maxScheduleBody = 100

// queueSchedules lists the schedules of an account.
func (d *queuePages) queueSchedules(w http.ResponseWriter, r *http.Request, client *aztables.ServiceClient) error {
	store, err := schedulerow.Open(client)
	if err != nil {
		return err
	}
	list, err := store.List(r.Context())
	if err != nil {
		return err
	}
	data := queueSchedulesPage{Now: d.Now()}
	for _, s := range list {
		body := []rune(strings.ToValidUTF8(string(s.Body), "\uFFFD"))
		if len(body) > maxScheduleBody {
			body = append(body[:maxScheduleBody], '…')
		}
		data.Rows = append(data.Rows, queueScheduleRow{Name: s.Name, Expression: s.Expression, TimeZone: s.TimeZone,
			Queue: s.Queue, CatchUp: s.CatchUp, Body: string(body), Paused: s.Paused, Next: ptr.Value(s.Next),
			Last: ptr.Value(s.Last), Runs: s.Runs})
	}
	return d.Show(w, r, "Schedules", frame.CrumbsOf(r.PathValue("account")), data)
}

// changeQueueSchedules creates a schedule, or changes those that are chosen.
func (d *queuePages) changeQueueSchedules(w http.ResponseWriter, r *http.Request,
	client *aztables.ServiceClient) error {
	store, err := schedulerow.Open(client)
	if err != nil {
		return err
	}
	here := frame.Link("accounts", r.PathValue("account"), "schedules")
	action := r.PostFormValue("action")
	if action == "create" {
		field := func(name string) string { return strings.TrimSpace(r.PostFormValue(name)) }
		row := &schedulerow.Row{Name: field("name"), Expression: field("expression"), TimeZone: field("zone"),
			Queue: field("queue"), CatchUp: field("catchup"), Body: []byte(field("body"))}
		// A handler parses JSON: an empty body would be poison at the first run.
		if len(row.Body) == 0 {
			row.Body = []byte("{}")
		}
		// Checked before it is stored, and by the same code as the command line.
		if err := row.Complete(); err != nil {
			return frame.NewProblem(http.StatusBadRequest, "The schedule cannot be created", err.Error())
		}
		return frame.Back(w, r, scheduleProblem(store.Create(r.Context(), row)), here, "created")
	}
	// A map from a closed list: the action is text of the browser.
	change := map[string]struct {
		do   func(context.Context, string) error
		done string
	}{"pause": {store.Pause, "paused"}, "resume": {store.Resume, "resumed"}, "delete": {store.Remove, "deleted"}}[action]
	if change.do == nil {
		return frame.ErrAction
	}
	err = frame.RemoveChosen(r, func(name string) error { return change.do(r.Context(), name) })
	return frame.Back(w, r, scheduleProblem(err), here, change.done)
}

// scheduleProblem says what a failure means on a page.
func scheduleProblem(err error) error {
	switch {
	case errors.Is(err, schedulerow.ErrExists):
		return frame.NewProblem(http.StatusConflict, "There is a schedule of that name", "Choose another name.")
	case errors.Is(err, schedulerow.ErrNotFound):
		return frame.NewProblem(http.StatusNotFound, "The schedule does not exist", "It was deleted meanwhile.")
	}
	return err
}
