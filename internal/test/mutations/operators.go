package main

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"slices"
	"strings"
)

// mutant is a change of one place. Its edits only insert text, so that mutants inside each other do not disturb each
// other, and the program behaves as before until the mutant is chosen.
type mutant struct {
	operator, file string
	line           int
	function       string
	text           string // the line of the source
	from, to       int    // the place, in bytes of the file
	// before and after are what is inserted around the place; %d is the mutant's number.
	before, after string
}

// name identifies the mutant while its line and the text before it stay.
func (m *mutant) name() string {
	return fmt.Sprintf("%s:%d %s (%s)", m.file, m.line, m.operator, m.function)
}

// source is a parsed file of a package, with the types of its expressions.
type source struct {
	path, text string
	file       *ast.File
	position   func(token.Pos) token.Position
	info       *types.Info
	// sizes are the sums in arguments of make: a larger capacity changes nothing.
	sizes map[ast.Expr]bool
}

// operators are the changes, by the name that a report has.
//
//   - negate: a condition of an if is its opposite, unless the if only logs.
//   - off by one: < is <=, <= is <, and the same for > and >=.
//   - one more: a sum or difference with 1 is one more.
//   - drop: a call, assignment or increment that stands alone is left out.
//   - ignore the error: a returned error is nil.
//   - drop the sync: a file or a folder is not synced.
//   - return early: a function without results, or with named ones, does nothing.
func (s *source) operators() (found []*mutant) {
	for _, declaration := range s.file.Decls {
		f, ok := declaration.(*ast.FuncDecl)
		if !ok || f.Body == nil {
			continue
		}
		add := func(operator string, at ast.Node, before, after string) {
			p := s.position(at.Pos())
			found = append(found, &mutant{operator: operator, line: p.Line, function: f.Name.Name, file: s.path,
				text: strings.TrimSpace(strings.Split(s.text, "\n")[p.Line-1]),
				from: p.Offset, to: s.position(at.End()).Offset, before: before, after: after})
		}
		s.earlyReturn(f, add)
		ast.Inspect(f.Body, func(n ast.Node) bool {
			s.mutate(n, f, add)
			return true
		})
	}
	return found
}

// dropSync is the operator of which a sample always has some.
const dropSync = "drop the sync"

type adder func(operator string, at ast.Node, before, after string)

func (s *source) mutate(n ast.Node, f *ast.FuncDecl, add adder) {
	switch n := n.(type) {
	case *ast.IfStmt:
		if s.onlyLogs(n) {
			return
		}
		add("negate", n.Cond, "(mutantOn(%d) != bool(", "))")
	case *ast.BinaryExpr:
		s.binary(n, add)
	case *ast.BlockStmt:
		s.statements(n.List, add)
	case *ast.CaseClause:
		s.statements(n.Body, add)
	case *ast.CommClause:
		s.statements(n.Body, add)
	case *ast.CallExpr:
		if f, ok := n.Fun.(*ast.Ident); ok && f.Name == "make" && len(n.Args) == 3 {
			ast.Inspect(n.Args[2], func(inside ast.Node) bool {
				if e, ok := inside.(ast.Expr); ok {
					s.sizes[e] = true
				}
				return true
			})
		}
		if isSync(n) && s.isError(n) {
			add(dropSync, n, "mutantSync(%d, func() error { return ", "})")
		}
	case *ast.ReturnStmt:
		// A call is left out: what it returns may be more than an error.
		if len(n.Results) == 0 {
			return
		}
		last := n.Results[len(n.Results)-1]
		if s.isError(last) {
			add("ignore the error", last, "mutantErr(%d, ", ")")
		}
	}
}

// onlyLogs reports whether an if does nothing but log: no test has to notice that a line is missing.
func (s *source) onlyLogs(n *ast.IfStmt) bool {
	return n.Else == nil && !slices.ContainsFunc(n.Body.List, func(statement ast.Stmt) bool {
		e, ok := statement.(*ast.ExprStmt)
		if !ok {
			return true
		}
		call, ok := e.X.(*ast.CallExpr)
		if !ok {
			return true
		}
		f, ok := call.Fun.(*ast.SelectorExpr)
		return !ok || !slices.Contains([]string{"Debug", "Info", "Warn", "Error"}, f.Sel.Name)
	})
}

func (s *source) isError(e ast.Expr) bool {
	t := s.info.TypeOf(e)
	return t != nil && types.Identical(t, types.Universe.Lookup("error").Type())
}

// isSync reports whether a call makes a file or a folder durable.
func isSync(call *ast.CallExpr) bool {
	switch f := call.Fun.(type) {
	case *ast.SelectorExpr:
		return f.Sel.Name == "Sync" && len(call.Args) == 0 || f.Sel.Name == "SyncDir" || f.Sel.Name == "Fdatasync"
	case *ast.Ident:
		return f.Name == "SyncDir"
	}
	return false
}

// binary mutates comparisons and sums.
func (s *source) binary(e *ast.BinaryExpr, add adder) {
	other := map[token.Token]string{token.LSS: "<=", token.LEQ: "<", token.GTR: ">=", token.GEQ: ">"}
	if t := s.info.Types[e]; t.Value != nil { // a constant
		return
	}
	switch e.Op {
	case token.LSS, token.LEQ, token.GTR, token.GEQ:
		// Both sides are evaluated twice where the mutant is chosen.
		if pure(e.X) && pure(e.Y) {
			add("off by one", e, fmt.Sprintf("(mutantOn(%%d) && %s %s %s || !mutantOn(%%[1]d) && ",
				escape(s.of(e.X)), other[e.Op], escape(s.of(e.Y))), ")")
		}
	case token.ADD, token.SUB:
		value := s.info.Types[e.Y].Value
		basic, ok := s.info.TypeOf(e).Underlying().(*types.Basic)
		if !ok || basic.Info()&types.IsInteger == 0 || value == nil || s.sizes[e] {
			return
		}
		if constant.Compare(value, token.EQL, constant.MakeInt64(1)) {
			add("one more", e, "mutantAdd(%d, ", ")")
		}
	}
}

// of returns the source text of a node.
func (s *source) of(n ast.Node) string {
	return s.text[s.position(n.Pos()).Offset:s.position(n.End()).Offset]
}

func escape(text string) string { return strings.ReplaceAll(text, "%", "%%") }

// pure reports whether an expression can be evaluated twice without another effect: it calls nothing but len.
func pure(e ast.Expr) bool {
	ok := true
	ast.Inspect(e, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			f, isName := n.Fun.(*ast.Ident)
			ok = ok && isName && (f.Name == "len" || f.Name == "cap" || f.Name == "int" || f.Name == "int64" ||
				f.Name == "uint64")
		case *ast.FuncLit:
			ok = false
		case *ast.UnaryExpr:
			ok = ok && n.Op != token.ARROW
		}
		return ok
	})
	return ok
}

// kept are calls that are not dropped: without them a program waits without an end, or says less, whatever it stores.
var kept = map[string]bool{"Lock": true, "Unlock": true, "RLock": true, "RUnlock": true, "panic": true, "Debug": true,
	"Info": true, "Warn": true, "Error": true, "Done": true, "Wait": true, "close": true, "Close": true, "Broadcast": true}

// statements mutates the statements of a block, each alone.
func (s *source) statements(list []ast.Stmt, add adder) {
	for _, statement := range list {
		switch n := statement.(type) {
		case *ast.ExprStmt:
			call, ok := n.X.(*ast.CallExpr)
			if !ok {
				continue
			}
			name := s.of(call.Fun)
			if !kept[name[strings.LastIndex(name, ".")+1:]] {
				add("drop", n, "if !mutantOn(%d) { ", " }")
			}
		case *ast.AssignStmt:
			if n.Tok != token.DEFINE && !blank(n.Lhs) {
				add("drop", n, "if !mutantOn(%d) { ", " }")
			}
		case *ast.IncDecStmt:
			add("drop", n, "if !mutantOn(%d) { ", " }")
		}
	}
}

// blank reports whether an assignment only says that a value is not used.
func blank(names []ast.Expr) bool {
	for _, e := range names {
		if name, ok := e.(*ast.Ident); !ok || name.Name != "_" {
			return false
		}
	}
	return true
}

// earlyReturn lets a function do nothing. The other operators reach all of a function of one statement.
func (s *source) earlyReturn(f *ast.FuncDecl, add adder) {
	results := f.Type.Results
	named := results == nil || len(results.List) == 0 || len(results.List[0].Names) > 0
	if !named || len(f.Body.List) < 2 || strings.HasPrefix(f.Name.Name, "close") || f.Name.Name == "Close" {
		return
	}
	add("return early", f.Body.List[0], "if mutantOn(%d) { return }; ", "")
}
