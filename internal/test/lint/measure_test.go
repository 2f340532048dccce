package lint

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// What a reader has to know to change one thing is held by numbers: the size of a package, the order of the files in
// it, and the reasons in the bodies of its functions. `go test -v -run TestMeasures ./internal/test/lint` prints them
// for all packages above measuredLines.
const (
	maxPackageLines = 7000
	maxPackageFiles = 60
	// measuredLines is the size from which a package is measured for order and reasons.
	measuredLines = 1000
	// maxUp is the part of the arrows between files, in percent, that may point up. fewUp of them are no matter.
	maxUp, fewUp = 10, 10
	// minReasons is the number of lines with comments that 100 lines of bodies have.
	minReasons = 3
)

// tooLarge are the packages that are larger than a package may be, with what they have; the numbers only fall.
var tooLarge = map[string]struct {
	lines, files int
	why          string
}{
	"workers": {9700, 54,
		"triggers are to be packages below internal: the runtime, and a package a trigger"},
	"functions": {7900, 32,
		"the host, the bindings and the HTTP endpoint are to be packages below internal"},
	"internal/server/dashboard": {8200, 48,
		"a package a kind of page is to come out of it"},
	"cmd/lazuli/internal/demo": {8300, 36,
		"the class and the rounds of each pattern are to be packages of their own"},
	"cmd/lazuli": {7750, 47,
		"a verb a file; what several verbs share goes below cmd/lazuli/internal"},
}

// unordered are the packages in which more arrows point up than may, with their number, which only falls.
var unordered = map[string]int{
	"blobsvc":                    22,
	"blobsvc/internal/endpoint":  12,
	"blobsvc/internal/query":     25,
	"cmd/internal/bench":         14,
	"cmd/lazuli/internal/demo":   30,
	"functions":                  60,
	"internal/azure/auth":        16,
	"internal/server":            19,
	"internal/server/config":     15,
	"internal/server/dashboard":  85,
	"internal/storage/extent":    30,
	"internal/storage/replog":    17,
	"internal/storage/store":     47,
	"internal/state/blob/record": 11,
	"internal/state/queue":       13,
	"tables":                     19,
	"tablesvc":                   20,
	"workers":                    65,
}

// silent are the packages whose bodies have fewer comments than they should, in lines of 1,000, which only rises.
var silent = map[string]int{}

// longBody is the number of lines from which a body has the reason of at least one step.
const longBody = 40

// measure is what a package has, without its tests.
type measure struct {
	name string
	// lines counts no comments in bodies: a reason must not make a package too large.
	files, lines int
	// arrows counts the pairs of files of which one uses what the other declares; up of them point up in the best order
	// of the files that was found.
	arrows, up int
	// body counts the lines of the bodies of functions, reasons those of them with a comment.
	body, reasons int
	// wordless are the functions with a long body and no comment in it.
	wordless []string
}

func (m measure) upPercent() float64 { return 100 * float64(m.up) / float64(max(1, m.arrows)) }

// perMille is the number of lines with comments in 1,000 lines of bodies.
func (m measure) perMille() int { return 1000 * m.reasons / max(1, m.body) }

func TestMeasures(t *testing.T) {
	t.Parallel()
	packages := list(t, "./...")
	all := make([]measure, len(packages))
	var group sync.WaitGroup
	for i, p := range packages {
		group.Go(func() { all[i] = measureOf(t, p) })
	}
	group.Wait()
	slices.SortFunc(all, func(a, b measure) int { return b.lines - a.lines })
	seen := map[string]bool{}
	var without []string
	for _, m := range all {
		seen[m.name] = true
		without = append(without, m.wordless...)
		checkSize(t, m)
		if m.lines < measuredLines {
			continue
		}
		t.Logf("%-40s %5d lines %3d files, %3d of %3d arrows up, %4.1f lines of comments in 100 of bodies", m.name, m.lines,
			m.files, m.up, m.arrows, float64(m.perMille())/10)
		checkOrder(t, m)
		checkReasons(t, m)
	}
	for _, function := range without {
		t.Errorf("%s and no comment: write the reason at the step, the invariant before the loop, or what would break "+
			"without a line", function)
	}
	for _, name := range slices.Concat(slices.Collect(maps.Keys(tooLarge)), slices.Collect(maps.Keys(unordered)),
		slices.Collect(maps.Keys(silent))) {
		if !seen[name] {
			t.Errorf("%s: an exception for a package that does not exist", name)
		}
	}
}

func checkSize(t *testing.T, m measure) {
	t.Helper()
	large := m.lines > maxPackageLines || m.files > maxPackageFiles
	e, excepted := tooLarge[m.name]
	switch {
	case large && !excepted:
		t.Errorf("%s has %d lines in %d files; a package has at most %d in %d: move a part with an idea of its own below it",
			m.name, m.lines, m.files, maxPackageLines, maxPackageFiles)
	case excepted && !large:
		t.Errorf("%s is no longer too large: remove the exception", m.name)
	case excepted && (m.lines > e.lines || m.files > e.files):
		t.Errorf("%s has %d lines in %d files, and should shrink from %d in %d", m.name, m.lines, m.files, e.lines, e.files)
	}
}

func checkOrder(t *testing.T, m measure) {
	t.Helper()
	up, excepted := unordered[m.name]
	bad := m.up > fewUp && m.upPercent() > maxUp
	switch {
	case bad && !excepted:
		t.Errorf("%s: %d of %d arrows between files point up, more than %d %%: give the parts that others lean on a file or "+
			"a package of their own", m.name, m.up, m.arrows, maxUp)
	case excepted && !bad:
		t.Errorf("%s: %d of %d arrows point up: remove the exception", m.name, m.up, m.arrows)
	case m.up > up && excepted:
		t.Errorf("%s: %d arrows between files point up; the number should fall from %d", m.name, m.up, up)
	}
}

func checkReasons(t *testing.T, m measure) {
	t.Helper()
	least, excepted := silent[m.name]
	quiet := m.perMille() < 10*minReasons
	switch {
	case quiet && !excepted:
		t.Errorf("%s: %d lines of %d in bodies have a comment, fewer than %d in 100: write the reason at the step", m.name,
			m.reasons, m.body, minReasons)
	case excepted && !quiet:
		t.Errorf("%s: %d lines of %d in bodies have a comment: remove the exception", m.name, m.reasons, m.body)
	case m.perMille() < least:
		t.Errorf("%s: %d lines of 1,000 in bodies have a comment; the number should rise from %d", m.name, m.perMille(),
			least)
	}
}

// measureOf parses the files of a package. Names are resolved by the parser alone, which is fast: an identifier that a
// file does not declare is what another file declares under that name, and a selector is the method of that name if one
// type alone has such a method.
func measureOf(t *testing.T, p pkg) measure {
	m := measure{name: p.name(), files: len(p.GoFiles)}
	set := token.NewFileSet()
	files := make([]*ast.File, 0, len(p.GoFiles))
	names, methods := map[string]int{}, map[string]int{}
	const several = -1
	for i, name := range p.GoFiles {
		text, err := os.ReadFile(filepath.Join(p.Dir, name))
		if err != nil {
			t.Error(err)
			return m
		}
		// Generated code has no author who could say why.
		if bytes.Contains(text[:min(len(text), 500)], []byte("DO NOT EDIT")) {
			files = append(files, nil)
			m.files--
			continue
		}
		m.lines += bytes.Count(text, []byte("\n"))
		f, err := parser.ParseFile(set, name, text, parser.ParseComments)
		if err != nil {
			t.Error(err)
			return m
		}
		files = append(files, f)
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil {
					names[d.Name.Name] = i
				} else if at, ok := methods[d.Name.Name]; ok && at != i {
					methods[d.Name.Name] = several
				} else {
					methods[d.Name.Name] = i
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					switch s := s.(type) {
					case *ast.TypeSpec:
						names[s.Name.Name] = i
					case *ast.ValueSpec:
						for _, id := range s.Names {
							names[id.Name] = i
						}
					}
				}
			}
		}
	}
	uses := make([]map[int]bool, len(files))
	for i, f := range files {
		uses[i] = map[int]bool{}
		if f == nil {
			continue
		}
		imported := map[string]bool{}
		for _, s := range f.Imports {
			name := filepath.Base(strings.Trim(s.Path.Value, `"`))
			if s.Name != nil {
				name = s.Name.Name
			}
			imported[name] = true
		}
		for _, id := range f.Unresolved {
			if at, ok := names[id.Name]; ok && at != i && !imported[id.Name] {
				uses[i][at] = true
			}
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				if x, ok := s.X.(*ast.Ident); ok && imported[x.Name] && x.Obj == nil {
					return false
				}
				if at, ok := methods[s.Sel.Name]; ok && at != several && at != i {
					uses[i][at] = true
				}
			}
			return true
		})
		m.countBodies(set, f)
	}
	m.arrows, m.up = arrowsUp(uses)
	return m
}

// countBodies counts the lines of the bodies of functions, and those with comments.
func (m *measure) countBodies(set *token.FileSet, f *ast.File) {
	line := func(p token.Pos) int { return set.Position(p).Line }
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || fn.Body == nil {
			continue
		}
		body, reasons := max(0, line(fn.Body.Rbrace)-line(fn.Body.Lbrace)-1), 0
		for _, g := range f.Comments {
			if g.Pos() > fn.Body.Lbrace && g.End() < fn.Body.Rbrace {
				reasons += line(g.End()) - line(g.Pos()) + 1
			}
		}
		m.body += body
		m.reasons += reasons
		m.lines -= reasons
		if body >= longBody && reasons == 0 {
			m.wordless = append(m.wordless, fmt.Sprintf("%s/%s:%d %s, %d lines", m.name, filepath.Base(set.File(f.Pos()).Name()),
				line(fn.Pos()), fn.Name.Name, body))
		}
	}
}

// arrowsUp counts the arrows between files, and those of them that point up in an order of the files which has few of
// them: what nothing leans on comes first, and among the rest the file that leans on most others and is leaned on by
// fewest (P. Eades, X. Lin, W. Smyth: A fast and effective heuristic for the feedback arc set problem, 1993).
func arrowsUp(uses []map[int]bool) (arrows, up int) {
	out, in := make([]int, len(uses)), make([]int, len(uses))
	for i, to := range uses {
		arrows += len(to)
		out[i] = len(to)
		for j := range to {
			in[j]++
		}
	}
	left := map[int]bool{}
	for i := range uses {
		left[i] = true
	}
	place := make([]int, len(uses))
	first, last := 0, len(uses)-1
	take := func(i int, top bool) {
		delete(left, i)
		if top {
			place[i], first = first, first+1
		} else {
			place[i], last = last, last-1
		}
		for j := range uses {
			if uses[j][i] {
				out[j]--
			}
			if uses[i][j] {
				in[j]--
			}
		}
	}
	// Each round takes one file out: those that lean on nothing go to the bottom and those that nothing leans on to the
	// top, where no arrow of theirs points up. Only in a circle a file is chosen, whose arrows may.
	for len(left) > 0 {
		best := -1
		for _, i := range slices.Sorted(maps.Keys(left)) {
			switch {
			case out[i] == 0 || in[i] == 0:
				best = i
			case best < 0 || out[best] != 0 && in[best] != 0 && out[i]-in[i] > out[best]-in[best]:
				best = i
			}
			if out[best] == 0 || in[best] == 0 {
				break
			}
		}
		take(best, out[best] != 0)
	}
	for i, to := range uses {
		for j := range to {
			if place[i] > place[j] {
				up++
			}
		}
	}
	return arrows, up
}

// The order of files that lean on each other in a chain has no arrow up, and a circle has one.
func TestArrowsUp(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		uses []map[int]bool
		want string
	}{
		{[]map[int]bool{{1: true}, {2: true}, {}}, "2 0"},
		{[]map[int]bool{{1: true}, {2: true}, {0: true}}, "3 1"},
		{[]map[int]bool{{1: true, 2: true}, {2: true, 0: true}, {}}, "4 1"},
	} {
		arrows, up := arrowsUp(c.uses)
		if got := fmt.Sprint(arrows, up); got != c.want {
			t.Errorf("%v: %s, want %s", c.uses, got, c.want)
		}
	}
}
