package nodebench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/lazuli-storage/lazuli/cmd/internal/bench"
)

// Config configures a run. All fields without a default are required.
type Config struct {
	// Command makes commands of lazuli. Other, which may be nil, makes those of another program, for a cluster of the
	// first size.
	Command, Other func(args ...string) *exec.Cmd
	// Sizes are the numbers of nodes of the clusters.
	Sizes []int
	// Turns is the number of turns of each cluster, Turn the length of one, Warmup the time before it that is not
	// counted.
	Turns        int
	Turn, Warmup time.Duration
	// Clients is the number of clients of a cluster, in equal parts at all of its nodes.
	Clients int
	// Shards is the number of shards of each cluster, each on three of its nodes. From 2 on, there is an account in each
	// shard, and the clients use all of them. 1 is a cluster whose nodes have everything.
	Shards int
	// Forwarding also measures what it costs that an insert is passed on.
	Forwarding bool
	// Share is the limit of each node, as a share of a processor; 0 is no limit.
	Share float64
	// Sync is the time of a sync on the disk of a node; with 0 the folder stays on its disk.
	Sync time.Duration
	// Folder has the folders of the nodes; "" is the system's temporary directory.
	Folder string
	// Profiles is a folder that gets the profile of the processor time of each node in the last turn of each kind; "" is
	// none.
	Profiles string
	// Progress receives progress messages; nil discards them.
	Progress io.Writer
}

func (c *Config) say(format string, args ...any) {
	if c.Progress != nil {
		fmt.Fprintf(c.Progress, format+"\n", args...)
	}
}

// turn holds the measurements of one turn of a cluster.
type turn struct {
	took    time.Duration
	times   bench.Histogram // of the inserts
	failed  map[string]int  // by the reason
	own     time.Duration   // processor time of this process, which has the clients and the disks
	byNodes []counts
}

// rate returns the inserts in a second.
func (t *turn) rate() float64 { return float64(t.times.Count()) / t.took.Seconds() }

// sum returns what all nodes have counted.
func (t *turn) sum() (all counts) {
	for _, c := range t.byNodes {
		all.processor += c.processor
		all.appends += c.appends
		all.conflicts += c.conflicts
		all.passed += c.passed
	}
	return all
}

// busiest returns what the node that computes most has used of a processor.
func (t *turn) busiest() float64 {
	most := time.Duration(0)
	for _, c := range t.byNodes {
		most = max(most, c.processor)
	}
	return most.Seconds() / t.took.Seconds()
}

// home returns the node that has appended most of the records.
func (t *turn) home() (node int) {
	for i, c := range t.byNodes {
		if c.appends > t.byNodes[node].appends {
			node = i
		}
	}
	return node
}

// processor returns the processor time of all nodes for an insert.
func (t *turn) processor() time.Duration {
	return t.sum().processor / time.Duration(max(t.times.Count(), 1))
}

// Run measures. The report has what was measured before an error.
func Run(ctx context.Context, c Config) (report *Report, err error) {
	report = &Report{}
	var all []*cluster
	defer func() {
		for _, s := range all {
			err = errors.Join(err, s.close())
		}
	}()
	add := func(name string, nodes int, command func(...string) *exec.Cmd) error {
		c.say("starting %s", name)
		s, err := c.start(ctx, name, nodes, command)
		if err != nil {
			return err
		}
		all = append(all, s)
		s.pause() // while the others start
		return nil
	}
	for _, n := range c.Sizes {
		if err := add(fmt.Sprint(n, " nodes"), n, c.Command); err != nil {
			return report, err
		}
	}
	if c.Other != nil {
		if err := add(fmt.Sprint(c.Sizes[0], " nodes, other program"), c.Sizes[0], c.Other); err != nil {
			return report, err
		}
	}
	everywhere := func(s *cluster, client int) int { return client % len(s.nodes.Nodes) }
	// All clusters are there all the time, and one of them works: a machine that is slow for a while is so for all of
	// them. Those that wait are paused, as the logs of many shards use a processor also while no client works.
	for i := range c.Turns {
		for _, s := range all {
			if err := s.resume(ctx); err != nil {
				return report, err
			}
			if err := c.turn(ctx, s, c.Clients, everywhere, i, "everywhere"); err != nil {
				return report, err
			}
			s.pause()
		}
	}
	for _, s := range all {
		report.Clusters = append(report.Clusters, Result{s.name, s.turns, s.idle})
	}
	if !c.Forwarding {
		return report, nil
	}
	if err := all[0].resume(ctx); err != nil {
		return report, err
	}
	return report, c.forwarding(ctx, report, all[0])
}

// forwarding measures what it costs that an insert is passed on: clients at the home of the log, and at another node,
// in turns. The clients are few, so that the nodes are not busy; and one alone, for the median.
func (c *Config) forwarding(ctx context.Context, report *Report, s *cluster) error {
	for _, clients := range []int{1, min(forwarders, c.Clients)} {
		var at [2]Result
		for turn := range c.Turns {
			// Another node may have become the home.
			last := s.turns[len(s.turns)-1]
			for i, where := range []string{"home", "other"} {
				node := (last.home() + i) % len(s.nodes.Nodes)
				to := func(*cluster, int) int { return node }
				if err := c.turn(ctx, s, clients, to, turn, where); err != nil {
					return err
				}
				at[i].turns = append(at[i].turns, s.turns[len(s.turns)-1])
			}
		}
		at[0].Name, at[1].Name = name(clients)+" at the home", name(clients)+" at another node"
		report.Forwarding = append(report.Forwarding, at)
	}
	return nil
}

// forwarders is the number of clients for which the processor time of forwarding is measured.
const forwarders = 8

func name(clients int) string {
	if clients == 1 {
		return "1 client"
	}
	return fmt.Sprint(clients, " clients")
}

// turn lets clients insert for a turn, each at the node that at returns for it, and adds what was measured. The last
// turn of its kind has profiles, whose names have the text where.
func (c *Config) turn(ctx context.Context, s *cluster, clients int, at func(s *cluster, client int) int, number int,
	where string) error {
	first := len(s.inserters)
	for i := range clients {
		s.inserters = append(s.inserters, bench.NewInserter(s.stack(at(s, i), i), table, first+i))
	}
	defer func() {
		for _, i := range s.inserters[first:] {
			i.Close()
		}
	}()
	work := s.inserters[first:]
	c.insert(ctx, work, c.Warmup)
	var idle []counts
	if c.Shards > 1 && number == 0 {
		var err error
		if idle, err = c.idle(ctx, s); err != nil {
			return err
		}
		c.insert(ctx, work, c.Warmup)
	}
	before, err := s.counts(ctx)
	if err != nil {
		return err
	}
	wait := func() {}
	if c.Profiles != "" && number == c.Turns-1 {
		wait = s.profile(ctx, c, fmt.Sprint(clients, "-", where))
	}
	own := bench.ProcessorTime(os.Getpid())
	t := c.insert(ctx, work, c.Turn)
	t.own = bench.ProcessorTime(os.Getpid()) - own
	wait()
	after, err := s.counts(ctx)
	if err != nil {
		return err
	}
	for i := range after {
		t.byNodes = append(t.byNodes, after[i].minus(before[i]))
	}
	if idle != nil {
		s.idle = turn{took: idleTime, byNodes: idle}
	}
	s.turns = append(s.turns, t)
	// Where all of it comes near the processors of the machine, that is what was measured.
	c.say("%s, %s: %.0f inserts/s, median %v, failed %s; of a processor: busiest node %.0f %%, all nodes %.0f %%, "+
		"clients and disks %.0f %%", s.name, name(clients), t.rate(), t.times.Quantile(0.5), t.failures(), 100*t.busiest(),
		100*t.sum().processor.Seconds()/t.took.Seconds(), 100*t.own.Seconds()/t.took.Seconds())
	return ctx.Err()
}

// idleTime is the time for which is measured what a cluster computes while no client works.
const idleTime = 10 * time.Second

// idle returns what the nodes have counted in idleTime without requests.
func (c *Config) idle(ctx context.Context, s *cluster) (all []counts, err error) {
	before, err := s.counts(ctx)
	if err != nil {
		return nil, err
	}
	select {
	case <-time.After(idleTime):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	after, err := s.counts(ctx)
	if err != nil {
		return nil, err
	}
	for i := range after {
		all = append(all, after[i].minus(before[i]))
	}
	return all, nil
}

// insert lets all inserters work for a time.
func (c *Config) insert(ctx context.Context, work []*bench.Inserter, d time.Duration) (t turn) {
	var mu sync.Mutex
	var all sync.WaitGroup
	began := time.Now()
	t.failed = map[string]int{}
	for _, w := range work {
		all.Go(func() {
			var own bench.Histogram
			failed := map[string]int{}
			for last := time.Now(); last.Sub(began) < d && ctx.Err() == nil; {
				err := w.Insert()
				now := time.Now()
				if err == nil {
					own.Record(now.Sub(last))
				} else {
					failed[bench.ErrorLabel(err)]++
					time.Sleep(failurePause)
					now = time.Now()
				}
				last = now
			}
			mu.Lock()
			defer mu.Unlock()
			t.times.Merge(&own)
			for label, n := range failed {
				t.failed[label] += n
			}
		})
	}
	all.Wait()
	t.took = time.Since(began)
	return t
}

// failurePause keeps a client from using up the processors while a node refuses its inserts.
const failurePause = 10 * time.Millisecond
