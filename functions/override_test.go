package functions

import (
	"strings"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/functions/internal/jsonfile"
)

const minimalHost = `{"version": "2.0", "customHandler": {"description": {"defaultExecutablePath": "x"}}, "extensions": {"queues": {"batchSize": 3}}}`

func TestSettingsOverrideHostJSON(t *testing.T) {
	t.Parallel()
	files := map[string]string{"host.json": minimalHost, "q/function.json": queueFunction,
		"r/function.json": queueFunction}
	h, err := Load(t.Context(), Config{Dir: folder(t, files), Environ: []string{
		"AzureFunctionsJobHost__extensions__queues__batchSize=7",
		"azurefunctionsjobhost__EXTENSIONS__queues__visibilityTimeout=00:00:09",
		"AzureFunctionsJobHost:logging:logLevel:default=Error", "AzureFunctionsJobHost__functions__0=r",
		"AzureFunctionsJobHost__functionTimeout=00:01:00",
	}})
	if err != nil {
		t.Fatal(err)
	}
	host := h.project.host
	for what, c := range map[string]struct{ got, want any }{
		"batchSize":         {host.queues.batchSize, 7},
		"visibilityTimeout": {host.queues.visibility, 9 * time.Second},
		"functionTimeout":   {host.timeout, time.Minute},
		"functions":         {strings.Join(host.functions, ","), "r"},
		"logLevel":          {host.levels.enabled("Function.r", 4), false},
		"the handler":       {host.handler.Path, "x"},
	} {
		if c.got != c.want {
			t.Errorf("%s: %v, want %v", what, c.got, c.want)
		}
	}
}

// What a setting says wrongly is reported under the setting's name.
func TestWrongOverridesNameTheSetting(t *testing.T) {
	t.Parallel()
	files := map[string]string{"host.json": minimalHost, "q/function.json": queueFunction}
	for setting, says := range map[string]string{
		"AzureFunctionsJobHost__extensions__queues__batchSize=64": "AzureFunctionsJobHost__extensions__queues__batchSize: " +
			"64 is not a whole number from 1 to 32",
		"AzureFunctionsJobHost__functions__7=q": "AzureFunctionsJobHost__functions__7: a " +
			"list of 0 elements has no element 7",
		"AzureFunctionsJobHost__extensions__durableTask__useGrpc=true": "AzureFunctionsJobHost__extensions__durableTask__useGrpc: not supported",
	} {
		if got, _ := load(t, files, setting); !strings.Contains(got, says) {
			t.Errorf("%s: %q, want an error saying %q", setting, got, says)
		}
	}
	if _, got := load(t, files, "AzureFunctionsJobHost__extensions__queues__prefetch=1"); !strings.Contains(got,
		"AzureFunctionsJobHost__extensions__queues__prefetch is not known") {
		t.Errorf("an unknown member: %q", got)
	}
}

func TestTimeZone(t *testing.T) {
	t.Parallel()
	files := map[string]string{"host.json": minimalHost, "q/function.json": queueFunction}
	h, err := Load(t.Context(), Config{Dir: folder(t, files), Environ: []string{"WEBSITE_TIME_ZONE=Europe/Berlin"}})
	if err != nil || h.project.zone.String() != "Europe/Berlin" {
		t.Errorf("%v, %v", h, err)
	}
	for _, name := range []string{"W. Europe Standard Time", "Local", "../etc/passwd"} {
		if got, _ := load(t, files, "WEBSITE_TIME_ZONE="+name); !strings.Contains(got, "WEBSITE_TIME_ZONE: ") {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// An app in a language of Azure Functions is refused with that reason.
func TestAppsOfLanguageWorkersAreRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		files   map[string]string
		environ []string
		says    string
	}{
		"Python, v2": {map[string]string{"function_app.py": ""}, nil, "a function app in Python (there is function_app.py)"},
		"Python, v1": {map[string]string{"q/__init__.py": "", "q/function.json": queueFunction}, nil,
			"a function app in Python (there is q/__init__.py)"},
		"Node": {map[string]string{"package.json": "{}"}, nil, "a function app in JavaScript or TypeScript"},
		"the setting": {map[string]string{"local.settings.json": `{"Values": {"FUNCTIONS_WORKER_RUNTIME": "powershell"}}`},
			nil,
			"a function app in PowerShell (FUNCTIONS_WORKER_RUNTIME is powershell)"},
		"the environment": {map[string]string{"package.json": "{}"}, []string{"FUNCTIONS_WORKER_RUNTIME=java"},
			"a function app in Java"},
		"nothing": {nil, nil, "customHandler: is missing: `lazuli func start` runs apps in Python, JavaScript, " +
			"TypeScript, .NET (isolated) and Java, apps with a custom handler"},
	} {
		files := map[string]string{"host.json": `{"version": "2.0"}`}
		for file, text := range c.files {
			files[file] = text
		}
		if got, _ := load(t, files, c.environ...); !strings.Contains(got, c.says) {
			t.Errorf("%s: %q, want an error saying %q", name, got, c.says)
		}
	}
}

// The deepest nesting that a file can have is an error, not the end of the process.
func TestDeeplyNestedJSON(t *testing.T) {
	t.Parallel()
	if got, _ := load(t, map[string]string{"host.json": strings.Repeat("[", jsonfile.MaxSize)}); !strings.Contains(got,
		"host.json: want an object") {
		t.Errorf("%.200q", got)
	}
	if got, _ := load(t, map[string]string{"host.json": strings.Repeat(" ", jsonfile.MaxSize+1)}); !strings.Contains(got,
		"too many") {
		t.Errorf("%.200q", got)
	}
}
