package peering

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/lazuli-storage/lazuli/internal/storage/shardmap"
)

// The ID of a cluster with several shards ends with their number. So a node knows it before its server starts, and two
// nodes that disagree cannot be nodes of one cluster: one of them would look for an account where the other one does
// not put it.

// shardsInfix precedes the number of shards in the ID of a cluster with several.
const shardsInfix = "-shards"

// ErrShards means that a node has another number of shards than its cluster.
var ErrShards = errors.New("the data folder and the cluster have different numbers of shards")

// Shards returns the number of shards of the cluster with an ID.
func Shards(cluster string) int {
	if _, text, ok := strings.Cut(cluster, shardsInfix); ok {
		text, _, _ = strings.Cut(text, hostsInfix)
		if n, err := strconv.Atoi(text); err == nil && n > 1 {
			return n
		}
	}
	return 1
}

// newCluster returns the ID of a new cluster. hosts is nil where all nodes have all shards.
func newCluster(shards int, hosts *shardmap.Hosts) string {
	id := newToken(12)
	if shards > 1 {
		id += shardsInfix + strconv.Itoa(shards)
	}
	if hosts != nil {
		id += hostsInfix + hosts.Sum()
	}
	return id
}

// checkShards returns [ErrShards] if the folder of this node has another number of shards than a cluster.
func checkShards(have int, cluster string) error {
	have, want := max(have, 1), Shards(cluster)
	if have == want {
		return nil
	}
	return fmt.Errorf("%w: %d here, and %d in cluster %s: start the node with --shards %d and an empty folder", ErrShards,
		have, want, cluster, want)
}

// compareShards returns an error if a node that connects has another number of shards: a release that knows no shards
// takes any ID.
func compareShards(have, own int) error {
	if have, want := max(have, 1), max(own, 1); have != want {
		return fmt.Errorf("its data folder has %d shards, and this cluster %d: start that node with --shards %d and an empty "+
			"folder, or update it first", have, want, want)
	}
	return nil
}
