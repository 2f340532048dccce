package lint

import (
	"flag"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/test/prose"
)

var rewrap = flag.Bool("rewrap", false, "wrap the prose of all pages")

// Prose has lines of at most prose.Columns. `go test ./internal/test/lint -run TestProseIsWrapped -rewrap` wraps it.
// Generators of pages wrap what they write themselves.
func TestProseIsWrapped(t *testing.T) {
	t.Parallel()
	out, err := exec.Command("git", "-C", top, "ls-files", "*.md").Output()
	if err != nil {
		t.Skipf("not a git checkout: %v", err)
	}
	pages := strings.Fields(string(out))
	if len(pages) < 50 {
		t.Fatalf("found %d pages; the rule would check nothing", len(pages))
	}
	for _, page := range pages {
		if strings.Contains(page, "testdata/") {
			continue
		}
		text, err := os.ReadFile(top + page)
		if os.IsNotExist(err) {
			continue // removed, and not committed yet
		}
		if err != nil {
			t.Fatal(err)
		}
		if !*rewrap {
			for _, number := range prose.Long(string(text)) {
				t.Errorf("%s:%d: a line of prose with more than %d characters: run this test with -rewrap", page, number,
					prose.Columns)
			}
			continue
		}
		if err := os.WriteFile(top+page, []byte(prose.Wrap(string(text))), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
