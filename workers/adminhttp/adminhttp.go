// Package adminhttp serves the live state of the apps of a process over HTTP, and lets it be changed: what `lazuli
// workers` shows, in a program of one's own. [NewHandler] has the paths, [Report] is the JSON.
package adminhttp

import (
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/lazuli-storage/lazuli/internal/sdk/sdkerr"
	"github.com/lazuli-storage/lazuli/workers"
	"github.com/lazuli-storage/lazuli/workers/status"
)

// NewHandler serves the live state of apps of this process over HTTP, and lets it be changed:
//
//	GET  /workers                        the functions, a Report as JSON
//	GET  /workers/{function}             one function with its last calls, a Report
//	POST /workers/{function}/pause       workers.App.Pause
//	POST /workers/{function}/resume      workers.App.Resume
//
// The same is served without the prefix /workers. So it can be the handler of a whole listener, or be mounted in a mux
// at /workers/, with or without http.StripPrefix. `lazuli workers --admin-port PORT` is its client; it uses the prefix.
//
// The handler has no authentication: serve it on a loopback address.
func NewHandler(apps ...*workers.App) http.Handler {
	mux := http.NewServeMux()
	report := func(w http.ResponseWriter, _ *http.Request) {
		report := Report{Functions: []Function{}}
		for _, a := range apps {
			for _, s := range a.Stats() {
				report.Functions = append(report.Functions, newFunction(a.HostID(), s))
			}
		}
		answer(w, http.StatusOK, report)
	}
	unknown := func(w http.ResponseWriter, r *http.Request) {
		answer(w, http.StatusNotFound, map[string]string{"error": "no function is named " + r.PathValue("function")})
	}
	one := func(w http.ResponseWriter, r *http.Request) {
		report := Report{}
		for _, a := range apps { // Several apps can have a function of that name.
			for _, s := range a.Stats() {
				if s.Name == r.PathValue("function") {
					f := newFunction(a.HostID(), s)
					f.Calls, _ = a.Calls(s.Name) // exists
					report.Functions = append(report.Functions, f)
				}
			}
		}
		if report.Functions == nil {
			unknown(w, r)
			return
		}
		answer(w, http.StatusOK, report)
	}
	set := func(paused bool) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			found := false
			for _, a := range apps { // Several apps can have a function of that name.
				change := a.Resume
				if paused {
					change = a.Pause
				}
				if change(r.PathValue("function")) == nil {
					found = true
				}
			}
			if !found {
				unknown(w, r)
				return
			}
			answer(w, http.StatusOK, map[string]any{"function": r.PathValue("function"), "paused": paused})
		}
	}
	for _, path := range []string{"GET /{$}", "GET /workers", "GET /workers/{$}"} {
		mux.HandleFunc(path, report)
	}
	for _, prefix := range []string{"", "/workers"} {
		mux.HandleFunc("GET "+prefix+"/{function}", one)
		mux.HandleFunc("POST "+prefix+"/{function}/pause", set(true))
		mux.HandleFunc("POST "+prefix+"/{function}/resume", set(false))
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "" { // As http.StripPrefix leaves of /workers; the mux would redirect to the root.
			report(w, r)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // An error means that the client has disconnected.
}

// Report is the response of NewHandler.
type Report struct {
	Functions []Function `json:"functions"`
}

// Function is a status.Function as JSON, with the app's HostID.
type Function struct {
	Host          string          `json:"host"`
	Name          string          `json:"name"`
	Trigger       string          `json:"trigger"`
	Queue         string          `json:"queue,omitempty"`
	Paused        bool            `json:"paused"`
	InFlight      int64           `json:"inFlight"`
	Running       []Running       `json:"running"`
	Succeeded     int64           `json:"succeeded"`
	Failed        int64           `json:"failed"`
	LastHour      status.LastHour `json:"lastHour"`
	PerSecond     float64         `json:"perSecond"`
	Poisoned      int64           `json:"poisoned"`
	Snoozed       int64           `json:"snoozed"`
	Released      int64           `json:"released"`
	PutBack       int64           `json:"putBack"`
	LeaseRenewals int64           `json:"leaseRenewals"`
	LeaseLost     int64           `json:"leaseLost"`
	Stuck         int64           `json:"stuck"`
	LastError     string          `json:"lastError,omitempty"`
	LastErrorAt   *time.Time      `json:"lastErrorAt,omitempty"`
	LastStack     string          `json:"lastStack,omitempty"`
	// Calls are as workers.App.Calls returns them; the report on all functions is without them.
	Calls []status.Call `json:"calls,omitempty"`
}

// Running is a status.Running as JSON.
type Running struct {
	InvocationID string    `json:"invocationId"`
	MessageID    string    `json:"messageId,omitempty"`
	Attempt      int32     `json:"attempt"`
	Since        time.Time `json:"since"`
}

func newFunction(host string, s status.Function) Function {
	r := Function{
		Host: host, Name: s.Name, Trigger: s.Trigger, Queue: s.Queue, Paused: s.Paused, InFlight: s.InFlight,
		Running:   []Running{},
		Succeeded: s.Succeeded, Failed: s.Failed, PerSecond: s.PerSecond, LastHour: s.LastHour, Poisoned: s.Poisoned,
		Snoozed:       s.Snoozed,
		Released:      s.Released,
		PutBack:       s.PutBack,
		LeaseRenewals: s.LeaseRenewals, LeaseLost: s.LeaseLost, Stuck: s.Stuck,
	}
	for _, c := range s.Running {
		r.Running = append(r.Running, Running(c))
	}
	if e := s.LastError; e != nil {
		r.LastError, r.LastErrorAt = sdkerr.Text(e.Err), &e.At
		if panicked := (*workers.PanicError)(nil); errors.As(e.Err, &panicked) {
			r.LastStack = string(panicked.Stack)
		}
	}
	return r
}
