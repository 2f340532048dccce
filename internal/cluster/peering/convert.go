package peering

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/lazuli-storage/lazuli/internal/storage/disk"
)

// A cluster that begins with the data of a single server is a converted cluster. Its ID says so, which every node knows
// before its server starts: no node may serve before the data is in the logs, and a program that does not know that
// must not take part. The node with the data has Identity.Seed until it is.

// convertedSuffix ends the IDs of converted clusters.
const convertedSuffix = "-converted"

// Converted reports whether the cluster with an ID begins with the data of a single server.
func Converted(cluster string) bool { return strings.HasSuffix(cluster, convertedSuffix) }

// format returns the format of the cluster's data as far as the node knows it. A converted cluster has never had an
// older one than [ConvertedFormat].
func (id Identity) format() int {
	if Converted(id.Cluster) {
		return max(ConvertedFormat, id.Format)
	}
	return max(1, id.Format)
}

// CheckName returns an error unless a node can have the name.
func CheckName(node string) error {
	if !validName().MatchString(node) {
		return fmt.Errorf("the node's name %q must have 1 to 32 lower-case letters, digits and hyphens", node)
	}
	return nil
}

// Convert makes the folder dir, which it creates, that of a node that founds a converted cluster. The file is written
// in one step, durably. It fails if the folder has an identity.
func Convert(dir, node string) (Identity, error) {
	if err := CheckName(node); err != nil {
		return Identity{}, err
	}
	if id, err := ReadIdentity(dir); err == nil {
		return id, fmt.Errorf("the folder belongs to node %s of cluster %s", id.Node, id.Cluster)
	}
	if err := disk.MkdirAll(dir, 0o700); err != nil {
		return Identity{}, err
	}
	id := Identity{Cluster: newToken(12) + convertedSuffix, Node: node, Incarnation: newToken(8), State: Founding,
		Members: map[string]string{}, Seed: true, Format: Supported.Newest}
	if err := id.write(dir); err != nil {
		return Identity{}, err
	}
	return id, disk.SyncDir(filepath.Dir(dir))
}

// Folder returns the name of the node's data folder, under which the node takes part in Raft.
func (id Identity) Folder() string { return serverName(id.Node, id.Incarnation) }

// Seeded records durably that the data of the node's folder is in the logs of the cluster.
func (s *Site) Seeded() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := s.identity
	id.Seed = false
	return s.store(id)
}
