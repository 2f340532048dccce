package functionpages

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/lazuli-storage/lazuli/internal/sdk/ptr"
	"github.com/lazuli-storage/lazuli/internal/server/dashboard/chart"
	"github.com/lazuli-storage/lazuli/internal/server/dashboard/display"
	"github.com/lazuli-storage/lazuli/internal/server/dashboard/frame"
)

//go:embed templates
var files embed.FS

// functionPages are the pages of what runs functions: function apps, the workers of this process, and the processes
// that use an account.
type functionPages struct {
	*frame.Site
	// FunctionHosts are the addresses of function apps, host:port.
	FunctionHosts []string
	// Workers answers what the workers of this process do; nil without workers.
	Workers http.Handler
	// WorkersAccount is the account whose queues the workers read.
	WorkersAccount string
}

// Add adds them to a site; the other parameters are the fields.
func Add(s *frame.Site, hosts []string, workers http.Handler, workersAccount string) {
	d := &functionPages{s, hosts, workers, workersAccount}
	s.Templates(files)
	s.Route("functions", d.functions, nil)
	s.Route("functions/{app}/{function}", d.function, d.runFunction)
	s.Route("functions/{app}/{function}/{id}", d.functionInvocation, nil)
	s.Route("workers", d.workers, d.changeWorkers)
	s.Route("workers/{function}", d.worker, nil)
	s.Route("accounts/{account}/workers", frame.With(s.TableClient, d.processes), frame.With(s.TableClient,
		d.changeProcesses))
}

const (
	// functionPatience bounds a question to a function app, and callPatience the run of a function.
	functionPatience = 3 * time.Second
	callPatience     = time.Minute
	// maxFunctionAnswer bounds an answer of a function app, in bytes.
	maxFunctionAnswer = 16 << 20
	// appPath is the place where a function app tells its state; see package functions.
	appPath = "/admin/lazuli/"
)

// functionApp is a function app: a functions.Status.
type functionApp struct {
	Address   string `json:"-"`
	Problem   string `json:"-"` // why it does not answer
	Dir       string
	Language  string
	Workers   []workerProcess
	Functions []appFunction
}

// workerProcess is a functions.WorkerProcess.
type workerProcess struct {
	PID, Running int
	Milliseconds *float64
}

// Took returns the time of its answer.
func (w workerProcess) Took() string {
	if w.Milliseconds == nil {
		return "no answer within a second"
	}
	return fmt.Sprintf("answers in %.1f ms", *w.Milliseconds)
}

// appFunction is a functions.FunctionStatus.
type appFunction struct {
	Name, Trigger, Source, URL string
	Disabled                   bool
	Error                      string // why it cannot run
	Running, Succeeded, Failed int64
	LastHour                   lastHour
	Example                    *string
	Invocations                []invocation
}

// lastHour is a status.LastHour.
type lastHour struct{ Succeeded, Failed []int64 }

// Chart draws the counts.
func (h lastHour) Chart() *chart.Plot {
	return chart.Hour("Calls", [2]string{"succeeded", "failed"}, [2][]int64{h.Succeeded, h.Failed})
}

// Path is the path of the address of an HTTP function.
func (f appFunction) Path() string {
	u, err := url.Parse(f.URL)
	if err != nil {
		return "/"
	}
	return u.Path
}

// invocation is a functions.InvocationStatus.
type invocation struct {
	ID, Reason, Error string
	Began             time.Time
	Running           bool
	Milliseconds      float64
	Logs              []struct {
		Time           time.Time
		Level, Message string
	}
	Dropped int
}

// Result describes how the invocation ended.
func (i invocation) Result() string {
	switch {
	case i.Running:
		return "running"
	case i.Error != "":
		return "failed"
	}
	return "succeeded"
}

// Class returns the style of the result.
func (i invocation) Class() string {
	return map[string]string{"succeeded": "good", "failed": "bad"}[i.Result()]
}

// Took returns the duration.
func (i invocation) Took() time.Duration {
	return time.Duration(i.Milliseconds * float64(time.Millisecond))
}

// functionClient calls function apps. It follows no redirects, and uses no proxy.
var functionClient = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 2, IdleConnTimeout: 30 * time.Second},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}

// askApp sends a request to an app: for its state, or to run a function as run says.
func askApp(ctx context.Context, address, path string, run []byte, into any) error {
	method, patience := http.MethodGet, functionPatience
	// A function may take minutes, the state of an app is in memory.
	if run != nil {
		method, patience = http.MethodPost, callPatience
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, "http://"+address+appPath+path, strings.NewReader(string(run)))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := functionClient.Do(r)
	if err != nil {
		return frame.NewProblem(http.StatusBadGateway, "No function app answers at "+address,
			"Start one with lazuli func start; the option function-host of the server names its address.")
	}
	defer answer.Body.Close()
	// An app can answer without end; what is cut is no JSON, and is refused below.
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxFunctionAnswer))
	if err != nil {
		return err
	}
	// The app's own reason first: it is about the function. Another answer is from a program that is no function app.
	var refusal struct{ Error string }
	if answer.StatusCode/100 != 2 && json.Unmarshal(text, &refusal) == nil && refusal.Error != "" {
		return frame.NewProblem(answer.StatusCode, "The function app says: "+refusal.Error, "")
	}
	if answer.StatusCode/100 != 2 || json.Unmarshal(text, into) != nil {
		return frame.NewProblem(http.StatusBadGateway, "What answers at "+address+" is no function app of lazuli func start",
			"The option function-host of the server names the addresses of function apps.")
	}
	return nil
}

// functionsPage holds the function apps.
type functionsPage struct {
	Apps    []functionApp
	Running bool // an app answers
}

func (functionsPage) Template() string { return "functions" }

// functions lists the functions of all apps.
func (d *functionPages) functions(w http.ResponseWriter, r *http.Request) error {
	var apps []functionApp
	running := false
	for _, address := range d.FunctionHosts {
		var app functionApp
		var p frame.Problem
		if err := askApp(r.Context(), address, "", nil, &app); errors.As(err, &p) {
			app.Problem = p.What
		} else if err != nil {
			return err
		}
		app.Address = address
		running = running || app.Problem == ""
		apps = append(apps, app)
	}
	return d.Show(w, r, "Functions", nil, functionsPage{Apps: apps, Running: running})
}

// functionOf returns the app and the function in the page's path. Only the apps of the options are called.
func (d *functionPages) functionOf(r *http.Request) (app functionApp, f appFunction, err error) {
	address := r.PathValue("app")
	if !slices.Contains(d.FunctionHosts, address) {
		return app, f, frame.NewProblem(http.StatusNotFound, "No function app is known at "+address,
			"The option function-host of the server names the addresses of function apps.")
	}
	if err := askApp(r.Context(), address, "", nil, &app); err != nil {
		return app, f, err
	}
	app.Address = address
	name := r.PathValue("function")
	if !slices.ContainsFunc(app.Functions, func(f appFunction) bool { return f.Name == name }) {
		return app, f, frame.NewProblem(http.StatusNotFound, "The function app has no such function",
			"The page Functions lists the functions.")
	}
	err = askApp(r.Context(), address, url.PathEscape(name), nil, &f)
	return app, f, err
}

// functionPage holds what the page of a function shows.
type functionPage struct {
	App      functionApp
	Function appFunction
	Now      time.Time
	Method   string
	Path     string
	Input    string
	Answer   *functionAnswer
	// Account has the queue that triggers it, as far as the server can know: it has no other account.
	Account string
}

func (functionPage) Template() string { return "function" }

// functionAnswer is the response of an HTTP function, or of the start of a workflow.
type functionAnswer struct {
	Status, Body string
	Good, Cut    bool
}

// function shows a function, what it was called for, and a form that runs it.
func (d *functionPages) function(w http.ResponseWriter, r *http.Request) error {
	app, f, err := d.functionOf(r)
	if err != nil {
		return err
	}
	return d.showFunction(w, r, functionPage{App: app, Function: f, Method: http.MethodPost, Path: f.Path(),
		Input: ptr.Value(f.Example)})
}

func (d *functionPages) showFunction(w http.ResponseWriter, r *http.Request, data functionPage) error {
	data.Now = d.Now()
	if all := d.Accounts.Names(); len(all) == 1 && data.Function.Trigger == "queueTrigger" {
		data.Account = all[0]
	}
	return d.Show(w, r, data.Function.Name, []frame.Crumb{{Name: "Functions", URL: frame.Link("functions")}}, data)
}

// runFunction runs a function with the input of the form.
func (d *functionPages) runFunction(w http.ResponseWriter, r *http.Request) error {
	app, f, err := d.functionOf(r)
	if err != nil {
		return err
	}
	if r.PostFormValue("action") != "run" || f.Example == nil {
		return frame.ErrAction
	}
	// The form comes back with the answer, so that the input can be changed and sent again.
	data := functionPage{Method: r.PostFormValue("method"), Path: r.PostFormValue("path"), Input: r.PostFormValue("input")}
	if f.URL != "" && !strings.HasPrefix(data.Path, "/") {
		return frame.NewProblem(http.StatusBadRequest, "The path of a function begins with a slash",
			"An example is /api/hello.")
	}
	body, err := json.Marshal(map[string]string{"input": data.Input, "method": data.Method, "path": data.Path})
	if err != nil {
		return err
	}
	var ran struct {
		Status int
		Body   string
	}
	if err := askApp(r.Context(), app.Address, url.PathEscape(f.Name)+"/run", body, &ran); err != nil {
		return err
	}
	if ran.Status == 0 {
		return frame.Back(w, r, nil, frame.Link("functions", app.Address, f.Name), "invoked")
	}
	if data.App, data.Function, err = d.functionOf(r); err != nil {
		return err
	}
	data.Answer = &functionAnswer{Status: fmt.Sprint(ran.Status, " ", http.StatusText(ran.Status)), Good: ran.Status < 400}
	data.Answer.Body, data.Answer.Cut = display.Readable(ran.Body)
	return d.showFunction(w, r, data)
}

// invocationPage holds one call of a function.
type invocationPage struct {
	Invocation invocation
	Function   string
	Now        time.Time
}

func (invocationPage) Template() string { return "invocation" }

// functionInvocation shows one call of a function with what it logged.
func (d *functionPages) functionInvocation(w http.ResponseWriter, r *http.Request) error {
	app, f, err := d.functionOf(r)
	if err != nil {
		return err
	}
	var i invocation
	if err := askApp(r.Context(), app.Address, url.PathEscape(f.Name)+"/invocations/"+url.PathEscape(r.PathValue("id")),
		nil,
		&i); err != nil {
		return err
	}
	return d.Show(w, r, f.Name,
		[]frame.Crumb{{Name: "Functions", URL: frame.Link("functions")}, {Name: f.Name, URL: frame.Link("functions",
			app.Address, f.Name)}},
		invocationPage{Invocation: i, Function: f.Name, Now: d.Now()})
}
