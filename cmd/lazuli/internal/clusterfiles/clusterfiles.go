// Package clusterfiles writes the files of a new cluster, as `lazuli cluster init` does: the secret of the nodes, and the
// configuration of each.
package clusterfiles

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

	"github.com/lazuli-storage/lazuli/internal/storage/disk"
	"github.com/lazuli-storage/lazuli/internal/storage/secretfile"
)

// defaultPort is the port for the connections between nodes where none is named.
const defaultPort = "6222"

// File is a file of the folder.
type File struct{ Name, text string }

// FirstPort is the first port of the nodes on one machine, unless another is given: the Blob service of the first node.
const FirstPort = 20000

// A node on one machine has the ports of its services, of its admin listener and of the connections of the other nodes,
// in this order. Those of the next node are portsApart higher.
const (
	portsApart = 1000
	portsUsed  = 5
)

// Make returns the secret, which is the first file, and a configuration for each node. nodes are host or host:port;
// without any, three nodes run on this machine, on the ports from first on.
func Make(folder string, nodes []string, first int) ([]File, error) {
	local := len(nodes) == 0
	if last := first + 2*portsApart + portsUsed - 1; local && (first < 1 || last > 65535) {
		return nil, fmt.Errorf("--first-port %d: the ports of three nodes go up to %d", first, last)
	}
	if local {
		for i := range 3 {
			port := first + portsApart*i + portsUsed - 1
			if first == FirstPort {
				port = 6221 + i // near NATS' own port for routes, as on machines of their own
			}
			nodes = append(nodes, net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		}
	}
	if n := len(nodes); n != 3 && n != 5 && n != 7 {
		return nil, fmt.Errorf("--nodes has %d addresses: a cluster has 3, 5 or 7 nodes", n)
	}
	var peers []string
	seen := map[string]bool{}
	for i, address := range nodes {
		address = strings.TrimSpace(address)
		if _, _, err := net.SplitHostPort(address); err != nil {
			address = net.JoinHostPort(strings.Trim(address, "[]"), defaultPort)
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
	files := []File{{"cluster-secret", rand.Text() + rand.Text() + "\n"}}
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
			base := first + portsApart*i
			text += fmt.Sprintf("location: %q\nblob-port: %d\nqueue-port: %d\ntable-port: %d\nadmin-port: "+
				"%d\ncluster-listen: %s\ncluster-secret-file: %q\n",
				data, base, base+1, base+2, base+3, address, secret)
		} else {
			text += "# location: /var/lib/lazuli\n# accounts-file: accounts\nhost: 0.0.0.0\ncluster-listen: 0.0.0.0:" + port +
				"\ncluster-secret-file: cluster-secret\n"
		}
		files = append(files, File{name + ".yaml",
			text + "cluster-node: " + name + "\ncluster-peers: " + strings.Join(peers, ",") + "\n"})
	}
	return files, nil
}

// Write writes the files; if one exists, none.
func Write(folder string, files []File) error {
	if err := disk.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	for _, f := range files {
		if _, err := os.Lstat(filepath.Join(folder, f.Name)); !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s exists: give another folder", filepath.Join(folder, f.Name))
		}
	}
	for i, f := range files {
		path := filepath.Join(folder, f.Name)
		if i == 0 {
			if err := secretfile.Create(path, []byte(f.text)); err != nil {
				return err
			}
			continue
		}
		// Synced like the secret: the command says that it is done. Services of another user read the configuration.
		if err := errors.Join(disk.WriteFile(folder, f.Name, []byte(f.text)), os.Chmod(path, 0o644)); err != nil {
			return err
		}
	}
	return nil
}
