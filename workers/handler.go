package workers

import (
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/lazuli-storage/lazuli/internal/sdk/sdkerr"
)

// NewHandler serves the live state of apps of this process over HTTP, and lets it be changed:
//
//	GET  /workers                        the functions, a Report as JSON
//	GET  /workers/{function}             one function with its last calls, a Report
//	POST /workers/{function}/pause       App.Pause
//	POST /workers/{function}/resume      App.Resume
//
// The same is served without the prefix /workers. So it can be the handler of a whole listener, or be mounted in a mux
// at /workers/, with or without http.StripPrefix. `lazuli workers --admin-port PORT` is its client; it uses the prefix.
//
// The handler has no authentication: serve it on a loopback address.
func NewHandler(apps ...*App) http.Handler {
	mux := http.NewServeMux()
	report := func(w http.ResponseWriter, _ *http.Request) {
		report := Report{Functions: []FunctionReport{}}
		for _, a := range apps {
			for _, s := range a.Stats() {
				report.Functions = append(report.Functions, newFunctionReport(a.config.HostID, s))
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
					f := newFunctionReport(a.config.HostID, s)
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
			err := ErrNoFunction
			for _, a := range apps {
				if e := a.setPaused(r.PathValue("function"), paused); e == nil {
					err = nil // Several apps can have a function of that name.
				}
			}
			if err != nil {
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
	Functions []FunctionReport `json:"functions"`
}

// FunctionReport is a FunctionStats as JSON.
type FunctionReport struct {
	Host          string          `json:"host"`
	Name          string          `json:"name"`
	Trigger       string          `json:"trigger"`
	Queue         string          `json:"queue,omitempty"`
	Paused        bool            `json:"paused"`
	InFlight      int64           `json:"inFlight"`
	Running       []RunningReport `json:"running"`
	Succeeded     int64           `json:"succeeded"`
	Failed        int64           `json:"failed"`
	LastHour      LastHour        `json:"lastHour"`
	PerSecond     float64         `json:"perSecond"`
	Poisoned      int64           `json:"poisoned"`
	Snoozed       int64           `json:"snoozed"`
	Released      int64           `json:"released"`
	LeaseRenewals int64           `json:"leaseRenewals"`
	LeaseLost     int64           `json:"leaseLost"`
	Stuck         int64           `json:"stuck"`
	LastError     string          `json:"lastError,omitempty"`
	LastErrorAt   *time.Time      `json:"lastErrorAt,omitempty"`
	LastStack     string          `json:"lastStack,omitempty"`
	// Calls are as App.Calls returns them; the report on all functions is without them.
	Calls []Call `json:"calls,omitempty"`
}

// RunningReport is a Running as JSON.
type RunningReport struct {
	InvocationID string    `json:"invocationId"`
	MessageID    string    `json:"messageId,omitempty"`
	Attempt      int32     `json:"attempt"`
	Since        time.Time `json:"since"`
}

func newFunctionReport(host string, s FunctionStats) FunctionReport {
	r := FunctionReport{
		Host: host, Name: s.Name, Trigger: s.Trigger, Queue: s.Queue, Paused: s.Paused, InFlight: s.InFlight,
		Running:   []RunningReport{},
		Succeeded: s.Succeeded, Failed: s.Failed, PerSecond: s.PerSecond, LastHour: s.LastHour, Poisoned: s.Poisoned,
		Snoozed:       s.Snoozed,
		Released:      s.Released,
		LeaseRenewals: s.LeaseRenewals, LeaseLost: s.LeaseLost, Stuck: s.Stuck,
	}
	for _, c := range s.Running {
		r.Running = append(r.Running, RunningReport(c))
	}
	if e := s.LastError; e != nil {
		r.LastError, r.LastErrorAt = sdkerr.Text(e.Err), &e.At
		if panicked := (*PanicError)(nil); errors.As(e.Err, &panicked) {
			r.LastStack = string(panicked.Stack)
		}
	}
	return r
}
