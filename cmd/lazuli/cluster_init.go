package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lazuli-storage/lazuli/internal/storage/disk"
	"github.com/lazuli-storage/lazuli/internal/storage/secretfile"
)

// clusterPort is the port for the connections between nodes where none is named.
const clusterPort = "6222"

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
			files, err := clusterFiles(args[0], nodes)
			if err != nil {
				return usageError{err}
			}
			if err := writeClusterFiles(args[0], files); err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			for _, f := range files {
				fmt.Fprintln(out, "wrote", filepath.Join(args[0], f.name))
			}
			if len(nodes) == 0 {
				fmt.Fprintln(out, "\nStart each node in a terminal of its own; they serve when all run:")
				for _, f := range files[1:] {
					fmt.Fprintln(out, "  lazuli --config", filepath.Join(args[0], f.name))
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

// clusterFile is a file that `lazuli cluster init` writes.
type clusterFile struct{ name, text string }

// clusterFiles returns the secret and the configurations.
func clusterFiles(folder string, nodes []string) ([]clusterFile, error) {
	local := len(nodes) == 0
	if local {
		nodes = []string{"127.0.0.1:6221", "127.0.0.1:6222", "127.0.0.1:6223"}
	}
	if n := len(nodes); n != 3 && n != 5 && n != 7 {
		return nil, fmt.Errorf("--nodes has %d addresses: a cluster has 3, 5 or 7 nodes", n)
	}
	var peers []string
	seen := map[string]bool{}
	for i, address := range nodes {
		address = strings.TrimSpace(address)
		if _, _, err := net.SplitHostPort(address); err != nil {
			address = net.JoinHostPort(strings.Trim(address, "[]"), clusterPort)
		}
		host, port, err := net.SplitHostPort(address)
		if n, e := strconv.Atoi(port); err != nil || e != nil || n < 1 || n > 65535 || host == "" ||
			strings.ContainsAny(host, " =,/") {
			return nil, fmt.Errorf("--nodes: %q is no address of a machine", nodes[i])
		}
		if seen[address] {
			return nil, fmt.Errorf("--nodes: %s is named twice", address)
		}
		seen[address] = true
		nodes[i] = address
		peers = append(peers, fmt.Sprintf("n%d=%s", i+1, address))
	}
	files := []clusterFile{{"cluster-secret", rand.Text() + rand.Text() + "\n"}}
	for i, address := range nodes {
		name := fmt.Sprintf("n%d", i+1)
		_, port, _ := net.SplitHostPort(address)
		text := "# Node " + name + " of the cluster. docs/cluster.md describes clusters; `lazuli config --help` lists the " +
			"options.\n"
		if local {
			data, err := filepath.Abs(filepath.Join(folder, name))
			if err != nil {
				return nil, err
			}
			secret, err := filepath.Abs(filepath.Join(folder, "cluster-secret"))
			if err != nil {
				return nil, err
			}
			base := 20000 + 1000*i
			text += fmt.Sprintf("location: %q\nblob-port: %d\nqueue-port: %d\ntable-port: %d\nadmin-port: "+
				"%d\ncluster-listen: %s\ncluster-secret-file: %q\n",
				data, base, base+1, base+2, base+3, address, secret)
		} else {
			text += "# location: /var/lib/lazuli\n# accounts-file: accounts\nhost: 0.0.0.0\ncluster-listen: 0.0.0.0:" + port +
				"\ncluster-secret-file: cluster-secret\n"
		}
		files = append(files, clusterFile{name + ".yaml",
			text + "cluster-node: " + name + "\ncluster-peers: " + strings.Join(peers, ",") + "\n"})
	}
	return files, nil
}

// writeClusterFiles writes the files; if one exists, none.
func writeClusterFiles(folder string, files []clusterFile) error {
	if err := disk.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	for _, f := range files {
		if _, err := os.Lstat(filepath.Join(folder, f.name)); !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s exists: give another folder", filepath.Join(folder, f.name))
		}
	}
	for i, f := range files {
		path := filepath.Join(folder, f.name)
		if i == 0 {
			if err := secretfile.Create(path, []byte(f.text)); err != nil {
				return err
			}
			continue
		}
		if err := os.WriteFile(path, []byte(f.text), 0o644); err != nil {
			return err
		}
	}
	return nil
}
