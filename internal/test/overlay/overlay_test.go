package overlay_test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/overlay"
)

// Tests are built with a file in the place of another, with one more, and without one.
func TestBuildTests(t *testing.T) {
	t.Parallel()
	o := overlay.New(t.TempDir())
	check.OK(t, o.Place("overlay.go", "package overlay\n\nconst placed = 1"))
	check.OK(t, o.Place("more_test.go", `package overlay

import "testing"

func TestMore(*testing.T) { _ = placed }
`))
	check.OK(t, o.Omit("overlay_test.go")) // which would not compile
	program := filepath.Join(t.TempDir(), "tests")
	check.OK(t, o.BuildTests(".", program))
	out, err := exec.Command(program, "-test.list=.").Output()
	if got := strings.Fields(string(out)); err != nil || len(got) != 1 || got[0] != "TestMore" {
		t.Errorf("tests %q, %v; want TestMore alone", got, err)
	}

	check.OK(t, o.Place("overlay.go", "package overlay\n\nfunc ("))
	if err := o.BuildTests(".", program); err == nil || !strings.Contains(err.Error(), "syntax error") {
		t.Errorf("error %v, want the compiler's", err)
	}
}
