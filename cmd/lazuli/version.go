package main

import (
	"encoding/json"
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/accountarchive"
	"github.com/lazuli-storage/lazuli/internal/buildinfo"
	"github.com/lazuli-storage/lazuli/internal/cluster/peering"
	"github.com/lazuli-storage/lazuli/internal/server/backup"
	"github.com/lazuli-storage/lazuli/internal/storage/datadir"
)

// versionText returns the version and, where the build knows it, the commit.
func versionText() string { return buildinfo.Current().String() }

// longVersion also says what the binary was made with and for.
func longVersion() string {
	return fmt.Sprintf("%s %s %s/%s", versionText(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// formats are the versions of what this program stores and exchanges.
type formats struct {
	DataFolder int `json:"dataFolder"`
	// Cluster is the format that the nodes of a new cluster use, and ClusterOldest the oldest that this program
	// understands.
	Cluster       int `json:"cluster"`
	ClusterOldest int `json:"clusterOldest"`
	Archive       int `json:"archive"`
	Backup        int `json:"backup"`
}

// currentFormats are those of this program.
var currentFormats = formats{DataFolder: datadir.Format, Cluster: peering.Supported.Newest,
	ClusterOldest: peering.Supported.Oldest, Archive: accountarchive.Version, Backup: backup.Format}

func newVersionCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version, and with --json the formats of data",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !asJSON {
				_, err := fmt.Fprintf(cmd.OutOrStdout(), "lazuli %s\n", longVersion())
				return err
			}
			// For scripts that decide on an upgrade: the formats say whether another release can open the folder.
			e := json.NewEncoder(cmd.OutOrStdout())
			return e.Encode(struct {
				buildinfo.Info
				Go      string  `json:"go"`
				OS      string  `json:"os"`
				Arch    string  `json:"arch"`
				Formats formats `json:"formats"`
			}{buildinfo.Current(), runtime.Version(), runtime.GOOS, runtime.GOARCH, currentFormats})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "with the commit, the date and the formats of data")
	return cmd
}
