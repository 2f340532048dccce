package dashboard

import (
	"bytes"
	"cmp"
	"encoding/json"
	"net/http"
	"net/url"
	"time"
)

// report is the part of a report of workers that the page shows; see workers.Report.
type report struct {
	Functions []struct {
		Host, Name, Trigger, Queue           string
		Paused                               bool
		InFlight                             int64 `json:"in_flight"`
		Succeeded, Failed, Poisoned, Snoozed int64
		PerSecond                            float64 `json:"per_second"`
		LeaseLost                            int64   `json:"lease_lost"`
		Stuck                                int64
		LastError                            string     `json:"last_error"`
		LastErrorAt                          *time.Time `json:"last_error_at"`
		LastStack                            string     `json:"last_stack"`
		Running                              []struct {
			InvocationID string `json:"invocation_id"`
			MessageID    string `json:"message_id"`
			Attempt      int64
			Since        time.Time
		}
	}
}

// workers shows what the functions of the process do.
func (d *dashboard) workers(w http.ResponseWriter, r *http.Request) error {
	data := map[string]any{"Now": d.Now(), "On": d.Workers != nil}
	if d.Workers != nil {
		answer, err := ask(r, d.Workers, http.MethodGet, "/")
		if err != nil {
			return err
		}
		var report report
		if err := json.Unmarshal(answer, &report); err != nil {
			return err
		}
		data["Functions"] = report.Functions
	}
	return d.show(w, r, "workers", "Workers", nil, data)
}

// changeWorkers pauses or resumes a function.
func (d *dashboard) changeWorkers(w http.ResponseWriter, r *http.Request) error {
	action := r.PostFormValue("action")
	if d.Workers == nil || action != "pause" && action != "resume" {
		return errAction
	}
	if _, err := ask(r, d.Workers, http.MethodPost, "/"+url.PathEscape(r.PostFormValue("name"))+"/"+action); err != nil {
		return err
	}
	return back(w, r, link("workers"), action+"d")
}

// ask sends a request to a handler of this process.
func ask(r *http.Request, h http.Handler, method, path string) ([]byte, error) {
	hr, err := http.NewRequestWithContext(r.Context(), method, path, nil)
	if err != nil {
		return nil, err
	}
	a := &answer{header: make(http.Header), status: http.StatusOK}
	h.ServeHTTP(a, hr)
	if a.status/100 != 2 {
		var refusal struct{ Error string }
		_ = json.Unmarshal(a.body.Bytes(), &refusal) // "" of an answer of another form
		return nil, problem{a.status, cmp.Or(refusal.Error, http.StatusText(a.status)), ""}
	}
	return a.body.Bytes(), nil
}

// answer keeps the response of a handler of this process.
type answer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (a *answer) Header() http.Header { return a.header }

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(status int) { a.status = status }

// Write implements http.ResponseWriter.
func (a *answer) Write(p []byte) (int, error) { return a.body.Write(p) }
