package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/console"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/serve"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/target"
	"github.com/lazuli-storage/lazuli/internal/server/config"
	"github.com/lazuli-storage/lazuli/internal/server/fsck"
	"github.com/lazuli-storage/lazuli/internal/storage/tier"
)

// errNotClean is the failure of a check that found errors; the report is on standard output by then.
var errNotClean = errors.New("the data folder is not clean")

// errLoss is the failure of a repair that could not keep everything; the report names what is lost.
var errLoss = errors.New("the data folder was repaired, and not everything could be kept")

// newFsckCommand makes `lazuli fsck`, the checker of a data folder.
func newFsckCommand(m *Main) *cobra.Command {
	var o fsck.Options
	cmd := &cobra.Command{
		Use:   "fsck [FOLDER]",
		Short: "Check a data folder that no process uses",
		Long: `Check that a data folder has the files that its manifest lists, none of them foreign, shorter or older than
it was, and every invariant between them: structure and records of the two databases, each byte of the
blob content with its checksums, and the records of the queues.

Without a folder, the command checks the one that serve would use. It changes nothing without --repair; queues
are checked in a temporary copy. The folder may be read-only.

--repair rewrites damaged databases from all that is intact in them and in their logs, and
finishes damaged files of blob content that keep the server from starting. The damaged files go to
the folder damaged/ in the data folder; nothing is deleted. Content that is damaged itself cannot be
repaired: its blobs are listed, and answer reads of the damaged part with an error until they are
overwritten or deleted. Findings that were repaired are warnings.

In the folder of a cluster node, --repair only moves damaged databases to damaged/: the node copies
them from the other nodes when it starts.

With --content-tier, as for serve, the command checks the object store: each object must exist. --objects reads
them all.

With --repair, the command accepts files that are missing or older, and sets foreign files aside.

The exit code is 0 if there are no errors (there may be warnings), 1 if there are, 4 if the folder is in
use or not a data folder, and 5 if --repair left no errors but could not keep everything: the lines that begin
with "lost:" say what.`,
		Example: `  lazuli fsck
  lazuli fsck /var/lib/lazuli --json
  lazuli fsck --repair`,
		Args: cobra.MaximumNArgs(1),
	}
	output := console.ReportOutput(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		folder, err := target.DataFolder(cmd, m.Environ, args)
		if err != nil {
			return err
		}
		if o.Tier, err = tierOf(cmd, m.Environ); err != nil {
			return err
		}
		if o.Objects && o.Tier == nil {
			return console.Usagef("--objects needs --content-tier")
		}
		progress := console.NewMeter(cmd, "checked", console.BytesUnit)
		o.Progress = progress.At
		r, err := fsck.Check(cmd.Context(), folder, o)
		// Before the report, which may go to the same terminal.
		progress.End()
		if err != nil {
			return err
		}
		switch err := output(r, r.WriteText); {
		case err != nil:
			return err
		// Findings that remain weigh more than what was lost: exit code 1 before 5.
		case !r.Clean:
			return errNotClean
		case len(r.Lost) > 0:
			return errLoss
		}
		return nil
	}
	f := cmd.Flags()
	config.AddFlags(f, "location", "config", "content-tier", "content-tier-key-file")
	f.BoolVar(&o.Objects, "objects", false, "read everything in content-tier as well, and compare checksums")
	f.BoolVar(&o.Repair, "repair", false, "keep the intact data of damaged files, and set the damaged files aside")
	f.IntVar(&o.MaxFindings, "max-findings", 1000, "maximum number of findings to print; the others are counted")
	return cmd
}

// tierOf returns the tier of content that the configuration of a command names, nil for none.
func tierOf(cmd *cobra.Command, environ []string) (*tier.Options, error) {
	c, err := config.Load(config.Sources{Flags: cmd.Flags(), Environ: environ})
	if err != nil {
		return nil, console.Usage(err)
	}
	return serve.TierOptions(c.Tier)
}
