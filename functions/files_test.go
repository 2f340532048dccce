package functions

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/test/check"
)

const queueFunction = `{"bindings": [{"type": "queueTrigger", "direction": "in", "name": "item", "queueName": "in-queue"}]}`

// A host.json with all sections that Azure's pages show is taken, and what has no effect is reported.
func TestSettingsWithoutEffect(t *testing.T) {
	t.Parallel()
	failed, said := load(t, map[string]string{"q/function.json": queueFunction, "host.json": `{"version": "2.0",
		"customHandler": {"description": {"defaultExecutablePath": "x"}},
		"extensions": {
			"http": {"dynamicThrottlesEnabled": true, "hsts": {"isEnabled": true, "maxAge": "10"}},
			"durableTask": {"storageProvider": {"controlQueueBatchSize": 32, "partitionCount": 3},
				"tracing": {"traceReplayEvents": false}, "extendedSessionsEnabled": true, "useAppLease": true}},
		"aggregator": {"batchSize": 1000, "flushTimeout": "00:00:30"},
		"concurrency": {"dynamicConcurrencyEnabled": true, "snapshotPersistenceEnabled": true},
		"extensionBundle": {"id": "Microsoft.Azure.Functions.ExtensionBundle", "version": "[4.0.0, 5.0.0)"},
		"functionTimeout": "00:05:00", "managedDependency": {"enabled": true}, "telemetryMode": "OpenTelemetry",
		"healthMonitor": {"enabled": true, "healthCheckInterval": "00:00:10"},
		"logging": {"fileLoggingMode": "debugOnly", "logLevel": {"Function.MyFunction": "Information", "default": "None"},
			"applicationInsights": {"samplingSettings": {"isEnabled": true}}},
		"singleton": {"lockPeriod": "00:00:15", "listenerLockPeriod": "00:01:00", "lockAcquisitionTimeout": "00:01:00"},
		"watchDirectories": ["Shared", "Test"], "watchFiles": ["myFile.txt"]}`})
	if failed != "" {
		t.Fatal(failed)
	}
	for _, name := range []string{"extensions.http.dynamicThrottlesEnabled", "extensions.http.hsts",
		"extensions.durableTask.storageProvider.controlQueueBatchSize", "extensions.durableTask.tracing",
		"extensions.durableTask.extendedSessionsEnabled", "extensions.durableTask.useAppLease", "aggregator", "concurrency.dynamicConcurrencyEnabled", "extensionBundle",
		"telemetryMode", "healthMonitor", "logging.fileLoggingMode", "logging.applicationInsights",
		"singleton.lockAcquisitionTimeout", "watchDirectories", "watchFiles"} {
		if !strings.Contains(said, "host.json: "+name+" has no effect here") {
			t.Errorf("nothing is said of %s: %s", name, said)
		}
	}
}

// load reads a folder and returns the error's text and the warnings and notes.
func load(t *testing.T, files map[string]string, environ ...string) (string, string) {
	t.Helper()
	h, err := Load(t.Context(), Config{Dir: folder(t, files), Environ: environ})
	if err != nil {
		return err.Error(), ""
	}
	return "", strings.Join(append(h.Warnings(), h.Notes()...), "\n")
}

// What is wrong with a function that is not to run does not keep the others from running.
func TestFunctionsThatDoNotRun(t *testing.T) {
	t.Parallel()
	files := map[string]string{"q/function.json": queueFunction, "bus/function.json": `{"bindings": [
		{"type": "serviceBusTrigger", "direction": "in", "name": "letter", "queueName": "letters"}]}`}
	const refused = `bus/function.json: bindings[0].type: "serviceBusTrigger" is not supported with direction in`
	// The others of the app run, and the start says why one does not.
	got, warned := load(t, files)
	if got != "" || !strings.Contains(warned, refused) || !strings.Contains(warned, "(binding letter)") {
		t.Errorf("got %q, with the warning %q", got, warned)
	}
	broken := map[string]string{"q/function.json": queueFunction, "x/function.json": "{", "y/function.json": `{"bindings": []}`}
	h, err := Load(t.Context(), Config{Dir: folder(t, broken)})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"q: queueTrigger in-queue", "x: cannot run: x/function.json: not JSON",
		"y: cannot run: y/function.json: bindings: is missing"} {
		if got := h.Describe("x")[i]; !strings.HasPrefix(got, want) {
			t.Errorf("%q is described as %q", want, got)
		}
	}
	if got := h.Status(t.Context()).Functions; len(got) != 3 || !got[1].Disabled ||
		!strings.Contains(got[1].Error, "not JSON") {
		t.Errorf("%+v", got)
	}
	// One that is asked for by name must run.
	if _, err := Load(t.Context(), Config{Dir: folder(t, files), Functions: []string{"bus", "q"}}); err == nil {
		t.Error("a function that was asked for is left out")
	}
	if got, _ := load(t, files, "AzureWebJobs.bus.Disabled=true"); got != "" {
		t.Errorf("the function is disabled: %s", got)
	}
	h, err = Load(t.Context(), Config{Dir: folder(t, files), Functions: []string{"Q"}})
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(h.Describe("localhost:1"), "|"); got != "q: queueTrigger in-queue|bus: disabled" {
		t.Error(got)
	}
	if got := h.Status(t.Context()).Functions; len(got) != 2 || !got[1].Disabled || got[1].Trigger != "not supported" {
		t.Errorf("%+v", got)
	}
}

// Every mistake is reported with file and field.
func TestMistakesAreNamed(t *testing.T) {
	t.Parallel()
	with := func(more string) map[string]string {
		return map[string]string{"host.json": `{"version": "2.0", "customHandler": {"description": {"defaultExecutablePath": "x"}}, ` + more + `}`, "q/function.json": queueFunction}
	}
	function := func(text string) map[string]string { return map[string]string{"f/function.json": text} }
	binding := func(text string) map[string]string {
		return function(`{"bindings": [{"type": "timerTrigger", "name": "t", "schedule": "0 * * * * *"}, ` + text + `]}`)
	}
	for _, c := range []struct {
		name  string
		files map[string]string
		want  string
	}{
		{"no host.json", map[string]string{"host.json": "", "q/function.json": queueFunction}, "host.json: not JSON"},
		{"not JSON", map[string]string{"host.json": "{\n\"version\": \"2.0\",\n oops}", "q/function.json": queueFunction},
			"host.json: not JSON: line 3"},
		{"version",
			map[string]string{"host.json": `{"version": "3.0", "customHandler": {"description": {"defaultExecutablePath": "x"}}}`, "q/function.json": queueFunction}, `host.json: version: is "3.0", want "2.0"`},
		{"no handler", map[string]string{"host.json": `{"version": "2.0"}`, "q/function.json": queueFunction},
			"host.json: customHandler: is missing"},
		{"no path",
			map[string]string{"host.json": `{"version": "2.0", "customHandler": {"description": {"defaultExecutablePath": ""}}}`,
				"q/function.json": queueFunction}, "host.json: customHandler.description.defaultExecutablePath: is missing"},
		{"batch size", with(`"extensions": {"queues": {"batchSize": 64}}`),
			"host.json: extensions.queues.batchSize: 64 is not a whole number from 1 to 32"},
		{"encoding", with(`"extensions": {"queues": {"messageEncoding": "utf8"}}`),
			`host.json: extensions.queues.messageEncoding: "utf8" is not one of base64, none`},
		{"polling", with(`"extensions": {"queues": {"maxPollingInterval": "5s"}}`),
			`host.json: extensions.queues.maxPollingInterval: "5s" is not a time span`},
		{"days", with(`"extensions": {"queues": {"visibilityTimeout": "10"}}`),
			"host.json: extensions.queues.visibilityTimeout: 10, which is 240h0m0s, is not within"},
		{"old layout", with(`"queues": {"batchSize": 1}`),
			"host.json: queues: not supported: this is the layout of version 1"},
		{"entities", with(`"extensions": {"durableTask": {"maxEntityOperationBatchSize": 50}}`),
			"host.json: extensions.durableTask.maxEntityOperationBatchSize: not supported"},
		{"level", with(`"logging": {"logLevel": {"default": "Loud"}}`),
			`host.json: logging.logLevel.default: "Loud" is not one of`},
		{"timeout", with(`"functionTimeout": "soon"`), "host.json: functionTimeout:"},
		{"retry", with(`"retry": {"strategy": "fixedDelay", "maxRetryCount": 3}`),
			"host.json: retry.delayInterval: is missing"},
		{"no functions", map[string]string{}, "has no functions"},
		{"function not JSON", function("{"), "f/function.json: not JSON"},
		{"no bindings", function(`{}`), "f/function.json: bindings: is missing"},
		{"no trigger", function(`{"bindings": [{"type": "queue", "direction": "out", "name": "q", "queueName": "qqq"}]}`),
			"f/function.json: bindings: no binding is a trigger"},
		{"two triggers", binding(`{"type": "queueTrigger", "name": "q", "queueName": "qqq"}`),
			"f/function.json: bindings[1].type: the function has two triggers"},
		{"unknown type", binding(`{"type": "eventHub", "direction": "out", "name": "q"}`),
			`f/function.json: bindings[1].type: "eventHub" is not supported with direction out; there are http, queue, blob, table`},
		{"queue input", binding(`{"type": "queue", "name": "q", "queueName": "qqq"}`),
			`f/function.json: bindings[1].type: "queue" is not supported with direction in`},
		{"direction", binding(`{"type": "blob", "direction": "inout", "name": "q", "path": "a/b"}`),
			`f/function.json: bindings[1].direction: "inout" is neither in nor out`},
		{"http for a timer", binding(`{"type": "http", "direction": "out", "name": "res"}`),
			"f/function.json: bindings: an http output answers a request, and the trigger is a timerTrigger"},
		{"no queue name", binding(`{"type": "queue", "direction": "out", "name": "q"}`),
			"f/function.json: bindings[1].queueName: is missing"},
		{"same name", binding(`{"type": "queue", "direction": "out", "name": "t", "queueName": "qqq"}`),
			`f/function.json: bindings[1].name: two bindings are called "t"`},
		{"bad name", binding(`{"type": "queue", "direction": "out", "name": "a b", "queueName": "qqq"}`),
			`f/function.json: bindings[1].name: "a b" is not a name`},
		{"setting", binding(`{"type": "queue", "direction": "out", "name": "q", "queueName": "%NOT_SET%"}`),
			"f/function.json: bindings[1].queueName: %NOT_SET% is set neither"},
		{"connection",
			binding(`{"type": "queue", "direction": "out", "name": "q", "queueName": "qqq", "connection": "Other"}`),
			`f/function.json: bindings[1].connection: connection "Other" is set neither`},
		{"brace", binding(`{"type": "blob", "direction": "out", "name": "q", "path": "a/{b"}`),
			"f/function.json: bindings[1].path:"},
		{"timer has no names", binding(`{"type": "blob", "direction": "out", "name": "q", "path": "a/{name}"}`),
			"f/function.json: bindings: q: a timer has no value for {name}"},
		{"no blob name", binding(`{"type": "blob", "direction": "out", "name": "q", "path": "container"}`),
			`f/function.json: bindings[1].path: "container" lacks the blob's name`},
		{"queue's name", binding(`{"type": "queue", "direction": "out", "name": "q", "queueName": "My_Orders"}`),
			`f/function.json: bindings[1].queueName: "My_Orders": a name has 3 to 63 lower-case letters`},
		{"container's name", binding(`{"type": "blob", "direction": "out", "name": "q", "path": "in/b"}`),
			`f/function.json: bindings[1].path: "in": a name has 3 to 63`},
		{"table's name", binding(`{"type": "table", "direction": "out", "name": "q", "tableName": "my-table"}`),
			`f/function.json: bindings[1].tableName: "my-table": a name has`},
		{"blob trigger's path", function(`{"bindings": [{"type": "blobTrigger", "name": "b", "path": "{c}/x"}]}`),
			`f/function.json: bindings[0].path: blob path "{c}/x": it must begin with a container's name`},
		{"blob trigger's container", function(`{"bindings": [{"type": "blobTrigger", "name": "b", "path": "C/{x}"}]}`),
			`f/function.json: bindings[0].path: "C": a name has`},
		{"schedule", function(`{"bindings": [{"type": "timerTrigger", "name": "t", "schedule": "every day"}]}`),
			"f/function.json: bindings[0].schedule:"},
		{"stream", binding(`{"type": "blob", "direction": "in", "name": "q", "path": "aaa/b", "dataType": "stream"}`),
			"f/function.json: bindings[1].dataType: stream is not supported"},
		{"row key alone", binding(`{"type": "table", "name": "q", "tableName": "Ttt", "rowKey": "r"}`),
			"f/function.json: bindings[1].rowKey:"},
		{"event grid",
			function(`{"bindings": [{"type": "blobTrigger", "name": "b", "path": "aaa/{n}", "source": "Elsewhere"}]}`),
			"f/function.json: bindings[0].source: "},
		{"route", function(`{"bindings": [{"type": "httpTrigger", "name": "b", "route": "a/{id:whole}"}]}`),
			`f/function.json: bindings[0].route: route "a/{id:whole}": {id}: the constraint "whole" is not known`},
		{"web hook", function(`{"bindings": [{"type": "httpTrigger", "name": "b", "webHookType": "github"}]}`),
			"f/function.json: bindings[0].webHookType: not supported"},
		{"auth level", function(`{"bindings": [{"type": "httpTrigger", "name": "b", "authLevel": "mine"}]}`),
			"f/function.json: bindings[0].authLevel:"},
		{"script", function(`{"scriptFile": "gone.js", "bindings": [{"type": "httpTrigger", "name": "b"}]}`),
			"f/function.json: scriptFile: the file"},
		{"function's name", map[string]string{"host/function.json": queueFunction},
			`host/function.json: "host" is not a valid name`},
		{"encrypted", map[string]string{"local.settings.json": `{"IsEncrypted": true}`, "q/function.json": queueFunction},
			"local.settings.json: IsEncrypted: not supported"},
		{"cors", map[string]string{"local.settings.json": `{"Host": {"CORS": "*", "CORSCredentials": true}}`,
			"q/function.json": queueFunction}, "local.settings.json: Host.CORSCredentials:"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got, _ := load(t, c.files); !strings.Contains(got, c.want) {
				t.Errorf("got %q\nwant %q in it", got, c.want)
			}
		})
	}
	if got, _ := load(t, map[string]string{"q/function.json": queueFunction}, "AzureWebJobs__x=y",
		"Other__queueServiceUri=https://x"); got != "" {
		t.Error(got)
	}
	got,
		_ := load(t, binding(`{"type": "queue", "direction": "out", "name": "q", "queueName": "qqq", "connection": "Other"}`),
		"Other__queueServiceUri=https://x")
	if !strings.Contains(got, "identity-based (Other__queueServiceUri), which is not supported") {
		t.Error(got)
	}
}

func TestUnknownFieldsAreWarnedOf(t *testing.T) {
	t.Parallel()
	_, got := load(t, map[string]string{
		"host.json": `{"version": "2.0", "customHandler": {"description": {"defaultExecutablePath": "x", "defaultExecutablePaht": "y"}},
			"extensionBundle": {"id": "x"}, "retry": {"strategy": "fixedDelay", "maxRetryCount": 1, "delayInterval": "00:00:01"}, "extensions": {"queues": {"batchsize": "4", "prefetch": 3}, "eventHubs": {}}}`,
		"q/function.json": `{"bindings": [{"type": "queueTrigger", "direction": "in", "name": "item", "queueName": "in-queue", "queuename2": 1}], "ScriptFile": "", "colour": 1}`,
	})
	for _, want := range []string{
		"host.json: customHandler.description.defaultExecutablePaht is not known",
		"host.json: extensions.queues.prefetch is not known",
		"host.json: extensions.eventHubs has no effect here",
		"host.json: extensionBundle has no effect here",
		"host.json: retry: the function q is tried again at once",
		"q/function.json: bindings[0].queuename2 is not known",
		"q/function.json: colour is not known",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not among\n%s", want, got)
		}
	}
	if strings.Count(got, "\n") != 6 {
		t.Errorf("there are other warnings:\n%s", got)
	}
}

func TestSettings(t *testing.T) {
	t.Parallel()
	files := map[string]string{
		"local.settings.json": `{"Values": {"Queue": "from-file", "Mine": "from-file", "FUNCTIONS_WORKER_RUNTIME": "custom"}, "Host": {"LocalHttpPort": 7099, "CORS": "http://a, http://b/"}}`,
		"q/function.json":     `{"bindings": [{"type": "queueTrigger", "direction": "in", "name": "item", "queueName": "%queue%-%MINE%"}]}`,
	}
	h, err := Load(t.Context(), Config{Dir: folder(t, files), Environ: []string{"Mine=from-env"},
		ConnectionString: "DefaultEndpointsProtocol=http;AccountName=a;AccountKey=a2V5;QueueEndpoint=http://127.0.0.1:1/a"})
	if err != nil {
		t.Fatal(err)
	}
	if got := h.project.functions[0].trigger.target.Source; got != "from-file-from-env" {
		t.Errorf("the queue is %s", got)
	}
	if LocalPort(h.project.dir) != 7099 || strings.Join(h.project.local.CORS, " ") != "http://a http://b" {
		t.Errorf("%+v", h.project.local)
	}
	if v, _ := h.project.settings.Get("azurewebjobsstorage"); !strings.Contains(v, "127.0.0.1:1/a") {
		t.Errorf("storage is %q", v)
	}
	if v, _ := h.project.settings.Get("FUNCTIONS_APP_ROOT_PATH"); v != h.project.dir {
		t.Errorf("root is %q", v)
	}
}

func TestDisabled(t *testing.T) {
	t.Parallel()
	with := func(more string) string { return strings.Replace(queueFunction, "{", "{"+more, 1) }
	files := map[string]string{
		"a/function.json": queueFunction,
		"b/function.json": with(`"disabled": true, `), // It runs all the same.
		"c/function.json": queueFunction,
		"d/function.json": queueFunction,
		"e/function.json": queueFunction,
		"host.json":       `{"version": "2.0", "functions": ["a", "b", "c", "d"], "customHandler": {"description": {"defaultExecutablePath": "x"}}}`,
	}
	h, err := Load(t.Context(), Config{Dir: folder(t, files),
		Environ: []string{"AzureWebJobs_C_Disabled=1", "AzureWebJobs.d.Disabled=true"}})
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(h.Describe("x"),
		"; "); got != "a: queueTrigger in-queue; b: queueTrigger in-queue; c: disabled; d: disabled; e: disabled" {
		t.Error(got)
	}
	if _, err := Load(t.Context(), Config{Dir: folder(t, files), Functions: []string{"zz"}}); err == nil ||
		!strings.Contains(err.Error(), `no function is called "zz"; there are: a, b, c, d, e`) {
		t.Error(err)
	}
	if got := h.Warnings(); len(got) != 1 ||
		!strings.Contains(got[0], "b/function.json: disabled has no effect since version 2") {
		t.Error(got)
	}
}

func TestLogLevels(t *testing.T) {
	t.Parallel()
	l := logLevels{"default": 4, "function": 0, "function.quiet": levelNone, "function.quiet.user": -4}
	for category, want := range map[string]bool{"Host": false, "Function.A": true, "Function.A.User": true,
		"Function.Quiet": false, "Function.Quiet.User": true} {
		if got := l.enabled(category, 0); got != want {
			t.Errorf("%s: %v", category, got)
		}
	}
	if !(logLevels{}).enabled("Function.A", 0) || (logLevels{}).enabled("Function.A", -4) {
		t.Error("without levels Information is logged, and Debug is not")
	}
}

// A profile of the host for servers of one protocol: everything goes to the handler.
func TestMCPProfile(t *testing.T) {
	t.Parallel()
	h, err := Load(t.Context(), Config{Dir: folder(t, map[string]string{
		"host.json": `{"version": "2.0", "configurationProfile": "mcp-custom-handler", "customHandler": {"description": {"defaultExecutablePath": "x"}, "port": "8080"}}`,
	})})
	if err != nil {
		t.Fatal(err)
	}
	f := h.project.functions[0]
	if h.project.host.handler.Port != 8080 || !f.forwarded || h.pathOf(f) != "{*route}" {
		t.Errorf("%+v, %+v", h.project.host, f)
	}
}

func TestNoFolder(t *testing.T) {
	t.Parallel()
	if _, err := Load(t.Context(), Config{Dir: "no/such/folder"}); err == nil ||
		!strings.Contains(err.Error(), "does not exist") {
		t.Error(err)
	}
	dir := t.TempDir()
	if _, err := Load(t.Context(), Config{Dir: dir}); err == nil || !strings.Contains(err.Error(), "has no host.json") {
		t.Error(err)
	}
	if err := os.Symlink("/nowhere", dir+"/link"); err != nil {
		t.Fatal(err)
	}
	write(t, dir, "host.json", hostJSON("x", ""))
	write(t, dir, "q/function.json", queueFunction)
	if _, err := Load(t.Context(), Config{Dir: dir}); err != nil {
		t.Error(err)
	}
}

// An app in JavaScript whose package.json names no files has no functions; the error says why.
func TestNamesCode(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{"": false, "{}": false, `{"main": ""}`: false, `{"main": "a.js"}`: true,
		"no JSON": true} {
		dir := t.TempDir()
		if text != "" {
			check.OK(t, os.WriteFile(filepath.Join(dir, "package.json"), []byte(text), 0o600))
		}
		if got := namesCode(dir); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}
