package functions

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/lazuli-storage/lazuli/functions/internal/expression"
	"github.com/lazuli-storage/lazuli/functions/internal/jsonfile"
	"github.com/lazuli-storage/lazuli/functions/internal/route"
	"github.com/lazuli-storage/lazuli/functions/internal/settings"
)

// readFunctions reads every folder of a project that has a function.json, with read.
func readFunctions(r *jsonfile.Report, dir string, h *hostFile,
	read func(own *jsonfile.Report, file *jsonfile.Section, name string) *function) ([]*function, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var list []*function
	for _, e := range entries {
		if info, err := os.Stat(filepath.Join(dir, e.Name())); err != nil || !info.IsDir() {
			continue
		}
		where, own := e.Name()+"/function.json", &jsonfile.Report{}
		file, err := jsonfile.Read(own, filepath.Join(dir, e.Name(), "function.json"), where)
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
		if f.route, err = route.Parse(own.route); err != nil {
			r.Fail("host.json: customHandler.http.routes[%d].route: %v", i, err)
		}
		list = append(list, f)
	}
	return list, nil
}

// unreadable is a function of which nothing but the name is known.
func unreadable(name string, err error) *function {
	return &function{name: name, trigger: &binding{kind: "not supported"}, errs: []error{err}}
}

func readFunction(file *jsonfile.Section, name, dir string, s *settings.Settings, h *hostFile) *function {
	f := &function{name: name, retry: h.retry}
	if len(name) > maxName || !functionName().MatchString(name) || strings.EqualFold(name, "host") {
		file.Report.Fail("%s: %q is not a valid name for a function: a letter, then letters, digits, - and _, and not "+
			"\"host\"", file.Where, name)
	}
	if v, _ := file.Scalar("disabled"); v != "" && v != "false" {
		file.Report.Warn("%s has no effect since version 2 of Azure Functions: set AzureWebJobs.%s.Disabled to true",
			file.At("disabled"), name)
	}
	for _, setting := range []string{"AzureWebJobs." + name + ".Disabled", "AzureWebJobs_" + name + "_Disabled"} {
		if v, ok := s.Get(setting); ok && truth(v) {
			f.disabled = true
		}
	}
	f.source = WorkerFunction{Name: name, Directory: filepath.Join(dir, name), EntryPoint: file.Text("entryPoint", "")}
	if script := file.Text("scriptFile", ""); script != "" {
		f.source.ScriptFile = filepath.Join(dir, name, script)
		if _, err := os.Stat(f.source.ScriptFile); err != nil {
			file.Fail("scriptFile", "the file %s does not exist", script)
		}
	}
	list := file.Objects("bindings")
	f.source.Bindings = file.Raw("bindings")
	if len(list) == 0 {
		file.Fail("bindings", "is missing or empty; a function needs a trigger")
	}
	names := map[string]bool{}
	for _, o := range list {
		b, output := readBinding(o, s, h, f)
		if b == nil {
			continue
		}
		if names[b.name] {
			o.Fail("name", "two bindings are called %q", b.name)
		}
		names[b.name] = true
		switch {
		case strings.HasSuffix(b.kind, "Trigger"):
			if f.trigger != nil {
				o.Fail("type", "the function has two triggers, %s and %s", f.trigger.kind, b.kind)
			}
			f.trigger = b
		case output:
			f.out = append(f.out, b)
		default:
			f.in = append(f.in, b)
		}
	}
	// After another error, the trigger may be the binding that was not understood.
	if len(list) > 0 && f.trigger == nil && len(file.Report.Errs) == 0 {
		file.Fail("bindings", "no binding is a trigger; the triggers are %s", strings.Join(triggerKinds, ", "))
	}
	f.readRetry(file)
	f.check(file)
	f.checkDurable(file)
	f.forwarded = h.forward != forwardNothing && f.trigger != nil && f.trigger.kind == kindHTTPTrigger &&
		len(f.in) == 0 && len(f.out) == 1 && f.out[0].kind == kindHTTP
	file.NoEffect("it concerns other languages", "configurationSource", "generatedBy", "language")
	file.Done()
	return f
}

// readRetry reads the retry policy of the function, its own or that of host.json. The Functions host keeps one for
// every trigger, and warns of those for which policies are not meant:
// https://github.com/Azure/azure-webjobs-sdk/blob/f79ea0b/src/Microsoft.Azure.WebJobs.Host/Indexers/FunctionIndexer.cs
func (f *function) readRetry(file *jsonfile.Section) {
	where := "host.json: retry"
	if own := readRetry(file.Object("retry")); own != nil {
		where, f.retry = file.At("retry"), own
	}
	if f.retry == nil || f.trigger == nil {
		return
	}
	switch kind := f.trigger.kind; kind {
	case kindOrchestrationTrigger, kindEntityTrigger:
		f.retry = nil
		file.Report.Warn("%s has no effect on the function %s: the code of an %s determines its retries",
			where, f.name,
			kind)
	case kindQueueTrigger, kindBlobTrigger, kindTableTrigger:
		file.Report.Warn("%s: the function %s is tried again at once, each time that its message comes: policies are meant "+
			"for timers; messages have maxDequeueCount and visibilityTimeout of extensions.queues, or poisonBlobThreshold",
			where, f.name)
	}
}

// check reports errors in the combination of bindings.
func (f *function) check(file *jsonfile.Section) {
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
		file.Fail("bindings", "an http output answers a request, and the trigger is a %s", f.trigger.kind)
	case responses > 1:
		file.Fail("bindings", "two http outputs: a request has one answer")
	}
	if f.trigger.kind != kindTimerTrigger {
		return
	}
	// Expressions with members of the trigger are filled in at each call. For a timer each call would fail, so the
	// function fails now.
	for _, b := range append(slices.Clone(f.in), f.out...) {
		templates := []*expression.Template{&b.target, b.partitionKey, b.rowKey}
		if b.filter != nil {
			templates = append(templates, &b.filter.Template)
		}
		for _, t := range templates {
			if t == nil {
				continue
			}
			for _, name := range t.OfTrigger() {
				file.Fail("bindings", "%s: a timer has no value for {%s}", b.name, name)
			}
		}
	}
}

// truth reads a setting as the host does, which takes anything else for false.
func truth(s string) bool { return strings.EqualFold(s, "true") || s == "1" }

// checkDurable refuses bindings that orchestrations and entities cannot have: they may run many times for one step.
func (f *function) checkDurable(file *jsonfile.Section) {
	if f.trigger != nil && (f.trigger.kind == kindOrchestrationTrigger || f.trigger.kind == kindEntityTrigger) &&
		len(f.in)+len(f.out) > 0 {
		file.Fail("bindings", "an %s cannot be combined with other bindings: its code may run again for a step; "+
			"activities can have them", f.trigger.kind)
	}
}
