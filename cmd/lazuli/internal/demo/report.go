package demo

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
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

	kills   []kill
	settled bool
}

// Crash counts a share's items right after a kill: done, not begun, half done, lost; and the orphaned blobs and the
// messages.
type Crash struct{ Moved, Kept, Both, Lost, Orphaned, Messages int }

func (r *Row) set(c census) {
	r.OK, r.Lost, r.Duplicated, r.Changed, r.Stuck, r.Orphaned = len(c.Moved), len(c.Lost), len(c.Both), len(c.Changed),
		len(c.Kept), c.Orphaned
	r.settled = true
}

func (r *Row) verdict() string {
	if r.well() {
		return fmt.Sprintf("all %d are correct", r.OK)
	}
	return fmt.Sprintf("%d of %d are correct, %d lost, %d duplicated, %d orphaned, %d stuck, %d changed", r.OK, r.Records,
		r.Lost, r.Duplicated, r.Orphaned, r.Stuck, r.Changed)
}

func (r *Row) well() bool { return r.settled && r.OK == r.Records && r.Changed == 0 && r.Orphaned == 0 }

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
	return append(problems, idle(work)...)
}

// Err returns an error that wraps ErrInvariant and says what is wrong, or nil.
func (r *Report) Err() error { return violated(r.problems()) }

// idle returns what is wrong with a run of rounds that had no work: it proves nothing, and does not pass. work is the
// number of items of each round.
func idle(work []int) []string {
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

// violated is an error that wraps ErrInvariant and says what the problems are, or nil.
func violated(problems []string) error {
	if len(problems) == 0 {
		return nil
	}
	return fmt.Errorf("%w:\n  %s", ErrInvariant, strings.Join(problems, "\n  "))
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
		o := round{Killed: []death{}, Items: row.Records, Messages: row.Messages, Complete: row.settled, OK: row.OK,
			Lost: row.Lost, Duplicated: row.Duplicated, Orphaned: row.Orphaned, Stuck: row.Stuck, Changed: row.Changed,
			Recovered: row.Recovered.Seconds(), Took: row.Took.Seconds()}
		for i, k := range row.kills {
			if i >= len(row.Crashes) { // it was not reached
				break
			}
			c := row.Crashes[i]
			o.Killed = append(o.Killed, death{k.point, k.hit, c.Moved, c.Both, c.Lost, c.Orphaned, c.Messages})
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
	}{strconv.FormatUint(r.Seed, 10), r.Records, rounds, r.NodesKilled, listed(r.problems()), r.Took.Seconds()}
}

// listed is s, or an empty list in place of nil: JSON has an array in both cases.
func listed(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}

// WriteTable prints one line for each round, and the sum.
func (r *Report) WriteTable(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "\t\t\tat that moment:\t\t\t\t\tat the end:\t\t\t\t\t\t\t")
	fmt.Fprintln(tw,
		"items\tmessages\thit\tdone\thalf\tlost\torphaned\tmessages\tok\tlost\tduplicated\torphaned\tstuck\tchanged\trecovered\t  killed at")
	for _, row := range r.Rows {
		for i, k := range row.kills {
			last := i == len(row.kills)-1
			var share, end string
			if i == 0 {
				share = fmt.Sprintf("%d\t%d", row.Records, row.Messages)
			} else {
				share = "\t"
			}
			crash := "\t\t\t\t"
			if i < len(row.Crashes) {
				c := row.Crashes[i]
				crash = fmt.Sprintf("%d\t%d\t%d\t%d\t%d", c.Moved, c.Both, c.Lost, c.Orphaned, c.Messages)
			}
			switch {
			case last && row.settled:
				end = fmt.Sprintf("%d\t%d\t%d\t%d\t%d\t%d\t%.1fs", row.OK, row.Lost, row.Duplicated, row.Orphaned, row.Stuck,
					row.Changed, row.Recovered.Seconds())
			case last:
				end = "?\t?\t?\t?\t?\t?\t?"
			default:
				end = "\t\t\t\t\t\t"
			}
			point := k.point
			switch {
			case point == Frozen:
				point = "(frozen with this many in-flight messages, continued after another worker finished)"
			case i > 0:
				point = "then " + point
			}
			fmt.Fprintf(tw, "%s\t%d\t%s\t%s\t  %s\n", share, k.hit, crash, end, point)
		}
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	if r.Took == 0 { // The run did not come to its end.
		_, err := fmt.Fprintf(w, "\nThe run was interrupted. Seed %d.\n", r.Seed)
		return err
	}
	state := r.Summary + "; the queue and the poison queue are empty."
	if err := r.Err(); err != nil {
		state = "NOT every invariant holds; see below."
	}
	if r.NodesKilled > 0 {
		state += fmt.Sprintf("\nNodes of the cluster were killed %d times meanwhile.", r.NodesKilled)
	}
	_, err := fmt.Fprintf(w, "\n%s\nSeed %d, %.1fs.\n", state, r.Seed, r.Took.Seconds())
	return err
}
