package dashboard

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/service"

	"github.com/lazuli-storage/lazuli/internal/sdk/ptr"
)

// workflowAPI is the place where the HTTP management API of durable workflows is.
// https://learn.microsoft.com/azure/azure-functions/durable/durable-functions-http-api
const workflowAPI = "/runtime/webhooks/durabletask/"

// Names by which a task hub is found; see package durable.
const (
	hubSuffix = "-leases"
	hubInfo   = "taskhub.json"
	// hubContainers is the number of containers that one page of hubs looks through, hubStep how many of them at a time.
	hubContainers = 5000
	hubStep       = 250
)

// hubRow is a task hub in the list.
type hubRow struct {
	TaskHubName    string
	CreatedAt      time.Time
	PartitionCount int
}

// hubsPage holds the task hubs of an account.
type hubsPage struct {
	Rows []hubRow
	Next string
	Now  time.Time
}

func (hubsPage) template() string { return "hubs" }

// hubs lists the task hubs of an account.
func (d *dashboard) hubs(w http.ResponseWriter, r *http.Request, client *service.Client) error {
	var rows []hubRow
	candidates, marker := 0, r.URL.Query().Get("marker")
	for looked := 0; looked < hubContainers && candidates < pageSize; looked += hubStep {
		got, err := client.NewListContainersPager(
			&service.ListContainersOptions{MaxResults: to.Ptr(int32(hubStep)), Marker: ptr.Text(marker)}).NextPage(r.Context())
		if err != nil {
			return err
		}
		for _, c := range got.ContainerItems {
			if strings.HasSuffix(ptr.Value(c.Name), hubSuffix) {
				candidates++
				if row, ok := readHub(r.Context(), client, ptr.Value(c.Name)); ok {
					rows = append(rows, row)
				}
			}
		}
		if marker = ptr.Value(got.NextMarker); marker == "" {
			break
		}
	}
	account := r.PathValue("account")
	return d.show(w, r, "Workflows", crumbsOf(account), hubsPage{Rows: rows, Next: marker, Now: d.Now()})
}

// readHub reads what a container says of its task hub. Other containers can have such a name, too.
func readHub(ctx context.Context, client *service.Client, name string) (row hubRow, ok bool) {
	text := make([]byte, 4096)
	n, err := client.NewContainerClient(name).NewBlobClient(hubInfo).DownloadBuffer(ctx, text, nil)
	ok = err == nil && json.Unmarshal(text[:n], &row) == nil && row.PartitionCount >= 1
	return row, ok
}

// workflowState is an instance as the management API writes it.
type workflowState struct {
	Name, InstanceID, RuntimeStatus, Version string
	ParentInstanceID                         string
	ScheduledTime                            *time.Time
	Input, Output, CustomStatus              json.RawMessage
	CreatedTime, LastUpdatedTime             time.Time
	HistoryEvents                            []workflowEvent
}

// Done reports whether the instance has ended.
func (s workflowState) Done() bool {
	return slices.Contains([]string{"Completed", "Failed", "Terminated", "Canceled"}, s.RuntimeStatus)
}

// Class returns the style of the status.
func (s workflowState) Class() string { return statusClasses[s.RuntimeStatus] }

var statusClasses = map[string]string{"Completed": "good", "Failed": "bad", "Terminated": "warn", "Canceled": "warn",
	"Suspended": "warn"}

// Text returns a payload as people read it: indented, and a string without quotes.
func (workflowState) Text(payload json.RawMessage) string {
	var text string
	switch {
	case len(payload) == 0 || string(payload) == "null":
		return ""
	case json.Unmarshal(payload, &text) == nil:
		return text
	}
	if out, ok := indent(payload); ok {
		return out
	}
	return string(payload)
}

// workflowEvent is a step of a history as the management API writes it.
type workflowEvent struct {
	EventType, Name, FunctionName, OrchestrationStatus, Reason string
	InstanceID                                                 string `json:"InstanceId"`
	Input, Result                                              json.RawMessage
	Timestamp                                                  time.Time
	ScheduledTime, FireAt                                      *time.Time
}

// bar is the place of a step in the time of an instance, in thousandths.
type bar struct{ From, Width int }

// timelineRow is a step on the page of an instance.
type timelineRow struct {
	workflowEvent
	After time.Duration // since the first step
	Took  time.Duration // of a task
	// Due is when the timer that was set fires, since the first step; Idle says that the workflow ended before.
	Due  time.Duration
	Idle bool
	bar
}

// Class returns the style of the step.
func (t timelineRow) Class() string {
	if strings.HasSuffix(t.EventType, "Failed") || t.OrchestrationStatus == "Failed" {
		return "bad"
	}
	return statusClasses[t.OrchestrationStatus]
}

// stepNames describe the steps of a history to people, by their names in the SDKs.
var stepNames = map[string]string{
	"ExecutionStarted": "started", "ExecutionCompleted": "ended", "ExecutionTerminated": "terminated",
	"ExecutionSuspended": "suspended", "ExecutionResumed": "resumed", "ExecutionRewound": "rewound",
	"TaskScheduled": "activity runs", "TaskCompleted": "activity done", "TaskFailed": "activity failed",
	"TimerCreated": "timer set", "TimerFired": "timer fired", "EventRaised": "event received", "EventSent": "event sent",
	"SubOrchestrationInstanceCreated":   "child workflow runs",
	"SubOrchestrationInstanceCompleted": "child workflow done",
	"SubOrchestrationInstanceFailed":    "child workflow failed",
	"ContinueAsNew":                     "began again",
	"EntityOperationCalled":             "entity called", "EntityOperationSignaled": "entity signalled",
	"EntityOperationCompleted": "entity answered", "EntityOperationFailed": "entity failed",
	"EntityLockRequested": "lock asked for", "EntityLockGranted": "lock granted", "EntityUnlockSent": "unlocked",
}

// What describes the step to people.
func (t timelineRow) What() string { return cmp.Or(stepNames[t.EventType], t.EventType) }

// shownSteps bounds the steps that a page shows.
const shownSteps = 1000

// timeline places the steps of a history between its first and its last one.
func timeline(events []workflowEvent) []timelineRow {
	if len(events) == 0 {
		return nil
	}
	first := events[0].Timestamp
	last := events[len(events)-1].Timestamp
	whole := max(last.Sub(first), 1)
	over := events[len(events)-1].EventType == "ExecutionCompleted"
	rows := make([]timelineRow, 0, len(events))
	for _, e := range events[max(0, len(events)-shownSteps):] {
		row := timelineRow{workflowEvent: e, After: max(0, e.Timestamp.Sub(first))}
		if e.FireAt != nil && e.EventType == "TimerCreated" {
			row.Due = max(0, e.FireAt.Sub(first))
			row.Idle = over && !slices.ContainsFunc(events, func(f workflowEvent) bool {
				return f.EventType == "TimerFired" && f.FireAt != nil && f.FireAt.Equal(*e.FireAt)
			})
		}
		began := e.Timestamp
		if e.ScheduledTime != nil {
			began = *e.ScheduledTime
			row.Took = e.Timestamp.Sub(began)
		}
		row.From = int(max(0, began.Sub(first)) * 990 / whole)
		row.Width = max(10, int(e.Timestamp.Sub(began)*990/whole))
		rows = append(rows, row)
	}
	return rows
}

// hubPage holds the instances of a task hub.
type hubPage struct {
	Hub                      string
	Rows                     []workflowState
	Status, Prefix, Workflow string // the filter
	Versions, Parents        bool   // an instance has one
	Unmatched                []unmatchedWork
	Summary                  hubSummary
	Next                     string
	Now                      time.Time
}

func (hubPage) template() string { return "hub" }

// hub is the page of a hub's instances.
func (d *dashboard) hub(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	query := url.Values{"top": {fmt.Sprint(pageSize)}, "showInput": {"false"}, "details": {"true"}}
	for name, parameter := range map[string]string{"status": "runtimeStatus", "prefix": "instanceIdPrefix",
		"workflow": "workflow"} {
		if v := q.Get(name); v != "" {
			query.Set(parameter, v)
		}
	}
	got, err := d.workflowCall(r, http.MethodGet, []string{"instances"}, query, "", q.Get("marker"))
	if err != nil {
		return err
	}
	var rows []workflowState
	if err := json.Unmarshal(got.body.Bytes(), &rows); err != nil {
		return err
	}
	unmatched, err := d.unmatched(r)
	if err != nil {
		return err
	}
	summary, err := d.summarize(r)
	if err != nil {
		return err
	}
	account, hub := r.PathValue("account"), r.PathValue("hub")
	return d.show(w, r, hub, crumbsOf(account, "workflows"),
		hubPage{Hub: hub, Rows: rows, Status: q.Get("status"), Prefix: q.Get("prefix"),
			Versions:  slices.ContainsFunc(rows, func(s workflowState) bool { return s.Version != "" }),
			Parents:   slices.ContainsFunc(rows, func(s workflowState) bool { return s.ParentInstanceID != "" }),
			Unmatched: unmatched, Workflow: q.Get("workflow"), Summary: summary,
			Next: got.header.Get("X-Ms-Continuation-Token"), Now: d.Now()})
}

// hubStatuses are the statuses that instances can have, in the order of the page.
var hubStatuses = []string{"Pending", "Running", "Suspended", "Completed", "Failed", "Terminated"}

// hubSummary says how many instances a hub has, as the management API writes it.
type hubSummary struct {
	Instances           int
	More                bool
	Statuses, Workflows map[string]int
	LastHour            struct{ Ended, Failed []int64 }
}

// Counts returns the numbers of instances by status.
func (s hubSummary) Counts() (list []property) {
	for _, status := range hubStatuses {
		list = append(list, property{status, atLeast(s.Statuses[status], s.More)})
	}
	return list
}

// Names returns the names of the workflows.
func (s hubSummary) Names() []string { return slices.Sorted(maps.Keys(s.Workflows)) }

// Chart draws the instances that ended.
func (s hubSummary) Chart() *hourChart {
	return newHourChart("Ended instances", [2]string{"completed or terminated", "failed"},
		[2][]int64{s.LastHour.Ended, s.LastHour.Failed})
}

// summarize counts the instances of the page's hub.
func (d *dashboard) summarize(r *http.Request) (s hubSummary, err error) {
	got, err := d.workflowCall(r, http.MethodGet, []string{"summary"}, nil, "", "")
	if err != nil {
		return s, err
	}
	return s, json.Unmarshal(got.body.Bytes(), &s)
}

// Class returns the style of a status.
func (p property) Class() string { return statusClasses[p.Name] }

// changeHub starts an instance, or purges those that have ended with a status.
func (d *dashboard) changeHub(w http.ResponseWriter, r *http.Request) error {
	account, hub := r.PathValue("account"), r.PathValue("hub")
	switch r.PostFormValue("action") {
	case "start":
		path := []string{"orchestrators", strings.TrimSpace(r.PostFormValue("name"))}
		if id := r.PostFormValue("id"); id != "" {
			path = append(path, id)
		}
		got, err := d.workflowCall(r, http.MethodPost, path, nil, r.PostFormValue("input"), "")
		if err != nil {
			return err
		}
		var started struct{ ID string }
		if err := json.Unmarshal(got.body.Bytes(), &started); err != nil {
			return err
		}
		return d.backToInstance(w, r, started.ID, "started")
	case "purge":
		status := r.PostFormValue("status")
		if !(workflowState{RuntimeStatus: status}).Done() {
			return errAction
		}
		query := url.Values{"createdTimeFrom": {"1970-01-01T00:00:00Z"}, "runtimeStatus": {status}}
		_, err := d.workflowCall(r, http.MethodDelete, []string{"instances"}, query, "", "")
		var p problem
		if err != nil && !(errAs(err, &p) && p.status == http.StatusNotFound) { // 404: no instance has the status
			return err
		}
		return back(w, r, nil, link("accounts", account, "workflows", hub), "deleted")
	}
	return errAction
}

// instancePage holds an instance with its history.
type instancePage struct {
	Hub        string
	State      workflowState
	Steps      []timelineRow
	Count      int    // of all steps
	Unreadable string // why the history is not shown
	Now        time.Time
}

func (instancePage) template() string { return "instance" }

// instance is the page of an instance, which the query names: IDs can contain slashes.
func (d *dashboard) instance(w http.ResponseWriter, r *http.Request) error {
	id := r.URL.Query().Get("id")
	path := []string{"instances", id}
	got, err := d.workflowCall(r, http.MethodGet, path, url.Values{"showHistory": {"true"}, "showHistoryOutput": {"true"},
		"details": {"true"}}, "", "")
	unreadable := ""
	var p problem
	if errAs(err, &p) && p.status == http.StatusInternalServerError {
		unreadable = p.what
		got, err = d.workflowCall(r, http.MethodGet, path, nil, "", "")
	}
	if err != nil {
		return err
	}
	var state workflowState
	if err := json.Unmarshal(got.body.Bytes(), &state); err != nil {
		return err
	}
	account, hub := r.PathValue("account"), r.PathValue("hub")
	return d.show(w, r, id, crumbsOf(account, "workflows", hub),
		instancePage{Hub: hub, State: state, Steps: timeline(state.HistoryEvents), Count: len(state.HistoryEvents),
			Unreadable: unreadable, Now: d.Now()})
}

// instanceActions hold what the forms of an instance do, and the message afterwards.
var instanceActions = map[string]string{"suspend": "sent", "resume": "sent", "terminate": "sent", "rewind": "sent",
	"restart": "started"}

// changeInstance sends an event to an instance, controls it, or purges it.
func (d *dashboard) changeInstance(w http.ResponseWriter, r *http.Request) error {
	id, action := r.URL.Query().Get("id"), r.PostFormValue("action")
	path := []string{"instances", id}
	switch {
	case action == "raise":
		data := cmp.Or(strings.TrimSpace(r.PostFormValue("data")), "null")
		if !json.Valid([]byte(data)) {
			return problem{http.StatusBadRequest, "The data of the event is not JSON",
				`A text is written in quotation marks: "yes".`}
		}
		if _, err := d.workflowCall(r, http.MethodPost, append(path, "raiseEvent", r.PostFormValue("name")), nil, data,
			""); err != nil {
			return err
		}
		return d.backToInstance(w, r, id, "sent")
	case action == "purge":
		_, err := d.workflowCall(r, http.MethodDelete, path, nil, "", "")
		return back(w, r, err, link("accounts", r.PathValue("account"), "workflows", r.PathValue("hub")), "deleted")
	case instanceActions[action] != "":
		query := url.Values{"reason": {r.PostFormValue("reason")}}
		if action == "restart" {
			query = url.Values{"restartWithNewInstanceId": {"false"}}
		}
		if _, err := d.workflowCall(r, http.MethodPost, append(path, action), query, "", ""); err != nil {
			return err
		}
		return d.backToInstance(w, r, id, instanceActions[action])
	}
	return errAction
}

// backToInstance redirects to the page of an instance after a change.
func (d *dashboard) backToInstance(w http.ResponseWriter, r *http.Request, id, done string) error {
	path := link("accounts", r.PathValue("account"), "workflows", r.PathValue("hub"), "instance")
	http.Redirect(w, r, path+"?"+url.Values{"id": {id}, "done": {done}}.Encode(), http.StatusSeeOther)
	return nil
}

// workflowHelps hold what helps against refusals of the management API.
var workflowHelps = map[int]problem{
	http.StatusNotFound: {http.StatusNotFound, "There is no such instance",
		"It may have been purged meanwhile; the page of the hub lists the instances."},
	http.StatusGone: {http.StatusGone, "The instance has ended", "Reload its page to see how."},
}

// workflowCall sends a request to the management API of the hub in the page's path.
func (d *dashboard) workflowCall(r *http.Request, method string, path []string, query url.Values, body,
	continuation string) (*answer, error) {
	account, err := d.accountOf(r)
	if err != nil {
		return nil, err
	}
	hub := r.PathValue("hub")
	if d.Workflows == nil {
		return nil, problem{http.StatusNotImplemented, "This server shows no workflows", ""}
	}
	api, err := d.Workflows(r.Context(), account, hub)
	if err != nil {
		return nil, err
	}
	if api == nil {
		return nil, problem{http.StatusNotFound, "The account has no task hub " + hub, "The page Workflows lists the hubs."}
	}
	path = slices.Clone(path)
	for i, p := range path {
		if path[i] = url.PathEscape(p); p == "" {
			return nil, problem{http.StatusBadRequest, "A name is missing",
				"The workflow, the event and the instance have names."}
		}
	}
	hr, err := http.NewRequestWithContext(r.Context(), method, workflowAPI+strings.Join(path, "/")+"?"+query.Encode(),
		io.NopCloser(strings.NewReader(body)))
	if err != nil {
		return nil, err
	}
	hr.Header.Set("Content-Type", "application/json")
	if continuation != "" {
		hr.Header.Set("X-Ms-Continuation-Token", continuation)
	}
	a := &answer{header: make(http.Header), status: http.StatusOK}
	api.ServeHTTP(a, hr)
	if a.status/100 == 2 {
		return a, nil
	}
	if p, ok := workflowHelps[a.status]; ok {
		return nil, p
	}
	return nil, problem{a.status, refusal(a), ""}
}

// refusal returns the text of an error of the management API: a JSON string, or an object.
func refusal(a *answer) string {
	var object struct{ Message, ExceptionMessage string }
	var text string
	switch {
	case json.Unmarshal(a.body.Bytes(), &text) == nil:
		return text
	case json.Unmarshal(a.body.Bytes(), &object) == nil && object.Message != "":
		return strings.TrimSuffix(object.Message+": "+object.ExceptionMessage, ": ")
	}
	return http.StatusText(a.status)
}
