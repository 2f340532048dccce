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
)

const (
	// functionPatience bounds a question to a function app, and callPatience the call of an HTTP function.
	functionPatience = 3 * time.Second
	callPatience     = time.Minute
	// shownAnswer is the part of the answer of an HTTP function that is shown, in bytes.
	shownAnswer = 64 << 10
	// maxFunctionAnswer bounds an answer of the admin API.
	maxFunctionAnswer = 8 << 20
)

// functionApp is a function app as its admin API shows it.
// https://learn.microsoft.com/azure/azure-functions/functions-manually-run-non-http
type functionApp struct {
	Address   string
	Problem   string // why it does not answer
	Functions []appFunction
}

// appFunction is a function of an app. What only Lazuli's host says is empty for others.
type appFunction struct {
	Name, Language, Trigger string
	IsDisabled              bool
	Template                string `json:"invoke_url_template"`
	Methods                 []string
	Example                 string `json:"test_data"`
	Config                  struct{ Bindings []struct{ Type string } }
	Invocations             *struct{ Running, Succeeded, Failed int64 }
}

// HTTP reports whether the function is called by its address.
func (f appFunction) HTTP() bool { return f.Template != "" }

// Workflow reports whether the function is a part of a workflow, which starts it.
func (f appFunction) Workflow() bool {
	return slices.Contains([]string{"orchestrationTrigger", "activityTrigger", "entityTrigger"}, f.Trigger)
}

// Path is the path of the address of an HTTP function.
func (f appFunction) Path() string {
	u, err := url.Parse(f.Template)
	if err != nil {
		return "/"
	}
	return u.Path
}

// invocation is a call of a function; see package customhandler.
type invocation struct {
	ID, Function, Reason, Result, Error string
	Began                               time.Time
	Milliseconds                        int64
	Logs                                []struct {
		Time           time.Time
		Level, Message string
	}
	LinesLeftOut int
}

// Class returns the style of the result.
func (i invocation) Class() string {
	return map[string]string{"Succeeded": "good", "Failed": "bad"}[i.Result]
}

// Took returns the duration.
func (i invocation) Took() time.Duration { return time.Duration(i.Milliseconds) * time.Millisecond }

// functionClient calls function apps. It follows no redirects, and uses no proxy.
var functionClient = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 2, IdleConnTimeout: 30 * time.Second},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}

// askApp sends a request to the admin API of an app.
func askApp(ctx context.Context, method, address, path string, body string, into any) error {
	ctx, cancel := context.WithTimeout(ctx, functionPatience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, "http://"+address+"/admin/functions"+path, strings.NewReader(body))
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
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxFunctionAnswer))
	switch {
	case err != nil:
		return err
	case answer.StatusCode == http.StatusNotFound:
		return problem{http.StatusNotFound, "The function app has no such function, or does not keep it any more",
			"The page Functions lists the functions."}
	case answer.StatusCode/100 != 2:
		return problem{http.StatusBadGateway, fmt.Sprintf("The function app at %s answers %s", address, answer.Status),
			clipped(text, 500)}
	case into == nil:
		return nil
	}
	if err := json.Unmarshal(text, into); err != nil {
		return problem{http.StatusBadGateway, "What answers at " + address + " is no function app",
			"The option function-host of the server names the addresses of function apps."}
	}
	return nil
}

func clipped(text []byte, most int) string { s, _ := clip(string(text), most); return s }

// functions lists the functions of all apps.
func (d *dashboard) functions(w http.ResponseWriter, r *http.Request) error {
	var apps []functionApp
	running := false
	for _, address := range d.FunctionHosts {
		app := functionApp{Address: address}
		var p problem
		if err := askApp(r.Context(), http.MethodGet, address, "", "", &app.Functions); errors.As(err, &p) {
			app.Problem = p.what
		} else if err != nil {
			return err
		}
		for i := range app.Functions {
			app.Functions[i].complete()
		}
		running = running || app.Problem == ""
		apps = append(apps, app)
	}
	return d.show(w, r, "functions", "Functions", nil, map[string]any{"Apps": apps, "Running": running})
}

// complete fills in what the host of Azure Functions says elsewhere.
func (f *appFunction) complete() {
	if f.Trigger != "" {
		return
	}
	for _, b := range f.Config.Bindings {
		if strings.HasSuffix(b.Type, "Trigger") {
			f.Trigger = b.Type
		}
	}
}

// functionOf returns the app and the function in the page's path. Only the apps of the options are called.
func (d *dashboard) functionOf(r *http.Request) (address string, f appFunction, err error) {
	address = r.PathValue("app")
	if !slices.Contains(d.FunctionHosts, address) {
		return "", f, problem{http.StatusNotFound, "No function app is known at " + address,
			"The option function-host of the server names the addresses of function apps."}
	}
	err = askApp(r.Context(), http.MethodGet, address, "/"+url.PathEscape(r.PathValue("function")), "", &f)
	f.complete()
	return address, f, err
}

// functionPage holds what the page of a function shows.
type functionPage struct {
	App         string
	Function    appFunction
	Known       bool // the host says what it has invoked
	Invocations []invocation
	Chart       *hourChart
	Now         time.Time
	Method      string
	Path, Input string
	Answer      *functionAnswer
}

// functionAnswer is the response of an HTTP function.
type functionAnswer struct {
	Status, Type, Body string
	Good, Cut          bool
	Took               time.Duration
}

// function shows a function, what it was called for, and a form that runs it.
func (d *dashboard) function(w http.ResponseWriter, r *http.Request) error {
	return d.showFunction(w, r, nil)
}

func (d *dashboard) showFunction(w http.ResponseWriter, r *http.Request, answer *functionAnswer) error {
	address, f, err := d.functionOf(r)
	if err != nil {
		return err
	}
	data := functionPage{App: address, Function: f, Now: d.Now(), Method: http.MethodPost, Path: f.Path(), Input: f.Example,
		Answer: answer}
	if len(f.Methods) > 0 && !slices.Contains(f.Methods, data.Method) {
		data.Method = f.Methods[0]
	}
	if answer != nil {
		data.Method, data.Path, data.Input = r.PostFormValue("method"), r.PostFormValue("path"), r.PostFormValue("input")
	}
	var kept struct {
		LastHour    struct{ Succeeded, Failed []int64 }
		Invocations []invocation
	}
	var p problem
	err = askApp(r.Context(), http.MethodGet, address, "/"+url.PathEscape(f.Name)+"/invocations", "", &kept)
	switch data.Known = err == nil; {
	case err == nil:
		data.Invocations = kept.Invocations[:min(len(kept.Invocations), pageSize)]
		data.Chart = newHourChart("Calls", [2]string{"succeeded", "failed"},
			[2][]int64{kept.LastHour.Succeeded, kept.LastHour.Failed})
	case errors.As(err, &p) && p.status == http.StatusNotFound: // the host of Azure Functions
	default:
		return err
	}
	return d.show(w, r, "function", f.Name, []crumb{{"Functions", link("functions")}}, data)
}

// runFunction calls a function with the input of the form.
func (d *dashboard) runFunction(w http.ResponseWriter, r *http.Request) error {
	address, f, err := d.functionOf(r)
	if err != nil {
		return err
	}
	if r.PostFormValue("action") != "run" || f.Workflow() {
		return errAction
	}
	if f.HTTP() {
		answer, err := callFunction(r, address)
		if err != nil {
			return err
		}
		return d.showFunction(w, r, answer)
	}
	input, err := json.Marshal(map[string]string{"input": r.PostFormValue("input")})
	if err != nil {
		return err
	}
	if err := askApp(r.Context(), http.MethodPost, address, "/"+url.PathEscape(f.Name), string(input), nil); err != nil {
		return err
	}
	return back(w, r, link("functions", address, f.Name), "invoked")
}

// callFunction calls an HTTP function as the form says.
func callFunction(r *http.Request, address string) (*functionAnswer, error) {
	method, path, input := r.PostFormValue("method"), r.PostFormValue("path"), r.PostFormValue("input")
	target, err := url.Parse("http://" + address + path)
	if err != nil || !strings.HasPrefix(path, "/") || target.Host != address {
		return nil, problem{http.StatusBadRequest, "The path of a function begins with a slash", "An example is /api/hello."}
	}
	if method == http.MethodGet || method == http.MethodHead {
		input = ""
	}
	ctx, cancel := context.WithTimeout(r.Context(), callPatience)
	defer cancel()
	hr, err := http.NewRequestWithContext(ctx, method, target.String(), strings.NewReader(input))
	if err != nil {
		return nil, problem{http.StatusBadRequest, "The request cannot be sent", err.Error()}
	}
	if json.Valid([]byte(input)) {
		hr.Header.Set("Content-Type", "application/json")
	}
	began := time.Now()
	got, err := functionClient.Do(hr)
	if err != nil {
		return nil, problem{http.StatusBadGateway, "The function app at " + address + " did not answer", err.Error()}
	}
	defer got.Body.Close()
	body, err := io.ReadAll(io.LimitReader(got.Body, shownAnswer+1))
	if err != nil {
		return nil, problem{http.StatusBadGateway, "The answer broke off", err.Error()}
	}
	a := &functionAnswer{Status: got.Status, Type: got.Header.Get("Content-Type"), Good: got.StatusCode < 400,
		Took: time.Since(began)}
	a.Body, a.Cut = readable(strings.ToValidUTF8(string(body[:min(len(body), shownAnswer)]), "\ufffd"))
	a.Cut = a.Cut || len(body) > shownAnswer
	return a, nil
}

// functionInvocation shows one call of a function with what it logged.
func (d *dashboard) functionInvocation(w http.ResponseWriter, r *http.Request) error {
	address, f, err := d.functionOf(r)
	if err != nil {
		return err
	}
	var i invocation
	if err := askApp(r.Context(), http.MethodGet, address,
		"/"+url.PathEscape(f.Name)+"/invocations/"+url.PathEscape(r.PathValue("id")), "", &i); err != nil {
		return err
	}
	return d.show(w, r, "invocation", f.Name,
		[]crumb{{"Functions", link("functions")}, {f.Name, link("functions", address, f.Name)}},
		map[string]any{"Invocation": i, "Now": d.Now()})
}
