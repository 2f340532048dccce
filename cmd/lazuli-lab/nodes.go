package main

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/lazuli-storage/lazuli/cmd/internal/bench"
	"github.com/lazuli-storage/lazuli/cmd/lazuli-lab/internal/nodebench"
	"github.com/lazuli-storage/lazuli/internal/storage/shardmap"
)

// newNodesCommand makes the verb bench nodes.
func newNodesCommand(l *lab) *cobra.Command {
	c := nodebench.Config{}
	var other string
	cmd := &cobra.Command{
		Use:   "nodes",
		Short: "Measure clusters of several sizes in turns, each node with a disk and a share of a processor of its own",
		Long: `Start clusters of several sizes on this machine, and insert entities by clients at all nodes, in turns:
inserts a second, latencies, processor time of all nodes for an insert, and appends to the log that another node
overtook. Then the same few clients at the home of the tables and at another node: what it costs that an insert is
passed on.

Each node has a file system of its own whose syncs all take the same time, and a share of a processor, so the figures
change little with what else runs, as long as the machine has a processor for the clients and the disks beside the
shares of the nodes whose turn it is. That needs Linux, root, /dev/fuse and cgroups that can be written; with --sync 0
and --share 0 the nodes have the disk of the folder and the processors as they are.

With --shards 36, each shard is on three nodes of a cluster, and clients use an account in each: so more nodes share the
work. What a cluster of three such nodes computes without any request is much of a small share; the report tells it.
The processes of clusters that wait are stopped.`,
		Example: `  lazuli-lab bench nodes --other ./lazuli-of-before
  lazuli-lab bench nodes --sizes 3,6,9 --shards 36 --clients 144 --warmup 10s --turn 30s --forwarding=false
  lazuli-lab bench nodes --sizes 3 --sync 0 --share 0`,
		Args: cobra.NoArgs,
	}
	fl := cmd.Flags()
	fl.IntSliceVar(&c.Sizes, "sizes", []int{3, 5}, "numbers of nodes of the clusters")
	fl.StringVar(&other, "other", "", "another lazuli program, for one more cluster of the first size")
	fl.IntVar(&c.Turns, "turns", 3, "turns of each cluster")
	fl.DurationVar(&c.Turn, "turn", 10*time.Second, "length of a turn")
	fl.DurationVar(&c.Warmup, "warmup", 2*time.Second, "time before a turn that is not counted")
	fl.IntVarP(&c.Clients, "clients", "c", 30, "clients of a cluster, in equal parts at its nodes")
	fl.IntVar(&c.Shards, "shards", 1,
		"number of shards of each cluster, each on three of its nodes; 1: nodes have everything")
	fl.BoolVar(&c.Forwarding, "forwarding", true, "measure clients at the home and at another node as well")
	fl.Float64Var(&c.Share, "share", 0.2, "share of a processor that each node may use; 0 is no limit")
	fl.DurationVar(&c.Sync, "sync", time.Millisecond, "time of a sync; 0 is the disk of the folder as it is")
	fl.StringVar(&c.Folder, "temp-dir", "", "directory for the data folders (default: the system's temporary directory)")
	fl.StringVar(&c.Profiles, "profiles", "", "folder for the profile of each node's processor time in the last turns")
	cmd.RunE = func(cmd *cobra.Command, _ []string) (err error) {
		if c.Turns < 1 || c.Clients < 1 || c.Turn <= 0 || c.Warmup < 0 || c.Share < 0 || c.Sync < 0 {
			return bench.SettingsError{
				Cause: errors.New("numbers and times must not be negative; turns and clients are needed")}
		}
		for _, n := range c.Sizes {
			if n < 3 || n > 9 {
				return bench.SettingsError{Cause: errors.New("--sizes are from 3 to 9")}
			}
		}
		if c.Shards < 1 || c.Shards > shardmap.Max ||
			c.Shards > 1 && (c.Forwarding || c.Shards < slices.Max(append(c.Sizes, 0))) {
			return bench.SettingsError{Cause: fmt.Errorf("--shards must be from 1 to %d; from 2 on there must be one for "+
				"each node, and --forwarding must be false: each shard has its home", shardmap.Max)}
		}
		if len(c.Sizes) == 0 {
			return bench.SettingsError{Cause: errors.New("--sizes needs a number of nodes")}
		}
		if c.Command, err = l.command(); err != nil {
			return err
		}
		if other != "" {
			if c.Other, err = (&lab{program: other}).command(); err != nil {
				return err
			}
		}
		c.Progress = cmd.ErrOrStderr()
		// What was measured before an error is printed, too.
		report, err := nodebench.Run(cmd.Context(), c)
		return errors.Join(report.WriteText(cmd.OutOrStdout()), err)
	}
	return cmd
}
