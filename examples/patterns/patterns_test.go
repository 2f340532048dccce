package patterns

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lazuli-storage/lazuli/lazulitest"
)

var update = flag.Bool("update", false, "write what the programs print to their output.txt")

// Every program runs against Lazuli and prints what its output.txt has, costs included.
func TestPrograms(t *testing.T) {
	t.Parallel()
	folders, err := filepath.Glob("[0-9][0-9]-*")
	if err != nil || len(folders) != 16 {
		t.Fatalf("found %q, %v; want 16 programs", folders, err)
	}
	all := linked(t, folders)
	for _, folder := range folders {
		t.Run(folder, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command(all)
			cmd.Env = append(os.Environ(), "AzureWebJobsStorage=UseDevelopmentStorage=true", program+"="+folder,
				"LAZULI_CONNECTION_STRING="+lazulitest.Start(t).ConnectionString()) // It comes first.
			var problems strings.Builder
			cmd.Stderr = &problems
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("%v\n%s%s", err, out, problems.String())
			}
			golden := filepath.Join(folder, "output.txt")
			if *update {
				if err := os.WriteFile(golden, out, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(string(want), string(out)); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		})
	}
}

// program is the environment variable with the folder of the program that the file of [linked] is.
const program = "LAZULI_PATTERN"

// linked links the programs into one file, as 16 links would take most of the test's time. A package main cannot be
// imported, so the compiler reads each program as a package with the function Main; see -overlay in `go help build`.
func linked(t *testing.T, folders []string) string {
	t.Helper()
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	temporary, replace := t.TempDir(), map[string]string{}
	place := func(folder, source string) {
		to := filepath.Join(temporary, folder+".go")
		replace[filepath.Join(here, folder, "main.go")] = to
		if err := os.WriteFile(to, []byte(source), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var imports, calls strings.Builder
	for i, folder := range folders {
		source, err := os.ReadFile(filepath.Join(folder, "main.go"))
		if err != nil {
			t.Fatal(err)
		}
		text := strings.Replace(string(source), "\npackage main\n", "\npackage program\n", 1)
		text = strings.Replace(text, "\nfunc main()", "\nfunc Main()", 1)
		place(folder, text)
		fmt.Fprintf(&imports, "import p%d %q\n", i, "github.com/lazuli-storage/lazuli/examples/patterns/"+folder)
		fmt.Fprintf(&calls, "\tcase %q:\n\t\tp%d.Main()\n", folder, i)
	}
	place("all", fmt.Sprintf("package main\n\nimport \"os\"\n%s\nfunc main() {\n\tswitch os.Getenv(%q) {\n%s\t}\n}\n",
		&imports, program, &calls))
	list, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	overlay, file := filepath.Join(temporary, "overlay.json"), filepath.Join(temporary, "all.exe")
	if err := os.WriteFile(overlay, list, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("go", "build", "-ldflags=-s -w", "-overlay", overlay, "-o", file, "./all").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return file
}
