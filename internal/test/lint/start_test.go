package lint

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A start initialises all packages, so expressions are compiled when they are first used.
func TestExpressionsAreCompiledWhenTheyAreUsed(t *testing.T) {
	t.Parallel()
	variable := regexp.MustCompile(`(?m)^(?:var |\t)\w+\s*= regexp\.MustCompile\(`)
	eachSource(t, func(path, text string) {
		// The package tables imports only the SDK.
		if strings.HasSuffix(path, "_test.go") || strings.HasPrefix(path, "internal/test/") ||
			strings.HasPrefix(path, "tables/") {
			return
		}
		if m := variable.FindString(text); m != "" {
			t.Errorf("%s: %s...): use lazyregexp.New", path, strings.TrimSpace(m))
		}
	})
}

// A module that is linked into the command makes builds longer and the file larger. Section 15 of docs/design has the
// costs of the large ones.
func TestModulesOfTheCommand(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", "./cmd/lazuli")
	cmd.Dir = "../../.."
	cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH=amd64", "CGO_ENABLED=0")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	linked := strings.Fields(string(out))
	slices.Sort(linked)
	linked = slices.Compact(linked)
	text, err := os.ReadFile("testdata/modules.txt")
	if err != nil {
		t.Fatal(err)
	}
	known := strings.Fields(string(text))
	for _, m := range linked {
		if !slices.Contains(known, m) {
			t.Errorf("the command links %s, which testdata/modules.txt does not have: measure its cost in size and build "+
				"time, as docs/design does, before you add it", m)
		}
	}
	for _, m := range known {
		if !slices.Contains(linked, m) {
			t.Errorf("the command no longer links %s: remove it from testdata/modules.txt", m)
		}
	}
}
