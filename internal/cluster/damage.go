package cluster

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/lazuli-storage/lazuli/internal/cluster/peering"
	"github.com/lazuli-storage/lazuli/internal/nats/jetstreamfiles"
	"github.com/lazuli-storage/lazuli/internal/storage/disk"
)

// leaveIfDamaged verifies the files of a node of a cluster before its server reads them. JetStream drops what follows a
// damaged record, and a member that has forgotten what it had acknowledged could vote for a leader that lacks it. So a
// damaged folder is renamed: the node has an empty folder then, is another member than before, and can join when the
// old one was removed.
func leaveIfDamaged(dir string, log *slog.Logger) error {
	id, err := peering.ReadIdentity(dir)
	if errors.Is(err, peering.ErrNoIdentity) {
		return nil
	}
	if err != nil {
		return err
	}
	found, err := jetstreamfiles.VerifyTree(filepath.Join(dir, id.Cluster))
	if err != nil {
		return fmt.Errorf("cluster: verifying the files of the node: %w", err)
	}
	if len(found) == 0 {
		return nil
	}
	for _, d := range found {
		log.Error("damaged file of a stream", "damage", d.String())
	}
	aside := fmt.Sprintf("%s.damaged-%d", dir, time.Now().UnixNano())
	if err := os.Rename(dir, aside); err != nil {
		return fmt.Errorf("cluster: %w", err)
	}
	// The new folder's name is synced, and with it that of the old one: a node that has left does not start with its
	// damaged files again.
	if err := disk.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("cluster: %w", err)
	}
	log.Error("this node has left the cluster since its files are damaged; to let it join again, run the "+
		"command on another node",
		"node", id.Node, "command", "lazuli cluster leave "+id.Node, "kept", aside)
	return nil
}
