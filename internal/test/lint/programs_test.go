package lint

import (
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// goBlock is a piece of Go in a page, and clause what makes it a whole file.
var (
	goBlock = regexp.MustCompile("(?s)\n```go\n(.*?)\n```")
	clause  = regexp.MustCompile(`(?m)^package \w+$`)
)

// The whole programs of the pages compile: they are what a newcomer copies first. A test is compiled with the program
// before it on its page. Pieces without a package clause are not checked.
func TestProgramsOfThePagesCompile(t *testing.T) {
	exports := exportData(t)
	set := token.NewFileSet()
	imports := importer.ForCompiler(set, "gc", func(path string) (io.ReadCloser, error) {
		file := exports[path]
		if file == "" {
			return nil, fmt.Errorf("no package of this module imports %s", path)
		}
		return os.Open(file)
	})
	pages, err := filepath.Glob(filepath.Join(top, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, page := range append(pages, filepath.Join(top, "README.md")) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		var program []*ast.File
		for i, block := range goBlock.FindAllStringSubmatch(string(text), -1) {
			if !clause.MatchString(block[1]) {
				continue
			}
			name := fmt.Sprintf("%s, block %d", filepath.Base(page), i+1)
			file, err := parser.ParseFile(set, name, block[1], parser.SkipObjectResolution)
			if err != nil {
				t.Error(err)
				continue
			}
			if !strings.Contains(block[1], `"testing"`) {
				program = nil
			}
			program = append(program, file)
			config := types.Config{Importer: imports, Error: func(err error) { t.Error(err) }}
			_, _ = config.Check(file.Name.Name, set, program, nil) // each error was reported
			checked++
		}
	}
	if checked < 5 {
		t.Errorf("checked %d programs; the pages have more", checked)
	}
}
