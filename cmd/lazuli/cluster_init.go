package main

import (
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/clusterfiles"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/console"
)

// newClusterInit makes `lazuli cluster init`, which writes the configurations of the nodes of a new cluster and their
// secret.
func newClusterInit() *cobra.Command {
	var nodes []string
	cmd := &cobra.Command{
		Use:   "init FOLDER",
		Short: "Write the configurations and the secret of a new cluster",
		Long: `Write a configuration for each node of a new cluster, and the secret by which they trust each other, to a folder: n1.yaml, n2.yaml, n3.yaml and
cluster-secret. --nodes names the machines; without it, the nodes run on this machine, with data below the folder. Nothing is
started, and no file is overwritten.`,
		Example: `  lazuli cluster init cluster --nodes 10.0.0.1,10.0.0.2,10.0.0.3
  lazuli cluster init try`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			files, err := clusterfiles.Make(args[0], nodes)
			if err != nil {
				return console.Usage(err)
			}
			if err := clusterfiles.Write(args[0], files); err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			for _, f := range files {
				fmt.Fprintln(out, "wrote", filepath.Join(args[0], f.Name))
			}
			if len(nodes) == 0 {
				fmt.Fprintln(out, "\nStart each node in a terminal of its own; they serve when all run:")
				for _, f := range files[1:] {
					fmt.Fprintln(out, "  lazuli --config", filepath.Join(args[0], f.Name))
				}
				fmt.Fprintln(out, "  lazuli cluster status --admin-port 20003")
				return nil
			}
			fmt.Fprintln(out, "\nCopy cluster-secret and its own .yaml to each machine, into one folder, and start there, "+
				"with n1.yaml on the first machine:")
			fmt.Fprintln(out, "  lazuli --config n1.yaml")
			fmt.Fprintln(out, "The services listen on all addresses, with the development account, whose key is public: name "+
				"an accounts-file in each .yaml first.")
			return nil
		},
	}
	cmd.Flags().StringSliceVar(&nodes, "nodes", nil,
		"`addresses` of the machines, host or host:port; the port is for the nodes (default: three nodes on this machine)")
	return cmd
}
