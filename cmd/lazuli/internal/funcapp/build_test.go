package funcapp

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/test/testlog"
)

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
	build := func(dir string, noBuild bool) string {
		got, err := Build(t.Context(), dir, noBuild, &out)
		if err != nil {
			return "error: " + err.Error()
		}
		return got
	}
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
