package nodebench

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/killrig"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// A short run, with disks and shares where this process may make them.
func TestRun(t *testing.T) {
	t.Parallel()
	if !check.Size(false, true) {
		t.Skip("starts two clusters on slow disks, with " + check.FullVariable)
	}
	program, err := killrig.Build(t.TempDir())
	check.OK(t, err)
	command := func(args ...string) *exec.Cmd { return exec.Command(program, args...) }
	c := Config{Command: command, Other: command, Sizes: []int{3}, Turns: 1, Turn: 3 * time.Second, Clients: 3,
		Forwarding: true, Folder: t.TempDir(), Progress: t.Output()}
	if unmount, err := slowDisk(t.TempDir(), t.TempDir(), time.Millisecond); err == nil {
		check.OK(t, unmount())
		c.Sync = time.Millisecond
	}
	if end, err := limited(t); err == nil {
		check.OK(t, end())
		c.Share = 0.9
	}
	report, err := Run(t.Context(), c)
	check.OK(t, err)
	var b strings.Builder
	check.OK(t, report.WriteText(&b))
	t.Logf("syncs of %v, shares of %v\n%s", c.Sync, c.Share, &b)
	if len(report.Clusters) != 2 || len(report.Forwarding) != 2 {
		t.Fatalf("%d clusters and %d rows of forwarding", len(report.Clusters), len(report.Forwarding))
	}
	for _, r := range report.Clusters {
		// On a slow machine a node may be elected meanwhile, and some inserts fail.
		if all := r.all(); all.times.Count() == 0 || all.sum().appends == 0 || all.sum().processor == 0 {
			t.Errorf("%s: %d inserts, failed: %v, %+v", r.Name, all.times.Count(), all.failed, all.sum())
		}
	}
	// Which node is the home may have been unknown in one of the turns.
	passed := total(&report.Clusters[0])
	for _, pair := range report.Forwarding {
		passed += total(&pair[1])
	}
	if passed == 0 {
		t.Error("no insert was passed on")
	}
	if left, err := os.ReadDir(c.Folder); err != nil || len(left) > 0 {
		t.Errorf("%v are left, %v", left, err)
	}
}

// total returns the inserts that were passed on.
func total(r *Result) float64 {
	all := r.all()
	return all.sum().passed
}

// limited puts a process into a group, and waits until it has ended.
func limited(t *testing.T) (end func() error, err error) {
	t.Helper()
	cmd := exec.Command("cat")
	input, err := cmd.StdinPipe()
	check.OK(t, err)
	check.OK(t, cmd.Start())
	end, err = limit(cmd.Process.Pid, "test", 0.5)
	check.OK(t, input.Close())
	check.OK(t, cmd.Wait())
	return end, err
}

func TestReport(t *testing.T) {
	t.Parallel()
	made := func(inserts int, c counts, failed map[string]int) Result {
		one := turn{took: time.Second, failed: failed, byNodes: []counts{c, {}}}
		for range inserts {
			one.times.Record(time.Millisecond)
		}
		return Result{Name: "x", turns: []turn{one}, idle: turn{took: time.Second, byNodes: one.byNodes}}
	}
	r := Report{
		Clusters: []Result{
			made(200, counts{processor: 20 * time.Millisecond, appends: 10, passed: 50}, nil),
			made(100, counts{processor: 20 * time.Millisecond, appends: 10, conflicts: 3}, map[string]int{"timeout": 2}),
		},
		Forwarding: [][2]Result{{made(100, counts{processor: 10 * time.Millisecond}, nil),
			made(100, counts{processor: 16 * time.Millisecond, passed: 100}, nil)}},
	}
	var b strings.Builder
	check.OK(t, r.WriteText(&b))
	text := strings.Join(strings.Fields(b.String()), " ")
	for _, want := range []string{"x 200 1ms 1ms 100µs 2.0 % 20.0 10 0 25 % 0",
		"x 100 1ms 1ms 200µs 2.0 % 10.0 10 3 0 % 2 timeout",
		"x : x 0.50 (0.50 to 0.50)", "x without clients 2.0 %", "cost 0s 0s 60µs"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, b.String())
		}
	}
}

func TestMetric(t *testing.T) {
	t.Parallel()
	const text = "# HELP a b\na{x=\"1\",r=\"y\"} 7\na{x=\"1-s01\",r=\"y\"} 2.5e+01\na{x=\"1\",r=\"n\"} 3\nc 4\n"
	if one, all, none := metric(text, `a{x="1`, `r="y"`), metric(text, `a{`, ""), metric(text, "b", ""); one != 32 ||
		all != 35 || none != 0 {
		t.Error(one, all, none)
	}
}
