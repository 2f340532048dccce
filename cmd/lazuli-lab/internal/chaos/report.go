package chaos

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"
)

// Damage counts what became of damaged copies of the folder, by outcome.
type Damage struct {
	// Refused is a server that did not start, with a message; ReadError one that answered reads with errors; Found one
	// that lacked data, which fsck found; Unaffected one that had everything.
	Refused, ReadError, Found, Unaffected int
	// Aimed counts those in which the bit was in data that the server must have.
	Aimed int
	// Missed counts those of Refused and ReadError in which fsck found nothing. It is no failure of a run.
	Missed int
	// Wrong is a server that served what was not written, lacked data without a finding of fsck, crashed, or hung.
	Wrong int
}

// Report is the outcome of a run.
type Report struct {
	Seed   uint64
	Rounds int
	// Kills, Pauses, Stops and StartKills count the ends of processes: SIGKILL under load, the same after a pause,
	// SIGTERM, and SIGKILL while the process started.
	Kills, Pauses, Stops, StartKills int
	// Steps are requests that were answered as the model expects, Doubts those in progress when a process ended.
	Steps, Doubts int64
	// Writes are the requests under load that changed data and were acknowledged.
	Writes       int64
	Checks       int // comparisons with the model, all keys each
	Fscks        int // folders that fsck checked
	SlowestStart time.Duration
	Damage       Damage
	Tier         *Tier // nil without one
	Findings     []*Finding
	// Kept are the folders of failed rounds.
	Kept []string
	Took time.Duration
}

// OK reports whether nothing is wrong.
func (r *Report) OK() bool { return len(r.Findings) == 0 && r.Damage.Wrong == 0 }

func (r *Report) count(k Kind) (n int) {
	for _, f := range r.Findings {
		if f.Kind == k {
			n++
		}
	}
	return n
}

// WriteText writes the report for people.
func (r *Report) WriteText(w io.Writer) error {
	for _, f := range r.Findings {
		fmt.Fprintf(w, "round %d: %s\n", f.Round, f)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "seed\t%d\n", r.Seed)
	fmt.Fprintf(t, "rounds\t%d in %v\n", r.Rounds, r.Took.Round(time.Second))
	fmt.Fprintf(t, "ends\t%d killed, %d paused and killed, %d stopped, %d killed at the start\n", r.Kills, r.Pauses,
		r.Stops, r.StartKills)
	fmt.Fprintf(t, "requests\t%d answered, %d writes acknowledged, %d in doubt\n", r.Steps, r.Writes, r.Doubts)
	fmt.Fprintf(t, "checks\t%d comparisons with the model, %d fsck; slowest start %v\n", r.Checks, r.Fscks,
		r.SlowestStart.Round(time.Millisecond))
	// All kinds, also with zero: "lost 0" is the result that a reader looks for.
	for _, k := range kinds {
		fmt.Fprintf(t, "%s\t%d\n", k, r.count(k))
	}
	if r.Tier != nil {
		fmt.Fprintf(t, "object store\t%d objects, %d removed in the end, %d left that nothing needs\n", r.Tier.Objects,
			r.Tier.Removed, r.Tier.Unneeded)
	}
	// Without --damage the line would claim that damage was tried.
	if d := r.Damage; d != (Damage{}) {
		fmt.Fprintf(t, "damage\t%d refused, %d error at read, %d found by fsck, %d unaffected, %d served wrong; %d aimed "+
			"at live data; %d refusals and errors not found by fsck\n",
			d.Refused, d.ReadError, d.Found, d.Unaffected, d.Wrong, d.Aimed, d.Missed)
	}
	for _, folder := range r.Kept {
		fmt.Fprintf(t, "kept\t%s\n", folder)
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
