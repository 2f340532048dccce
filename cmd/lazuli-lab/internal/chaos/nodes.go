package chaos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/lazuli-storage/lazuli/internal/killrig"
)

// NodesConfig describes a run on a cluster.
type NodesConfig struct {
	// Command returns a command of lazuli: serve with its arguments.
	Command func(args ...string) *exec.Cmd
	// Folder receives the data folders; empty is a new temporary folder. It is removed at the end of a run in which
	// nothing is wrong.
	Folder string
	// Nodes is the number of nodes, 3 to 7, and with Copies 3 to 16.
	Nodes int
	// Shards is the number of shards of the cluster; 0 is one. The services of an account are in different ones.
	Shards int
	// Copies is the number of nodes that have each shard; 0 is all nodes.
	Copies int
	// Limit is the time after which no further fault begins; Faults, if positive, is their greatest number.
	Limit  time.Duration
	Faults int
	// Kinds are the kinds of faults, names of the report; nil means all that are possible here.
	Kinds []string
	// Seed makes the random choices.
	Seed uint64
	// Clients is the number of producers, and of consumers.
	Clients int
	// Think bounds the random pause of a client after a request; 0 means 10 ms.
	Think time.Duration
	// MaxFault bounds the random time that a node is stopped or cut off; 0 means 15 s.
	MaxFault time.Duration
	// Tier keeps content in an object store, a folder that all nodes see.
	Tier bool
	// Progress receives a line for each fault; nil means none.
	Progress io.Writer
}

// nodeTimeout bounds a request to a node: a stopped process does not answer.
const nodeTimeout = 5 * time.Second

// adminTimeout bounds the removal of a node.
const adminTimeout = 30 * time.Second

// wholeTimeout is the time that a cluster may take to be whole again after a fault.
const wholeTimeout = 3 * time.Minute

// nodesRun is a RunNodes in progress.
type nodesRun struct {
	NodesConfig
	rnd   *rand.Rand
	nodes []*killrig.Node
	web   *killrig.Web
	queue *sharedQueue
	table *sharedCounters
	blobs *sharedCounters
	hist  *sharedHistories
	// content are clients with large blobs, with Tier; found is what they find.
	content []*contentClient
	found   checker
	mover   *mover     // nil where no shard moves
	disk    *smallDisk // where the last node has its folder; nil if it cannot be mounted
	power   *powerDisk // the same for the first node
	admin   *http.Client
	report  NodesReport
}

// RunNodes tests a cluster. The report is complete as far as the run came, also when an error is returned; the error
// means that the run could not go on, a broken promise is in the report.
func RunNodes(ctx context.Context, c NodesConfig) (*NodesReport, error) {
	if c.Nodes < 3 || c.Nodes > 7 && c.Copies == 0 || c.Limit <= 0 || c.Clients < 1 {
		return nil, errors.New("chaos: 3 to 7 nodes, a time limit, and at least one client are needed")
	}
	if c.MaxFault == 0 {
		c.MaxFault = 15 * time.Second
	}
	if c.Think == 0 {
		c.Think = 10 * time.Millisecond
	}
	folder, err := os.MkdirTemp(c.Folder, "lazuli-chaos-")
	if err != nil {
		return nil, err
	}
	// Stream 1 of the seed is that of the faults; clients have streams of their own, so that their number does not change
	// the faults.
	r := &nodesRun{NodesConfig: c, rnd: rand.New(rand.NewPCG(c.Seed, 1)), admin: &http.Client{Timeout: adminTimeout}}
	r.report.Seed, r.report.Nodes, r.report.Faults = c.Seed, c.Nodes, map[string]int{}
	begun := time.Now()
	if err = r.prepare(folder); err == nil {
		err = r.run(ctx)
	}
	// Nodes die before their disks are unmounted: an open file would keep the file system busy.
	for _, n := range r.nodes {
		n.Kill()
	}
	if r.web != nil {
		r.web.Close()
	}
	if r.disk != nil {
		err = errors.Join(err, r.disk.close())
	}
	if r.power != nil {
		err = errors.Join(err, r.power.close())
	}
	r.report.Took = time.Since(begun)
	if err == nil && r.report.OK() {
		// The folder of a failed run is the evidence.
		err = os.RemoveAll(folder)
	} else {
		r.report.Kept = folder
	}
	return &r.report, err
}

// prepare lays the connections between the nodes.
func (r *nodesRun) prepare(folder string) error {
	if r.Tier {
		r.Command = withTier(r.Command, filepath.Join(folder, "tier"))
	}
	secret := filepath.Join(folder, "secret")
	if err := os.WriteFile(secret, []byte(strings.Repeat("chaos", 8)), 0o600); err != nil {
		return err
	}
	var err error
	if r.web, err = killrig.NewWeb(r.Nodes); err != nil {
		return err
	}
	for i := range r.Nodes {
		name := fmt.Sprint("n", i+1)
		n, err := killrig.NewNode(name, filepath.Join(folder, name), r.Command,
			&http.Client{Timeout: nodeTimeout, Transport: &http.Transport{MaxIdleConnsPerHost: 64}})
		if err != nil {
			return err
		}
		// Nodes connect through the links of the web and not to each other's ports: a link can be cut, slowed down or
		// stopped.
		n.Args = append([]string{"--cluster-secret-file", secret}, r.web.Arguments(i)...)
		if r.Shards > 1 {
			n.Args = append(n.Args, "--shards", strconv.Itoa(r.Shards), "--cluster-copies", strconv.Itoa(r.Copies))
		}
		r.nodes = append(r.nodes, n)
	}
	if r.Kinds = slices.Clone(r.Kinds); len(r.Kinds) == 0 {
		r.Kinds = NodeFaults()
	}
	var moves []string
	for _, kind := range r.Kinds {
		if IsMove(kind) {
			moves = append(moves, kind)
		}
	}
	if r.Kinds = slices.DeleteFunc(r.Kinds, IsMove); len(moves) > 0 && r.Copies > 0 && r.Copies < r.Nodes {
		r.mover = newMover(r, moves)
	}
	if slices.Contains(r.Kinds, faultFull) {
		// The last node gets the small disk and the first one the disk that loses power, so that no node has both faults.
		if r.disk, err = newSmallDisk(r.nodes[len(r.nodes)-1].Folder); err != nil {
			// Mounting needs rights that a run in CI may not have. The run goes on without this fault, and says so.
			r.say("no disk will be full: %v", err)
			r.Kinds = slices.DeleteFunc(r.Kinds, func(kind string) bool { return kind == faultFull })
		}
	}
	if slices.Contains(r.Kinds, faultPower) {
		if r.power, err = newPowerDisk(r.nodes[0].Folder, filepath.Join(folder, "power.img")); err != nil {
			r.say("no node will lose power: %v", err)
			r.Kinds = slices.DeleteFunc(r.Kinds, func(kind string) bool { return kind == faultPower })
		}
	}
	return nil
}

func (r *nodesRun) run(ctx context.Context) error {
	for _, n := range r.nodes {
		if err := n.Start(); err != nil {
			return err
		}
	}
	// No fault before all copies are complete: with two of three copies missing a loss would be right.
	if !r.whole(ctx) {
		return r.notWhole("the cluster did not form")
	}
	queue, err := newSharedQueue(r.nodes, r.Think)
	if err != nil {
		return err
	}
	r.queue = queue
	if err := queue.create(ctx); err != nil {
		return err
	}
	table, err := newSharedTable(r.nodes)
	if err != nil {
		return err
	}
	if err := table.create(ctx); err != nil {
		return err
	}
	blobs, err := newSharedBlobs(r.nodes)
	if err != nil {
		return err
	}
	if err := blobs.create(ctx); err != nil {
		return err
	}
	r.table = newSharedCounters(table, "entity", len(r.nodes), r.Think)
	r.blobs = newSharedCounters(blobs, "blob", len(r.nodes), 2*r.Think)
	r.hist = newSharedHistories(historyBlobs{blobs}, len(r.nodes), 3*r.Think)
	for i := range r.Clients {
		if r.Tier {
			c := &contentClient{number: i, containers: blobs.of(fmt.Sprint("content", i))}
			if err := c.setup(ctx); err != nil {
				return err
			}
			r.content = append(r.content, c)
		}
	}
	// Clients end by their own context: at the end of the faults they must finish, and the checks below still need ctx.
	load, stop := context.WithCancel(ctx)
	var all sync.WaitGroup
	for i := range r.Clients {
		// A stream for each client and task. A shared one would make their choices depend on the order in which goroutines
		// run.
		all.Go(func() { queue.produce(load, rand.New(rand.NewPCG(r.Seed, uint64(2*i+2)))) })
		all.Go(func() { r.table.increment(load, rand.New(rand.NewPCG(r.Seed, uint64(1000+i)))) })
		all.Go(func() { r.blobs.increment(load, rand.New(rand.NewPCG(r.Seed, uint64(2000+i)))) })
		all.Go(func() { r.hist.use(load, rand.New(rand.NewPCG(r.Seed, uint64(3000+i)))) })
		all.Go(func() { queue.consume(load, rand.New(rand.NewPCG(r.Seed, uint64(2*i+3)))) })
	}
	for i, c := range r.content {
		all.Go(func() { c.use(load, rand.New(rand.NewPCG(r.Seed, uint64(5000+i))), 20*r.Think, &r.found) })
	}
	moves, stopMoves := context.WithCancel(ctx)
	var moving sync.WaitGroup
	if r.mover != nil {
		moving.Go(func() { r.mover.work(moves) })
	}
	err = r.faults(ctx)
	stopMoves()
	moving.Wait()
	if r.mover != nil {
		// While the clients still work.
		if err == nil && ctx.Err() == nil {
			if stuck := r.mover.finish(ctx); stuck != nil {
				r.report.Findings = append(r.report.Findings, &Finding{Kind: Refused, What: stuck.Error()})
			}
		}
		r.mover.fill(&r.report)
	}
	stop()
	all.Wait()
	// What is left is read only if the cluster is whole: reads that fail would count as losses.
	if err == nil && ctx.Err() == nil {
		queue.drain(ctx)
		r.table.last(ctx)
		r.blobs.last(ctx)
		r.hist.last(ctx, rand.New(rand.NewPCG(r.Seed, 4000)))
		for _, c := range r.content {
			c.check(ctx, &r.found, true)
			r.report.Contents += len(c.have)
		}
	}
	// The report is filled in any case; findings of a run that was cut short are findings.
	queue.fill(&r.report)
	r.table.fill(&r.report, &r.report.Increments, &r.report.Reads)
	r.blobs.fill(&r.report, &r.report.BlobWrites, &r.report.BlobReads)
	r.hist.fill(&r.report)
	r.report.Findings = append(r.report.Findings, r.found.findings...)
	return errors.Join(err, ctx.Err())
}

// faults makes faults until the time is up, one after the other, and lets the cluster become whole after each one.
func (r *nodesRun) faults(ctx context.Context) error {
	if len(r.Kinds) == 0 { // only moves
		pause(ctx, r.Limit)
		return ctx.Err()
	}
	for begun := time.Now(); time.Since(begun) < r.Limit &&
		(r.NodesConfig.Faults <= 0 || r.report.faults() < r.NodesConfig.Faults); {
		pause(ctx, time.Duration(r.rnd.Int64N(int64(2*time.Second))))
		if ctx.Err() != nil {
			return ctx.Err()
		}
		kind, at := r.Kinds[r.rnd.IntN(len(r.Kinds))], r.rnd.IntN(len(r.nodes))
		if r.report.faults() < len(r.Kinds) { // each one once
			kind = r.Kinds[r.report.faults()]
		}
		switch kind {
		case faultFull:
			at = len(r.nodes) - 1
		case faultPower:
			at = 0
		}
		length := r.MaxFault/10 + time.Duration(r.rnd.Int64N(int64(r.MaxFault*9/10)))
		before := r.queue.acknowledged()
		r.gaps()
		if err := r.fault(ctx, kind, at, length); err != nil {
			return err
		}
		healed := time.Now()
		if !r.whole(ctx) {
			return r.notWhole(fmt.Sprintf("after %s was %s", r.nodes[at].Name, kind))
		}
		r.report.Faults[kind]++
		r.report.SlowestRecovery = max(r.report.SlowestRecovery, time.Since(healed))
		r.say("%s %s for %v: whole again after %v, %d requests acknowledged meanwhile, %s", r.nodes[at].Name, kind,
			length.Round(time.Millisecond),
			time.Since(healed).Round(time.Millisecond), r.queue.acknowledged()-before, r.gaps())
	}
	return nil
}

// gaps returns the longest times without an acknowledged request since the call before.
func (r *nodesRun) gaps() string {
	const of = 100 * time.Millisecond
	return fmt.Sprintf("longest gaps: queue %v, table %v, blobs %v", r.queue.gapSince().Round(of),
		r.table.gapSince().Round(of), max(r.blobs.gapSince(), r.hist.gapSince()).Round(of))
}

// whole waits until all nodes are ready.
func (r *nodesRun) whole(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, wholeTimeout)
	defer cancel()
	for _, n := range r.nodes {
		for !n.Ready(ctx) {
			if ctx.Err() != nil || !n.Running() {
				return false
			}
			pause(ctx, 50*time.Millisecond)
		}
	}
	return true
}

func (r *nodesRun) notWhole(what string) error {
	for _, n := range r.nodes {
		if !n.Running() {
			what += fmt.Sprintf("; %s ended: %v\n%s", n.Name, n.Err(), n.Output())
		} else if !n.Ready(context.Background()) {
			what += fmt.Sprintf("; %s is not ready: %s", n.Name, n.Reason())
		}
	}
	r.report.Findings = append(r.report.Findings, &Finding{Kind: Refused, What: "the cluster is not whole: " + what})
	return nil
}

func (r *nodesRun) say(format string, args ...any) {
	if r.Progress != nil {
		fmt.Fprintf(r.Progress, format+"\n", args...)
	}
}
