package main

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/lazuli-storage/lazuli/internal/test/overlay"
)

// chooser is the file that is added to a mutated package. Tests and the processes that they start have the number of
// the chosen mutant in their environment; with -1, they note the mutants to which they come in a file.
const chooser = `package %s

import (
	"fmt"
	"os"
	"strconv"
	"sync"
)

var (
	mutantChosen, _ = strconv.Atoi(os.Getenv("LAZULI_MUTANT"))
	mutantsReached  sync.Map
)

func mutantOn(n int) bool {
	if mutantChosen < 0 {
		if _, known := mutantsReached.LoadOrStore(n, true); !known {
			f, err := os.OpenFile(os.Getenv("LAZULI_MUTANT_REACHED"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
			if err == nil {
				fmt.Fprintln(f, n)
				f.Close()
			}
		}
	}
	return n == mutantChosen
}

func mutantErr(n int, err error) error {
	if mutantOn(n) {
		return nil
	}
	return err
}

func mutantSync(n int, sync func() error) error {
	if mutantOn(n) {
		return nil
	}
	return sync()
}

func mutantAdd[T ~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~uintptr](
	n int, v T) T {
	if mutantOn(n) {
		return v + 1
	}
	return v
}

var _, _, _ = mutantErr, mutantSync, mutantAdd[int]
`

// loaded is a parsed package.
type loaded struct {
	folder, name string
	sources      []*source
}

// load parses and checks a package.
func load(folder string) (*loaded, error) {
	out, err := exec.Command("go", "list", "-deps", "-export", "-json=ImportPath,Export,Dir,Name,GoFiles",
		"./"+folder).Output()
	if err != nil {
		return nil, fmt.Errorf("go list %s: %w", folder, err)
	}
	type listed struct {
		ImportPath, Export, Dir, Name string
		GoFiles                       []string
	}
	exports := map[string]string{}
	var last listed // go list prints a package after what it imports
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := d.Decode(&p); err == io.EOF {
			break
		} else if err != nil {
			return nil, err
		}
		exports[p.ImportPath] = p.Export
		last = p
	}
	set := token.NewFileSet()
	info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{},
		Defs: map[*ast.Ident]types.Object{}}
	var files []*ast.File
	p := &loaded{folder: folder, name: last.Name}
	for _, file := range last.GoFiles {
		path := filepath.Join(last.Dir, file)
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		parsed, err := parser.ParseFile(set, path, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		files = append(files, parsed)
		p.sources = append(p.sources, &source{path: folder + "/" + file, text: string(text), file: parsed, info: info,
			position: set.Position, sizes: map[ast.Expr]bool{}})
	}
	config := types.Config{Importer: importer.ForCompiler(set, "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(exports[path])
	})}
	_, err = config.Check(last.ImportPath, set, files, info)
	return p, err
}

// overlaid returns an overlay with all mutants of packages, whose files are in a folder. A mutant's number is its index
// in the sample plus one.
func overlaid(into string, packages []*loaded, sample []*mutant) (*overlay.Overlay, error) {
	o := overlay.New(into)
	for _, p := range packages {
		if err := o.Place(p.folder+"/mutants.go", fmt.Sprintf(chooser, p.name)); err != nil {
			return nil, err
		}
		for _, s := range p.sources {
			if text := mutated(s, sample); text != s.text {
				if err := o.Place(s.path, text); err != nil {
					return nil, err
				}
			}
		}
	}
	return o, nil
}

// insertion is text at an offset of a file.
type insertion struct {
	at    int
	text  string
	order int // among those at one offset
}

// mutated returns a file with its mutants of the sample.
func mutated(s *source, sample []*mutant) string {
	var all []insertion
	for i, m := range sample {
		if m.file != s.path {
			continue
		}
		// Where several begin, the longest is outermost; where several end, it is last; ends come before beginnings.
		length := m.to - m.from
		all = append(all, insertion{m.from, fmt.Sprintf(m.before, i+1), 1<<30 - length})
		if m.after != "" {
			all = append(all, insertion{m.to, m.after, length - 1<<30})
		}
	}
	slices.SortStableFunc(all, func(a, b insertion) int {
		if a.at != b.at {
			return a.at - b.at
		}
		return a.order - b.order
	})
	var b strings.Builder
	done := 0
	for _, i := range all {
		b.WriteString(s.text[done:i.at] + i.text)
		done = i.at
	}
	return b.String() + s.text[done:]
}
