package lint

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
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

	set    *token.FileSet
	parsed []*ast.File
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
	exports := exportData(t)
	from := importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(exports[path])
	})
	var without []string
	for _, m := range all {
		without = append(without, m.wordless...)
		checkSize(t, m)
		if m.lines < measuredLines {
			continue
		}
		m.countArrows(t, from)
		t.Logf("%-40s %5d lines %3d files, %3d of %3d arrows up, %4.1f lines of comments in 100 of bodies", m.name, m.lines,
			m.files, m.up, m.arrows, float64(m.perMille())/10)
		checkOrder(t, m)
		checkReasons(t, m)
	}
	for _, function := range without {
		t.Errorf("%s and no comment: write the reason at the step, the invariant before the loop, or what would break "+
			"without a line", function)
	}
}

func checkSize(t *testing.T, m measure) {
	t.Helper()
	if m.lines > maxPackageLines || m.files > maxPackageFiles {
		t.Errorf("%s has %d lines in %d files; a package has at most %d in %d: move a part with an idea of its own below it",
			m.name, m.lines, m.files, maxPackageLines, maxPackageFiles)
	}
}

func checkOrder(t *testing.T, m measure) {
	t.Helper()
	if m.up > fewUp && m.upPercent() > maxUp {
		t.Errorf("%s: %d of %d arrows between files point up, more than %d %%: give the parts that others lean on a file or "+
			"a package of their own", m.name, m.up, m.arrows, maxUp)
	}
}

func checkReasons(t *testing.T, m measure) {
	t.Helper()
	if m.perMille() < 10*minReasons {
		t.Errorf("%s: %d lines of %d in bodies have a comment, fewer than %d in 100: write the reason at the step", m.name,
			m.reasons, m.body, minReasons)
	}
}

// measureOf parses the files of a package.
func measureOf(t *testing.T, p pkg) measure {
	m := measure{name: p.name(), set: token.NewFileSet()}
	for _, name := range p.GoFiles {
		text, err := os.ReadFile(filepath.Join(p.Dir, name))
		if err != nil {
			t.Error(err)
			return m
		}
		f, err := parser.ParseFile(m.set, name, text, parser.ParseComments)
		if err != nil {
			t.Error(err)
			return m
		}
		m.parsed = append(m.parsed, f)
		// Generated code has no author who could say why.
		if ast.IsGenerated(f) {
			continue
		}
		m.files++
		m.lines += bytes.Count(text, []byte("\n"))
		m.countBodies(f)
	}
	return m
}

// countArrows counts the arrows between the files of a package. What a name stands for is what the compiler says: a
// guess by the name alone takes each Get of a transaction for the one method Get of the package.
func (m *measure) countArrows(t *testing.T, from types.Importer) {
	t.Helper()
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	config := types.Config{Importer: from}
	checked, err := config.Check(module+m.name, m.set, m.parsed, info)
	if err != nil {
		t.Error(err)
		return
	}
	place := map[*token.File]int{} // of the files that count
	for i, f := range m.parsed {
		if !ast.IsGenerated(f) {
			place[m.set.File(f.Pos())] = i
		}
	}
	uses := make([]map[int]bool, len(m.parsed))
	for i := range uses {
		uses[i] = map[int]bool{}
	}
	for id, object := range info.Uses {
		// A field goes with the type that has it, which a file names or is given by a method.
		if field, ok := object.(*types.Var); object.Pkg() != checked || ok && field.IsField() {
			continue
		}
		from, written := place[m.set.File(id.Pos())]
		to, read := place[m.set.File(object.Pos())]
		if written && read && from != to {
			uses[from][to] = true
		}
	}
	m.arrows, m.up = arrowsUp(uses)
}

// countBodies counts the lines of the bodies of functions, and those with comments.
func (m *measure) countBodies(f *ast.File) {
	line := func(p token.Pos) int { return m.set.Position(p).Line }
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
			m.wordless = append(m.wordless, fmt.Sprintf("%s/%s:%d %s, %d lines", m.name,
				filepath.Base(m.set.File(f.Pos()).Name()), line(fn.Pos()), fn.Name.Name, body))
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

// A method of the same name of another package's type is no arrow, and a call through a field of a type is one.
func TestArrowsAreWhatTheCompilerSays(t *testing.T) {
	t.Parallel()
	exports := exportData(t)
	from := importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(exports[path])
	})
	for _, c := range []struct {
		user string
		want int
	}{
		{"import \"net/http\"\nfunc of(h http.Header) string { return h.Get(\"ETag\") }", 0},
		{"var of = holder.set.Get()", 1},
		{"func of(Set int) int { return Set }", 0},
	} {
		m := measure{name: "p", set: token.NewFileSet()}
		declared := "type Set struct{}\nfunc (Set) Get() int { return 0 }\nvar holder struct{ set Set }"
		for i, text := range []string{declared, c.user} {
			f, err := parser.ParseFile(m.set, fmt.Sprint(i), "package p\n"+text, parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			m.parsed = append(m.parsed, f)
		}
		if m.countArrows(t, from); m.arrows != c.want {
			t.Errorf("%s: %d arrows, want %d", c.user, m.arrows, c.want)
		}
	}
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
