package patterns

import (
	"flag"
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
	for _, folder := range folders {
		t.Run(folder, func(t *testing.T) {
			t.Parallel()
			// go run keeps what it has linked in the build cache.
			cmd := exec.Command("go", "run", "-ldflags=-s -w", "./"+folder)
			cmd.Env = append(os.Environ(), "AzureWebJobsStorage=UseDevelopmentStorage=true",
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
