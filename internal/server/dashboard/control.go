package dashboard

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/lazuli-storage/lazuli/internal/azure/faultrule"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/server"
	"github.com/lazuli-storage/lazuli/internal/server/dashboard/frame"
	"github.com/lazuli-storage/lazuli/internal/storage/datadir"
)

// faultRow is a fault rule in the list.
type faultRow struct {
	faultrule.Status
	Text string
}

// controlPage holds what changes the server as a whole.
type controlPage struct {
	State, Seed, Faults bool // whether the server allows each
	InMemory            bool
	Clock               bool // the clock can be set forward
	Ahead               time.Duration
	Snapshots           []datadir.Snapshot
	Rules               []faultRow
	Form                url.Values // fills in the form of a rule
	Now                 time.Time
}

func (controlPage) Template() string { return "control" }

// control is the page of what changes the server as a whole.
func (d *dashboard) control(w http.ResponseWriter, r *http.Request) error {
	b := d.options.Backend()
	data := controlPage{State: d.options.State, Seed: d.options.Seed != nil, Faults: b.Faults() != nil,
		Form: r.URL.Query(),
		Now:  d.Now(), InMemory: d.options.InMemory}
	if d.options.Clock != nil {
		data.Clock, data.Ahead = true, d.options.Clock.Offset()
	}
	// Without a folder there is nothing to make a snapshot of.
	if d.options.State && !d.options.InMemory {
		list, err := b.Snapshots()
		// A folder that ends with the server has no place for snapshots; the page then shows none and is no error.
		if err != nil && !errors.Is(err, datadir.ErrTemporary) {
			return err
		}
		data.Snapshots = list
	}
	if f := b.Faults(); f != nil {
		var rows []faultRow
		for _, s := range f.Rules() {
			rule := s.Rule
			// The text is for "add again" on another server, where the name may be taken.
			rule.Name = ""
			text, err := json.Marshal(rule)
			if err != nil {
				return err
			}
			rows = append(rows, faultRow{s, string(text)})
		}
		data.Rules = rows
	}
	return d.Show(w, r, "Control", nil, data)
}

// patience bounds the wait of a snapshot for requests that are under way.
const patience = 10 * time.Second

// changeControl resets, seeds, saves and restores, and changes the fault rules.
func (d *dashboard) changeControl(w http.ResponseWriter, r *http.Request) error {
	b, action := d.options.Backend(), r.PostFormValue("action")
	here := frame.Link("control")
	switch action {
	case "fault", "faultjson", "unfault", "nofaults":
		if b.Faults() == nil {
			return frame.NewProblem(http.StatusForbidden, "Fault rules are not allowed", "Start lazuli with --faults.")
		}
		return d.changeFaults(w, r, b.Faults(), action)
	case "clock":
		if d.options.Clock == nil {
			return frame.NewProblem(http.StatusForbidden, "The server runs on the system's clock",
				"Start lazuli with --test-clock.")
		}
		if err := d.options.Clock.Change(strings.TrimSpace(r.PostFormValue("forward"))); err != nil {
			return frame.NewProblem(http.StatusBadRequest, "The clock was not set: "+err.Error(),
				"Messages that are waiting, leases and retention follow the clock; it cannot go back.")
		}
		return frame.Back(w, r, nil, here, "clock")
	}
	// The actions above have options of their own. All that follow change the state as a whole.
	if !d.options.State {
		return frame.NewProblem(http.StatusForbidden, "Resets and snapshots are not allowed",
			"Start lazuli with --admin-state.")
	}
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	var err error
	outcome := "saved"
	switch name := r.PostFormValue("name"); action {
	case "reset":
		outcome = "reset"
		scope := server.Scope{Account: r.PostFormValue("scope"), Prefix: r.PostFormValue("prefix")}
		for _, svc := range []wire.Service{wire.Blob, wire.Queue, wire.Table} {
			if contains(r.PostForm["service"], svc.String()) {
				scope.Services = append(scope.Services, svc)
			}
		}
		if len(scope.Services) == 0 {
			return frame.NewProblem(http.StatusBadRequest, "No service was chosen", "Choose the services whose data is deleted.")
		}
		_, err = b.Reset(r.Context(), scope)
	case "seed":
		outcome = "seeded"
		if d.options.Seed == nil {
			return frame.NewProblem(http.StatusConflict, "There is no seed", "Start lazuli with --seed FILE.")
		}
		err = d.options.Seed(r.Context())
	case "save":
		err = b.Save(ctx, name, false)
	case "restore":
		outcome = "restored"
		err = b.Restore(ctx, name)
	case "remove":
		outcome = "removed"
		err = b.RemoveSnapshot(name)
	default:
		return frame.ErrAction
	}
	switch {
	case errors.Is(err, datadir.ErrSnapshotName), errors.Is(err, datadir.ErrSnapshotExists),
		errors.Is(err, datadir.ErrSnapshotNotFound), errors.Is(err, datadir.ErrTemporary), errors.Is(err, server.ErrBusy):
		return frame.NewProblem(http.StatusConflict, err.Error(), "")
	case err != nil:
		return err
	}
	return frame.Back(w, r, nil, here, outcome)
}

// changeFaults adds or removes fault rules.
func (d *dashboard) changeFaults(w http.ResponseWriter, r *http.Request, rules *faultrule.Set, action string) error {
	here := frame.Link("control")
	switch action {
	case "unfault":
		// A rule may have ended by its own count since the page was shown.
		if err := rules.Remove(r.PostFormValue("name")); err != nil {
			return frame.NewProblem(http.StatusNotFound, err.Error(), "")
		}
		return frame.Back(w, r, nil, here, "removed")
	case "nofaults":
		rules.Clear()
		return frame.Back(w, r, nil, here, "removed")
	}
	var rule faultrule.Rule
	var err error
	// Two forms, one check: fields and JSON end in the same rule, and Add refuses both alike.
	if action == "faultjson" {
		rule, err = faultrule.Decode([]byte(r.PostFormValue("rule")))
	} else {
		rule, err = faultOf(r.PostForm)
	}
	if err == nil {
		_, err = rules.Add(rule)
	}
	if err != nil {
		return frame.NewProblem(http.StatusBadRequest, err.Error(), "docs/faults.md describes the rules.")
	}
	return frame.Back(w, r, nil, here, "added")
}
