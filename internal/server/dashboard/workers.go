package dashboard

import (
	"bytes"
	"cmp"
	"encoding/json"
	"net/http"
	"net/url"
	"time"
)

// report is the part of a adminhttp.Report that the pages show.
type report struct {
	Functions []workerFunction
}

// workerFunction is a adminhttp.Function.
type workerFunction struct {
	Host, Name, Trigger, Queue           string
	Paused                               bool
	InFlight                             int64
	Succeeded, Failed, Poisoned, Snoozed int64
	LastHour                             lastHour
	PerSecond                            float64
	LeaseLost, Stuck                     int64
	LastError                            string
	LastErrorAt                          *time.Time
	LastStack                            string
	Running                              []struct {
		InvocationID, MessageID string
		Attempt                 int64
		Since                   time.Time
	}
	Calls []workerCall
}

// workerCall is a status.Call.
type workerCall struct {
	InvocationID, MessageID string
	Attempt                 int64
	Began                   time.Time
	Seconds                 float64
	Outcome, Error          string
}

// Took returns the duration.
func (c workerCall) Took() time.Duration { return time.Duration(c.Seconds * float64(time.Second)) }

// Class returns the style of the outcome.
func (c workerCall) Class() string {
	return map[string]string{"succeeded": "good", "failed": "bad"}[c.Outcome]
}

// askWorkers returns the report at a path of the workers' handler.
func (d *dashboard) askWorkers(r *http.Request, path string) (report, error) {
	answer, err := ask(r, d.Workers, http.MethodGet, path)
	if err != nil {
		return report{}, err
	}
	var got report
	return got, json.Unmarshal(answer, &got)
}

// workersPage holds the functions of the process.
type workersPage struct {
	Now       time.Time
	On        bool // the process has workers
	Functions []workerFunction
}

func (workersPage) template() string { return "workers" }

// workers shows what the functions of the process do.
func (d *dashboard) workers(w http.ResponseWriter, r *http.Request) error {
	data := workersPage{Now: d.Now(), On: d.Workers != nil}
	if d.Workers != nil {
		report, err := d.askWorkers(r, "/")
		if err != nil {
			return err
		}
		data.Functions = report.Functions
	}
	return d.show(w, r, "Workers", nil, data)
}

// workerPage holds a function, which has a report for each host in the process.
type workerPage struct {
	Now       time.Time
	Functions []workerFunction
	Account   string // of the queues
}

func (workerPage) template() string { return "worker" }

// worker shows a function of the process with its last calls.
func (d *dashboard) worker(w http.ResponseWriter, r *http.Request) error {
	if d.Workers == nil {
		return problem{http.StatusNotFound, "This server runs no workers", "Start lazuli with --roles."}
	}
	report, err := d.askWorkers(r, "/"+url.PathEscape(r.PathValue("function")))
	if err != nil {
		return err
	}
	return d.show(w, r, r.PathValue("function"), []crumb{{"Workers", link("workers")}},
		workerPage{Now: d.Now(), Functions: report.Functions, Account: d.WorkersAccount})
}

// changeWorkers pauses or resumes a function.
func (d *dashboard) changeWorkers(w http.ResponseWriter, r *http.Request) error {
	action := r.PostFormValue("action")
	if d.Workers == nil || action != "pause" && action != "resume" {
		return errAction
	}
	_, err := ask(r, d.Workers, http.MethodPost, "/"+url.PathEscape(r.PostFormValue("name"))+"/"+action)
	return back(w, r, err, link("workers"), action+"d")
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
