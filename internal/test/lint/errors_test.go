package lint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// answered are the services' tables of answers, with the packages whose errors they map, and the exported errors that
// have no answer of the REST API, each with its reason.
var answered = []struct {
	file     string
	packages []string
	without  map[string]string
}{
	{"blobsvc/internal/endpoint/errors.go",
		[]string{"internal/state/blob", "internal/state/blob/lease", "internal/state/blob/record",
			"internal/state/blob/replica", "internal/state/blob/tree", "internal/state/blob/encryption",
			"internal/storage/store"},
		map[string]string{
			"record.ErrSoftDeleted":  "wraps ErrBlobNotFound",
			"record.ErrKey":          "damage: InternalError, and a line in the log",
			"record.ErrMalformed":    "damage: InternalError, and a line in the log",
			"state.ErrTagCondition":  "wraps ErrConditionNotMet",
			"state.ErrExpiry":        "handlers name the header: expiryError",
			"state.ErrSourceChanged": "handlers read the source again: copy_source.go",
			"state.ErrCopyMoved":     "of background work: package copysource",
			"state.ErrFeedMoved":     "of background work: package changefeed",
			"replica.ErrNotWorker":   "of background work: package events",
			"replica.ErrLeft":        "wraps store.ErrUnavailable",
			"replica.ErrOtherMove":   "of background work: package server",
			"replica.ErrLacking":     "of background work: package server",
			"encryption.ErrSeal":     "damage: InternalError, and a line in the log",
		}},
	{"tablesvc/errors.go", []string{"internal/state/table", "internal/storage/store"},
		map[string]string{"state.ErrNotLogged": "of the change feed: feed.go"}},
	{"queuesvc/errors.go", []string{"internal/state/queue", "internal/storage/store"},
		map[string]string{
			"state.ErrNotVisible": "Get Messages passes over the message: the state machine's own",
			"state.ErrPastExpiry": "handlers name the parameter: messages.go, message.go",
		}},
}

// withoutAnswer are the errors of package store that have no answer of the REST API in any service but Queue.
var withoutAnswer = map[string]string{
	"store.ErrLocked": "of Open", "store.ErrReplicated": "of Open", "store.ErrOtherLog": "of Open",
	"store.ErrFormat": "of Open", "store.ErrNotHeld": "of backups: package admin",
	"store.ErrClosed": "a defect: requests end before Close", "store.ErrReadOnly": "a defect: no server opens so",
	"store.ErrKey":     "a defect: handlers check sizes before",
	"store.ErrDamaged": "damage: InternalError, and a line in the log",
	"store.ErrFailed":  "InternalError, since the outcome is not known: /readyz says that a restart is needed",
	"store.ErrDisk":    "InternalError, or InsufficientStorage if the disk is full: package frontend",
}

// Every error that the packages below a service's handlers export has a row in the service's table of answers, or a
// reason why it has none.
func TestErrorsHaveAnswers(t *testing.T) {
	t.Parallel()
	for _, service := range answered {
		text, err := os.ReadFile(filepath.Join(top, service.file))
		if err != nil {
			t.Fatal(err)
		}
		rows := map[string]bool{}
		for _, m := range regexp.MustCompile(`(?m)^\t(\w+\.Err\w+):`).FindAllStringSubmatch(string(text), -1) {
			rows[m[1]] = true
		}
		seen := map[string]bool{}
		for _, dir := range service.packages {
			for _, name := range sentinels(t, filepath.Join(top, dir)) {
				name = importedAs(t, service.file, dir) + "." + name
				seen[name] = true
				_, excused := service.without[name]
				_, shared := withoutAnswer[name]
				switch {
				case rows[name] && excused:
					t.Errorf("%s: %s has a row and a reason to have none", service.file, name)
				case !rows[name] && !excused && !shared:
					t.Errorf("%s: no answer to %s", service.file, name)
				}
			}
		}
		for name := range service.without {
			if !seen[name] {
				t.Errorf("%s: there is no %s", service.file, name)
			}
		}
	}
}

// importedAs returns the name that a package has in a file: that of its folder, unless the file gives it another.
func importedAs(t *testing.T, file, dir string) string {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(top, file), nil, parser.ImportsOnly)
	if err != nil {
		t.Fatal(err)
	}
	for _, spec := range f.Imports {
		if spec.Name != nil && spec.Path.Value == strconv.Quote(module+dir) {
			return spec.Name.Name
		}
	}
	return filepath.Base(dir)
}

// sentinels returns the exported variables of a package whose names begin with Err.
func sentinels(t *testing.T, dir string) (names []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.VAR {
				continue
			}
			for _, s := range g.Specs {
				for _, name := range s.(*ast.ValueSpec).Names {
					if strings.HasPrefix(name.Name, "Err") {
						names = append(names, name.Name)
					}
				}
			}
		}
	}
	if len(names) == 0 {
		t.Fatalf("no errors in %s", dir)
	}
	return names
}

// An error that is nil is not wrapped: %w would print it as %!w(<nil>). So a condition such as err != nil || n == 0
// leads to %v, or to conditions of their own.
func TestErrorsThatAreWrappedAreNotNil(t *testing.T) {
	t.Parallel()
	found := 0
	eachSource(t, func(path, text string) {
		if strings.HasSuffix(path, "_test.go") || !strings.Contains(text, "%w") {
			return
		}
		found++
		for _, wrapped := range wrapsNil(t, text) {
			t.Errorf("%s: %s may be nil where it is wrapped", path, wrapped)
		}
	})
	if found == 0 {
		t.Error("no file wraps an error")
	}
	const wrong = `package p
		func f() error {
			if n, err := g(); n == 0 || err != nil {
				return fmt.Errorf("%d: %w", n, err)
			}
			return nil
		}`
	if got := wrapsNil(t, wrong); len(got) != 1 || got[0] != "err" {
		t.Errorf("of a nil error that is wrapped the check finds %q", got)
	}
}

// wrapsNil returns the variables that fmt.Errorf may wrap although they are nil, by the condition around it.
func wrapsNil(t *testing.T, text string) (names []string) {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), "", text, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(f, func(n ast.Node) bool {
		branch, ok := n.(*ast.IfStmt)
		if !ok {
			return true
		}
		for _, name := range oneOfSeveral(branch.Cond, false) {
			for _, statement := range branch.Body.List {
				answer, ok := statement.(*ast.ReturnStmt)
				if ok && wraps(answer, name) {
					names = append(names, name)
				}
			}
		}
		return true
	})
	return names
}

// oneOfSeveral returns the variables that a condition compares with nil in one of several alternatives.
func oneOfSeveral(condition ast.Expr, alternative bool) []string {
	x, ok := condition.(*ast.BinaryExpr)
	switch {
	case !ok:
	case x.Op == token.LOR:
		return append(oneOfSeveral(x.X, true), oneOfSeveral(x.Y, true)...)
	case x.Op == token.NEQ && alternative:
		name, isName := x.X.(*ast.Ident)
		if other, ok := x.Y.(*ast.Ident); ok && isName && other.Name == "nil" {
			return []string{name.Name}
		}
	}
	return nil
}

// wraps reports whether a statement gives a variable to fmt.Errorf with %w as its last argument.
func wraps(s *ast.ReturnStmt, name string) (found bool) {
	ast.Inspect(s, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) < 2 {
			return true
		}
		format, isText := call.Args[0].(*ast.BasicLit)
		last, isName := call.Args[len(call.Args)-1].(*ast.Ident)
		found = found || isText && isName && last.Name == name && strings.HasSuffix(strings.Trim(format.Value, `"`), "%w")
		return true
	})
	return found
}
