package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/lazuli-storage/lazuli/workers"
)

// A Mistake is a way to do the work of a demonstration without its pattern, as a program does that is written without
// thinking of crashes. Its worker is killed at a step, and the damage is counted.
type Mistake struct {
	// Demonstration is the one that it belongs to, Name tells it from the others of that.
	Demonstration, Name string
	// Does says what the worker does, and Why how that does the damage.
	Does, Why string
	// Point is the step at which it is killed.
	Point string
	// Shows is the damage that must be seen, one of the constants.
	Shows string
	// from is the list of the census that Shows is counted from, if not the one of that name, and says are the words for
	// what it is, in place of the demonstration's legend.
	from, says string
	// always means that the damage is there without a kill too.
	always bool
	// crowd means that several messages must be in work at a time.
	crowd bool
	run   variantRun
}

// The kinds of damage.
const (
	damageLost     = "lost"
	damageDoubled  = "doubled"
	damageHalf     = "half"
	damageOrphaned = "orphaned"
	damageUndone   = "not done"
	damageChanged  = "changed"
)

// Naive reports whether the workers of the run make a mistake.
func (c *Config) Naive() bool { return c.mistake != nil }

// ID names a mistake among those of all demonstrations.
func (m *Mistake) ID() string { return m.Demonstration + "/" + m.Name }

// mistakeHits is the latest hit of its step at which the worker of a mistake is killed: with few items, all mistakes
// reach it.
const mistakeHits = 5

// mistakeItems is the number of records or items that a mistake is shown on.
const mistakeItems = 36

// taughtItems is the number of records or items on which the pattern is shown after its mistakes.
const taughtItems = 6 * mistakeItems

// MistakesOf returns the mistakes of a demonstration; none means that it has no naive form.
func MistakesOf(demonstration string) (list []*Mistake) {
	for i := range mistakes {
		if mistakes[i].Demonstration == demonstration {
			list = append(list, &mistakes[i])
		}
	}
	return list
}

// MistakePoints returns the steps at which the workers of mistakes are killed.
func MistakePoints(list []*Mistake) (points []string) {
	for _, m := range list {
		if !slices.Contains(points, m.Point) {
			points = append(points, m.Point)
		}
	}
	return points
}

// PointsAfter returns where workers are killed when the pattern runs after the mistakes: at their steps, as far as the
// pattern has them, whose steps are points; else at its first one.
func PointsAfter(list []*Mistake, points []string) (after []string) {
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

// RunNaiveWorker is the worker that makes the mistake of the settings, until ctx is done.
func RunNaiveWorker(ctx context.Context, storage *workers.Storage, app *workers.App, s WorkerSettings) error {
	for i := range mistakes {
		if mistakes[i].ID() == s.Mistake {
			return mistakes[i].run(ctx, storage, app, s)
		}
	}
	return fmt.Errorf("there is no mistake %q", s.Mistake)
}

// ErrLesson is wrapped by the error of a lesson in which a mistake did no damage: it shows nothing.
var ErrLesson = errors.New("the lesson failed")

// Lesson shows the effect of mistakes beside that of the pattern.
type Lesson struct {
	Seed     uint64
	Mistakes []MistakeResult
	// Pattern is the report of the pattern, nil if the run did not come to it.
	Pattern PatternReport
	// withoutFaults means that no worker was killed.
	withoutFaults bool
}

// PatternReport is the report of a demonstration.
type PatternReport interface {
	WriteTable(w io.Writer) error
	JSON() any
	Err() error
	// counts says how many items were worked on, and how many of them are damaged.
	counts() (items, damaged int)
}

func (r *Report) counts() (items, damaged int) {
	for _, row := range r.Rows {
		items += row.Records
		damaged += row.Records - row.OK + row.Orphaned
	}
	return items, damaged
}

// MistakeResult is the effect of one mistake.
type MistakeResult struct {
	*Mistake
	// Killed says where the worker was killed; empty means that it was not.
	Killed string
	Items  int
	Damage []Damage
	// Story is that of the item which the run followed, nil without one.
	Story *Story
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
func Teach(ctx context.Context, c Config, list []*Mistake,
	demonstrate func(context.Context, Config) (PatternReport, error)) (*Lesson, error) {
	l := &Lesson{Seed: c.Seed, withoutFaults: c.Points != nil && len(c.Points) == 0}
	for _, m := range list {
		one := c
		one.mistake = m
		if c.Story > 0 && m.crowd {
			continue // it takes several items
		}
		if one.Points = []string{m.Point}; l.withoutFaults {
			one.Points = []string{}
		}
		if one.Records == 0 {
			one.Records = mistakeItems
		}
		if c.Progress != nil {
			fmt.Fprintf(c.Progress, "without the pattern: %s\n", m.Name)
		}
		report, err := demonstrate(ctx, one)
		if r, ok := report.(*Report); ok && r != nil && len(r.Rows) > 0 {
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
func resultOf(m *Mistake, r *Report) MistakeResult {
	row := r.Rows[0]
	result := MistakeResult{Mistake: m, Items: row.Records, Story: r.Story}
	if len(row.kills) > 0 {
		result.Killed = row.kills[0].text()
	}
	// Damage at the kill counts although it may be gone at the end: a reader could have seen it.
	for _, at := range row.atKill {
		result.add(true, damageLost, at.Lost, r.words.lost)
		result.add(true, damageChanged, at.Changed, r.words.changed)
		result.add(true, fromSurplus, at.Surplus, "")
	}
	end := row.end
	// Both, Kept and orphans count at the end alone. At the kill they are what the pattern has, too: work that is not
	// done yet.
	result.add(false, damageLost, end.Lost, r.words.lost)
	result.add(false, damageHalf, end.Both, r.words.half)
	result.add(false, damageChanged, end.Changed, r.words.changed)
	result.add(false, fromSurplus, end.Surplus, "")
	result.add(false, damageUndone, end.Kept, r.words.notYet)
	var orphans []entityKey
	// An orphan has no item, only a name; as a key it goes through the same list as the items.
	for _, name := range end.Orphans {
		orphans = append(orphans, entityKey{row: name})
	}
	result.add(false, damageOrphaned, orphans, r.words.orphaned)
	return result
}

// fromSurplus counts Shows from the items that have more entities than they should have.
const fromSurplus = "surplus"

// add adds damage that the census found in one of its lists. A mistake that says what its damage is counts it from one
// list, and what the others of half, changed and surplus have is the same, or follows from it.
func (m *MistakeResult) add(atKill bool, list string, keys []entityKey, means string) {
	what := list
	switch {
	case len(keys) == 0:
		return
	case m.from == list:
		what, means = m.Shows, m.says
	case list == fromSurplus, m.from != "" && (list == damageHalf || list == damageChanged):
		return
	}
	example := slices.MinFunc(keys, func(a, b entityKey) int { return strings.Compare(a.String(), b.String()) })
	m.Damage = append(m.Damage, Damage{AtKill: atKill, What: what, N: len(keys), Example: shortened(example),
		Means: means})
}

// shortened is the name of an item for a line.
func shortened(k entityKey) string {
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
		case !m.shown() && (!l.withoutFaults || m.always):
			problems = append(problems, fmt.Sprintf("%s did no damage (%s): it shows nothing; run it again, with "+
				"another --seed or more --records", m.Name, m.Shows))
		}
	}
	return problems
}

// Err returns an error that wraps ErrLesson if a mistake showed nothing.
func (l *Lesson) Err() error {
	problems := l.problems()
	if len(problems) == 0 {
		return nil
	}
	return fmt.Errorf("%w:\n  %s", ErrLesson, strings.Join(problems, "\n  "))
}

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
	}{list, pattern, listed(l.problems())}
}

func (d Damage) when() string {
	if d.AtKill {
		return "at the kill"
	}
	return "at the end"
}

// WriteTable prints what each mistake did, and then the table of the pattern.
func (l *Lesson) WriteTable(w io.Writer) error {
	p := &printer{w: w}
	p.line("WITHOUT THE PATTERN")
	for i, m := range l.Mistakes {
		p.line("")
		p.paragraph("", fmt.Sprintf("%d. %s: %s", i+1, m.Name, m.Does))
		p.paragraph("   ", m.killedText()+":")
		if m.Story != nil {
			p.line("")
			m.Story.write(p)
			p.line("")
		}
		for _, d := range m.Damage {
			p.paragraph("      ", fmt.Sprintf("%s: %d %s, for example %s (%s)", d.when(), d.N, d.What, d.Example, d.Means))
		}
		switch {
		case m.shown():
			p.paragraph("   ", "Why: "+m.Why)
		// No damage is expected then and is no failure; with faults it means that the seed missed the moment, which
		// problems reports as a failure.
		case l.withoutFaults:
			p.paragraph("   ", "no damage. Without a fault nothing is seen, which is why such programs are written; run it "+
				"without --fault none.")
		default:
			p.paragraph("   ", "NO DAMAGE: this shows nothing. Run it again, with another --seed or more --records.")
		}
	}
	if l.Pattern == nil {
		p.line("\nThe run ended before the pattern. Seed %d.", l.Seed)
		return p.err
	}
	p.line("\nWITH THE PATTERN\n")
	// The printer keeps its first error and ignores what follows; WriteTable has an error of its own.
	if p.err == nil {
		p.err = l.Pattern.WriteTable(w)
	}
	items, damaged := l.Pattern.counts()
	p.line("\nWithout the pattern: %s. With it: %d damaged of %d.", l.total(), damaged, items)
	return p.err
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
	for _, what := range []string{damageLost, damageDoubled, damageHalf, damageOrphaned, damageUndone, damageChanged} {
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

// printer writes lines of less than pageWidth characters, and keeps the first error.
type printer struct {
	w   io.Writer
	err error
}

const pageWidth = 96

func (p *printer) line(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format+"\n", args...)
	}
}

// paragraph writes text in lines that begin with an indentation; all but the first have two more spaces.
func (p *printer) paragraph(indent, text string) { p.hanging(indent+text, indent+"  ") }

// hanging writes a line, broken where it is too long; all but the first begin with an indentation.
func (p *printer) hanging(line, indent string) {
	for len(line) > pageWidth {
		cut := strings.LastIndexByte(line[:pageWidth+1], ' ')
		if cut <= len(indent) { // one long word
			break
		}
		p.line("%s", line[:cut])
		line = indent + line[cut+1:]
	}
	p.line("%s", line)
}

// variantRun is the body of a worker's process.
type variantRun = func(context.Context, *workers.Storage, *workers.App, WorkerSettings) error
