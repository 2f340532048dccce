package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/lazuli-storage/lazuli/cmd/internal/bench"
	"github.com/lazuli-storage/lazuli/cmd/lazuli-lab/internal/workbench"
)

// newWorkersCommand makes the verb bench workers.
func newWorkersCommand(l *lab) *cobra.Command {
	var c workbench.Config
	cmd := &cobra.Command{
		Use:   "workers",
		Short: "Measure workers and workflows on a server that syncs what it acknowledges",
		Long: `Start a server on a data folder of its own and measure, over loopback: messages put through the Azure SDK one a
request, put by Storage.Enqueue and handled, the time from a put to the start of an idle worker's handler, delayed messages that are due at once, and
workflows of three activities in a row and of ten at once, workflows that wait, and signals to entities. The processor
time is that of server and client together.
With --in-process the server runs in the process of the workers, which reach it without connections.`,
		Args: cobra.NoArgs,
	}
	fl := cmd.Flags()
	fl.IntVar(&c.Jobs, "jobs", 20_000, "messages that are put, and then handled")
	fl.IntVar(&c.Delayed, "delayed", 10_000, "messages that become visible at once")
	fl.IntVar(&c.Wakes, "wakes", 1000, "messages for an idle worker, one at a time")
	fl.IntVar(&c.Workflows, "workflows", 1000, "workflows of each kind")
	fl.IntVar(&c.Sleeping, "sleeping", 1000, "workflows that wait at the same time")
	fl.IntVar(&c.Entities, "entities", 10_000, "entities that are signalled once each")
	fl.BoolVar(&c.InProcess, "in-process", false, "run the server in the process of the workers")
	fl.StringVar(&c.Folder, "temp-dir", "", "directory for the data folder (default: the system's temporary directory)")
	cmd.RunE = func(cmd *cobra.Command, _ []string) (err error) {
		if min(c.Jobs, c.Delayed, c.Wakes, c.Workflows, c.Sleeping, c.Entities) < 1 {
			return bench.SettingsError{Cause: errors.New("the numbers of things to do must be positive")}
		}
		if c.Command, err = l.command(); err != nil {
			return err
		}
		// Rows that were measured before an error are printed, too: a run takes minutes.
		rows, err := workbench.Run(cmd.Context(), c)
		return errors.Join(workbench.Write(cmd.OutOrStdout(), rows), err)
	}
	return cmd
}
