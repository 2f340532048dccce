package lint

import (
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// walks are the ways of the commonest operations: the function at which each begins, the parameter to follow, and how
// many functions, files and packages of this module a reader passes at most. docs/design/walks.md has what they were;
// the bounds have room for a function or two, and only fall.
// `go test -v -run TestWalks ./internal/test/lint` prints each way.
var walks = []struct {
	operation, from, parameter string
	functions, files, packages int
}{
	{"Insert Entity", "(*tablesvc.Service).insertEntity", "c", 22, 11, 4},
	{"Put Message", "(*queuesvc.Service).putMessage", "c", 20, 10, 3},
	{"Get Messages", "(*queuesvc.Service).getMessages", "c", 16, 8, 3},
	{"Put Blob of a block blob", "(*blobsvc.Service).putBlockBlob", "c", 27, 14, 3},
	{"Put Blob of a page blob", "(*blobsvc.Service).createPageBlob", "c", 27, 14, 3},
	{"Put Blob of an append blob", "(*blobsvc.Service).createAppendBlob", "c", 25, 14, 3},
	{"Get Blob", "(*blobsvc.Service).getBlob", "c", 28, 12, 3},
	{"Copy Blob", "(*blobsvc.Service).copyBlob", "c", 27, 15, 3},
	{"List Blobs", "(*blobsvc.Service).listBlobs", "c", 31, 10, 4},
	{"List Paths", "(*blobsvc/internal/lakesvc.Service).listPaths", "c", 17, 8, 3},
	{"Copy Blob From URL", "(*blobsvc.Service).copyBlobFromURL", "c", 29, 16, 3},
	{"Data Lake rename", "(*blobsvc/internal/lakesvc.Service).renamePath", "c", 21, 10, 3},
	{"a message of a queue handler", "(*workers/internal/trigger.delivery).run", "d", 20, 4, 2},
	{"an activity is taken", "(*internal/durable/hub.activities).accept", "messages", 18, 9, 3},
	{"a call of a function in JavaScript", "(*functions.Host).call", "inv", 15, 8, 1},
}

func TestWalks(t *testing.T) {
	t.Parallel()
	w := newWalker(t)
	for _, want := range walks {
		w.functions, w.files, w.packages = nil, map[string]bool{}, map[string]bool{}
		w.seen = map[string]bool{}
		w.follow(want.from, want.parameter)
		t.Logf("%s: %d functions, %d files, %d packages: %s", want.operation, len(w.functions), len(w.files),
			len(w.packages), strings.Join(w.functions, ", "))
		if len(w.functions) == 0 {
			t.Errorf("%s: %s has no parameter %s", want.operation, want.from, want.parameter)
		}
		if len(w.functions) > want.functions || len(w.files) > want.files || len(w.packages) > want.packages {
			t.Errorf("%s passes %d functions in %d files of %d packages, more than %d, %d and %d", want.operation,
				len(w.functions), len(w.files), len(w.packages), want.functions, want.files, want.packages)
		}
	}
}

// walker follows a value through the calls that pass it on: to the functions that get it, or a struct that was made of
// it or of its parts, as an argument or receiver. It follows no results, no part alone (the state of a service is a
// part of each of its calls), and no call by an interface or a function value, where a comment has to name the next
// step.
type walker struct {
	t        *testing.T
	set      *token.FileSet
	importer types.Importer
	places   map[string]pkg // by import path
	checked  map[string]*types.Info
	declared map[string]*ast.FuncDecl // by the function's full name below the module

	seen            map[string]bool // functions with the followed parameter
	functions       []string
	files, packages map[string]bool
}

func newWalker(t *testing.T) *walker {
	exports := exportData(t)
	w := &walker{t: t, set: token.NewFileSet(), places: map[string]pkg{}, checked: map[string]*types.Info{},
		declared: map[string]*ast.FuncDecl{}}
	w.importer = importer.ForCompiler(w.set, "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(exports[path])
	})
	for _, p := range list(t, "./...") {
		w.places[p.ImportPath] = p
	}
	return w
}

// check parses and checks a package once, with the bodies of its functions.
func (w *walker) check(path string) *types.Info {
	if info, ok := w.checked[path]; ok {
		return info
	}
	p := w.places[path]
	files := make([]*ast.File, 0, len(p.GoFiles))
	for _, name := range p.GoFiles {
		f, err := parser.ParseFile(w.set, filepath.Join(p.Dir, name), nil, 0)
		if err != nil {
			w.t.Fatal(err)
		}
		files = append(files, f)
	}
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}, Defs: map[*ast.Ident]types.Object{},
		Selections: map[*ast.SelectorExpr]*types.Selection{}, Types: map[ast.Expr]types.TypeAndValue{}}
	config := types.Config{Importer: w.importer}
	if _, err := config.Check(path, w.set, files, info); err != nil {
		w.t.Fatal(err)
	}
	for id, object := range info.Defs {
		if f, ok := object.(*types.Func); ok {
			w.declared[fullName(f)] = nil
			for _, file := range files {
				for _, d := range file.Decls {
					if d, ok := d.(*ast.FuncDecl); ok && d.Name == id {
						w.declared[fullName(f)] = d
					}
				}
			}
		}
	}
	w.checked[path] = info
	return info
}

// fullName names a function as the table walks does.
func fullName(f *types.Func) string { return strings.ReplaceAll(f.Origin().FullName(), module, "") }

// packageOf returns the import path of the package in a full name.
func packageOf(name string) string {
	name = strings.TrimLeft(name, "(*")
	folder, rest := "", name
	if i := strings.LastIndex(name, "/"); i >= 0 {
		folder, rest = name[:i+1], name[i+1:]
	}
	last, _, _ := strings.Cut(rest, ".")
	return module + folder + last
}

// follow follows a parameter of a function, which may be its receiver.
func (w *walker) follow(name, parameter string) {
	key := name + " " + parameter
	path := packageOf(name)
	if _, ours := w.places[path]; !ours || w.seen[key] {
		return
	}
	w.seen[key] = true
	info := w.check(path)
	d := w.declared[name]
	if d == nil || d.Body == nil {
		return
	}
	followed := map[types.Object]bool{}
	for _, list := range []*ast.FieldList{d.Recv, d.Type.Params} {
		if list == nil {
			continue
		}
		for _, field := range list.List {
			for _, id := range field.Names {
				if id.Name == parameter {
					followed[info.Defs[id]] = true
				}
			}
		}
	}
	if len(followed) == 0 {
		return
	}
	if !slices.Contains(w.functions, name) {
		w.functions = append(w.functions, name)
	}
	w.files[w.set.Position(d.Pos()).Filename] = true
	w.packages[path] = true
	b := body{info, followed}
	// What is assigned can be assigned further: until nothing new is followed.
	for n := -1; n != len(followed); {
		n = len(followed)
		ast.Inspect(d.Body, b.assign)
	}
	ast.Inspect(d.Body, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			w.call(b, call)
		}
		return true
	})
}

// call follows a call that passes a followed value on.
func (w *walker) call(b body, call *ast.CallExpr) {
	fun := ast.Unparen(call.Fun)
	switch x := fun.(type) { // of a generic function with its types
	case *ast.IndexExpr:
		fun = x.X
	case *ast.IndexListExpr:
		fun = x.X
	}
	var id *ast.Ident
	var receiver ast.Expr
	switch x := fun.(type) {
	case *ast.Ident:
		id = x
	case *ast.SelectorExpr:
		id = x.Sel
		if s := b.info.Selections[x]; s != nil && s.Kind() == types.MethodVal {
			receiver = x.X
		}
	default:
		return
	}
	f, ok := b.info.Uses[id].(*types.Func)
	if !ok {
		return
	}
	s := f.Origin().Signature()
	if receiver != nil && b.has(receiver) {
		w.follow(fullName(f), s.Recv().Name())
	}
	for i, argument := range call.Args {
		if b.has(argument) && s.Params().Len() > 0 {
			w.follow(fullName(f), s.Params().At(min(i, s.Params().Len()-1)).Name())
		}
	}
}

// body is the body of a function with what is followed in it.
type body struct {
	info     *types.Info
	followed map[types.Object]bool
}

// assign adds the variables to which a statement assigns what is followed.
func (b body) assign(n ast.Node) bool {
	add := func(to ast.Expr, from ast.Expr) {
		id, ok := to.(*ast.Ident)
		if !ok || !b.has(from) {
			return
		}
		if o := b.info.Defs[id]; o != nil {
			b.followed[o] = true
		} else if o := b.info.Uses[id]; o != nil {
			b.followed[o] = true
		}
	}
	switch n := n.(type) {
	case *ast.AssignStmt:
		if len(n.Lhs) == len(n.Rhs) {
			for i := range n.Lhs {
				add(n.Lhs[i], n.Rhs[i])
			}
		}
	case *ast.ValueSpec:
		if len(n.Names) == len(n.Values) {
			for i := range n.Names {
				add(n.Names[i], n.Values[i])
			}
		}
	case *ast.RangeStmt:
		if n.Value != nil {
			add(n.Value, n.X)
		}
	}
	return true
}

// has reports whether an expression is what is followed, or a struct that is made of it.
func (b body) has(e ast.Expr) bool {
	switch e := ast.Unparen(e).(type) {
	case *ast.Ident:
		return b.followed[b.info.Uses[e]]
	case *ast.SelectorExpr: // What is embedded is the same thing under a name of its package.
		v, ok := b.info.Uses[e.Sel].(*types.Var)
		return ok && v.Embedded() && b.has(e.X)
	case *ast.StarExpr:
		return b.has(e.X)
	case *ast.UnaryExpr:
		return b.has(e.X)
	case *ast.TypeAssertExpr:
		return b.has(e.X)
	case *ast.CompositeLit:
		return slices.ContainsFunc(e.Elts, b.mentions)
	case *ast.CallExpr: // a conversion
		return len(e.Args) == 1 && b.info.Types[e.Fun].IsType() && b.has(e.Args[0])
	}
	return false
}

// mentions reports whether what is followed is anywhere in an expression.
func (b body) mentions(e ast.Expr) (found bool) {
	ast.Inspect(e, func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		found = found || ok && b.followed[b.info.Uses[id]]
		return !found
	})
	return found
}
