package main

import (
	"go/ast"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// body notes the elements of a body, if a call writes it: runtime.MarshalAsXML(req, value), or MarshalAsJSON.
func (s *source) body(o *operation, call *ast.CallExpr, f *ast.FuncDecl, locals map[string]ast.Expr) {
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || !slices.Contains([]string{"MarshalAsXML", "MarshalAsJSON"}, sel.Sel.Name) || len(call.Args) != 2 {
		return
	}
	switch value := call.Args[1].(type) {
	case *ast.Ident:
		s.elements(o, s.structs[typeName(locals[value.Name])], "")
	case *ast.CompositeLit: // of a type that the function declares for it
		ast.Inspect(f.Body, func(n ast.Node) bool {
			if spec, ok := n.(*ast.TypeSpec); ok && isIdent(value.Type, spec.Name.Name) {
				t, _ := spec.Type.(*ast.StructType)
				s.elements(o, t, "")
			}
			return true
		})
	}
}

// elements notes the elements of a type, which may be nil, below the path of the element that has it.
func (s *source) elements(o *operation, t *ast.StructType, above string) {
	if t == nil {
		return
	}
	for _, f := range t.Fields.List {
		for _, name := range f.Names {
			path := elementName(f, name.Name)
			if path == "" {
				continue
			}
			path = above + path
			if inner := s.structs[typeName(f.Type)]; inner != nil && tagged(inner) {
				s.elements(o, inner, path+">")
				continue
			}
			values := strings.Join(slices.Sorted(slices.Values(s.enums[typeName(f.Type)])), "|")
			if typeName(f.Type) == "bool" {
				values = "false|true"
			}
			o.parameters["element "+path] = values
		}
	}
}

// elementName returns the path of a field's element by its tag; "" for a field that is not an element.
func elementName(f *ast.Field, name string) string {
	if name == "XMLName" || name == "AdditionalProperties" {
		return ""
	}
	if f.Tag == nil { // JSON, whose code is generated as well
		return name
	}
	tag, err := strconv.Unquote(f.Tag.Value)
	if err != nil {
		return ""
	}
	path, _, _ := strings.Cut(reflect.StructTag(tag).Get("xml"), ",")
	return path
}

// tagged reports whether a type has elements of its own.
func tagged(t *ast.StructType) bool {
	return slices.ContainsFunc(t.Fields.List, func(f *ast.Field) bool { return f.Tag != nil })
}
