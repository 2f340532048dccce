package demo

import (
	"context"
	"errors"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/fault"
	"github.com/lazuli-storage/lazuli/internal/test/testaccount"
)

// A mistake shows its damage, the pattern shows none, and both are in the table, whose lines have less than 100
// characters. TestWrongWorkersAreCaught and others run other mistakes; `lazuli demo NAME --naive` runs all.
func TestLesson(t *testing.T) {
	t.Parallel()
	c := newConfig(testaccount.Open(t), "correct")
	right := c.Worker
	c.Worker = func(s WorkerSettings) *exec.Cmd {
		if s.Mistake != "" {
			return variantWorker(s.Mistake)(s)
		}
		return right(s)
	}
	c.Points, c.Records = []string{"archive/after-delete"}, mistakeItems
	m := MistakesOf("eventual-transaction")[0]
	l, err := Teach(t.Context(), c, []*Mistake{m}, func(ctx context.Context, c Config) (PatternReport, error) {
		return Archive(ctx, c)
	})
	if err != nil {
		t.Fatal(err)
	}
	items, damaged := l.Pattern.counts()
	if d := l.Mistakes[0].Damage; len(d) != 2 || !d[0].AtKill || d[1].What != damageLost || d[1].N == 0 ||
		d[1].Example == "" || items == 0 || damaged != 0 {
		t.Errorf("%+v; with the pattern %d of %d are damaged", l.Mistakes[0], damaged, items)
	}
	var table strings.Builder
	if err := l.WriteTable(&table); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(table.String()) {
		if len(line) > 100 {
			t.Errorf("a line has %d characters: %s", len(line), line)
		}
	}
	for _, want := range []string{" lost, for example ", "(in neither table)", "With it: 0 damaged of"} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("the table has no %q:\n%s", want, &table)
		}
	}
}

// A mistake without damage, or without work, fails the lesson; without a kill it need not show any.
func TestLessonFails(t *testing.T) {
	none := MistakeResult{Mistake: &mistakes[0], Items: 5}
	always := MistakeResult{Mistake: &Mistake{Name: "always", Shows: damageLost, always: true}, Items: 5}
	for name, c := range map[string]struct {
		lesson Lesson
		says   string
	}{
		"no damage":             {Lesson{Mistakes: []MistakeResult{none}}, "did no damage"},
		"no work":               {Lesson{Mistakes: []MistakeResult{{Mistake: &mistakes[0]}}}, "no work"},
		"no kill":               {Lesson{Mistakes: []MistakeResult{none}, withoutFaults: true}, ""},
		"no kill, but it shows": {Lesson{Mistakes: []MistakeResult{always}, withoutFaults: true}, "did no damage"},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.lesson.Err()
			if c.says == "" && err != nil || c.says != "" && (!errors.Is(err, ErrLesson) ||
				!strings.Contains(err.Error(), c.says)) {
				t.Errorf("got %v, want %q", err, c.says)
			}
		})
	}
}

// The steps of mistakes are those of points that exist, and every mistake says what a student needs.
func TestMistakes(t *testing.T) {
	var points []string
	for _, p := range fault.Points() {
		points = append(points, string(p))
	}
	seen := map[string]bool{}
	for _, m := range mistakes {
		if m.Does == "" || m.Why == "" || m.Shows == "" || m.run == nil || seen[m.ID()] {
			t.Errorf("%s is not complete, or there twice", m.ID())
		}
		seen[m.ID()] = true
		if !slices.Contains(points, m.Point) {
			t.Errorf("%s: there is no step %s", m.ID(), m.Point)
		}
	}
}

// No table has a line of 100 characters, whatever the numbers and steps are.
func TestReportIsNarrow(t *testing.T) {
	all := map[string]pattern{"archive": &archivePattern{}, "large": &largePattern{}, "log": &logPattern{},
		"outbox": &outboxPattern{}, "jobs": &jobsPattern{}, "search": &searchPattern{}, "lake": &lakePattern{},
		"copies": &indexPattern{kindOfIndex: IndexCopies}, "lists": &indexPattern{kindOfIndex: IndexLists}}
	for i := range Designs {
		all[Designs[i].Name] = &designPattern{Design: &Designs[i]}
	}
	for name, p := range all {
		r := &Report{Took: 1, words: p.words()}
		for _, point := range pointsOf(p) {
			r.Rows = append(r.Rows, Row{Point: point, Records: 1000, Messages: 1000, OK: 1000, settled: true,
				Recovered: 10 * time.Second, kills: []kill{{point, 1000}, {point, 1000}},
				Crashes: []Crash{{1000, 1000, 1000, 1000, 1000, 1000}, {1000, 1000, 1000, 1000, 1000, 1000}}})
		}
		var table strings.Builder
		if err := r.WriteTable(&table); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(table.String()) {
			if len(line) > 100 { // with its end
				t.Errorf("%s: a line has %d characters: %s", name, len(line), line)
			}
		}
	}
}
