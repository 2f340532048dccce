package lint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// syncsPage lists the functions of the product that make something durable.
const syncsPage = "internal/test/lint/syncs.md"

// A sync that is removed, or comes after what relies on it, does no harm until the power fails: no other test notices.
// So each has a row that says what relies on it, and a new one is not forgotten when the tests of a disk are written.
func TestEachSyncHasItsRow(t *testing.T) {
	t.Parallel()
	found := map[string]bool{}
	eachSource(t, func(path, text string) {
		if strings.HasSuffix(path, "_test.go") || strings.HasPrefix(path, "internal/test/") ||
			strings.HasPrefix(path, "cmd/lazuli-lab/") || strings.HasPrefix(path, "examples/") {
			return
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, text, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			if name := nameOf(d); syncs(d) {
				found[path+" "+name] = true
			}
		}
	})
	rows := map[string]string{}
	row := regexp.MustCompile("(?m)^\\| `([^`]+)` `(\\w+)` \\| [^|]+ \\|([^|]*)\\|$")
	for _, m := range row.FindAllStringSubmatch(read(t, syncsPage), -1) {
		rows[m[1]+" "+m[2]] = strings.TrimSpace(m[3])
	}
	for _, place := range slices.Sorted(maps.Keys(found)) {
		if _, ok := rows[place]; !ok {
			t.Errorf("%s makes something durable and has no row in %s", place, syncsPage)
		}
	}
	for _, place := range slices.Sorted(maps.Keys(rows)) {
		if !found[place] {
			t.Errorf("%s has a row in %s, and syncs nothing", place, syncsPage)
		}
		if rows[place] == "" {
			t.Errorf("%s: the row names no test that fails without the sync, and no reason why none can", place)
		}
	}
}

// nameOf returns the name of a function, or of the first variable of a declaration, which may be a function.
func nameOf(d ast.Decl) string {
	switch d := d.(type) {
	case *ast.FuncDecl:
		return d.Name.Name
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			if v, ok := spec.(*ast.ValueSpec); ok {
				return v.Names[0].Name
			}
		}
	}
	return ""
}

// syncCalls are the functions that make a file, a folder or a file system durable, beside methods Sync.
var syncCalls = []string{"SyncDir", "Fdatasync", "Fsync", "Syncfs", "Msync", "FlushFileBuffers"}

// syncs reports whether a declaration calls a method Sync, or a function that syncs, itself or in a function inside it.
func syncs(d ast.Decl) (found bool) {
	ast.Inspect(d, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		switch fun := call.Fun.(type) {
		case *ast.SelectorExpr:
			found = found || fun.Sel.Name == "Sync" && len(call.Args) == 0 || slices.Contains(syncCalls, fun.Sel.Name)
		case *ast.Ident:
			found = found || slices.Contains(syncCalls, fun.Name)
		}
		return true
	})
	return found
}
