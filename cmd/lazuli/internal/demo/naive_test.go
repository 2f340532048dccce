package demo

import (
	"context"
	"errors"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo/design"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo/eventual"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo/index"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo/lake"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo/large"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo/lesson"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo/logdata"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo/outbox"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo/rig"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo/search"
	"github.com/lazuli-storage/lazuli/internal/fault"
	"github.com/lazuli-storage/lazuli/internal/test/testaccount"
)

// A mistake shows its damage, the pattern shows none, and both are in the table, whose lines have less than 100
// characters. TestWrongWorkersAreCaught and others run other mistakes; `lazuli demo NAME --naive` runs all.
func TestLesson(t *testing.T) {
	t.Parallel()
	c := newConfig(testaccount.Open(t), "correct")
	right := c.Worker
	c.Worker = func(s rig.WorkerSettings) *exec.Cmd {
		if s.Mistake != "" {
			return variantWorker(s.Mistake)(s)
		}
		return right(s)
	}
	c.Points, c.Records = []string{"archive/after-delete"}, lesson.MistakeItems
	m := MistakesOf("eventual-transaction")[0]
	run := func(ctx context.Context, c rig.Config) (lesson.PatternReport, error) { return eventual.Run(ctx, c) }
	l, err := lesson.Teach(t.Context(), c, []*rig.Mistake{m}, run)
	if err != nil {
		t.Fatal(err)
	}
	items, damaged := l.Pattern.Counts()
	if d := l.Mistakes[0].Damage; len(d) != 2 || !d[0].AtKill || d[1].What != rig.DamageLost || d[1].N == 0 ||
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
	none := lesson.MistakeResult{Mistake: &mistakes[0], Items: 5}
	always := lesson.MistakeResult{Mistake: &rig.Mistake{Name: "always", Shows: rig.DamageLost, Always: true}, Items: 5}
	for name, c := range map[string]struct {
		lesson lesson.Lesson
		says   string
	}{
		"no damage": {lesson.Lesson{Mistakes: []lesson.MistakeResult{none}}, "did no damage"},
		"no work":   {lesson.Lesson{Mistakes: []lesson.MistakeResult{{Mistake: &mistakes[0]}}}, "no work"},
		"no kill":   {lesson.Lesson{Mistakes: []lesson.MistakeResult{none}, WithoutFaults: true}, ""},
		"no kill, but it shows": {lesson.Lesson{Mistakes: []lesson.MistakeResult{always}, WithoutFaults: true},
			"did no damage"},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.lesson.Err()
			if c.says == "" && err != nil || c.says != "" && (!errors.Is(err, lesson.ErrLesson) ||
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
		if m.Does == "" || m.Why == "" || m.Shows == "" || m.Run == nil || seen[m.ID()] {
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
	all := map[string]rig.Pattern{"archive": &eventual.Pattern{}, "large": &large.Pattern{}, "log": &logdata.Pattern{},
		"outbox": &outbox.Pattern{}, "jobs": &outbox.JobsPattern{}, "search": &search.Pattern{}, "lake": &lake.Pattern{},
		"copies": &index.Pattern{KindOfIndex: index.Copies}, "lists": &index.Pattern{KindOfIndex: index.Lists}}
	for i := range design.Designs {
		all[design.Designs[i].Name] = &design.Pattern{Design: &design.Designs[i]}
	}
	for name, p := range all {
		r := &rig.Report{Took: 1, Words: p.Words()}
		for _, point := range rig.PointsOf(p) {
			r.Rows = append(r.Rows, rig.Row{Point: point, Records: 1000, Messages: 1000, OK: 1000, Settled: true,
				Recovered: 10 * time.Second, Kills: []rig.Kill{{Point: point, Hit: 1000}, {Point: point, Hit: 1000}},
				Crashes: []rig.Crash{{Moved: 1000, Kept: 1000, Both: 1000, Lost: 1000, Orphaned: 1000, Messages: 1000},
					{Moved: 1000, Kept: 1000, Both: 1000, Lost: 1000, Orphaned: 1000, Messages: 1000}}})
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
