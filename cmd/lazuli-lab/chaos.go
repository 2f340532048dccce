package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lazuli-storage/lazuli/cmd/internal/bench"
	"github.com/lazuli-storage/lazuli/cmd/lazuli-lab/internal/chaos"
	"github.com/lazuli-storage/lazuli/internal/storage/shardmap"
)

// errChaos is the failure of a run that found something wrong; the report is on standard output by then.
var errChaos = errors.New("the server broke a promise")

// newChaosCommand makes the verb chaos.
func newChaosCommand(l *lab) *cobra.Command {
	var (
		c      chaos.Config
		damage bool
		quiet  bool
		nodes  int
		shards int
		copies int
		kinds  []string
	)
	minutes := 1.0
	cmd := &cobra.Command{
		Use:   "chaos",
		Short: "Kill a server under load again and again, and compare what it kept with a model",
		Long: `Start a server on a data folder of its own, apply load to all three services through the Azure
SDKs, end the server by SIGKILL, SIGTERM, or a pause and SIGKILL, start it again, and compare everything that was
acknowledged with a model: values, ETags, leases, blocks, pages, messages with their texts, receipts and dequeue counts.
A request in progress at the end may have happened or not. fsck checks copies of the folder.

--damage also flips bits in copies of the folder. A server on such a copy must refuse to start, answer an
error, or have all data; missing data must be found by fsck.

With --nodes 3, the processes form a cluster, and clients use a queue, a table and blobs through all of them. One node after another is killed,
paused, slowed down, restarted, cut off, or its connections carry nothing for a while; a bit of its streams is flipped while it is stopped, and it is
replaced when it finds that; its disk is full (the last node), or loses everything that was not synced (the first node; both on Linux, if file
systems can be mounted); all are killed. With --copies 3 shards move meanwhile, moves are cancelled, and nodes drained.
A message may be delivered again only after its visibility timeout, and not after its deletion was
acknowledged; entities and blobs are incremented on condition of their ETags, and each value must have one writer and never be read as an
older one. For blobs that are overwritten by ETag, leased, appended to at positions, or made of block lists, some order of all requests must
explain all answers (checked by porcupine). The longest time without an acknowledged request is reported.

The report counts what was lost, stale (replaced by an acknowledged write), doubled, resurrected (deleted before),
and wrong. The exit code is 1 if there is any. The data folder of a failed run is kept. The seed repeats the
choices of a run, but not the moments at which the server is killed relative to its work.`,
		Example: `  lazuli-lab chaos
  lazuli-lab chaos --minutes 30 --damage
  lazuli-lab chaos --rounds 20 --seed 42
  lazuli-lab chaos --nodes 3 --minutes 10
  lazuli-lab chaos --nodes 3 --shards 4 --minutes 10
  lazuli-lab chaos --nodes 5 --shards 5 --copies 3 --minutes 10
  lazuli-lab chaos --nodes 3 --minutes 2 --clients 8 --faults 'cut off'`,
		Args: cobra.NoArgs,
	}
	fl := cmd.Flags()
	fl.Float64Var(&minutes, "minutes", minutes, "time limit of the run; the last round is finished")
	fl.IntVar(&c.Rounds, "rounds", 0, "number of rounds (default: until the time is up); alone, it sets no time limit")
	fl.Uint64Var(&c.Seed, "seed", 0, "seed of the random choices (default: random)")
	fl.IntVar(&c.Clients, "clients", 2, "clients of each service")
	fl.IntVar(&c.FsckEvery, "fsck-every", 5, "rounds between checks of a copy of the folder by fsck; 0: only at the end")
	fl.BoolVar(&c.Tier, "tier", false, "keep content in an object store, a folder, with more content than the disk may "+
		"hold; in the end a day goes by, after which it may have no object that nothing needs (a single server)")
	fl.BoolVar(&damage, "damage", false, "also start servers on copies with flipped bits")
	fl.IntVar(&c.Damage, "damaged-copies", 2, "damaged copies in each round, with --damage")
	fl.StringVar(&c.Folder, "temp-dir", "",
		"folder for the data folders (default: the system's folder for temporary files)")
	fl.IntVar(&nodes, "nodes", 1, "number of nodes of a cluster, 3 to 7; 1: a single server. --rounds, --fsck-every and "+
		"--damage are for a single server")
	fl.IntVar(&shards, "shards", 1, "number of shards of a cluster")
	fl.IntVar(&copies, "copies", 0, "number of nodes that have each shard, 3, with up to 16 nodes; 0: all nodes")
	fl.StringSliceVar(&kinds, "faults", nil, "kinds of faults of a cluster, such as 'cut off' (default: "+
		strings.Join(chaos.NodeFaults(), ", ")+")")
	fl.BoolVarP(&quiet, "quiet", "q", false, "do not show progress on standard error")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		// Everything is checked before a folder is made: a run of half an hour must not end at a wrong flag.
		if minutes <= 0 || c.Rounds < 0 || c.Clients < 1 || c.Clients > 64 || c.FsckEvery < 0 || c.Damage < 1 {
			return bench.SettingsError{Cause: errors.New(
				"--minutes and --damaged-copies must be positive, --clients from 1 to 64, --rounds and --fsck-every not negative")}
		}
		if nodes != 1 && (nodes < 3 || nodes > 7 && copies == 0 || damage || c.Rounds > 0) {
			return bench.SettingsError{Cause: errors.New("--nodes must be 1, or from 3 to 7 without --damage and --rounds, or " +
				"up to 16 with --copies")}
		}
		if c.Tier && damage {
			return bench.SettingsError{Cause: errors.New("--tier cannot be used with --damage: copies of a folder would take " +
				"its objects")}
		}
		if shards < 1 || shards > shardmap.Max || shards > 1 && nodes == 1 {
			return bench.SettingsError{Cause: fmt.Errorf("--shards must be from 1 to %d, with --nodes", shardmap.Max)}
		}
		// A misspelt kind would be a fault that never happens, and the run would pass.
		for _, kind := range kinds {
			if nodes == 1 || !slices.Contains(chaos.NodeFaults(), kind) {
				return bench.SettingsError{Cause: fmt.Errorf("--faults %q: want kinds of faults, with --nodes", kind)}
			}
			if chaos.IsMove(kind) && (copies == 0 || nodes <= copies) {
				return bench.SettingsError{Cause: fmt.Errorf("--faults %q needs --copies, and more nodes than that", kind)}
			}
		}
		if !damage {
			c.Damage = 0
		}
		// --rounds alone means that many rounds, however long they take.
		if c.Rounds == 0 || fl.Changed("minutes") {
			c.Limit = time.Duration(minutes * float64(time.Minute))
		}
		// Drawn here and printed in the report: a run that failed is repeated with --seed.
		if !fl.Changed("seed") {
			c.Seed = rand.Uint64()
		}
		if !quiet {
			c.Progress = cmd.ErrOrStderr()
		}
		var err error
		if c.Command, err = l.command(); err != nil {
			return err
		}
		if nodes > 1 {
			return chaosNodes(cmd, c, nodes, shards, copies, kinds)
		}
		report, err := chaos.Run(cmd.Context(), c)
		// A report exists as far as the run came, also beside an error; its findings are what the run was for.
		if report == nil {
			return err
		}
		err = errors.Join(err, report.WriteText(cmd.OutOrStdout()))
		if err == nil && !report.OK() {
			err = errChaos
		}
		return err
	}
	return cmd
}

// chaosNodes runs chaos --nodes.
func chaosNodes(cmd *cobra.Command, c chaos.Config, nodes, shards, copies int, kinds []string) error {
	report, err := chaos.RunNodes(cmd.Context(),
		chaos.NodesConfig{Command: c.Command, Folder: c.Folder, Nodes: nodes, Shards: shards, Copies: copies,
			Limit: c.Limit, Seed: c.Seed, Clients: c.Clients, Kinds: kinds, Tier: c.Tier, Progress: c.Progress})
	if report == nil {
		return err
	}
	err = errors.Join(err, report.WriteText(cmd.OutOrStdout()))
	if err == nil && !report.OK() {
		err = errChaos
	}
	return err
}
