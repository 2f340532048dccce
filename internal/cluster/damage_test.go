package cluster

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/cluster/peering"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/crashimage"
)

// A node that has left its cluster because of damaged files does not start with them again after a power failure: it
// could vote for a leader that lacks what it had acknowledged.
func TestADamagedNodeHasLeftAfterAPowerFailure(t *testing.T) {
	t.Parallel()
	r := crashimage.OfTest(t, func(dir string) {
		node := filepath.Join(dir, "node")
		id := check.Must(peering.Convert(node, "n1"))(t)
		snapshots := filepath.Join(node, id.Cluster, "jetstream", "$SYS", "_js_", "_meta_", "snapshots")
		check.OK(t, os.MkdirAll(snapshots, 0o700))
		check.OK(t, os.WriteFile(filepath.Join(snapshots, "snap.1.1"), []byte("no snapshot"), 0o600))
		crashimage.Prepared(t, dir)
		check.OK(t, leaveIfDamaged(node, slog.New(slog.DiscardHandler)))
		if _, err := os.Stat(snapshots); err == nil {
			t.Error("the node has not left")
		}
	})
	r.Durable(t, nil)
	r.Order(t, "rename node", "mkdir node", "sync .")
}
