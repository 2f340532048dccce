package convert

import (
	"path/filepath"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/crashimage"
)

// The node with the data removes what the cluster has, and says that it has no seed any more once that is on disk: a
// node without a seed would take files that came back for views of the cluster's logs.
func TestAConvertedNodeRemovesItsFilesBeforeItForgetsTheSeed(t *testing.T) {
	if testing.Short() {
		t.Skip("starts three nodes")
	}
	t.Parallel()
	r := crashimage.OfTest(t, func(dir string) {
		folder := filepath.Join(dir, "data")
		alone(t, folder, func(account) {})
		check.Must(ToNode(t.Context(), folder, Options{Node: "n1", Log: quiet}))(t)
		crashimage.Prepared(t, dir)
		startNodes(t, []string{folder, t.TempDir(), t.TempDir()}, freePeers(t))
	})
	// The identity is written when the node joins, and once more when it has no seed.
	r.Order(t, "remove data/tables.db", "remove data/queues", "sync data", "write data/cluster/.node.json.*",
		"sync data/cluster")
}
