package nodebench

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// Report holds the measurements of a run.
type Report struct {
	// Clusters are the clusters with clients at all nodes, in the order of their turns.
	Clusters []Result
	// Forwarding has the same clients at the home of the log, and at another node.
	Forwarding [][2]Result
}

// Result has the turns of a cluster, or of clients.
type Result struct {
	Name  string
	turns []turn
	idle  turn // without clients; zero if that was not measured
}

// all merges the turns.
func (r *Result) all() (t turn) {
	t.failed = map[string]int{}
	for i := range r.turns {
		one := &r.turns[i]
		t.took += one.took
		t.times.Merge(&one.times)
		t.byNodes = append(t.byNodes, one.byNodes...)
		for label, n := range one.failed {
			t.failed[label] += n
		}
	}
	return t
}

// busiest returns what the node that computes most has used of a processor, on average over the turns.
func (r *Result) busiest() (share float64) {
	for i := range r.turns {
		share += r.turns[i].busiest() / float64(len(r.turns))
	}
	return share
}

// WriteText prints the report as tables.
func (r *Report) WriteText(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	head := "\tinserts/s\tp50\tp99\tprocessor\tbusiest node\tinserts an append\tappends\tovertaken\tpassed on\tfailed\t\n"
	fmt.Fprint(w, "clients at all nodes", head)
	for _, c := range r.Clusters {
		c.row(w)
	}
	for _, c := range r.Clusters[min(1, len(r.Clusters)):] {
		ratios(w, c.Name+" : "+r.Clusters[0].Name, &c, &r.Clusters[0])
	}
	for i := range r.Clusters {
		if c := &r.Clusters[i]; c.idle.took > 0 {
			fmt.Fprintf(w, "%s without clients\t\t\t\t\t%.1f %%\t\t\t\t\t\t\n", c.Name, 100*c.idle.busiest())
		}
	}
	if len(r.Forwarding) > 0 {
		fmt.Fprint(w, "\t\t\t\t\t\t\t\t\t\t\t\nforwarding", head)
	}
	for _, pair := range r.Forwarding {
		home, other := pair[0].all(), pair[1].all()
		pair[0].row(w)
		pair[1].row(w)
		fmt.Fprintf(w, "cost\t\t%v\t%v\t%v\t\t\t\t\t\t\t\n", short(other.times.Quantile(0.5)-home.times.Quantile(0.5)),
			short(other.times.Quantile(0.99)-home.times.Quantile(0.99)), short(other.processor()-home.processor()))
	}
	return w.Flush()
}

func (r *Result) row(w io.Writer) {
	t := r.all()
	sum := t.sum()
	inserts := float64(max(t.times.Count(), 1))
	fmt.Fprintf(w, "%s\t%.0f\t%v\t%v\t%v\t%.1f %%\t%.1f\t%.0f\t%.0f\t%.0f %%\t%s\t\n", r.Name, t.rate(),
		short(t.times.Quantile(0.5)), short(t.times.Quantile(0.99)), short(t.processor()), 100*r.busiest(),
		inserts/max(sum.appends, 1), sum.appends, sum.conflicts, 100*sum.passed/inserts,
		t.failures())
}

// failures says how many inserts have failed, by the reason.
func (t *turn) failures() string {
	var list []string
	for label, n := range t.failed {
		list = append(list, fmt.Sprint(n, " ", label))
	}
	slices.Sort(list)
	return cmp.Or(strings.Join(list, ", "), "0")
}

// ratios prints the ratio of the rates in each turn, in rising order, with the one in the middle.
func ratios(w io.Writer, name string, a, b *Result) {
	var all []float64
	for i := range min(len(a.turns), len(b.turns)) {
		all = append(all, a.turns[i].rate()/max(b.turns[i].rate(), 1))
	}
	if len(all) == 0 {
		return
	}
	slices.Sort(all)
	fmt.Fprintf(w, "%s\t%.2f\t%s\t\t\t\t\t\t\t\t\t\n", name, all[len(all)/2],
		fmt.Sprintf("(%.2f to %.2f)", all[0], all[len(all)-1]))
}

// short rounds to three digits.
func short(d time.Duration) time.Duration {
	unit := time.Microsecond
	for d.Abs() >= 1000*unit {
		unit *= 10
	}
	return d.Round(unit)
}
