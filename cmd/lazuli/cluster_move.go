package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/console"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/target"
	"github.com/lazuli-storage/lazuli/internal/cluster"
	"github.com/lazuli-storage/lazuli/internal/cluster/peering"
	"github.com/lazuli-storage/lazuli/internal/server"
	"github.com/lazuli-storage/lazuli/internal/storage/shardmap"
)

// steps are what is done in each step of a move, for people.
var steps = map[peering.Step]string{
	peering.StepJoin:    "the new node joins",
	peering.StepCopy:    "the new node copies",
	peering.StepStreams: "the logs move",
	peering.StepLeave:   "the old node leaves",
	peering.StepDelete:  "the old node deletes its copy",
	peering.StepReturn:  "the logs move back",
	peering.StepCancel:  "the move is taken back",
	peering.StepClean:   "the new node deletes what it has copied",
}

// newClusterMove makes `lazuli cluster move`.
func newClusterMove(ask target.AdminCaller) *cobra.Command {
	cmd := &cobra.Command{Use: "move SHARD FROM TO",
		Short: "Move a shard's copy from a node to another one, while clients read and write",
		Long: `Move the copy that the node FROM has of a shard to the node TO, in a cluster whose nodes have a part of the
shards (--cluster-copies). Clients read and write meanwhile. TO gets a whole copy before FROM deletes its own.
Both nodes must run when the move begins; nodes that are killed go on with it when they start again. One shard
moves at a time.

The command returns when the move is done, and 0 then. Interrupted, or with --no-wait, it leaves the move going
on, and "lazuli cluster status" shows it. --cancel takes it back, until the logs of the shard move; later it can
be moved back when it is done.

It is refused, and nothing is changed, if there is no such shard or node, if FROM does not have the shard, if TO
has it, and if two copies would be in one zone.`,
		Example: `  lazuli cluster move 7 n1 n4
  lazuli cluster move --cancel`}
	var cancel, noWait bool
	cmd.Flags().BoolVar(&cancel, "cancel", false, "cancel the current move; possible until the logs move")
	cmd.Flags().BoolVar(&noWait, "no-wait", false, "return when the move has begun")
	cmd.Args = func(_ *cobra.Command, args []string) error {
		switch {
		case cancel && len(args) > 0:
			return console.Usagef("--cancel takes back the move under way, and has no arguments")
		case !cancel && len(args) != 3:
			return console.Usagef("give SHARD FROM TO, or --cancel")
		}
		return nil
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		// Both answers name the move by its number, so that a later one is not taken for it.
		var move *peering.Move
		if cancel {
			answer, err := ask(cmd, http.MethodDelete, "/move", nil)
			if err != nil {
				return err
			}
			if err := json.Unmarshal(answer, &move); err != nil {
				return fmt.Errorf("the response does not describe a move: %w", err)
			}
		} else {
			shard, err := strconv.Atoi(args[0])
			if err != nil {
				return console.Usagef("%q is not the number of a shard", args[0])
			}
			if move, err = beginMove(cmd, ask, shardmap.Step{Shard: shard, From: args[1], To: args[2]}); err != nil {
				return err
			}
		}
		if noWait {
			fmt.Fprintf(cmd.OutOrStdout(), "moving %s\n", move)
			return nil
		}
		return awaitMove(cmd, ask, move, cancel)
	}
	return cmd
}

func beginMove(cmd *cobra.Command, ask target.AdminCaller, step shardmap.Step) (move *peering.Move, err error) {
	text, err := json.Marshal(step)
	if err != nil {
		return nil, err
	}
	answer, err := ask(cmd, http.MethodPost, "/move", bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(answer, &move); err != nil {
		return nil, fmt.Errorf("the response does not describe a move: %w", err)
	}
	return move, nil
}

// newClusterDrain makes `lazuli cluster drain`.
func newClusterDrain(ask target.AdminCaller) *cobra.Command {
	cmd := &cobra.Command{Use: "drain NODE", Short: "Move all shards of a node to other nodes", Args: cobra.ExactArgs(1),
		Long: `Move all shards of a node to other nodes, one after the other, each to the node that has the fewest and is in
no zone that has it. The node stays in the cluster, and passes requests on. If the command is interrupted, the move
under way goes on, and the command can be run again.`,
		Example: "  lazuli cluster drain n1"}
	dry := dryRun(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return doMoves(cmd, ask, *dry, func(h *shardmap.Hosts, sizes shardmap.Sizes) ([]shardmap.Step, error) {
			return h.Drain(args[0], sizes)
		})
	}
	return cmd
}

// newClusterBalance makes `lazuli cluster balance`.
func newClusterBalance(ask target.AdminCaller) *cobra.Command {
	cmd := &cobra.Command{Use: "balance", Short: "Move shards so that all nodes have equal shares of them and of the data",
		Args: cobra.NoArgs,
		Long: `Move shards, one after the other, until all nodes have equally many, within one, as far as zones allow, and until
none has a fifth more or less data than the mean, as far as the sizes of the shards allow. If the command is
interrupted, the move under way goes on, and the command can be run again. With --dry-run it prints the moves, with
the shards and the data of both nodes before each.

A node that joins gets its share without this command, one shard after the other, and the leaders of logs are
balanced, one each minute. --auto=off ends both, for all nodes of the cluster and until --auto=on: then a node that
joins waits for this command. With --auto nothing else is done.`,
		Example: `  lazuli cluster balance --dry-run
  lazuli cluster balance
  lazuli cluster balance --auto=off`}
	dry := dryRun(cmd)
	auto := cmd.Flags().String("auto", "", "on or off: whether nodes that join get their share of shards, and all of the leaders, by themselves")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if cmd.Flags().Changed("auto") {
			method, ok := map[string]string{"on": http.MethodPut, "off": http.MethodDelete}[*auto]
			if !ok || *dry {
				return console.Usagef("--auto is on or off, and is given alone")
			}
			_, err := ask(cmd, method, "/automatic", nil)
			return err
		}
		return doMoves(cmd, ask, *dry, func(h *shardmap.Hosts, sizes shardmap.Sizes) ([]shardmap.Step, error) {
			return h.Balance(sizes), nil
		})
	}
	return cmd
}

func dryRun(cmd *cobra.Command) *bool {
	return cmd.Flags().Bool("dry-run", false, "print the moves, but make none")
}

// doMoves does, or prints, the moves that a table needs.
func doMoves(cmd *cobra.Command, ask target.AdminCaller, dry bool,
	plan func(*shardmap.Hosts, shardmap.Sizes) ([]shardmap.Step, error)) error {
	l, err := target.AskAdmin[peering.Layout](cmd, ask, "/move", "the table of shards")
	if err != nil {
		return err
	}
	status, err := target.AskAdmin[cluster.Status](cmd, ask, "", "the state of a cluster")
	if err != nil {
		return err
	}
	sizes := server.ShardSizes(&status)
	list, err := plan(l.Hosts, sizes)
	if err != nil {
		return err
	}
	if len(list) == 0 {
		fmt.Fprintln(cmd.OutOrStdout(), "nothing is to be moved")
	}
	for _, step := range list {
		// Each printed move is applied to the copy of the table, so that the next line counts it.
		if dry {
			has := func(node string) string {
				return fmt.Sprintf("%s %d with %s", node, len(l.Hosts.Of(node)),
					server.ContentSize(l.Hosts.Bytes(node, sizes)))
			}
			fmt.Fprintf(cmd.OutOrStdout(), "lazuli cluster move %d %s %s  # shards before: %s, %s\n", step.Shard, step.From,
				step.To, has(step.From), has(step.To))
			if l.Hosts, err = l.Hosts.Moved(step.Shard, step.From, step.To); err != nil {
				return err
			}
			continue
		}
		// One move at a time: the cluster refuses another one while a shard moves.
		move, err := beginMove(cmd, ask, step)
		if err != nil {
			return err
		}
		if err := awaitMove(cmd, ask, move, false); err != nil {
			return err
		}
	}
	return nil
}

// awaitMove waits until a move has ended, and says what is done.
func awaitMove(cmd *cobra.Command, ask target.AdminCaller, move *peering.Move, cancel bool) error {
	out := cmd.OutOrStdout()
	var said peering.Step
	var last error
	answered := time.Now()
	for {
		l, err := target.AskAdmin[peering.Layout](cmd, ask, "/move", "the move of a shard")
		switch {
		case err != nil:
			// The asked node may be starting again.
			if last = err; time.Since(answered) > nodeAway {
				return fmt.Errorf("the move goes on, but this node does not say how far it is: %w", last)
			}
		case l.Move == nil || l.Move.Number < move.Number:
			answered = time.Now() // a node that has not heard of it
		case l.Move.Number > move.Number:
			// The next one may begin when the table is decided, before the node that leaves has deleted its copy.
			if !cancel && l.Hosts.On(move.To, move.Shard) && !l.Hosts.On(move.From, move.Shard) {
				sayHosts(out, l.Hosts, move.Shard)
				return nil
			}
			return fmt.Errorf("another move has followed: %s", l.Move)
		default:
			answered = time.Now()
			if l.Move.Step != said && !l.Ended {
				said = l.Move.Step
				fmt.Fprintf(out, "moving %s: %s\n", l.Move, steps[said])
			}
			if !l.Ended {
				break
			}
			sayHosts(out, l.Hosts, l.Move.Shard)
			if l.Move.Cancelled() && !cancel {
				return fmt.Errorf("the move of %s was cancelled", l.Move)
			}
			return nil
		}
		select {
		case <-cmd.Context().Done():
			return cmd.Context().Err()
		case <-time.After(waitPoll):
		}
	}
}

func sayHosts(out io.Writer, h *shardmap.Hosts, shard int) {
	fmt.Fprintf(out, "shard %d is on %s\n", shard, strings.Join(h.Shards[shard], ", "))
}

// nodeAway is the time for which the asked node may give no answer while a move is awaited.
const nodeAway = time.Minute
