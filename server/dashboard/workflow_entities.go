package dashboard

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"
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

// durableEntities is the page of a hub's entities. Scheduled tasks are entities of the name schedule.
func (d *dashboard) durableEntities(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	path := []string{"entities"}
	if name := q.Get("name"); name != "" {
		path = append(path, name)
	}
	got, err := d.workflowCall(r, http.MethodGet, path, url.Values{"top": {fmt.Sprint(pageSize)}, "fetchState": {"true"},
		"details": {"true"}}, "", q.Get("marker"))
	if err != nil {
		return err
	}
	var rows []durableEntity
	if err := json.Unmarshal(got.body.Bytes(), &rows); err != nil {
		return err
	}
	account, hub := r.PathValue("account"), r.PathValue("hub")
	return d.show(w, r, "durable_entities", "Entities",
		[]crumb{{account, link("accounts", account)}, {"Workflows", link("accounts", account, "workflows")},
			{hub, link("accounts", account, "workflows", hub)}},
		map[string]any{"Hub": hub, "Rows": rows, "Name": q.Get("name"), "Next": got.header.Get("X-Ms-Continuation-Token"),
			"Now": d.Now()})
}

// signalDurableEntity sends an operation to an entity.
func (d *dashboard) signalDurableEntity(w http.ResponseWriter, r *http.Request) error {
	if r.PostFormValue("action") != "signal" {
		return errAction
	}
	if _, err := d.workflowCall(r, http.MethodPost, []string{"entities", r.PostFormValue("name"), r.PostFormValue("key")},
		url.Values{"op": {r.PostFormValue("operation")}}, r.PostFormValue("input"), ""); err != nil {
		return err
	}
	return back(w, r, link("accounts", r.PathValue("account"), "workflows", r.PathValue("hub"), "entities"), "sent")
}

// unmatchedWork is pending work that no connected worker takes, as the management API writes it.
type unmatchedWork struct {
	Kind, Name, Version string
	Instances           int
	Since               time.Time
}

// unmatched returns the pending work of the page's hub that no worker takes.
func (d *dashboard) unmatched(r *http.Request) (list []unmatchedWork, err error) {
	got, err := d.workflowCall(r, http.MethodGet, []string{"unmatched"}, nil, "", "")
	if err != nil {
		return nil, err
	}
	return list, json.Unmarshal(got.body.Bytes(), &list)
}
