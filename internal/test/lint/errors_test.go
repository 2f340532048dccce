package lint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
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
		[]string{"blobsvc/internal/state", "blobsvc/internal/encryption", "internal/storage/store"},
		map[string]string{
			"state.ErrSoftDeleted":     "wraps ErrBlobNotFound",
			"state.ErrTagCondition":    "wraps ErrConditionNotMet",
			"state.ErrExpiry":          "handlers name the header: expiryError",
			"state.ErrSourceChanged":   "handlers read the source again: copy_source.go",
			"state.ErrOtherEncryption": "handlers copy the bytes: copy.go",
			"state.ErrCopyMoved":       "of background work: package copysource",
			"state.ErrFeedMoved":       "of background work: package changefeed",
			"state.ErrNotWorker":       "of background work: package events",
			"encryption.ErrSeal":       "damage: InternalError, and a line in the log",
		}},
	{"tablesvc/errors.go", []string{"tablesvc/internal/state", "internal/storage/store"},
		map[string]string{"state.ErrNotLogged": "of the change feed: feed.go"}},
	{"queuesvc/errors.go", []string{"queuesvc/internal/state", "internal/storage/store"},
		map[string]string{
			"state.ErrNotVisible": "Get Messages passes over the message: the state machine's own",
			"state.ErrPastExpiry": "handlers name the parameter: messages.go, message.go",
		}},
}

// withoutAnswer are the errors of package store that have no answer of the REST API in any service but Queue.
var withoutAnswer = map[string]string{
	"store.ErrLocked": "of Open", "store.ErrReplicated": "of Open", "store.ErrOtherLog": "of Open",
	"store.ErrFormat": "of Open",
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
				name = filepath.Base(dir) + "." + name
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
