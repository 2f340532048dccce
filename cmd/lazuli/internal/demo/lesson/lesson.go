// Package lesson shows what programs without a pattern do to the same items: it runs mistakes of a demonstration, then
// the demonstration itself, and puts the damage of the ones beside the result of the other.
package lesson

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo/lines"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo/rig"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo/story"
)

// MistakeItems is the number of records or items that a mistake is shown on.
const MistakeItems = 36

// taughtItems is the number of records or items on which the pattern is shown after its mistakes.
const taughtItems = 6 * MistakeItems

// MistakePoints returns the steps at which the workers of mistakes are killed.
func MistakePoints(list []*rig.Mistake) (points []string) {
	for _, m := range list {
		if !slices.Contains(points, m.Point) {
			points = append(points, m.Point)
		}
	}
	return points
}

// PointsAfter returns where workers are killed when the pattern runs after the mistakes: at their steps, as far as the
// pattern has them, whose steps are points; else at its first one.
func PointsAfter(list []*rig.Mistake, points []string) (after []string) {
	for _, p := range MistakePoints(list) {
		if slices.Contains(points, p) {
			after = append(after, p)
		}
	}
	if after == nil {
		after = points[:1]
	}
	return after
}

// ErrLesson is wrapped by the error of a lesson in which a mistake did no damage: it shows nothing.
var ErrLesson = errors.New("the lesson failed")

// Lesson shows the effect of mistakes beside that of the pattern.
type Lesson struct {
	Seed     uint64
	Mistakes []MistakeResult
	// Pattern is the report of the pattern, nil if the run did not come to it.
	Pattern PatternReport
	// WithoutFaults means that no worker was killed.
	WithoutFaults bool
}

// PatternReport is the report of a demonstration.
type PatternReport interface {
	WriteTable(w io.Writer) error
	JSON() any
	Err() error
	// Counts says how many items were worked on, and how many of them are damaged.
	Counts() (items, damaged int)
}

// MistakeResult is the effect of one mistake.
type MistakeResult struct {
	*rig.Mistake
	// Killed says where the worker was killed; empty means that it was not.
	Killed string
	Items  int
	Damage []Damage
	// Story is that of the item which the run followed, nil without one.
	Story *story.Story
}

// Damage counts the items that have come to harm in one way.
type Damage struct {
	// AtKill means that it was there right after the kill, and not at the end of the round.
	AtKill bool
	// What is one of the constants, N the number, Example one of the items, and Means what that is.
	What    string
	N       int
	Example string
	Means   string
}

// shown reports whether the damage that the mistake is to show is there.
func (m *MistakeResult) shown() bool {
	return slices.ContainsFunc(m.Damage, func(d Damage) bool { return d.What == m.Shows })
}

// Teach runs mistakes of a demonstration, then the demonstration itself, killed at the same steps. The lesson is
// complete as far as the run came, also when an error is returned.
func Teach(ctx context.Context, c rig.Config, list []*rig.Mistake,
	demonstrate func(context.Context, rig.Config) (PatternReport, error)) (*Lesson, error) {
	l := &Lesson{Seed: c.Seed, WithoutFaults: c.Points != nil && len(c.Points) == 0}
	for _, m := range list {
		one := c
		one.Mistake = m
		if c.Story > 0 && m.Crowd {
			continue // it takes several items
		}
		if one.Points = []string{m.Point}; l.WithoutFaults {
			one.Points = []string{}
		}
		if one.Records == 0 {
			one.Records = MistakeItems
		}
		if c.Progress != nil {
			fmt.Fprintf(c.Progress, "without the pattern: %s\n", m.Name)
		}
		report, err := demonstrate(ctx, one)
		if r, ok := report.(*rig.Report); ok && r != nil && len(r.Rows) > 0 {
			l.Mistakes = append(l.Mistakes, resultOf(m, r))
		}
		if err != nil {
			return l, fmt.Errorf("%s: %w", m.Name, err)
		}
	}
	if c.Progress != nil {
		fmt.Fprintln(c.Progress, "with the pattern")
	}
	if c.Records == 0 {
		c.Records = taughtItems
	}
	var err error
	l.Pattern, err = demonstrate(ctx, c)
	return l, errors.Join(err, l.Err())
}

// resultOf reads the damage from the report of a mistake.
func resultOf(m *rig.Mistake, r *rig.Report) MistakeResult {
	row := r.Rows[0]
	result := MistakeResult{Mistake: m, Items: row.Records, Story: r.Story}
	if len(row.Kills) > 0 {
		result.Killed = row.Kills[0].Text()
	}
	// Damage at the kill counts although it may be gone at the end: a reader could have seen it.
	for _, at := range row.AtKill {
		result.add(true, rig.DamageLost, at.Lost, r.Words.Lost)
		result.add(true, rig.DamageChanged, at.Changed, r.Words.Changed)
		result.add(true, rig.FromSurplus, at.Surplus, "")
	}
	end := row.End
	// Both, Kept and orphans count at the end alone. At the kill they are what the pattern has, too: work that is not
	// done yet.
	result.add(false, rig.DamageLost, end.Lost, r.Words.Lost)
	result.add(false, rig.DamageHalf, end.Both, r.Words.Half)
	result.add(false, rig.DamageChanged, end.Changed, r.Words.Changed)
	result.add(false, rig.FromSurplus, end.Surplus, "")
	result.add(false, rig.DamageUndone, end.Kept, r.Words.NotYet)
	var orphans []rig.Key
	// An orphan has no item, only a name; as a key it goes through the same list as the items.
	for _, name := range end.Orphans {
		orphans = append(orphans, rig.Key{Row: name})
	}
	result.add(false, rig.DamageOrphaned, orphans, r.Words.Orphaned)
	return result
}

// add adds damage that the census found in one of its lists. A mistake that says what its damage is counts it from one
// list, and what the others of half, changed and surplus have is the same, or follows from it.
func (m *MistakeResult) add(atKill bool, list string, keys []rig.Key, means string) {
	what := list
	switch {
	case len(keys) == 0:
		return
	case m.From == list:
		what, means = m.Shows, m.Says
	case list == rig.FromSurplus, m.From != "" && (list == rig.DamageHalf || list == rig.DamageChanged):
		return
	}
	example := slices.MinFunc(keys, func(a, b rig.Key) int { return strings.Compare(a.String(), b.String()) })
	m.Damage = append(m.Damage, Damage{AtKill: atKill, What: what, N: len(keys), Example: shortened(example),
		Means: means})
}

// shortened is the name of an item for a line.
func shortened(k rig.Key) string {
	name, most := strings.TrimPrefix(k.String(), "/"), 60
	if len(name) > most {
		name = name[:20] + "..." + name[len(name)-37:]
	}
	return name
}

// problems says which mistakes showed nothing, and what is wrong with the pattern.
func (l *Lesson) problems() (problems []string) {
	for _, m := range l.Mistakes {
		switch {
		case m.Items == 0:
			problems = append(problems, m.Name+": there was no work: nothing was tested; give the run more records")
		case !m.shown() && (!l.WithoutFaults || m.Always):
			problems = append(problems, fmt.Sprintf("%s did no damage (%s): it shows nothing; run it again, with "+
				"another --seed or more --records", m.Name, m.Shows))
		}
	}
	return problems
}

// Err returns an error that wraps ErrLesson if a mistake showed nothing.
func (l *Lesson) Err() error { return rig.Listing(ErrLesson, l.problems()) }

// JSON returns the lesson as an object for encoding/json.
func (l *Lesson) JSON() any {
	// The form of the JSON is declared here, apart from the types of the run: a renamed field of those must not change
	// what scripts read.
	type damage struct {
		When    string `json:"when"`
		What    string `json:"what"`
		Count   int    `json:"count"`
		Example string `json:"example"`
		Means   string `json:"means"`
	}
	type mistake struct {
		Name   string   `json:"name"`
		Does   string   `json:"does"`
		Killed string   `json:"killed"`
		Items  int      `json:"items"`
		Damage []damage `json:"damage"`
		Why    string   `json:"why"`
	}
	// An empty list, not null, for programs that range over it.
	list := []mistake{}
	for _, m := range l.Mistakes {
		o := mistake{Name: m.Name, Does: m.Does, Killed: m.Killed, Items: m.Items, Damage: []damage{}, Why: m.Why}
		for _, d := range m.Damage {
			o.Damage = append(o.Damage, damage{d.when(), d.What, d.N, d.Example, d.Means})
		}
		list = append(list, o)
	}
	var pattern any
	if l.Pattern != nil {
		pattern = l.Pattern.JSON()
	}
	return struct {
		Naive    []mistake `json:"naive"`
		Pattern  any       `json:"pattern"`
		Problems []string  `json:"problems"`
	}{list, pattern, rig.Listed(l.problems())}
}

func (d Damage) when() string {
	if d.AtKill {
		return "at the kill"
	}
	return "at the end"
}

// WriteTable prints what each mistake did, and then the table of the pattern.
func (l *Lesson) WriteTable(w io.Writer) error {
	p := &lines.Printer{W: w}
	p.Line("WITHOUT THE PATTERN")
	for i, m := range l.Mistakes {
		p.Line("")
		p.Paragraph("", fmt.Sprintf("%d. %s: %s", i+1, m.Name, m.Does))
		p.Paragraph("   ", m.killedText()+":")
		if m.Story != nil {
			p.Line("")
			m.Story.Write(p)
			p.Line("")
		}
		for _, d := range m.Damage {
			p.Paragraph("      ", fmt.Sprintf("%s: %d %s, for example %s (%s)", d.when(), d.N, d.What, d.Example, d.Means))
		}
		switch {
		case m.shown():
			p.Paragraph("   ", "Why: "+m.Why)
		// No damage is expected then and is no failure; with faults it means that the seed missed the moment, which
		// problems reports as a failure.
		case l.WithoutFaults:
			p.Paragraph("   ", "no damage. Without a fault nothing is seen, which is why such programs are written; run it "+
				"without --fault none.")
		default:
			p.Paragraph("   ", "NO DAMAGE: this shows nothing. Run it again, with another --seed or more --records.")
		}
	}
	if l.Pattern == nil {
		p.Line("\nThe run ended before the pattern. Seed %d.", l.Seed)
		return p.Err
	}
	p.Line("\nWITH THE PATTERN\n")
	// The printer keeps its first error and ignores what follows; WriteTable has an error of its own.
	if p.Err == nil {
		p.Err = l.Pattern.WriteTable(w)
	}
	items, damaged := l.Pattern.Counts()
	p.Line("\nWithout the pattern: %s. With it: %d damaged of %d.", l.total(), damaged, items)
	return p.Err
}

func (m *MistakeResult) killedText() string {
	if m.Killed == "" {
		return fmt.Sprintf("%d items, no kill", m.Items)
	}
	return fmt.Sprintf("%d items, %s", m.Items, m.Killed)
}

// total is the damage of all mistakes, by kind. What is there at the kill and at the end counts once.
func (l *Lesson) total() string {
	var texts []string
	for _, what := range []string{rig.DamageLost, rig.DamageDoubled, rig.DamageHalf, rig.DamageOrphaned,
		rig.DamageUndone, rig.DamageChanged} {
		n := 0
		for _, m := range l.Mistakes {
			// An item that was lost at the kill is also lost at the end; the sum would count it twice.
			most := 0
			for _, d := range m.Damage {
				if d.What == what {
					most = max(most, d.N)
				}
			}
			n += most
		}
		if n > 0 {
			texts = append(texts, fmt.Sprintf("%d %s", n, what))
		}
	}
	if texts == nil {
		return "no damage"
	}
	return strings.Join(texts, ", ")
}
