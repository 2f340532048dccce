package funcapp

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/test/testlog"
)

// builder returns a function that calls Build and returns the folder or the error.
func builder(t *testing.T, out *testlog.Buffer) func(dir string, noBuild bool) string {
	return func(dir string, noBuild bool) string {
		got, err := Build(t.Context(), dir, noBuild, out)
		if err != nil {
			return "error: " + err.Error()
		}
		return got
	}
}

// TestBuild checks what is started in a folder of source, with a program in the place of dotnet.
func TestBuild(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the program is a shell script")
	}
	write := func(dir string, files ...string) string {
		for _, name := range files {
			file := filepath.Join(dir, filepath.FromSlash(name))
			if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte("{}"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return dir
	}
	t.Setenv("PATH", t.TempDir())
	var out testlog.Buffer
	build := builder(t, &out)
	output := write(t.TempDir(), "all.csproj", "worker.config.json")
	if got := build(output, false); got != output {
		t.Errorf("an output: %s", got)
	}
	other := write(t.TempDir(), "extensions.csproj", "function_app.py")
	if got := build(other, false); got != other {
		t.Errorf("an app in another language: %s", got)
	}
	source := write(t.TempDir(), "shop.csproj", "local.settings.json", "host.json")
	if got := build(source, false); !strings.Contains(got, "there is no dotnet on the path to build it") {
		t.Errorf("without dotnet: %s", got)
	}
	if got := build(source, true); !strings.Contains(got, "has no output of a build") {
		t.Errorf("without a build: %s", got)
	}
	script := "#!/bin/sh\necho \"$@\"\n[ -f broken ] && exit 1\n" +
		"/bin/mkdir -p bin/output && echo {} >bin/output/worker.config.json\n"
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "dotnet"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin)
	built := filepath.Join(source, "bin", "output")
	if got := build(source, false); got != built || !isFile(built, "local.settings.json") ||
		!strings.Contains(out.String(), "build shop.csproj --output bin/output") {
		t.Errorf("%s %s", got, out.String())
	}
	if got := build(source, true); got != built {
		t.Errorf("after a build: %s", got)
	}
	if got := build(write(t.TempDir(), "a.csproj", "b.fsproj"), false); !strings.Contains(got, "has 2 projects") {
		t.Errorf("two projects: %s", got)
	}
	if got := build(write(t.TempDir(), "a.csproj", "broken"), false); !strings.Contains(got, "dotnet build a.csproj") {
		t.Errorf("a build that fails: %s", got)
	}
}

// TestBuildMaven checks what is started in the folder of a Maven project, with a program in the place of mvn.
func TestBuildMaven(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the program is a shell script")
	}
	write := func(names ...string) string {
		dir := t.TempDir()
		for _, name := range names {
			if err := writeNew(filepath.Join(dir, filepath.FromSlash(name)), "{}", false); err != nil {
				t.Fatal(err)
			}
		}
		return dir
	}
	t.Setenv("PATH", t.TempDir())
	var out testlog.Buffer
	build := builder(t, &out)
	handler := write("pom.xml", "host.json", "order/function.json")
	if got := build(handler, false); got != handler {
		t.Errorf("a custom handler: %s", got)
	}
	source := write("pom.xml", "host.json", "local.settings.json")
	if got := build(source, false); !strings.Contains(got, "there is no mvn on the path to build it") {
		t.Errorf("without mvn: %s", got)
	}
	if got := build(source, true); !strings.Contains(got, "has no app in target/azure-functions; build it by `mvn") {
		t.Errorf("without a build: %s", got)
	}
	script := "#!/bin/sh\necho \"$@\"\n[ -f broken ] && exit 1\n[ -f empty ] && exit 0\n" +
		"/bin/mkdir -p target/azure-functions/app && echo {} >target/azure-functions/app/host.json\n"
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "mvn"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin)
	built := filepath.Join(source, "target", "azure-functions", "app")
	if got := build(source, false); got != built || !isFile(built, "local.settings.json") ||
		!strings.Contains(out.String(), "-DskipTests package") {
		t.Errorf("%s %s", got, out.String())
	}
	if got := build(source, true); got != built {
		t.Errorf("after a build: %s", got)
	}
	if got := build(write("pom.xml", "host.json", "broken"), false); !strings.Contains(got, "mvn -DskipTests package in") {
		t.Errorf("a build that fails: %s", got)
	}
	if got := build(write("pom.xml", "host.json", "empty"), false); !strings.Contains(got, "writes no app") {
		t.Errorf("a build without an app: %s", got)
	}
	two := write("pom.xml", "host.json", "target/azure-functions/a/host.json", "target/azure-functions/b/host.json")
	if got := build(two, true); !strings.Contains(got, "has 2 apps") {
		t.Errorf("two apps: %s", got)
	}
}
