package demo

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// Report is what a run found.
type Report struct {
	Seed uint64
	// Names are those of the tables and queues of the run.
	Names names
	// Records were loaded, Old of them asked to be archived; Current and Archived count the entities in the two tables at the end.
	Records, Old, Current, Archived int
	Rows                            []Row
	// Problems are violated invariants over all records, in words; empty means that all hold.
	Problems []string
	Took     time.Duration
}

// Row is one round: a share of the records, and the deaths of the worker that archived it.
type Row struct {
	// Point says what happened to the worker, and where.
	Point             string
	Records, Messages int
	// Crashes is the state right after each kill.
	Crashes []Crash
	// OK, Lost, Duplicated, Changed and Left count the share's records at the end of the round: in the archive alone, in no table, in
	// both, with other content, in Current alone.
	OK, Lost, Duplicated, Changed, Left int
	// Recovered is the time from the last restart to an empty queue, most of which is waiting for the dead process's leases.
	Recovered, Took time.Duration

	kills   []kill
	settled bool
}

// Crash is where a share's records were right after a kill.
type Crash struct{ Moved, Kept, Both, Lost, Messages int }

func (r *Row) settle(c census) {
	r.OK, r.Lost, r.Duplicated, r.Changed, r.Left = len(c.Moved), len(c.Lost), len(c.Both), len(c.Changed), len(c.Kept)
	r.settled = true
}

func (r *Row) verdict() string {
	if r.settled && r.OK == r.Records && r.Changed == 0 {
		return fmt.Sprintf("all %d archived", r.OK)
	}
	return fmt.Sprintf("%d of %d archived, %d lost, %d in both, %d changed, %d left behind", r.OK, r.Records, r.Lost, r.Duplicated, r.Changed, r.Left)
}

// Err returns an error that wraps ErrInvariant and says what is wrong, or nil.
func (r *Report) Err() error {
	problems := r.Problems
	for _, row := range r.Rows {
		if !row.settled || row.OK != row.Records || row.Changed > 0 {
			problems = append(problems, row.Point+": "+row.verdict())
		}
	}
	if len(problems) == 0 {
		return nil
	}
	return fmt.Errorf("%w:\n  %s", ErrInvariant, strings.Join(problems, "\n  "))
}

// WriteTable prints one line for each round, and the sum.
func (r *Report) WriteTable(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "\t\t\tat that moment:\t\t\t\tat the end:\t\t\t\t\t")
	fmt.Fprintln(tw, "records\tmessages\thit\tarchived\tin both\tin none\tmessages\tok\tlost\tin both\tchanged\trecovered\t  killed at")
	for _, row := range r.Rows {
		for i, k := range row.kills {
			last := i == len(row.kills)-1
			var share, end string
			if i == 0 {
				share = fmt.Sprintf("%d\t%d", row.Records, row.Messages)
			} else {
				share = "\t"
			}
			crash := "\t\t\t"
			if i < len(row.Crashes) {
				c := row.Crashes[i]
				crash = fmt.Sprintf("%d\t%d\t%d\t%d", c.Moved, c.Both, c.Lost, c.Messages)
			}
			switch {
			case last && row.settled:
				end = fmt.Sprintf("%d\t%d\t%d\t%d\t%.1fs", row.OK, row.Lost, row.Duplicated, row.Changed, row.Recovered.Seconds())
			case last:
				end = "?\t?\t?\t?\t?"
			default:
				end = "\t\t\t\t"
			}
			point := k.point
			switch {
			case point == Frozen:
				point = "(frozen after so many messages, went on when another worker was done)"
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
		_, err := fmt.Fprintf(w, "\nThe run was broken off. Seed %d.\n", r.Seed)
		return err
	}
	state := "Every record is in exactly one table, unchanged; the queue is empty; nothing is poisoned."
	if err := r.Err(); err != nil {
		state = "NOT every invariant holds; see below."
	}
	_, err := fmt.Fprintf(w, "\n%d records: %d in Current, %d in the archive. %s\nSeed %d, %.1fs.\n", r.Records, r.Current, r.Archived, state, r.Seed, r.Took.Seconds())
	return err
}
