package workflowpages

import (
	"cmp"
	"context"
	"embed"
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
	"github.com/lazuli-storage/lazuli/internal/server/dashboard/chart"
	"github.com/lazuli-storage/lazuli/internal/server/dashboard/display"
	"github.com/lazuli-storage/lazuli/internal/server/dashboard/frame"
	"github.com/lazuli-storage/lazuli/internal/server/dashboard/taskhub"
)

//go:embed templates
var files embed.FS

// workflowPages are the pages of task hubs and their workflows.
type workflowPages struct {
	*frame.Site
	// Workflows returns the HTTP management API of a task hub, or nil if the account has no such hub; a nil function is a
	// server without it.
	Workflows func(ctx context.Context, account, hub string) (http.Handler, error)
}

// Add adds them to a site; apis is the field Workflows.
func Add(s *frame.Site, apis func(ctx context.Context, account, hub string) (http.Handler, error)) {
	d := &workflowPages{s, apis}
	s.Templates(files)
	s.Route("accounts/{account}/workflows", frame.With(s.BlobClient, d.hubs), nil)
	s.Route("accounts/{account}/workflows/{hub}", d.hub, d.changeHub)
	s.Route("accounts/{account}/workflows/{hub}/entities", d.durableEntities, d.signalDurableEntity)
	s.Route("accounts/{account}/workflows/{hub}/entity", d.durableEntity, d.signalDurableEntity)
	s.Route("accounts/{account}/workflows/{hub}/schedules", d.schedules, nil)
	s.Route("accounts/{account}/workflows/{hub}/instance", d.instance, d.changeInstance)
}

// workflowAPI is the place where the HTTP management API of durable workflows is.
// https://learn.microsoft.com/azure/azure-functions/durable/durable-functions-http-api
const workflowAPI = "/runtime/webhooks/durabletask/"

// hubContainers is the number of containers that one page of hubs looks through, hubStep how many of them at a time.
const (
	hubContainers = 5000
	hubStep       = 250
)

// hubsTime bounds the time in which the instances of hubs are counted for one page.
const hubsTime = 2 * time.Second

// hubRow is a task hub in the list.
type hubRow struct {
	taskhub.Hub
	Summary *hubSummary // nil: not counted
}

// hubsPage holds the task hubs of an account, the newest first.
type hubsPage struct {
	Rows     []hubRow
	Statuses []string
	Next     string
	Now      time.Time
}

func (hubsPage) Template() string { return "hubs" }

// Class returns the style of a status.
func (hubsPage) Class(status string) string { return statusClasses[status] }

// hubs lists the task hubs of an account.
func (d *workflowPages) hubs(w http.ResponseWriter, r *http.Request, client *service.Client) error {
	var rows []hubRow
	candidates, marker := 0, r.URL.Query().Get("marker")
	for looked := 0; looked < hubContainers && candidates < frame.PageSize; looked += hubStep {
		got, err := client.NewListContainersPager(
			&service.ListContainersOptions{MaxResults: to.Ptr(int32(hubStep)), Marker: ptr.Text(marker)}).NextPage(r.Context())
		if err != nil {
			return err
		}
		for _, c := range got.ContainerItems {
			if strings.HasSuffix(ptr.Value(c.Name), taskhub.Suffix) {
				candidates++
				if hub, ok := taskhub.Read(r.Context(), client, ptr.Value(c.Name)); ok {
					rows = append(rows, hubRow{hub, nil})
				}
			}
		}
		if marker = ptr.Value(got.NextMarker); marker == "" {
			break
		}
	}
	slices.SortStableFunc(rows, func(a, b hubRow) int { return b.CreatedAt.Compare(a.CreatedAt) })
	for i, begun := 0, time.Now(); i < len(rows) && time.Since(begun) < hubsTime; i++ {
		// A hub whose instances cannot be read, such as one of another engine, has its page, which says why.
		if s, err := d.summarize(r, rows[i].TaskHubName); err == nil {
			rows[i].Summary = &s
		}
	}
	account := r.PathValue("account")
	return d.Show(w, r, "Workflows", frame.CrumbsOf(account),
		hubsPage{Rows: rows, Statuses: hubStatuses, Next: marker, Now: d.Now()})
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
	if out, ok := display.Indent(payload); ok {
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

// hubPage holds the instances of a task hub.
type hubPage struct {
	Hub                      string
	Rows                     []workflowState
	Status, Prefix, Workflow string // the filter
	Versions, Parents        bool   // an instance has one
	Unmatched                []unmatchedWork
	Summary                  hubSummary
	Next                     string
	Incomplete               bool // not all instances were looked through for the newest
	Now                      time.Time
}

func (hubPage) Template() string { return "hub" }

// hub is the page of a hub's instances.
func (d *workflowPages) hub(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	// Inputs may be megabytes each; the list does not show them.
	query := url.Values{"top": {fmt.Sprint(frame.PageSize)}, "showInput": {"false"}, "details": {"true"},
		"order": {"newest"}}
	for name, parameter := range map[string]string{"status": "runtimeStatus", "prefix": "instanceIdPrefix",
		"workflow": "workflow"} {
		if v := q.Get(name); v != "" {
			query.Set(parameter, v)
		}
	}
	var rows []workflowState
	got, err := d.read(r, r.PathValue("hub"), []string{"instances"}, query, q.Get("marker"), &rows)
	if err != nil {
		return err
	}
	unmatched, err := d.unmatched(r)
	if err != nil {
		return err
	}
	summary, err := d.summarize(r, r.PathValue("hub"))
	if err != nil {
		return err
	}
	account, hub := r.PathValue("account"), r.PathValue("hub")
	return d.Show(w, r, hub, frame.CrumbsOf(account, "workflows"),
		hubPage{Hub: hub, Rows: rows, Status: q.Get("status"), Prefix: q.Get("prefix"),
			Versions:  slices.ContainsFunc(rows, func(s workflowState) bool { return s.Version != "" }),
			Parents:   slices.ContainsFunc(rows, func(s workflowState) bool { return s.ParentInstanceID != "" }),
			Unmatched: unmatched, Workflow: q.Get("workflow"), Summary: summary,
			Next:       got.Header().Get(continuation),
			Incomplete: got.Header().Get("X-Lazuli-Incomplete") != "", Now: d.Now()})
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

// Count returns the number of instances with a status.
func (s hubSummary) Count(status string) string { return display.AtLeast(s.Statuses[status], s.More) }

// Counts returns the numbers of instances by status.
func (s hubSummary) Counts() (list []statusCount) {
	for _, status := range hubStatuses {
		list = append(list, statusCount{status, s.Count(status)})
	}
	return list
}

// Names returns the names of the workflows.
func (s hubSummary) Names() []string { return slices.Sorted(maps.Keys(s.Workflows)) }

// Chart draws the instances that ended.
func (s hubSummary) Chart() *chart.Plot {
	return chart.Hour("Ended instances", [2]string{"completed or terminated", "failed"},
		[2][]int64{s.LastHour.Ended, s.LastHour.Failed})
}

// summarize counts the instances of a hub.
func (d *workflowPages) summarize(r *http.Request, hub string) (s hubSummary, err error) {
	_, err = d.read(r, hub, []string{"summary"}, nil, "", &s)
	return s, err
}

// statusCount is the number of instances with a status, for people.
type statusCount struct{ Name, Value string }

// Class returns the style of the status.
func (c statusCount) Class() string { return statusClasses[c.Name] }

// changeHub starts an instance, or purges those that have ended with a status.
func (d *workflowPages) changeHub(w http.ResponseWriter, r *http.Request) error {
	account, hub := r.PathValue("account"), r.PathValue("hub")
	switch r.PostFormValue("action") {
	case "start":
		path := []string{"orchestrators", strings.TrimSpace(r.PostFormValue("name"))}
		if id := r.PostFormValue("id"); id != "" {
			path = append(path, id)
		}
		got, err := d.send(r, http.MethodPost, path, nil, r.PostFormValue("input"))
		if err != nil {
			return err
		}
		var started struct{ ID string }
		if err := json.Unmarshal(got.Body.Bytes(), &started); err != nil {
			return err
		}
		return d.backToInstance(w, r, started.ID, "started")
	case "purge":
		status := r.PostFormValue("status")
		if !(workflowState{RuntimeStatus: status}).Done() {
			return frame.ErrAction
		}
		query := url.Values{"createdTimeFrom": {"1970-01-01T00:00:00Z"}, "runtimeStatus": {status}}
		_, err := d.send(r, http.MethodDelete, []string{"instances"}, query, "")
		var p frame.Problem
		if err != nil && !(frame.ErrAs(err, &p) && p.Status == http.StatusNotFound) { // 404: no instance has the status
			return err
		}
		return frame.Back(w, r, nil, frame.Link("accounts", account, "workflows", hub), "deleted")
	}
	return frame.ErrAction
}

// instancePage holds an instance with its history.
type instancePage struct {
	Hub        string
	State      workflowState
	Steps      []timelineRow
	Graph      *graph // nil: it has neither a parent nor children
	Count      int    // of all steps
	Unreadable string // why the history is not shown
	Now        time.Time
}

func (instancePage) Template() string { return "instance" }

// instance is the page of an instance, which the query names: IDs can contain slashes.
func (d *workflowPages) instance(w http.ResponseWriter, r *http.Request) error {
	id := r.URL.Query().Get("id")
	path := []string{"instances", id}
	var state workflowState
	_, err := d.read(r, r.PathValue("hub"), path, url.Values{"showHistory": {"true"}, "showHistoryOutput": {"true"},
		"details": {"true"}}, "", &state)
	// A history that is damaged must not hide the instance: its state is asked for without it, and the page says what
	// cannot be read.
	unreadable := ""
	var p frame.Problem
	if frame.ErrAs(err, &p) && p.Status == http.StatusInternalServerError {
		unreadable = p.What
		_, err = d.read(r, r.PathValue("hub"), path, nil, "", &state)
	}
	if err != nil {
		return err
	}
	graph, err := d.graphOf(r, id)
	if err != nil {
		return err
	}
	account, hub := r.PathValue("account"), r.PathValue("hub")
	return d.Show(w, r, id, frame.CrumbsOf(account, "workflows", hub),
		instancePage{Hub: hub, State: state, Steps: timeline(state, d.Now()), Count: len(state.HistoryEvents), Graph: graph,
			Unreadable: unreadable, Now: d.Now()})
}

// instanceActions hold what the forms of an instance do, and the message afterwards.
var instanceActions = map[string]string{"suspend": "sent", "resume": "sent", "terminate": "sent", "rewind": "sent",
	"restart": "started"}

// changeInstance sends an event to an instance, controls it, or purges it.
func (d *workflowPages) changeInstance(w http.ResponseWriter, r *http.Request) error {
	id, action := r.URL.Query().Get("id"), r.PostFormValue("action")
	path := []string{"instances", id}
	switch {
	case action == "raise":
		// An event without data has null, which each SDK reads as its nil.
		data := cmp.Or(strings.TrimSpace(r.PostFormValue("data")), "null")
		if !json.Valid([]byte(data)) {
			return frame.NewProblem(http.StatusBadRequest, "The data of the event is not JSON",
				`A text is written in quotation marks: "yes".`)
		}
		path = append(path, "raiseEvent", r.PostFormValue("name"))
		if _, err := d.send(r, http.MethodPost, path, nil, data); err != nil {
			return err
		}
		return d.backToInstance(w, r, id, "sent")
	case action == "purge":
		_, err := d.send(r, http.MethodDelete, path, nil, "")
		return frame.Back(w, r, err, frame.Link("accounts", r.PathValue("account"), "workflows", r.PathValue("hub")),
			"deleted")
	case instanceActions[action] != "":
		query := url.Values{"reason": {r.PostFormValue("reason")}}
		if action == "restart" {
			// The same ID: the page stays at the instance that was restarted.
			query = url.Values{"restartWithNewInstanceId": {"false"}}
		}
		if _, err := d.send(r, http.MethodPost, append(path, action), query, ""); err != nil {
			return err
		}
		return d.backToInstance(w, r, id, instanceActions[action])
	}
	return frame.ErrAction
}

// backToInstance redirects to the page of an instance after a change.
func (d *workflowPages) backToInstance(w http.ResponseWriter, r *http.Request, id, done string) error {
	path := frame.Link("accounts", r.PathValue("account"), "workflows", r.PathValue("hub"), "instance")
	http.Redirect(w, r, path+"?"+url.Values{"id": {id}, "done": {done}}.Encode(), http.StatusSeeOther)
	return nil
}

// workflowHelps hold what helps against refusals of the management API.
var workflowHelps = map[int]frame.Problem{
	http.StatusNotFound: frame.NewProblem(http.StatusNotFound, "There is no such instance",
		"It may have been purged meanwhile; the page of the hub lists the instances."),
	http.StatusGone: frame.NewProblem(http.StatusGone, "The instance has ended", "Reload its page to see how."),
}

// continuation is the header with the place at which the next page begins.
const continuation = "X-Ms-Continuation-Token"

// read reads an answer of the management API of a hub into v; from is the place at which a page of a list begins, ""
// for the first.
func (d *workflowPages) read(r *http.Request, hub string, path []string, query url.Values, from string, v any) (
	*frame.Answer, error) {
	got, err := d.call(r, hub, http.MethodGet, path, query, "", from)
	if err != nil {
		return nil, err
	}
	return got, json.Unmarshal(got.Body.Bytes(), v)
}

// send sends a request that changes something to the management API of the hub in the page's path.
func (d *workflowPages) send(r *http.Request, method string, path []string, query url.Values, body string) (
	*frame.Answer, error) {
	return d.call(r, r.PathValue("hub"), method, path, query, body, "")
}

// call sends a request to the management API of a hub of the page's account.
func (d *workflowPages) call(r *http.Request, hub, method string, path []string, query url.Values, body,
	from string) (*frame.Answer, error) {
	account, err := d.AccountOf(r)
	if err != nil {
		return nil, err
	}
	if d.Workflows == nil {
		return nil, frame.NewProblem(http.StatusNotImplemented, "This server shows no workflows", "")
	}
	api, err := d.Workflows(r.Context(), account, hub)
	if err != nil {
		return nil, err
	}
	if api == nil {
		return nil, frame.NewProblem(http.StatusNotFound, "The account has no task hub "+hub,
			"The page Workflows lists the hubs.")
	}
	path = slices.Clone(path)
	for i, p := range path {
		// An empty element would make another path, such as that of all instances, which DELETE purges.
		if path[i] = url.PathEscape(p); p == "" {
			return nil, frame.NewProblem(http.StatusBadRequest, "A name is missing",
				"The workflow, the event and the instance have names.")
		}
	}
	hr, err := http.NewRequestWithContext(r.Context(), method, workflowAPI+strings.Join(path, "/")+"?"+query.Encode(),
		io.NopCloser(strings.NewReader(body)))
	if err != nil {
		return nil, err
	}
	hr.Header.Set("Content-Type", "application/json")
	if from != "" {
		hr.Header.Set(continuation, from)
	}
	a := frame.NewAnswer()
	api.ServeHTTP(a, hr)
	if a.Status/100 == 2 {
		return a, nil
	}
	// The API answers in this process and its errors are for programs; those that people cause have a sentence of their
	// own.
	if p, ok := workflowHelps[a.Status]; ok {
		return nil, p
	}
	return nil, frame.NewProblem(a.Status, refusal(a), "")
}

// refusal returns the text of an error of the management API: a JSON string, or an object.
func refusal(a *frame.Answer) string {
	var object struct{ Message, ExceptionMessage string }
	var text string
	switch {
	case json.Unmarshal(a.Body.Bytes(), &text) == nil:
		return text
	case json.Unmarshal(a.Body.Bytes(), &object) == nil && object.Message != "":
		return strings.TrimSuffix(object.Message+": "+object.ExceptionMessage, ": ")
	}
	return http.StatusText(a.Status)
}
