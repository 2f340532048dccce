package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"maps"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// source is the generated code of one module.
type source struct {
	version   string              // the service version that the code sends
	functions []*ast.FuncDecl     // those that make requests
	answers   map[string][]string // the headers that are read of an answer, by operation
	fields    map[string]ast.Expr // the types of fields, by "Type.Field"
	structs   map[string]*ast.StructType
	enums     map[string][]string // the values of enumerations, by type
	constants map[string]string   // the values of string constants
}

var (
	handler     = regexp.MustCompile(`^(\w+)HandleResponse$`)
	creator     = regexp.MustCompile(`^(\w+)CreateRequest$`)
	serviceDate = regexp.MustCompile(`^\d{4}-\d{2}-\d{2}$`)
)

// parse reads the generated files in a folder.
func parse(dir string) (*source, error) {
	s := &source{answers: map[string][]string{}, fields: map[string]ast.Expr{}, structs: map[string]*ast.StructType{},
		enums:     map[string][]string{},
		constants: map[string]string{}}
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, d := range f.Decls {
			s.declare(d)
		}
	}
	if len(s.functions) == 0 || s.version == "" {
		return nil, errors.New("no operations or no service version in " + dir)
	}
	return s, nil
}

func (s *source) declare(d ast.Decl) {
	if f, ok := d.(*ast.FuncDecl); ok {
		if f.Recv != nil && handler.MatchString(f.Name.Name) {
			s.answer(f)
		}
		if f.Recv != nil && creator.MatchString(f.Name.Name) {
			s.functions = append(s.functions, f)
			ast.Inspect(f.Body, func(n ast.Node) bool {
				s.noteVersion(text(n))
				return true
			})
		}
		return
	}
	for _, spec := range d.(*ast.GenDecl).Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			if t, ok := spec.Type.(*ast.StructType); ok {
				s.structs[spec.Name.Name] = t
				for _, f := range t.Fields.List {
					for _, name := range f.Names {
						s.fields[spec.Name.Name+"."+name.Name] = f.Type
					}
				}
			}
		case *ast.ValueSpec:
			for i, v := range spec.Values {
				value := text(v)
				if value == "" {
					continue
				}
				s.constants[spec.Names[i].Name] = value
				s.noteVersion(value)
				if t := typeName(spec.Type); t != "" && t != "string" {
					s.enums[t] = append(s.enums[t], value)
				}
			}
		}
	}
}

// answer reads the function that reads an answer: the headers that it gets.
func (s *source) answer(f *ast.FuncDecl) {
	name := operationName(f, "HandleResponse")
	ast.Inspect(f.Body, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) != 1 {
			return true
		}
		get, ok := call.Fun.(*ast.SelectorExpr)
		if !ok || get.Sel.Name != "Get" {
			return true
		}
		if of, ok := get.X.(*ast.SelectorExpr); ok && of.Sel.Name == "Header" && text(call.Args[0]) != "" {
			s.answers[name] = append(s.answers[name], text(call.Args[0]))
		}
		return true
	})
}

// operationName returns the name of the operation of a function: that of the client, and that of the function without
// what all of its kind end with.
func operationName(f *ast.FuncDecl, end string) string {
	name := strings.TrimSuffix(f.Name.Name, end)
	return strings.TrimSuffix(typeName(f.Recv.List[0].Type), "Client") + "." + strings.ToUpper(name[:1]) + name[1:]
}

// noteVersion takes a string of the code for the service version if it is the latest date.
func (s *source) noteVersion(value string) {
	if serviceDate.MatchString(value) {
		s.version = max(s.version, value)
	}
}

// operation is one operation with its parameters.
type operation struct {
	name, method string
	parameters   map[string]string // values by "header NAME", "query NAME" or "element PATH"
	answers      []string          // headers
}

func (o *operation) write(w io.Writer) {
	fmt.Fprintf(w, "\n%s %s\n", o.name, o.method)
	for _, p := range slices.Sorted(maps.Keys(o.parameters)) {
		fmt.Fprintf(w, "  %s\n", strings.TrimSpace(p+" "+o.parameters[p]))
	}
	slices.Sort(o.answers)
	for _, name := range slices.Compact(o.answers) {
		fmt.Fprintf(w, "  answer %s\n", name)
	}
}

func (s *source) operations() []*operation {
	var list []*operation
	for _, f := range s.functions {
		if o := s.operation(f); o.method != "" { // not a function by hand around a generated one
			list = append(list, o)
		}
	}
	slices.SortFunc(list, func(a, b *operation) int { return strings.Compare(a.name, b.name) })
	return list
}

// operation reads a function that makes a request: its address, and what it puts into the query and the header.
func (s *source) operation(f *ast.FuncDecl) *operation {
	name := operationName(f, "CreateRequest")
	o := &operation{name: name, parameters: map[string]string{}, answers: s.answers[name]}
	locals := map[string]ast.Expr{}
	for _, p := range f.Type.Params.List {
		for _, n := range p.Names {
			locals[n.Name] = p.Type
		}
	}
	ast.Inspect(f.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			if m, ok := strings.CutPrefix(n.Sel.Name, "Method"); ok && isIdent(n.X, "http") {
				o.method = strings.ToUpper(m)
			}
		case *ast.CallExpr:
			if sel, ok := n.Fun.(*ast.SelectorExpr); ok && sel.Sel.Name == "Set" && isIdent(sel.X, "reqQP") && len(n.Args) == 2 {
				o.parameters["query "+text(n.Args[0])] = s.values(n.Args[1], locals)
			}
			s.body(o, n, f, locals)
		case *ast.AssignStmt:
			s.assign(o, n, locals)
		case *ast.BasicLit:
			if _, query, ok := strings.Cut(text(n), "?"); ok {
				pairs, _ := url.ParseQuery(query)
				for name, v := range pairs {
					o.parameters["query "+name] = v[0]
				}
			}
		}
		return true
	})
	return o
}

// assign notes a header that a statement of the form req.Raw().Header[name] = []string{value} sets.
func (s *source) assign(o *operation, n *ast.AssignStmt, locals map[string]ast.Expr) {
	index, ok := n.Lhs[0].(*ast.IndexExpr)
	if !ok {
		return
	}
	if sel, ok := index.X.(*ast.SelectorExpr); !ok || sel.Sel.Name != "Header" {
		return
	}
	name := text(index.Index)
	if sum, ok := index.Index.(*ast.BinaryExpr); ok {
		name = text(sum.X)
	}
	list, ok := n.Rhs[0].(*ast.CompositeLit)
	if name == "" || !ok || len(list.Elts) != 1 {
		return
	}
	value := s.values(list.Elts[0], locals)
	if serviceDate.MatchString(value) {
		value = ""
	}
	o.parameters["header "+name] = value
}

// values returns the values that an expression can have, joined by "|": those of the enumeration, or the constant. ""
// means any.
func (s *source) values(e ast.Expr, locals map[string]ast.Expr) string {
	if v := text(e); v != "" {
		return v
	}
	if id, ok := e.(*ast.Ident); ok && s.constants[id.Name] != "" {
		return s.constants[id.Name]
	}
	var found string
	ast.Inspect(e, func(n ast.Node) bool {
		var t ast.Expr
		switch n := n.(type) {
		case *ast.Ident:
			t = locals[n.Name]
		case *ast.SelectorExpr:
			if id, ok := n.X.(*ast.Ident); ok && locals[id.Name] != nil {
				t = s.fields[typeName(locals[id.Name])+"."+n.Sel.Name]
			}
		}
		if values := s.enums[typeName(t)]; values != nil {
			found = strings.Join(slices.Sorted(slices.Values(values)), "|")
		}
		return found == ""
	})
	return found
}

// text returns the value of a string literal, "" for other nodes.
func text(n ast.Node) string {
	lit, ok := n.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return ""
	}
	v, err := strconv.Unquote(lit.Value)
	if err != nil {
		return ""
	}
	return v
}

// typeName returns the name of a type, of what it points to, or of the elements of a slice.
func typeName(t ast.Expr) string {
	switch t := t.(type) {
	case *ast.Ident:
		return t.Name
	case *ast.StarExpr:
		return typeName(t.X)
	case *ast.ArrayType:
		return typeName(t.Elt)
	}
	return ""
}

func isIdent(e ast.Expr, name string) bool {
	id, ok := e.(*ast.Ident)
	return ok && id.Name == name
}
