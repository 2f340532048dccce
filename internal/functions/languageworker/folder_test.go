package languageworker

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/lazuli-storage/lazuli/functions"
)

func TestSplitArguments(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text string
		want []string
	}{
		{"", nil},
		{"  -a  -b=1\t-jar ", []string{"-a", "-b=1", "-jar"}},
		{`-javaagent:"C:\a b\x.jar" -c`, []string{`-javaagent:C:\a b\x.jar`, "-c"}},
		{`"" a\"b "c\\" d\\e`, []string{"", `a"b`, `c\`, `d\\e`}},
		{`"open end`, []string{"open end"}},
	} {
		if got := splitArguments(c.text); !slices.Equal(got, c.want) {
			t.Errorf("%q: got %q, want %q", c.text, got, c.want)
		}
	}
}

// writeWorker writes a worker's folder with a configFile and the files of names.
func writeWorker(t *testing.T, config string, names ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range append(names, configFile) {
		content := ""
		if name == configFile {
			content = config
		}
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestWorkerConfig(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		t.Skip("the paths are those of Linux on amd64")
	}
	description := func(more string) string {
		return `{"description": {"language": "tongue", "extensions": [".t"], "defaultExecutablePath": "{WorkerRoot}run"` + more +
			`}, "profiles": [
  {"profileName": "other", "conditions": [{"conditionType": "moon", "conditionName": "x", "conditionExpression": ".*"}],
    "description": {"defaultExecutablePath": "moon"}},
  {"profileName": "fast", "conditions": [
    {"conditionType": "environment", "conditionName": "FAST", "conditionExpression": "(?i)^true$"},
    {"conditionType": "hostProperty", "conditionName": "platform", "conditionExpression": "LINUX"}],
    // A comment.
    "description": {"arguments": ["--fast"]}}]}`
	}
	for _, c := range []struct {
		name, more string
		environ    []string
		want       string // the arguments, or an error's text
	}{
		{name: "no worker", want: ""},
		{name: "arguments", more: `, "arguments": ["-a -b", "%OPTS%", "%NONE%"], "defaultWorkerPath": "w.t", "workerArguments": ["-z"]`,
			environ: []string{"OPTS=-c -d", "languageWorkers__tongue__arguments=-e  -f"}, want: "-a -b -c -d -e -f DIR/w.t -z"},
		{name: "a setting with colons", environ: []string{"languageWorkers:tongue:arguments=-e"}, want: "-e"},
		{name: "profile", more: `, "arguments": ["--slow"], "defaultWorkerPath": "w.t"`, environ: []string{"FAST=True"},
			want: "--fast DIR/w.t"},
		{name: "the conditions of the profile do not hold", more: `, "arguments": ["--slow"]`, environ: []string{"FAST=no"},
			want: "--slow"},
		{name: "tokens", more: `, "arguments": ["-p={workerDirectoryPath}"], "defaultRuntimeVersion": "1", "supportedRuntimeVersions": ["1", "2"],
  "supportedOperatingSystems": ["LINUX"], "supportedArchitectures": ["X64"],
  "defaultWorkerPath": "%FUNCTIONS_WORKER_RUNTIME_VERSION%/{os}/{architecture}/w.t"`, want: "-p=DIR DIR/1/LINUX/X64/w.t"},
		{name: "a version", more: `, "supportedRuntimeVersions": ["1"], "defaultWorkerPath": "%FUNCTIONS_WORKER_RUNTIME_VERSION%/w.t"`,
			environ: []string{"FUNCTIONS_WORKER_RUNTIME_VERSION=3"}, want: `the version "3" is not one of those`},
		{name: "a worker that is missing", more: `, "defaultWorkerPath": "gone.t"`, want: "gone.t (defaultWorkerPath) does not exist"},
		{name: "disabled", more: `, "isDisabled": true`, want: "the worker is disabled"},
		{name: "not JSON", more: `,,`, want: configFile},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := writeWorker(t, description(c.more), "run", "w.t", "1/LINUX/X64/w.t")
			s := functions.WorkerSettings{Runtime: "Tongue", Dir: t.TempDir(),
				Environ: append(c.environ, "languageWorkers__tongue__workerDirectory="+dir)}
			got, err := Runtime{}.start(s, t.TempDir())
			want := strings.ReplaceAll(c.want, "DIR", dir)
			if err != nil {
				if c.want == "" || !strings.Contains(err.Error(), want) {
					t.Error(err)
				}
				return
			}
			if text := strings.Join(got.arguments, " "); text != want || got.path != filepath.Join(dir, "run") ||
				got.indexes || got.folder != dir {
				t.Errorf("%s %q in %s, indexes %t", got.path, text, got.folder, got.indexes)
			}
		})
	}
}

// TestBrokenWorkerConfigs checks that each mistake in a configFile has a sentence of its own.
func TestBrokenWorkerConfigs(t *testing.T) {
	t.Parallel()
	for config, want := range map[string]string{
		``:                            "it is not JSON, line 1: unexpected end",
		"{\n\"description\": {},\n,}": "it is not JSON, line 3: invalid character",
		`[]`:                          "it is of the kind list, want an object",
		`{"description": {"arguments": "-a -b"}}`: "description.arguments is of the kind text, want a list",
		`{"description": {"language": 7}}`:        "description.language is of the kind number, want a text",
		`{}`:                                      "description.language is missing",
		`{"description": {"language": "tongue"}}`: "description.defaultExecutablePath is missing",
		`{"description": {"language": "other"}}`:  `it is a worker for "other"`,
		`{"description": {"language": "tongue", "defaultExecutablePath": "{Root}/run"}}`: "the token {Root} in " +
			"defaultExecutablePath is not known; there are {WorkerRoot}",
		`{"description": {"language": "tongue", "defaultExecutablePath": "/no/such"}}`: "the program /no/such, which runs " +
			"the worker for tongue, does not exist",
		`{"description": {"language": "tongue", "defaultExecutablePath": "/"}}`: "the program /, which runs the worker for " +
			"tongue, cannot be run: is a directory",
		`{"description": {"language": "tongue", "defaultExecutablePath": "%NONE%/no-such-program"}}`: "there is no " +
			"no-such-program on the path (%NONE% is not set), which runs the worker for tongue: install it",
		`{"description": {"language": "tongue", "defaultExecutablePath": "{WorkerRoot}gone"}}`: "gone, which",
		`{"description": {"language": "tongue", "defaultExecutablePath": "{WorkerRoot}run", "defaultWorkerPath": "{cpu}/w"}}`: "" +
			"the token {cpu} in defaultWorkerPath is not known; there are {os}",
		`{"description": {"language": "tongue", "defaultExecutablePath": "{WorkerRoot}run", "defaultWorkerPath": "%CPU%/w"}}`: "" +
			"the variable %CPU% in defaultWorkerPath is not set",
	} {
		if runtime.GOOS == "windows" && strings.Contains(config, `"/`) {
			continue
		}
		dir := writeWorker(t, config, "run")
		_, err := Runtime{}.start(functions.WorkerSettings{Runtime: "tongue", Dir: t.TempDir(),
			Environ: []string{"languageWorkers__tongue__workerDirectory=" + dir}}, t.TempDir())
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "languageworker.") {
			t.Errorf("%s:\n\t%v\nwant %s", config, err, want)
		}
	}
}

// TestFindFolder checks where a worker is looked for.
func TestFindFolder(t *testing.T) {
	t.Parallel()
	config := func(language string) string { return `{"description": {"language": "` + language + `"}}` }
	parent := t.TempDir()
	if err := os.Rename(writeWorker(t, config("java")), filepath.Join(parent, "java")); err != nil {
		t.Fatal(err)
	}
	app := writeWorker(t, config("dotnet-isolated"))
	own := writeWorker(t, config("python"))
	for _, c := range []struct{ runtime, setting, want string }{
		{"dotnet-isolated", "", app},
		{"java", "languageWorkers__workersDirectory=" + parent, filepath.Join(parent, "java")},
		{"python", "", ""},
		{"python", "languageWorkers__python__workerDirectory=" + own, own},
		{"python", "languageWorkers__python__workerDirectory=" + own + "/gone", "error: gone has no worker.config.json"},
		{"node", "languageWorkers__workersDirectory=" + parent, ""},
		{"powershell", "", "error: languageWorkers__powershell__workerDirectory"},
	} {
		s := functions.WorkerSettings{Runtime: c.runtime, Dir: app, Environ: []string{c.setting}}
		got, err := findFolder(s)
		if text, fails := strings.CutPrefix(c.want, "error: "); fails {
			if err == nil || !strings.Contains(err.Error(), text) {
				t.Errorf("%s %s: %q, %v", c.runtime, c.setting, got, err)
			}
		} else if got != c.want || err != nil {
			t.Errorf("%s %s: %q, %v", c.runtime, c.setting, got, err)
		}
	}
}
