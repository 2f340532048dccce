package lint

import (
	"cmp"
	"fmt"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
)

// public are the packages that other programs import. All other packages of the module are commands, examples, or below
// a folder internal.
var public = []string{"tables", "workers/...", "functions", "lazulitest", "server", "tablesvc", "queuesvc", "blobsvc"}

// names are the exported names of the packages whose first page of godoc is longest. The numbers only fall; a package
// that is not here exports at most maxNames.
var names = map[string]int{"workers": 140, "tables": 90, "workers/durable": 44}

const maxNames = 60

// A program outside of the module can neither name nor make an internal type: a field, parameter or result with such a
// type is of no use to it, and the exported name promises something that cannot be had.
func TestPublicSignaturesHaveNoInternalTypes(t *testing.T) {
	exports := exportData(t)
	imported := importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(exports[path])
	})
	checked := 0
	for _, p := range list(t, "./...") {
		if strings.Contains("/"+p.name()+"/", "/internal/") || matches("examples/...", p.name()) ||
			p.Name == "main" || p.Name == "servertest" || len(p.GoFiles) == 0 {
			continue
		}
		if !slices.ContainsFunc(public, func(pattern string) bool { return matches(pattern, p.name()) }) {
			t.Errorf("%s is a public package that is not in the list: move it below internal", p.name())
			continue
		}
		pkg, err := imported.Import(p.ImportPath)
		if err != nil {
			t.Fatal(err)
		}
		checked++
		checkNames(t, p.name(), pkg)
		if found := leaks(pkg); len(found) > 0 {
			t.Errorf("%s has internal types in exported signatures:\n\t%s", p.name(), strings.Join(found, "\n\t"))
		}
	}
	if checked < len(public) {
		t.Errorf("checked %d packages; the list has %d patterns", checked, len(public))
	}
}

// checkNames bounds what a reader of godoc has to look through. Methods and fields are below their types.
func checkNames(t *testing.T, name string, pkg *types.Package) {
	t.Helper()
	n := 0
	for _, exported := range pkg.Scope().Names() {
		if token.IsExported(exported) {
			n++
		}
	}
	t.Logf("%-40s %3d exported names", name, n)
	if most := cmp.Or(names[name], maxNames); n > most {
		t.Errorf("%s exports %d names, more than %d: make some fields or methods of others, or give them a package", name, n,
			most)
	}
}

// exportData returns the files of the packages' exported types, by import path.
func exportData(t *testing.T) map[string]string {
	t.Helper()
	files, err := exported()
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// exported builds the packages, once for all tests.
var exported = sync.OnceValues(func() (map[string]string, error) {
	cmd := exec.Command("go", "list", "-deps", "-export", "-f", "{{.ImportPath}} {{.Export}}", "./...")
	cmd.Dir = top
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	files := map[string]string{}
	for line := range strings.Lines(string(out)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		files[path] = file
	}
	return files, err
})

// leaks returns the exported names of a package, its types' fields and methods included, that have an internal type in
// their signature, each with the types.
func leaks(pkg *types.Package) (found []string) {
	report := func(name string, t types.Type) {
		var w wall
		w.walk(t)
		if len(w.behind) > 0 {
			found = append(found, fmt.Sprintf("%s: %s", name, strings.Join(w.behind, ", ")))
		}
	}
	for _, name := range pkg.Scope().Names() {
		object := pkg.Scope().Lookup(name)
		if !object.Exported() {
			continue
		}
		named, ok := object.Type().(*types.Named)
		if _, isType := object.(*types.TypeName); !isType || !ok || named.Obj() != object {
			report(name, object.Type()) // a function, variable or alias
			continue
		}
		// Of a type declared here, what counts is what a program reaches: exported fields and methods.
		if fields, ok := named.Underlying().(*types.Struct); ok {
			for _, f := range reachable(fields) {
				report(name+"."+f.Name(), f.Type())
			}
		} else if named.TypeParams().Len() == 0 || !types.IsInterface(named) {
			report(name, named.Underlying())
		}
		// Of an interface, what its methods have is checked above. Of other types the method set has those of embedded
		// fields too, under whatever name they are embedded.
		if !types.IsInterface(named) {
			for m := range types.NewMethodSet(types.NewPointer(named)).Methods() {
				if m.Obj().Exported() {
					report(name+"."+m.Obj().Name(), m.Type())
				}
			}
		}
	}
	return found
}

// reachable returns the exported fields of a struct, with those of what it embeds under an unexported name, which are
// fields of the struct to a program outside. What is below an exported field counts by that field's type.
func reachable(s *types.Struct) (fields []*types.Var) {
	for f := range s.Fields() {
		t := f.Type()
		if p, ok := t.(*types.Pointer); ok {
			t = p.Elem()
		}
		switch embedded, ok := t.Underlying().(*types.Struct); {
		case f.Exported():
			fields = append(fields, f)
		case f.Embedded() && ok:
			fields = append(fields, reachable(embedded)...)
		}
	}
	return fields
}

// wall collects the internal types of this module that a type is made of.
type wall struct {
	behind []string
}

func (w *wall) walk(t types.Type) {
	switch t := t.(type) {
	case *types.Named:
		w.name(t.Obj())
		for arg := range t.TypeArgs().Types() {
			w.walk(arg)
		}
	case *types.Alias:
		// An alias lets a program name the type: what is behind it counts, where the alias is declared.
		if t.Obj().Pkg() != nil && strings.Contains("/"+t.Obj().Pkg().Path()+"/", "/internal/") {
			w.name(t.Obj())
		}
		for arg := range t.TypeArgs().Types() {
			w.walk(arg)
		}
	case interface{ Elem() types.Type }: // pointer, slice, array, channel, map
		if m, ok := t.(*types.Map); ok {
			w.walk(m.Key())
		}
		w.walk(t.Elem())
	case *types.Signature:
		for v := range t.Params().Variables() {
			w.walk(v.Type())
		}
		for v := range t.Results().Variables() {
			w.walk(v.Type())
		}
	case *types.Struct:
		for f := range t.Fields() {
			w.walk(f.Type())
		}
	case *types.Interface:
		for m := range t.ExplicitMethods() {
			// A program outside can neither call nor implement an unexported method.
			if m.Exported() {
				w.walk(m.Type())
			}
		}
	}
}

// name notes the type of a declaration if it is internal.
func (w *wall) name(declared *types.TypeName) {
	if declared.Pkg() == nil {
		return
	}
	path, inside := strings.CutPrefix(declared.Pkg().Path(), module)
	if inside && strings.Contains("/"+path+"/", "/internal/") {
		w.behind = append(w.behind, path+"."+declared.Name())
	}
}
