package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/funcapp"
	"github.com/lazuli-storage/lazuli/internal/test/testlog"
)

// runFuncVerb runs a verb of `lazuli func` and returns its exit code and output.
func runFuncVerb(t *testing.T, args ...string) (int, string) {
	t.Helper()
	var out testlog.Buffer
	m := Main{Args: append([]string{"func"}, args...), Environ: os.Environ(), Stdout: &out, Stderr: &out}
	return m.Run(t.Context()), out.String()
}

// Every language has every template, and each leaves no placeholder behind.
func TestFuncNew(t *testing.T) {
	for _, l := range funcapp.Languages {
		t.Run(l.Name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "My App")
			if code, out := runFuncVerb(t, "init", dir, "--language", l.Name); code != 0 {
				t.Fatal(code, out)
			}
			for i, template := range funcapp.Templates {
				name := "F" + template.Name
				wanted := template.Name
				if i%2 == 0 {
					wanted = template.CoreTools
				}
				if code, out := runFuncVerb(t, "new", name, "--template", wanted, "--dir", dir); code != 0 {
					t.Fatal(code, out)
				}
				if code, out := runFuncVerb(t, "new", name, "-t", wanted, "--dir", dir); code == 0 {
					t.Error("a function was written twice:", out)
				}
			}
			texts := ""
			if err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
				if err != nil || d.IsDir() {
					return err
				}
				text, err := os.ReadFile(path)
				texts += string(text)
				for _, placeholder := range []string{"FOLDER", "LANGUAGE", "NAME", "LEVEL"} {
					if strings.Contains(string(text), placeholder) {
						t.Errorf("%s has the placeholder %s", path, placeholder)
					}
				}
				return err
			}); err != nil {
				t.Fatal(err)
			}
			for _, want := range []string{`"FUNCTIONS_WORKER_RUNTIME": "` + l.Runtime + `"`, "Fhttp", "Fdurable_greet"} {
				if !strings.Contains(texts, want) {
					t.Errorf("no %s", want)
				}
			}
		})
	}
}

func TestFuncNewRefuses(t *testing.T) {
	app, empty := t.TempDir(), t.TempDir()
	if code, out := runFuncVerb(t, "init", app, "--worker-runtime", "node"); code != 0 {
		t.Fatal(out)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"init", empty}, "--language is missing: python, javascript, typescript, csharp or java"},
		{[]string{"init", empty, "--language", "cobol"}, `no language is called "cobol"`},
		{[]string{"new", "A", "-t", "http", "--dir", empty}, "make one by `lazuli func init"},
		{[]string{"new", "A", "-t", "sql", "--dir", app}, "--template is one of http, queue, blob, timer, durable"},
		{[]string{"new", "A", "-t", "http", "-a", "all", "--dir", app}, `--authlevel is "all", not anonymous`},
		{[]string{"init", empty, "--python", "--model", "V1"}, "are of model V2"},
		{[]string{"new", "../A", "-t", "http", "--dir", app}, "is not a name for a function"},
		{[]string{"new", "-t", "http", "--dir", app}, "is not a name for a function"},
	} {
		if code, out := runFuncVerb(t, c.args...); code != 2 || !strings.Contains(out, c.want) {
			t.Errorf("%v: %d, %s", c.args, code, out)
		}
	}
	before, err := os.ReadFile(filepath.Join(app, "host.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(app, "host.json"), []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, out := runFuncVerb(t, "init", app, "--language", "javascript"); code != 0 ||
		!strings.Contains(out, "host.json exists, and stays as it is") {
		t.Error(code, out)
	}
	if code, out := runFuncVerb(t, "init", app, "--language", "javascript", "--force"); code != 0 {
		t.Error(code, out)
	}
	if after, err := os.ReadFile(filepath.Join(app, "host.json")); err != nil || string(after) != string(before) {
		t.Errorf("%s, %v", after, err)
	}
}

// The commands of Azure's quickstarts for Core Tools do the same here.
func TestFuncOfCoreTools(t *testing.T) {
	for _, language := range []string{"python", "javascript", "typescript"} {
		dir := filepath.Join(t.TempDir(), "LocalFunctionProj")
		if code, out := runFuncVerb(t, "init", dir, "--"+language); code != 0 {
			t.Fatal(out)
		}
		code, out := runFuncVerb(t, "new", "--name", "HttpExample", "--template", "HTTP trigger", "--authlevel", "anonymous",
			"--dir", dir)
		if code != 0 {
			t.Fatal(out)
		}
		file := map[string]string{"python": "function_app.py", "javascript": "src/functions/HttpExample.js",
			"typescript": "src/functions/HttpExample.ts"}[language]
		text, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), "AuthLevel.ANONYMOUS") && !strings.Contains(string(text), "'anonymous'") {
			t.Errorf("%s: %s", language, text)
		}
	}
	if code, out := runFuncVerb(t, "extensions", "install"); code != 0 {
		t.Error(out)
	}
}

func TestVerbOfFunc(t *testing.T) {
	for _, name := range []string{"/usr/bin/func", "func.exe"} {
		if got := verbOf([]string{name, "start"}); len(got) != 2 || got[0] != "func" || got[1] != "start" {
			t.Errorf("%s: %v", name, got)
		}
	}
	if code, out := runFuncVerb(t, "--version"); code != 0 || !strings.HasPrefix(out, "4.") {
		t.Error(code, out)
	}
}
