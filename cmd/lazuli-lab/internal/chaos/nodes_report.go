package chaos

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// maxPrinted is the number of findings that a report prints.
const maxPrinted = 20

// NodesReport is the outcome of a run on a cluster.
type NodesReport struct {
	Seed  uint64
	Nodes int
	// Faults has the number of faults after which the cluster was whole again, by kind.
	Faults map[string]int
	// Moves has the number of moves of shards that ended beside the faults, by kind, and LongestMove what one took at
	// most. It is nil where no shard moves.
	Moves       map[string]int
	LongestMove time.Duration
	// Replaced is the number of nodes that left the cluster since a bit of their files was flipped, and joined with an
	// empty folder.
	Replaced int
	// Puts, Gets and Deletes are acknowledged requests, Unknown those without an answer, Unavailable those that were
	// answered 503 or 507.
	Puts, Gets, Deletes, Unknown, Unavailable int64
	// Increments and Reads are acknowledged requests to tables.
	Increments, Reads int64
	// BlobWrites and BlobReads are acknowledged requests to blobs.
	BlobWrites, BlobReads int64
	// Histories is the number of blobs whose HistoryRequests were checked, and Undecided that of those for which that took
	// too long.
	Histories, Undecided int
	HistoryRequests      int64
	// Contents is the number of large blobs that were read in the end, with a tier.
	Contents int
	// LongestGap has the longest time without any acknowledged request, through all nodes, for messages, entities and
	// blobs.
	LongestGap map[string]time.Duration
	// SlowestRecovery is the longest time from the end of a fault until all nodes were ready.
	SlowestRecovery time.Duration
	Findings        []*Finding
	// Kept is the folder of a run in which something is wrong.
	Kept string
	Took time.Duration
}

// OK reports whether nothing is wrong.
func (r *NodesReport) OK() bool { return len(r.Findings) == 0 }

// gap notes a time without an acknowledged request.
func (r *NodesReport) gap(noun string, d time.Duration) {
	if r.LongestGap == nil {
		r.LongestGap = map[string]time.Duration{}
	}
	r.LongestGap[noun] = max(r.LongestGap[noun], d)
}

func (r *NodesReport) faults() (n int) {
	for _, count := range r.Faults {
		n += count
	}
	return n
}

// WriteText writes the report for people.
func (r *NodesReport) WriteText(w io.Writer) error {
	for i, f := range r.Findings {
		// One broken promise repeats for each key that it hit; the first ones tell the story.
		if i == maxPrinted {
			fmt.Fprintf(w, "%d more\n", len(r.Findings)-i)
			break
		}
		fmt.Fprintln(w, f)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	var faults []string
	// All kinds with their numbers, also those with zero: a kind that never happened was not tested.
	for _, kind := range nodeFaults {
		faults = append(faults, fmt.Sprint(r.Faults[kind], " ", kind))
	}
	fmt.Fprintf(t, "seed\t%d\n", r.Seed)
	fmt.Fprintf(t, "nodes\t%d for %v\n", r.Nodes, r.Took.Round(time.Second))
	fmt.Fprintf(t, "faults survived\t%d: %s\n", r.faults(), strings.Join(faults, ", "))
	if r.Moves != nil {
		var moves []string
		for _, kind := range moveFaults {
			moves = append(moves, fmt.Sprint(r.Moves[kind], " ", kind))
		}
		fmt.Fprintf(t, "shards beside them\t%s; the longest took %v\n", strings.Join(moves, ", "),
			r.LongestMove.Round(time.Millisecond))
	}
	fmt.Fprintf(t, "nodes replaced\t%d of %d with a flipped bit\n", r.Replaced, r.Faults[faultFlip])
	fmt.Fprintf(t, "acknowledged\t%d: queue %d put, %d get, %d delete; table %d updates, %d reads; blobs %d writes, %d "+
		"reads\n",
		r.Puts+r.Gets+r.Deletes+r.Increments+r.Reads+r.BlobWrites+r.BlobReads, r.Puts, r.Gets, r.Deletes, r.Increments,
		r.Reads, r.BlobWrites, r.BlobReads)
	fmt.Fprintf(t, "histories\t%d of blobs with %d acknowledged requests; %d took too long to check\n", r.Histories,
		// Histories whose check ran out of time are neither right nor wrong, and are not counted as either.
		r.HistoryRequests, r.Undecided)
	if r.Contents > 0 {
		fmt.Fprintf(t, "object store\t%d large blobs were read in the end\n", r.Contents)
	}
	fmt.Fprintf(t, "not acknowledged\t%d without an answer, %d answered 503 or 507\n", r.Unknown, r.Unavailable)
	for _, k := range []Kind{Lost, Stale, Doubled, Resurrected, Wrong, Nonlinear, Refused} {
		n := 0
		for _, f := range r.Findings {
			if f.Kind == k {
				n++
			}
		}
		fmt.Fprintf(t, "%s\t%d\n", k, n)
	}
	var gaps []string
	for _, noun := range slices.Sorted(maps.Keys(r.LongestGap)) {
		gaps = append(gaps, fmt.Sprintf("%s %v", noun, r.LongestGap[noun].Round(time.Millisecond)))
	}
	fmt.Fprintf(t, "longest gap\t%s\n", strings.Join(gaps, ", "))
	fmt.Fprintf(t, "slowest recovery\t%v\n", r.SlowestRecovery.Round(time.Millisecond))
	if r.Kept != "" {
		fmt.Fprintf(t, "kept\t%s\n", r.Kept)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	text := "passed"
	if !r.OK() {
		text = fmt.Sprintf("FAILED; repeat with --seed %d", r.Seed)
	}
	_, err := fmt.Fprintln(w, text)
	return err
}
