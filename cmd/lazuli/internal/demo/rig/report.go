package rig

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo/lines"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo/story"
)

// Report is the result of a run.
type Report struct {
	Seed uint64
	// NodesKilled is the number of times that a node of the cluster was killed.
	NodesKilled int
	// Records were loaded, Old of them asked to be worked on; Current and Archived count the entities in the archive
	// role's two tables at the end.
	Records, Old, Current, Archived int
	Rows                            []Row
	// Summary is the result in a sentence, if all is well.
	Summary string
	// Problems are violated invariants over all records, in words; empty means that all hold.
	Problems []string
	Took     time.Duration

	// Story is that of the item which the run followed, nil without one.
	Story *story.Story

	Words Words
}

// Row is one round: a share of the items, and the deaths of the workers that worked on it.
type Row struct {
	// Point says what happened to the worker, and where.
	Point             string
	Records, Messages int
	// Crashes is the state right after each kill.
	Crashes []Crash
	// OK, Lost, Duplicated, Changed and Stuck count the share's items at the end of the round: correct, missing, present
	// twice, with other content, not processed. Orphaned counts blobs that belong to no item.
	OK, Lost, Duplicated, Changed, Stuck, Orphaned int
	// Recovered is the time from the last restart to an empty queue, most of which is waiting for the dead process's
	// leases.
	Recovered, Took time.Duration

	Kills   []Kill
	AtKill  []Census // for each of Crashes
	End     Census
	Settled bool
}

// Crash counts a share's items right after a kill: done, not begun, half done, lost; and the orphaned blobs and the
// messages.
type Crash struct{ Moved, Kept, Both, Lost, Orphaned, Messages int }

func (r *Row) set(c Census) {
	r.OK, r.Lost, r.Duplicated, r.Changed, r.Stuck, r.Orphaned = len(c.Moved), len(c.Lost), len(c.Both), len(c.Changed),
		len(c.Kept), len(c.Orphans)
	r.Settled = true
}

func (r *Row) verdict() string {
	if r.well() {
		return fmt.Sprintf("all %d are correct", r.OK)
	}
	return fmt.Sprintf("%d of %d are correct, %d lost, %d half, %d orphaned, %d stuck, %d changed", r.OK, r.Records,
		r.Lost, r.Duplicated, r.Orphaned, r.Stuck, r.Changed)
}

func (r *Row) well() bool { return r.Settled && r.OK == r.Records && r.Changed == 0 && r.Orphaned == 0 }

// problems are the violated invariants over all records and of each round, in words.
func (r *Report) problems() []string {
	problems := slices.Clone(r.Problems)
	var work []int
	for _, row := range r.Rows {
		work = append(work, row.Records)
		if !row.well() {
			problems = append(problems, row.Point+": "+row.verdict())
		}
		for _, c := range row.Crashes {
			if c.Lost > 0 {
				problems = append(problems, fmt.Sprintf("%s: %d were lost at that moment", row.Point, c.Lost))
			}
		}
	}
	return append(problems, Idle(work)...)
}

// Err returns an error that wraps ErrInvariant and says what is wrong, or nil.
func (r *Report) Err() error { return Violated(r.problems()) }

// Idle returns what is wrong with a run of rounds that had no work: it proves nothing, and does not pass. work is the
// number of items of each round.
func Idle(work []int) []string {
	if len(work) == 0 {
		return []string{"no round was run: nothing was tested"}
	}
	for i, n := range work {
		if n == 0 {
			return []string{fmt.Sprintf("round %d had no work: nothing was tested; give the run more records", i+1)}
		}
	}
	return nil
}

// Violated is an error that wraps ErrInvariant and says what the problems are, or nil.
func Violated(problems []string) error { return Listing(ErrInvariant, problems) }

// Listing is an error that wraps err and lists the problems, or nil without problems.
func Listing(err error, problems []string) error {
	if len(problems) == 0 {
		return nil
	}
	return fmt.Errorf("%w:\n  %s", err, strings.Join(problems, "\n  "))
}

// JSON returns the report as an object for encoding/json. Times are in seconds; the seed is text, since it may exceed
// what a program that reads numbers as float64 keeps.
func (r *Report) JSON() any {
	type death struct {
		Step     string `json:"step"`
		Hit      int    `json:"hit"`
		Done     int    `json:"done"`
		Half     int    `json:"half"`
		Lost     int    `json:"lost"`
		Orphaned int    `json:"orphaned"`
		Messages int    `json:"messages"`
	}
	type round struct {
		Killed     []death `json:"killed"`
		Items      int     `json:"items"`
		Messages   int     `json:"messages"`
		Complete   bool    `json:"complete"`
		OK         int     `json:"ok"`
		Lost       int     `json:"lost"`
		Duplicated int     `json:"duplicated"`
		Orphaned   int     `json:"orphaned"`
		Stuck      int     `json:"stuck"`
		Changed    int     `json:"changed"`
		Recovered  float64 `json:"recoveredSeconds"`
		Took       float64 `json:"tookSeconds"`
	}
	rounds := []round{}
	for _, row := range r.Rows {
		o := round{Killed: []death{}, Items: row.Records, Messages: row.Messages, Complete: row.Settled, OK: row.OK,
			Lost: row.Lost, Duplicated: row.Duplicated, Orphaned: row.Orphaned, Stuck: row.Stuck, Changed: row.Changed,
			Recovered: row.Recovered.Seconds(), Took: row.Took.Seconds()}
		for i, k := range row.Kills {
			if i >= len(row.Crashes) { // it was not reached
				break
			}
			c := row.Crashes[i]
			o.Killed = append(o.Killed, death{k.Point, k.Hit, c.Moved, c.Both, c.Lost, c.Orphaned, c.Messages})
		}
		rounds = append(rounds, o)
	}
	return struct {
		Seed     string   `json:"seed"`
		Records  int      `json:"records"`
		Rounds   []round  `json:"rounds"`
		Nodes    int      `json:"nodesKilled"`
		Problems []string `json:"problems"`
		Took     float64  `json:"tookSeconds"`
	}{strconv.FormatUint(r.Seed, 10), r.Records, rounds, r.NodesKilled, Listed(r.problems()), r.Took.Seconds()}
}

// Listed is s, or an empty list in place of nil: JSON has an array in both cases.
func Listed(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}

// WriteTable prints one line for each kill, what is wrong at the end, the sum, and what the words mean. No line has 100
// characters.
func (r *Report) WriteTable(w io.Writer) error {
	p := &lines.Printer{W: w}
	if r.Story != nil {
		r.Story.Write(p)
		return p.Err
	}
	frozen := r.writeKills(p)
	r.writeWrong(p)
	if r.Took == 0 { // The run did not come to its end.
		p.Line("\nThe run was interrupted. Seed %d.", r.Seed)
		return p.Err
	}
	if err := r.Err(); err != nil {
		p.Line("\nNOT every invariant holds; see below.")
	} else {
		p.Line("")
		p.Paragraph("", r.Summary+"; the queue and the poison queue are empty.")
	}
	if r.NodesKilled > 0 {
		p.Line("Nodes of the cluster were killed %d times meanwhile.", r.NodesKilled)
	}
	p.Line("Seed %d, %.1fs.", r.Seed, r.Took.Seconds())
	r.Words.legend(p, frozen)
	return p.Err
}

// writeKills prints a line for each kill: the state at that moment, and on the last line of a round how it ended.
func (r *Report) writeKills(p *lines.Printer) (frozen bool) {
	if p.Err != nil {
		return false
	}
	tw := tabwriter.NewWriter(p.W, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "killed at\thit\titems\tput\tdone"+r.Words.columns()+"\tleft\tok\ttook")
	for _, row := range r.Rows {
		kills := row.Kills
		if len(kills) == 0 {
			kills = []Kill{{Point: "(no kill)"}}
		}
		for i, k := range kills {
			cells := []any{k.Point, k.Hit, row.Records, row.Messages}
			frozen = frozen || k.Point == Frozen
			switch {
			case k.Hit == 0:
				cells[1] = ""
			case k.Point == Frozen:
				cells[0] = "(frozen)"
			case i > 0: // the round's numbers stand in its first line
				cells = []any{"+ " + k.Point, k.Hit, "", ""}
			}
			if i < len(row.Crashes) {
				c := row.Crashes[i]
				cells = append(append(append(cells, c.Moved), r.Words.cells(c)...), c.Messages)
			} else {
				cells = append(append(append(cells, ""), r.Words.cells(Crash{})...), "")
			}
			switch last := i == len(kills)-1; {
			case last && row.Settled:
				cells = append(cells, row.OK, fmt.Sprintf("%.1fs", row.Recovered.Seconds()))
			case last:
				cells = append(cells, "?", "?")
			}
			fmt.Fprintln(tw, strings.TrimRight(strings.Join(texts(cells), "\t"), "\t"))
		}
	}
	p.Err = tw.Flush()
	return frozen
}

// texts are cells as text.
func texts(cells []any) (list []string) {
	for _, c := range cells {
		list = append(list, fmt.Sprint(c))
	}
	return list
}

// writeWrong says what is wrong at the end of rounds.
func (r *Report) writeWrong(p *lines.Printer) {
	wrong := false
	for _, row := range r.Rows {
		if row.Settled && !row.well() {
			p.Paragraph("", "WRONG at the end of the round "+row.Point+": "+row.verdict())
			wrong = true
		}
	}
	if !wrong && len(r.Rows) > 0 && r.Took > 0 {
		p.Line("\nAt the end of every round: 0 lost, 0 half, 0 orphaned, 0 stuck, 0 changed.")
	}
}

// Counts says how many items were worked on, and how many of them are damaged.
func (r *Report) Counts() (items, damaged int) {
	for _, row := range r.Rows {
		items += row.Records
		damaged += row.Records - row.OK + row.Orphaned
	}
	return items, damaged
}
