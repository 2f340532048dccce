package functionpages

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"

	"github.com/lazuli-storage/lazuli/internal/sdk/hostrow"
	"github.com/lazuli-storage/lazuli/internal/server/dashboard/display"
	"github.com/lazuli-storage/lazuli/internal/server/dashboard/frame"
)

// processRow is a process of an app.
type processRow struct {
	hostrow.Process
	State string // "live", "stopping" or "gone"
}

// hostedFunction is a function of an app, in all its processes.
type hostedFunction struct {
	Name, Trigger, Source                 string
	Queues                                []string // of the source, for links
	InFlight, Succeeded, Failed, Poisoned int64
	States                                []string // with the number of processes in each: "2 paused"
	Wanted                                bool     // it is to be paused
	Fixed                                 bool     // it cannot be paused
}

// hostedApp is an app with processes that use an account.
type hostedApp struct {
	App       string
	Processes []processRow
	Functions []hostedFunction
	More      int // functions that a row does not hold
}

// processesPage holds the processes with workers that use an account.
type processesPage struct {
	Now  time.Time
	Apps []hostedApp
	More bool
}

func (processesPage) Template() string { return "processes" }

// processes shows every process with workers that uses an account.
func (d *functionPages) processes(w http.ResponseWriter, r *http.Request, client *aztables.ServiceClient) error {
	list, err := hostrow.Open(client).List(r.Context())
	if err != nil {
		return err
	}
	if list.Now.IsZero() { // there is no table
		list.Now = d.Now()
	}
	return d.Show(w, r, "Processes", frame.CrumbsOf(r.PathValue("account")),
		processesPage{Now: list.Now, Apps: appsOf(list), More: list.More})
}

// appsOf groups rows by their app. A pause without a process is a function without states.
func appsOf(list hostrow.List) (apps []hostedApp) {
	at := func(name string) *hostedApp {
		i := slices.IndexFunc(apps, func(a hostedApp) bool { return a.App == name })
		if i < 0 {
			apps, i = append(apps, hostedApp{App: name}), len(apps)
		}
		return &apps[i]
	}
	counts := map[[3]string]int{} // of app, function and state
	for _, p := range list.Processes {
		a, state := at(p.App), "live"
		switch {
		case p.Gone(list.Now):
			state = "gone"
		case p.Stopping:
			state = "stopping"
		}
		a.Processes = append(a.Processes, processRow{p, state})
		a.More = max(a.More, p.More)
		for _, f := range p.Functions {
			h := a.function(f.Name)
			if h.Trigger == "" { // the process that was started last is the first one
				h.Trigger, h.Source, h.Fixed = f.Trigger, f.Source, f.Fixed
				if f.Trigger == "queueTrigger" {
					h.Queues = strings.Split(f.Source, ", ")
				}
			}
			if state != "gone" {
				h.InFlight += f.InFlight
			}
			h.Succeeded, h.Failed, h.Poisoned = h.Succeeded+f.Succeeded, h.Failed+f.Failed, h.Poisoned+f.Poisoned
			counts[[3]string{p.App, f.Name, list.State(p, f)}]++
		}
	}
	for _, p := range list.Pauses {
		at(p.App).function(p.Function).Wanted = true
	}
	for i := range apps {
		for j := range apps[i].Functions {
			f := &apps[i].Functions[j]
			for _, state := range []string{"runs", "pausing", "paused", "resuming", "stopping", "gone"} {
				if n := counts[[3]string{apps[i].App, f.Name, state}]; n > 0 {
					f.States = append(f.States, display.Count(n)+" "+state)
				}
			}
		}
	}
	return apps
}

// function returns a function of the app by its name.
func (a *hostedApp) function(name string) *hostedFunction {
	for i := range a.Functions {
		if a.Functions[i].Name == name {
			return &a.Functions[i]
		}
	}
	a.Functions = append(a.Functions, hostedFunction{Name: name})
	return &a.Functions[len(a.Functions)-1]
}

// changeProcesses pauses or resumes a function in all processes of an app.
func (d *functionPages) changeProcesses(w http.ResponseWriter, r *http.Request, client *aztables.ServiceClient) error {
	store, app, function := hostrow.Open(client), r.PostFormValue("app"), r.PostFormValue("function")
	list, err := store.List(r.Context())
	if err != nil {
		return err
	}
	if known, fixed := list.Find(app, function); !known || fixed {
		return frame.NewProblem(http.StatusNotFound, "No process has such a function that can be paused",
			"The page lists the functions. What belongs to workflows cannot be paused; suspend an instance instead.")
	}
	here := frame.Link("accounts", r.PathValue("account"), "workers")
	switch r.PostFormValue("action") {
	case "pause":
		err := store.Pause(r.Context(), app, function, d.Now().UTC())
		if errors.Is(err, hostrow.ErrName) {
			return frame.NewProblem(http.StatusBadRequest, err.Error(), "")
		}
		return frame.Back(w, r, err, here, "pausing")
	case "resume":
		return frame.Back(w, r, store.Resume(r.Context(), app, function), here, "resuming")
	}
	return frame.ErrAction
}
