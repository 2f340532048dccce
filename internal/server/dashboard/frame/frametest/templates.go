// Package frametest checks the pages that lean on package frame.
package frametest

import (
	"fmt"
	"io/fs"
	"maps"
	"reflect"
	"slices"
	"testing"
	"text/template/parse"

	"github.com/lazuli-storage/lazuli/internal/server/dashboard/frame"
)

// Templates compares each template of a folder with the model of its page, branches included that no page of a test
// takes: each field that the template names exists, and the template uses each field of the model. models are those of
// all pages of the folder.
func Templates(t *testing.T, from fs.FS, models ...frame.Model) {
	t.Helper()
	pages := frame.Parse(from)
	for _, m := range models {
		t.Run(m.Template(), func(t *testing.T) {
			tree := pages[m.Template()]
			if tree == nil {
				t.Fatal("there is no such template")
			}
			delete(pages, m.Template())
			c := templateCheck{t: t, data: reflect.TypeOf(m), used: map[string]bool{}}
			c.list(tree.Lookup("content").Tree.Root, reflect.TypeFor[frame.Page](), map[string]reflect.Type{})
			for i := range c.data.NumField() {
				if f := c.data.Field(i); !f.Anonymous && !c.used[f.Name] {
					t.Errorf("the template does not use %s", f.Name)
				}
			}
		})
	}
	for _, name := range slices.Sorted(maps.Keys(pages)) {
		t.Errorf("%s.html has no model", name)
	}
}

// templateCheck follows the types of a template. A nil type is not known, and everything that comes of it neither.
type templateCheck struct {
	t    testing.TB
	data reflect.Type // of frame.Page.Data
	used map[string]bool
}

func (c *templateCheck) list(l *parse.ListNode, dot reflect.Type, vars map[string]reflect.Type) {
	if l == nil {
		return
	}
	// A variable ends with the list that declares it, so each list has a copy.
	vars = maps.Clone(vars)
	if vars["$"] == nil {
		vars["$"] = dot
	}
	for _, n := range l.Nodes {
		switch n := n.(type) {
		case *parse.ActionNode:
			c.pipe(n.Pipe, dot, vars)
		case *parse.TemplateNode:
			c.pipe(n.Pipe, dot, vars)
		case *parse.IfNode:
			c.pipe(n.Pipe, dot, vars)
			c.list(n.List, dot, vars)
			c.list(n.ElseList, dot, vars)
		case *parse.WithNode:
			c.list(n.List, c.pipe(n.Pipe, dot, vars), vars)
			c.list(n.ElseList, dot, vars)
		case *parse.RangeNode:
			inner := maps.Clone(vars)
			of := c.pipe(n.Pipe, dot, inner)
			var elem reflect.Type
			if of != nil && slices.Contains([]reflect.Kind{reflect.Slice, reflect.Array, reflect.Map}, of.Kind()) {
				elem = of.Elem()
			}
			// The last variable is the element, one before it the index, whose type no template uses.
			for i, v := range n.Pipe.Decl {
				inner[v.Ident[0]] = nil
				if i == len(n.Pipe.Decl)-1 {
					inner[v.Ident[0]] = elem
				}
			}
			c.list(n.List, elem, inner)
			c.list(n.ElseList, dot, vars)
		}
	}
}

// pipe returns the type of the last command, and declares the variables of the pipeline.
func (c *templateCheck) pipe(p *parse.PipeNode, dot reflect.Type, vars map[string]reflect.Type) (out reflect.Type) {
	if p == nil {
		return nil
	}
	for _, cmd := range p.Cmds {
		for i, arg := range cmd.Args {
			if t := c.node(arg, dot, vars); i == 0 {
				out = t
			}
		}
	}
	for _, v := range p.Decl {
		vars[v.Ident[0]] = out
	}
	return out
}

func (c *templateCheck) node(n parse.Node, dot reflect.Type, vars map[string]reflect.Type) reflect.Type {
	switch n := n.(type) {
	case *parse.DotNode:
		return dot
	case *parse.FieldNode:
		return c.chain(n, dot, n.Ident)
	case *parse.VariableNode:
		return c.chain(n, vars[n.Ident[0]], n.Ident[1:])
	case *parse.ChainNode:
		return c.chain(n, c.node(n.Node, dot, vars), n.Field)
	case *parse.PipeNode:
		return c.pipe(n, dot, vars)
	case *parse.IdentifierNode:
		if f := reflect.TypeOf(frame.Functions[n.Ident]); f != nil && f.Kind() == reflect.Func {
			return f.Out(0)
		}
	}
	return nil
}

// chain follows the names of fields and methods.
func (c *templateCheck) chain(n parse.Node, t reflect.Type, names []string) reflect.Type {
	for _, name := range names {
		if t == nil {
			return nil
		}
		if t == c.data {
			c.used[name] = true
		}
		if m, ok := t.MethodByName(name); ok {
			t = m.Type.Out(0)
			continue
		}
		if t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		if t.Kind() == reflect.Map {
			t = t.Elem()
			continue
		}
		if t.Kind() != reflect.Struct {
			return nil
		}
		f, ok := t.FieldByName(name)
		if !ok {
			c.t.Errorf("%s: %s has no %s", fmt.Sprint(n), t, name)
			return nil
		}
		if t = f.Type; t == reflect.TypeFor[frame.Model]() {
			t = c.data
		}
	}
	return t
}
