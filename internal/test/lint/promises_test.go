package lint

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// eachSource calls visit with the path, relative to the repository, and the text of each Go file.
func eachSource(t *testing.T, visit func(path, text string)) {
	t.Helper()
	err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		path, err = filepath.Rel(top, path)
		visit(filepath.ToSlash(path), string(text))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// The tests that promises.md and syncs.md name exist.
func TestNamedTestsExist(t *testing.T) {
	declared := map[string]bool{}
	declaration := regexp.MustCompile(`(?m)^func (Test\w+|Fuzz\w+)\(`)
	eachSource(t, func(path, text string) {
		if strings.HasSuffix(path, "_test.go") {
			for _, m := range declaration.FindAllStringSubmatch(text, -1) {
				declared[m[1]] = true
			}
		}
	})
	pages := read(t, "internal/test/lint/promises.md") + read(t, syncsPage)
	named := regexp.MustCompile("`((?:Test|Fuzz)\\w+)`").FindAllStringSubmatch(pages, -1)
	if len(named) < 100 {
		t.Errorf("the pages name %d tests", len(named))
	}
	for _, m := range named {
		if !declared[m[1]] {
			t.Errorf("the pages name %s, which is no test", m[1])
		}
	}
}
