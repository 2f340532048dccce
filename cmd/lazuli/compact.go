package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/console"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/target"
	"github.com/lazuli-storage/lazuli/internal/server/config"
	"github.com/lazuli-storage/lazuli/internal/state/blob/maintain"
	"github.com/lazuli-storage/lazuli/internal/state/blob/offline"
	"github.com/lazuli-storage/lazuli/internal/storage/datadir"
	"github.com/lazuli-storage/lazuli/internal/storage/tier"
)

// newCompactCommand makes `lazuli compact`, which frees the space of deleted blobs.
func newCompactCommand(m *Main) *cobra.Command {
	var dry bool
	var rate int64
	var output func(any, func(io.Writer) error) error
	cmd := &cobra.Command{
		Use:   "compact [FOLDER]",
		Short: "Free the space of deleted blobs in a data folder that no process uses",
		Long: `Remove the content of deleted blobs, deleted containers and incomplete uploads, and rewrite the files of blob
content so that they have no unused space. A server does the same in the background at a low rate, but only
to files that are at least half unused.

With --content-tier, as for serve, the command also fetches and rewrites content that is only in the object
store, if three quarters of a file are unused.

Without a folder, the command compacts the folder that serve would use. It can be interrupted at any time and
keeps the progress made until then. It needs free space for the content that it moves. The exit code is 4 if
the folder is in use or not a data folder.`,
		Example: `  lazuli compact --dry-run
  lazuli compact /var/lib/lazuli --rate 50`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if rate < 0 {
				return console.Usagef("--rate must not be negative")
			}
			folder, err := target.DataFolder(cmd, m.Environ, args)
			if err != nil {
				return err
			}
			away, err := tierOf(cmd, m.Environ)
			if err != nil {
				return err
			}
			dir, err := datadir.OpenExistingShards(folder)
			if err != nil {
				return err
			}
			// See errNodeFolder: what the records of a stopped node do not refer to may still be needed.
			if _, statErr := os.Stat(dir.Cluster()); !errors.Is(statErr, fs.ErrNotExist) {
				return errors.Join(errNodeFolder, dir.Close())
			}
			err = compactFolder(cmd, dir, away, dry, rate<<20, output)
			return errors.Join(err, dir.Close())
		},
	}
	output = console.ReportOutput(cmd)
	f := cmd.Flags()
	config.AddFlags(f, "location", "config", "content-tier", "content-cache", "content-tier-key-file")
	f.BoolVar(&dry, "dry-run", false, "change nothing; print how much space is unused")
	f.Int64Var(&rate, "rate", 0, "maximum rate of moving content, in MiB per second; 0: no limit")
	return cmd
}

// errNodeFolder: the extents of a node hold copies of other nodes' content, and a node's metadata may be behind the
// log.
var errNodeFolder = errors.New("this is the folder of a node of a cluster, which frees space by itself while it runs")

func compactFolder(cmd *cobra.Command, dir *datadir.Dir, away *tier.Options, dry bool, rate int64,
	output func(any, func(io.Writer) error) error) error {
	if dry {
		damage := 0
		var a struct {
			Bytes, Live, Dead, Torn int64
			Extents                 int
		}
		for n := range dir.Shards() {
			// What is used is only known if all references can be read: one that cannot would make live content look free.
			of, err := offline.Check(dir.Shard(n).Blobs(), dir.Shard(n).Extents(),
				offline.CheckOptions{Report: func(error) { damage++ }})
			if err != nil {
				return err
			}
			a.Bytes, a.Live, a.Dead, a.Torn = a.Bytes+of.Bytes, a.Live+of.Live, a.Dead+of.Dead, a.Torn+of.Torn
			a.Extents += of.Extents
		}
		if damage > 0 {
			return fmt.Errorf("the folder has %d errors; lazuli fsck lists them", damage)
		}
		return output(struct {
			Bytes int64 `json:"bytes"`
			Used  int64 `json:"usedBytes"`
			Free  int64 `json:"freeableBytes"`
		}{a.Bytes, a.Live, a.Dead + a.Torn}, func(w io.Writer) error {
			_, err := fmt.Fprintf(w, "%s of content in %s, of which %s are used and %s can be freed\n",
				console.BytesUnit(float64(a.Bytes)),
				console.Count(a.Extents, "file"), console.BytesUnit(float64(a.Live)), console.BytesUnit(float64(a.Dead+a.Torn)))
			return err
		})
	}
	// Compaction moves live content only, so progress is in bytes moved; how many there will be depends on the rate of
	// waste, and no total is shown.
	progress := console.NewMeter(cmd, "moved", console.BytesUnit)
	var before, after int64
	for n := range dir.Shards() {
		var of *tier.Options
		if away != nil {
			of = away.OfShard(dir.Tier(), n, dir.Shards())
		}
		was, is, err := maintain.CompactFolder(cmd.Context(), dir.Shard(n).Blobs(), dir.Shard(n).Extents(), of, rate,
			progress.At)
		if err != nil {
			progress.End()
			return err
		}
		before, after = before+was, after+is
	}
	progress.End()
	return output(struct {
		Before int64 `json:"bytesBefore"`
		After  int64 `json:"bytesAfter"`
	}{before, after}, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "%s of content before, %s after\n", console.BytesUnit(float64(before)),
			console.BytesUnit(float64(after)))
		return err
	})
}
