package functions

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/lazuli-storage/lazuli/internal/lazyregexp"
	"github.com/lazuli-storage/lazuli/workers"
)

// function is one folder with a function.json, or a route of host.json.
type function struct {
	name     string
	trigger  *binding
	in, out  []*binding // without the trigger
	retry    *retryPolicy
	disabled bool
	errs     []error // why it cannot run
	route    *route  // of an HTTP trigger
	methods  []string
	// authLevel is the access level of an HTTP trigger, in lower case.
	authLevel string
	// forwarded: the handler gets the HTTP request itself.
	forwarded bool
	// source describes the function to a language worker.
	source WorkerFunction
	// worker runs a blob trigger.
	worker *workers.Function
}

// maxName is the largest length of the name of a function or binding, in bytes. A limit within the regular expressions
// would make them slow to compile, at each start of the process.
const maxName = 128

var (
	triggerKinds = []string{kindHTTPTrigger, kindQueueTrigger, kindBlobTrigger, kindTimerTrigger, kindEventTrigger,
		kindTableTrigger, kindOrchestrationTrigger, kindActivityTrigger, kindEntityTrigger, kindWarmup}
	inputKinds  = []string{kindBlob, kindTable, kindDurableClient}
	outputKinds = []string{kindHTTP, kindQueue, kindBlob, kindTable}

	functionName = lazyregexp.New(`^[A-Za-z][A-Za-z0-9_-]*$`)
	bindingName  = lazyregexp.New(`^[A-Za-z][A-Za-z0-9_]*$`)
)

// readFunctions reads every folder of a project that has a function.json, with read.
func readFunctions(r *report, dir string, h *hostFile,
	read func(own *report, file *section, name string) *function) ([]*function, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var list []*function
	for _, e := range entries {
		if info, err := os.Stat(filepath.Join(dir, e.Name())); err != nil || !info.IsDir() {
			continue
		}
		where, own := e.Name()+"/function.json", &report{}
		file, err := readSection(own, filepath.Join(dir, e.Name(), "function.json"), where)
		switch {
		case err == nil:
			list = append(list, read(own, file, e.Name()))
		case errors.Is(err, fs.ErrNotExist):
		default:
			list = append(list, unreadable(e.Name(), err))
		}
	}
	for i, own := range h.routes {
		f := &function{name: fmt.Sprintf("http-handler%d", i+1), forwarded: h.forward != forwardNothing,
			authLevel: own.authLevel}
		f.trigger = &binding{name: "req", kind: kindHTTPTrigger}
		f.out = []*binding{{name: "res", kind: kindHTTP}}
		if f.route, err = parseRoute(own.route); err != nil {
			r.fail("host.json: customHandler.http.routes[%d].route: %v", i, err)
		}
		list = append(list, f)
	}
	return list, nil
}

// unreadable is a function of which nothing but the name is known.
func unreadable(name string, err error) *function {
	return &function{name: name, trigger: &binding{kind: "not supported"}, errs: []error{err}}
}

func readFunction(file *section, name, dir string, s *settings, h *hostFile) *function {
	f := &function{name: name, retry: h.retry}
	if len(name) > maxName || !functionName().MatchString(name) || strings.EqualFold(name, "host") {
		file.report.fail("%s: %q is not a valid name for a function: a letter, then letters, digits, - and _, and not "+
			"\"host\"", file.where, name)
	}
	if v, _ := file.scalar("disabled"); v != "" && v != "false" {
		file.report.warn("%s has no effect since version 2 of Azure Functions: set AzureWebJobs.%s.Disabled to true",
			file.at("disabled"), name)
	}
	for _, setting := range []string{"AzureWebJobs." + name + ".Disabled", "AzureWebJobs_" + name + "_Disabled"} {
		if v, ok := s.get(setting); ok && truth(v) {
			f.disabled = true
		}
	}
	f.source = WorkerFunction{Name: name, Directory: filepath.Join(dir, name), EntryPoint: file.text("entryPoint", "")}
	if script := file.text("scriptFile", ""); script != "" {
		f.source.ScriptFile = filepath.Join(dir, name, script)
		if _, err := os.Stat(f.source.ScriptFile); err != nil {
			file.fail("scriptFile", "the file %s does not exist", script)
		}
	}
	list := file.objects("bindings")
	f.source.Bindings = file.raw("bindings")
	if len(list) == 0 {
		file.fail("bindings", "is missing or empty; a function needs a trigger")
	}
	names := map[string]bool{}
	for _, o := range list {
		b, output := readBinding(o, s, h, f)
		if b == nil {
			continue
		}
		if names[b.name] {
			o.fail("name", "two bindings are called %q", b.name)
		}
		names[b.name] = true
		switch {
		case strings.HasSuffix(b.kind, "Trigger"):
			if f.trigger != nil {
				o.fail("type", "the function has two triggers, %s and %s", f.trigger.kind, b.kind)
			}
			f.trigger = b
		case output:
			f.out = append(f.out, b)
		default:
			f.in = append(f.in, b)
		}
	}
	// After another error, the trigger may be the binding that was not understood.
	if len(list) > 0 && f.trigger == nil && len(file.report.errs) == 0 {
		file.fail("bindings", "no binding is a trigger; the triggers are %s", strings.Join(triggerKinds, ", "))
	}
	f.readRetry(file)
	f.check(file)
	f.checkDurable(file)
	f.forwarded = h.forward != forwardNothing && f.trigger != nil && f.trigger.kind == kindHTTPTrigger &&
		len(f.in) == 0 && len(f.out) == 1 && f.out[0].kind == kindHTTP
	file.noEffect("it concerns other languages", "configurationSource", "generatedBy", "language")
	file.done()
	return f
}

// readRetry reads the retry policy of the function, its own or that of host.json. The Functions host keeps one for
// every trigger, and warns of those for which policies are not meant:
// https://github.com/Azure/azure-webjobs-sdk/blob/f79ea0b/src/Microsoft.Azure.WebJobs.Host/Indexers/FunctionIndexer.cs
func (f *function) readRetry(file *section) {
	where := "host.json: retry"
	if own := readRetry(file.object("retry")); own != nil {
		where, f.retry = file.at("retry"), own
	}
	if f.retry == nil || f.trigger == nil {
		return
	}
	switch kind := f.trigger.kind; kind {
	case kindOrchestrationTrigger, kindEntityTrigger:
		f.retry = nil
		file.report.warn("%s has no effect on the function %s: the code of an %s says what is tried again", where, f.name,
			kind)
	case kindQueueTrigger, kindBlobTrigger, kindTableTrigger:
		file.report.warn("%s: the function %s is tried again at once, each time that its message comes: policies are meant "+
			"for timers; messages have maxDequeueCount and visibilityTimeout of extensions.queues, or poisonBlobThreshold", where,
			f.name)
	}
}

// check reports errors in the combination of bindings.
func (f *function) check(file *section) {
	if f.trigger == nil {
		return
	}
	responses := 0
	for _, b := range f.out {
		if b.kind == kindHTTP {
			responses++
		}
	}
	switch {
	case responses > 0 && f.trigger.kind != kindHTTPTrigger:
		file.fail("bindings", "an http output answers a request, and the trigger is a %s", f.trigger.kind)
	case responses > 1:
		file.fail("bindings", "two http outputs: a request has one answer")
	}
	if f.trigger.kind != kindTimerTrigger {
		return
	}
	for _, b := range append(slices.Clone(f.in), f.out...) {
		templates := []*template{&b.target, b.partitionKey, b.rowKey}
		if b.filter != nil {
			templates = append(templates, &b.filter.template)
		}
		for _, t := range templates {
			if t == nil {
				continue
			}
			for _, p := range t.parts {
				if p.name != "" && !system(p.name) {
					file.fail("bindings", "%s: a timer has no value for {%s}", b.name, p.name)
				}
			}
		}
	}
}

// truth reads a setting as the host does, which takes anything else for false.
func truth(s string) bool { return strings.EqualFold(s, "true") || s == "1" }
