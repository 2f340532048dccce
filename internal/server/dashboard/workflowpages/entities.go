package workflowpages

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/lazuli-storage/lazuli/internal/server/dashboard/frame"
)

// durableEntity is an entity of a task hub as the management API writes it.
type durableEntity struct {
	EntityID          struct{ Name, Key string }
	LastOperationTime time.Time
	State             json.RawMessage
	LockedBy          string
	Backlog           int
}

// shownState bounds the characters of a state in the list.
const shownState = 200

// Short returns the beginning of the state.
func (e durableEntity) Short() string {
	text := []rune(workflowState{}.Text(e.State))
	if len(text) > shownState {
		return string(text[:shownState]) + "…"
	}
	return string(text)
}

// durableEntitiesPage holds the entities of a task hub.
type durableEntitiesPage struct {
	Hub        string
	Rows       []durableEntity
	Name, Next string
	Now        time.Time
}

func (durableEntitiesPage) Template() string { return "durable_entities" }

// durableEntities is the page of a hub's entities. Scheduled tasks are entities of the name schedule.
func (d *workflowPages) durableEntities(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	path := []string{"entities"}
	if name := q.Get("name"); name != "" {
		path = append(path, name)
	}
	var rows []durableEntity
	got, err := d.read(r, r.PathValue("hub"), path, url.Values{"top": {fmt.Sprint(frame.PageSize)},
		"fetchState": {"true"}, "details": {"true"}}, q.Get("marker"), &rows)
	if err != nil {
		return err
	}
	account, hub := r.PathValue("account"), r.PathValue("hub")
	return d.Show(w, r, "Entities", frame.CrumbsOf(account, "workflows", hub),
		durableEntitiesPage{Hub: hub, Rows: rows, Name: q.Get("name"), Next: got.Header().Get(continuation),
			Now: d.Now()})
}

// Text returns the whole state as people read it.
func (e durableEntity) Text() string { return workflowState{}.Text(e.State) }

// durableEntityPage holds an entity of a task hub.
type durableEntityPage struct {
	Hub    string
	Entity durableEntity
	Now    time.Time
}

func (durableEntityPage) Template() string { return "durable_entity" }

// durableEntity is the page of an entity, which the query names.
func (d *workflowPages) durableEntity(w http.ResponseWriter, r *http.Request) error {
	name, key := r.URL.Query().Get("name"), r.URL.Query().Get("key")
	account, hub := r.PathValue("account"), r.PathValue("hub")
	var e durableEntity
	if _, err := d.read(r, hub, []string{"entities", name, key}, url.Values{"details": {"true"}}, "", &e); err != nil {
		return err
	}
	return d.Show(w, r, name+" "+key, frame.CrumbsOf(account, "workflows", hub, "entities"),
		durableEntityPage{Hub: hub, Entity: e, Now: d.Now()})
}

// signalDurableEntity sends an operation to an entity: that of the page, or the one that the form names.
func (d *workflowPages) signalDurableEntity(w http.ResponseWriter, r *http.Request) error {
	if r.PostFormValue("action") != "signal" {
		return frame.ErrAction
	}
	q := r.URL.Query()
	name, key := cmp.Or(q.Get("name"), r.PostFormValue("name")), cmp.Or(q.Get("key"), r.PostFormValue("key"))
	if _, err := d.send(r, http.MethodPost, []string{"entities", name, key},
		url.Values{"op": {r.PostFormValue("operation")}}, r.PostFormValue("input")); err != nil {
		return err
	}
	http.Redirect(w, r, frame.Link("accounts", r.PathValue("account"), "workflows", r.PathValue("hub"), "entity")+
		string(frame.Query("name", name, "key", key, "done", "sent")), http.StatusSeeOther)
	return nil
}

// scheduleName is the name of the entities that the SDKs keep scheduled tasks in.
const scheduleName = "schedule"

// schedule is a scheduled task.
type schedule struct{ ID, Workflow, Interval, Status, Last, Next, End string }

// scheduleStatuses are the statuses that SDKs write as numbers.
var scheduleStatuses = []string{"not created", "active", "paused"}

// scheduleOf reads the state of an entity that is a scheduled task. SDKs differ in the form of the names of members.
func scheduleOf(e durableEntity) schedule {
	members := map[string]string{}
	var walk func(json.RawMessage)
	walk = func(text json.RawMessage) {
		var object map[string]json.RawMessage
		if json.Unmarshal(text, &object) != nil {
			var quoted string
			// Some SDKs store the state as a JSON text in a JSON text.
			if json.Unmarshal(text, &quoted) != nil || json.Unmarshal([]byte(quoted), &object) != nil {
				return
			}
		}
		for name, member := range object {
			// The members of the configuration come to the same level, as SDKs have them inside or outside of it.
			if name = strings.ToLower(strings.ReplaceAll(name, "_", "")); strings.Contains(name, "configuration") {
				walk(member)
			} else if text := (workflowState{}).Text(member); text != "" {
				members[name] = text
			}
		}
	}
	walk(e.State)
	s := schedule{ID: e.EntityID.Key, Workflow: members["orchestrationname"], Interval: members["interval"],
		Status: members["status"], Last: members["lastrunat"], Next: members["nextrunat"], End: members["endat"]}
	if n, err := strconv.Atoi(s.Status); err == nil && n >= 0 && n < len(scheduleStatuses) {
		s.Status = scheduleStatuses[n]
	}
	return s
}

// schedulesPage holds the scheduled tasks of a task hub.
type schedulesPage struct {
	Hub  string
	Rows []schedule
	Next string
}

func (schedulesPage) Template() string { return "schedules" }

// schedules is the page of a hub's scheduled tasks.
func (d *workflowPages) schedules(w http.ResponseWriter, r *http.Request) error {
	var entities []durableEntity
	got, err := d.read(r, r.PathValue("hub"), []string{"entities", scheduleName},
		url.Values{"top": {fmt.Sprint(frame.PageSize)}, "fetchState": {"true"}},
		r.URL.Query().Get("marker"), &entities)
	if err != nil {
		return err
	}
	var rows []schedule
	for _, e := range entities {
		rows = append(rows, scheduleOf(e))
	}
	account, hub := r.PathValue("account"), r.PathValue("hub")
	return d.Show(w, r, "Scheduled tasks", frame.CrumbsOf(account, "workflows", hub),
		schedulesPage{Hub: hub, Rows: rows, Next: got.Header().Get(continuation)})
}

// unmatchedWork is pending work that no connected worker takes, as the management API writes it.
type unmatchedWork struct {
	Kind, Name, Version string
	Instances           int
	Since               time.Time
}

// unmatched returns the pending work of the page's hub that no worker takes.
func (d *workflowPages) unmatched(r *http.Request) (list []unmatchedWork, err error) {
	_, err = d.read(r, r.PathValue("hub"), []string{"unmatched"}, nil, "", &list)
	return list, err
}
