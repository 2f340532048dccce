package functionpages

import (
	"encoding/json"
	"net/http"
	"net/url"
	"time"

	"github.com/lazuli-storage/lazuli/internal/server/dashboard/frame"
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
func (d *functionPages) askWorkers(r *http.Request, path string) (report, error) {
	answer, err := frame.Ask(r, d.Workers, http.MethodGet, path)
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

func (workersPage) Template() string { return "workers" }

// workers shows what the functions of the process do.
func (d *functionPages) workers(w http.ResponseWriter, r *http.Request) error {
	data := workersPage{Now: d.Now(), On: d.Workers != nil}
	if d.Workers != nil {
		report, err := d.askWorkers(r, "/")
		if err != nil {
			return err
		}
		data.Functions = report.Functions
	}
	return d.Show(w, r, "Workers", nil, data)
}

// workerPage holds a function, which has a report for each host in the process.
type workerPage struct {
	Now       time.Time
	Functions []workerFunction
	Account   string // of the queues
}

func (workerPage) Template() string { return "worker" }

// worker shows a function of the process with its last calls.
func (d *functionPages) worker(w http.ResponseWriter, r *http.Request) error {
	if d.Workers == nil {
		return frame.NewProblem(http.StatusNotFound, "This server runs no workers", "Start lazuli with --roles.")
	}
	report, err := d.askWorkers(r, "/"+url.PathEscape(r.PathValue("function")))
	if err != nil {
		return err
	}
	return d.Show(w, r, r.PathValue("function"), []frame.Crumb{{Name: "Workers", URL: frame.Link("workers")}},
		workerPage{Now: d.Now(), Functions: report.Functions, Account: d.WorkersAccount})
}

// changeWorkers pauses or resumes a function.
func (d *functionPages) changeWorkers(w http.ResponseWriter, r *http.Request) error {
	action := r.PostFormValue("action")
	if d.Workers == nil || action != "pause" && action != "resume" {
		return frame.ErrAction
	}
	_, err := frame.Ask(r, d.Workers, http.MethodPost, "/"+url.PathEscape(r.PostFormValue("name"))+"/"+action)
	return frame.Back(w, r, err, frame.Link("workers"), action+"d")
}
