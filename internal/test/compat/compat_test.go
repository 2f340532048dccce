package compat

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/azure/frontend"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/test/operations"
	"github.com/lazuli-storage/lazuli/internal/test/prose"
)

var update = flag.Bool("update", false, "write docs/compatibility.md anew")

const (
	page  = "../../../docs/compatibility.md"
	begin = "<!-- generated: operations -->\n"
	end   = "<!-- end of operations -->"
)

func TestPageIsCurrent(t *testing.T) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(text), begin)
	_, tail, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s lacks its marks %q and %q", page, begin, end)
	}
	want := head + begin + prose.Wrap(tables(t)) + end + tail
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if string(text) != want {
		t.Errorf("%s is not current: run go generate ./internal/test/compat", page)
	}
}

// line has what the page says of an operation on a kind of resource. Operations with several methods, or that headers
// distinguish, have several rows and one line.
type line struct {
	name   string
	on     frontend.Level
	states []frontend.State
	notes  []string
}

func tables(t *testing.T) string {
	var b strings.Builder
	all := operations.Tables(t)
	for _, s := range []struct {
		name, reference string
		rows            []frontend.Row
	}{
		{"Blob", "operations-on-the-blob-service", all[wire.Blob]},
		{"Data Lake", "data-lake-storage-gen2", lake(all[wire.DataLake])},
		{"Queue", "operations-on-the-queue-service", all[wire.Queue]},
		{"Table", "operations-on-tables", all[wire.Table]},
	} {
		lines := merge(s.rows)
		fmt.Fprintf(&b, "\n## %s service\n\n%s\n", s.name, summary(lines))
		fmt.Fprintf(&b, "Names are those of the [REST "+
			"reference](https://learn.microsoft.com/rest/api/storageservices/%s).\n\n", s.reference)
		b.WriteString("| on | operations |\n| --- | --- |\n")
		for _, level := range levels(lines) {
			var names []string
			for _, l := range lines {
				if l.on == level {
					names = append(names, l.String())
				}
			}
			fmt.Fprintf(&b, "| %s | %s |\n", level, strings.Join(names, ", "))
		}
	}
	b.WriteByte('\n')
	return b.String()
}

// lake is the table of the dfs endpoint with the names of its parameters.
func lake(table []frontend.Row) []frontend.Row {
	rows := slices.Clone(table)
	for i := range rows {
		r := &rows[i]
		r.On = map[frontend.Level]frontend.Level{"service": "account", "container": "filesystem", "blob": "path"}[r.On]
	}
	return rows
}

func merge(rows []frontend.Row) []line {
	var lines []line
	for _, r := range rows {
		i := slices.IndexFunc(lines, func(l line) bool { return l.name == r.Name && l.on == r.On })
		if i < 0 {
			i = len(lines)
			lines = append(lines, line{name: r.Name, on: r.On})
		}
		l := &lines[i]
		if !slices.Contains(l.states, r.State) {
			l.states = append(l.states, r.State)
		}
		if r.Note != "" && !slices.Contains(l.notes, r.Note) {
			l.notes = append(l.notes, r.Note)
		}
	}
	return lines
}

// levels returns the kinds of resources of the lines, in their order.
func levels(lines []line) (list []frontend.Level) {
	for _, l := range lines {
		if !slices.Contains(list, l.on) {
			list = append(list, l.on)
		}
	}
	return list
}

// String returns the name, with the state unless it is complete, and the notes.
func (l line) String() string {
	about := l.notes
	if s := l.state(); s != frontend.Complete {
		about = append([]string{"**" + s.String() + "**"}, about...)
	}
	if len(about) == 0 {
		return l.name
	}
	return l.name + " (" + strings.TrimSuffix(strings.Join(about, ": "), ".") + ")"
}

// state returns the combined state of the line's rows: complete only if all are, not implemented only if all are.
func (l line) state() frontend.State {
	if len(l.states) == 1 {
		return l.states[0]
	}
	return frontend.Partial
}

func summary(lines []line) string {
	count := make(map[frontend.State]int)
	for _, l := range lines {
		count[l.state()]++
	}
	return fmt.Sprintf("%d operations: %d complete, %d partial, %d not implemented (answered 501, error code "+
		"`NotImplemented`).",
		len(lines), count[frontend.Complete], count[frontend.Partial], count[frontend.NotImplemented])
}

// A state without rows, and a line of mixed states, are distinct.
func TestMerge(t *testing.T) {
	lines := merge([]frontend.Row{
		{Name: "A", Method: "GET", On: "x"},
		{Name: "A", Method: "HEAD", On: "x", State: frontend.NotImplemented, Note: "Later."},
		{Name: "A", Method: "GET", On: "y", Comp: "c", Restype: "r"},
		{Name: "B", Method: "PUT", On: "x", State: frontend.NotImplemented},
	})
	var got []string
	for _, l := range lines {
		got = append(got, fmt.Sprint(l.on, " ", l))
	}
	want := []string{"x A (**partial**: Later)", "y A", "x B (**not implemented**)"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if s := summary(lines); !strings.HasPrefix(s, "3 operations: 1 complete, 1 partial, 1 not implemented") {
		t.Errorf("got %s", s)
	}
}
