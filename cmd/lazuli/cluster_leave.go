package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/console"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/target"
	"github.com/lazuli-storage/lazuli/internal/cluster/peering"
)

// newClusterLeave makes `lazuli cluster leave`.
func newClusterLeave(ask target.AdminCaller) *cobra.Command {
	cmd := &cobra.Command{Use: "leave NODE", Short: "Remove a stopped node from the cluster", Args: cobra.ExactArgs(1),
		Long: `Remove a stopped node from the cluster: its copies are made again on the other nodes. Use it when the data folder of a node
is lost or damaged: afterwards a node of that name can join with an empty folder. Do not start the old folder again.
The asked node must be another one, with a majority. The command is refused while a stream has no majority of current copies,
and returns when no stream counts on the removed node.

In a cluster with --cluster-copies a node without a shard leaves for good: the cluster has one node less, and a node of
that name joins as any new one does. "lazuli cluster drain" moves its shards away first.

With --lost, in such a cluster, a node that has shards leaves as well, and for good: its machine or its disk is gone, so
it cannot be drained. Each of its shards gets another node, one after the other, from the two copies that are left, and
then the node leaves. From the beginning on no node accepts its folder any more, and its data is not served, should it
come back. If the command is interrupted, or the asked node is killed, the nodes go on by themselves;
"lazuli cluster status" shows it, and the command can be run again.

It is refused, and nothing is changed, while another node with one of the shards does not run or lacks something of it,
if no node can take a shard, and if the node answers. --even-if-it-answers gives up a node that answers, such as one
whose disk returns other data than it was given. What it alone has is lost.`,
		Example: `  lazuli cluster leave n3
  lazuli cluster leave n3 --lost`}
	lost := cmd.Flags().Bool("lost", false, "the node's data folder is gone for good: its shards get other nodes")
	answering := cmd.Flags().Bool("even-if-it-answers", false, "with --lost: give the node up although it answers")
	noWait := cmd.Flags().Bool("no-wait", false, "with --lost: return when the node is given up")
	confirm := console.Confirmation(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		name, path := args[0], "/nodes/"+url.PathEscape(args[0])
		if !*lost {
			if *answering || *noWait {
				return console.Usagef("--even-if-it-answers and --no-wait belong to --lost")
			}
			if err := confirm(fmt.Sprintf("Remove the node %s and its data folder from the cluster?", name)); err != nil {
				return err
			}
			if _, err := ask(cmd, http.MethodDelete, path, nil); err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s is removed; it can join again with an empty data folder\n", name)
			return nil
		}
		if err := confirm(fmt.Sprintf("Give up the node %s for good, with all that its data folder has?", name)); err != nil {
			return err
		}
		// The answer comes when it is recorded; the nodes do the rest, whether this process waits or not.
		if path += "/lost"; *answering {
			path += "?answering=true"
		}
		if _, err := ask(cmd, http.MethodDelete, path, nil); err != nil {
			return err
		}
		fmt.Fprintf(cmd.OutOrStdout(), "node %s is lost: no node accepts its data folder any more\n", name)
		if *noWait {
			return nil
		}
		return awaitReplaced(cmd, ask, name)
	}
	return cmd
}

// awaitReplaced waits until a lost node has left, and says what is done.
func awaitReplaced(cmd *cobra.Command, ask target.AdminCaller, name string) error {
	out := cmd.OutOrStdout()
	said, answered := "", time.Now()
	for {
		l, err := target.AskAdmin[peering.Layout](cmd, ask, "/move", "the table of shards")
		switch {
		case err != nil: // the asked node may be starting again
			if time.Since(answered) > nodeAway {
				return fmt.Errorf("the nodes go on, but this one does not say how far they are: %w", err)
			}
		case !slices.Contains(l.Hosts.Names(), name):
			fmt.Fprintf(out, "%s has left the cluster; its name can join again with an empty data folder\n", name)
			return nil
		default:
			answered = time.Now()
			text := fmt.Sprintf("%s has %d shards left", name, len(l.Hosts.Of(name)))
			if m := l.Moving(); m != nil && m.From == name {
				text = fmt.Sprintf("moving %s: %s", m, steps[m.Step])
			}
			if text != said {
				said = text
				fmt.Fprintln(out, text)
			}
		}
		if err := pause(cmd.Context(), waitPoll); err != nil {
			return err
		}
	}
}

// pause waits, and returns an error if ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
