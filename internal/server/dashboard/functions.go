package dashboard

import (
	"context"
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
)

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
func (h lastHour) Chart() *plot {
	return newHourChart("Calls", [2]string{"succeeded", "failed"}, [2][]int64{h.Succeeded, h.Failed})
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
		return problem{http.StatusBadGateway, "No function app answers at " + address,
			"Start one with lazuli func start; the option function-host of the server names its address."}
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
		return problem{answer.StatusCode, "The function app says: " + refusal.Error, ""}
	}
	if answer.StatusCode/100 != 2 || json.Unmarshal(text, into) != nil {
		return problem{http.StatusBadGateway, "What answers at " + address + " is no function app of lazuli func start",
			"The option function-host of the server names the addresses of function apps."}
	}
	return nil
}

// functionsPage holds the function apps.
type functionsPage struct {
	Apps    []functionApp
	Running bool // an app answers
}

func (functionsPage) template() string { return "functions" }

// functions lists the functions of all apps.
func (d *dashboard) functions(w http.ResponseWriter, r *http.Request) error {
	var apps []functionApp
	running := false
	for _, address := range d.FunctionHosts {
		var app functionApp
		var p problem
		if err := askApp(r.Context(), address, "", nil, &app); errors.As(err, &p) {
			app.Problem = p.what
		} else if err != nil {
			return err
		}
		app.Address = address
		running = running || app.Problem == ""
		apps = append(apps, app)
	}
	return d.show(w, r, "Functions", nil, functionsPage{Apps: apps, Running: running})
}

// functionOf returns the app and the function in the page's path. Only the apps of the options are called.
func (d *dashboard) functionOf(r *http.Request) (app functionApp, f appFunction, err error) {
	address := r.PathValue("app")
	if !slices.Contains(d.FunctionHosts, address) {
		return app, f, problem{http.StatusNotFound, "No function app is known at " + address,
			"The option function-host of the server names the addresses of function apps."}
	}
	if err := askApp(r.Context(), address, "", nil, &app); err != nil {
		return app, f, err
	}
	app.Address = address
	name := r.PathValue("function")
	if !slices.ContainsFunc(app.Functions, func(f appFunction) bool { return f.Name == name }) {
		return app, f, problem{http.StatusNotFound, "The function app has no such function",
			"The page Functions lists the functions."}
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

func (functionPage) template() string { return "function" }

// functionAnswer is the response of an HTTP function, or of the start of a workflow.
type functionAnswer struct {
	Status, Body string
	Good, Cut    bool
}

// function shows a function, what it was called for, and a form that runs it.
func (d *dashboard) function(w http.ResponseWriter, r *http.Request) error {
	app, f, err := d.functionOf(r)
	if err != nil {
		return err
	}
	return d.showFunction(w, r, functionPage{App: app, Function: f, Method: http.MethodPost, Path: f.Path(),
		Input: ptr.Value(f.Example)})
}

func (d *dashboard) showFunction(w http.ResponseWriter, r *http.Request, data functionPage) error {
	data.Now = d.Now()
	if all := d.Accounts.Names(); len(all) == 1 && data.Function.Trigger == "queueTrigger" {
		data.Account = all[0]
	}
	return d.show(w, r, data.Function.Name, []crumb{{"Functions", link("functions")}}, data)
}

// runFunction runs a function with the input of the form.
func (d *dashboard) runFunction(w http.ResponseWriter, r *http.Request) error {
	app, f, err := d.functionOf(r)
	if err != nil {
		return err
	}
	if r.PostFormValue("action") != "run" || f.Example == nil {
		return errAction
	}
	// The form comes back with the answer, so that the input can be changed and sent again.
	data := functionPage{Method: r.PostFormValue("method"), Path: r.PostFormValue("path"), Input: r.PostFormValue("input")}
	if f.URL != "" && !strings.HasPrefix(data.Path, "/") {
		return problem{http.StatusBadRequest, "The path of a function begins with a slash", "An example is /api/hello."}
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
		return back(w, r, nil, link("functions", app.Address, f.Name), "invoked")
	}
	if data.App, data.Function, err = d.functionOf(r); err != nil {
		return err
	}
	data.Answer = &functionAnswer{Status: fmt.Sprint(ran.Status, " ", http.StatusText(ran.Status)), Good: ran.Status < 400}
	data.Answer.Body, data.Answer.Cut = readable(ran.Body)
	return d.showFunction(w, r, data)
}

// invocationPage holds one call of a function.
type invocationPage struct {
	Invocation invocation
	Function   string
	Now        time.Time
}

func (invocationPage) template() string { return "invocation" }

// functionInvocation shows one call of a function with what it logged.
func (d *dashboard) functionInvocation(w http.ResponseWriter, r *http.Request) error {
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
	return d.show(w, r, f.Name,
		[]crumb{{"Functions", link("functions")}, {f.Name, link("functions", app.Address, f.Name)}},
		invocationPage{Invocation: i, Function: f.Name, Now: d.Now()})
}
