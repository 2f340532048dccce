// Package convert makes the data folder of a single server that of the first node of a cluster.
//
// The files stay as they are, except that a last start and stop puts them in order. What makes the folder that of a
// node is its identity, one file, which is written last and in one step. When the node and its peers have formed the
// cluster, the node puts the data into it (server/conversion.go).
package convert

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/lazuli-storage/lazuli/internal/cluster/peering"
	"github.com/lazuli-storage/lazuli/internal/nats/natsserver"
	"github.com/lazuli-storage/lazuli/internal/server/fsck"
	blobstate "github.com/lazuli-storage/lazuli/internal/state/blob"
	queuestate "github.com/lazuli-storage/lazuli/internal/state/queue"
	tablestate "github.com/lazuli-storage/lazuli/internal/state/table"
	"github.com/lazuli-storage/lazuli/internal/storage/datadir"
	"github.com/lazuli-storage/lazuli/internal/storage/disk"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// Errors of ToNode and Undo.
var (
	// ErrNode means that the folder belongs to a node of a cluster.
	ErrNode = errors.New("the folder belongs to a node of a cluster")
	// ErrDamaged means that the check of the folder has found errors.
	ErrDamaged = errors.New("the folder has errors")
	// ErrBegun means that the cluster has formed, so that it may have the data.
	ErrBegun = errors.New("the cluster has formed, and may have the data of the folder")
)

// Options configure ToNode.
type Options struct {
	// Node is the name of the node.
	Node string
	// Log receives what the services say while they put their files in order; nil means slog.Default().
	Log *slog.Logger
	// Progress, if set, receives the bytes of the folder that were checked, and their number, which is 0 if unknown. The
	// check is most of the work.
	Progress func(done, total int64)
}

// ToNode makes the folder of a stopped single server that of a node, and returns its identity. The folder is checked
// completely before anything changes. Until the identity is written, the folder is that of a single server.
//
// Errors: ErrNode, ErrDamaged, and those of [datadir.OpenExisting].
func ToNode(ctx context.Context, folder string, o Options) (peering.Identity, error) {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if err := errors.Join(peering.CheckName(o.Node), checkAlone(folder)); err != nil {
		return peering.Identity{}, err
	}
	report, err := fsck.Check(ctx, folder, fsck.Options{Progress: o.Progress})
	if err != nil {
		return peering.Identity{}, err
	}
	if !report.Clean {
		return peering.Identity{}, fmt.Errorf(
			"%w, %d of them, such as: %s. Run `lazuli fsck` to see all, and `lazuli fsck --repair`; nothing was changed",
			ErrDamaged, report.Errors, firstError(report))
	}
	dir, err := datadir.OpenExisting(folder)
	if err != nil {
		return peering.Identity{}, err
	}
	id, err := toNode(ctx, dir, o)
	return id, errors.Join(err, dir.Close())
}

func toNode(ctx context.Context, dir *datadir.Dir, o Options) (peering.Identity, error) {
	if err := checkAlone(dir.Path()); err != nil { // another process was faster
		return peering.Identity{}, err
	}
	if err := settle(ctx, dir, o.Log); err != nil {
		return peering.Identity{}, err
	}
	return peering.Convert(dir.Cluster(), o.Node)
}

// checkAlone returns ErrNode unless the folder is that of a single server.
func checkAlone(folder string) error {
	id, err := peering.ReadIdentity(filepath.Join(folder, "cluster"))
	switch {
	case errors.Is(err, peering.ErrNoIdentity):
		return nil
	case err != nil:
		return err
	}
	return fmt.Errorf("%w: node %s of cluster %s", ErrNode, id.Node, id.Cluster)
}

func firstError(r *fsck.Report) string {
	for _, f := range r.Findings {
		if f.Severity == fsck.Error {
			return f.Where + ": " + f.What
		}
	}
	return ""
}

// settle starts and stops the state of each service: what a crash has left is put in order, and what a single server
// would create with its first start exists.
func settle(ctx context.Context, dir *datadir.Dir, log *slog.Logger) error {
	tables, err := tablestate.OpenFile(dir.Tables(), store.Options{})
	if err != nil {
		return err
	}
	if err := tables.Close(); err != nil {
		return err
	}
	if err := blobstate.Settle(dir.Blobs(), dir.Extents(), dir.EncryptionScopes()); err != nil {
		return err
	}
	n, err := natsserver.StartContext(ctx, natsserver.Config{Dir: dir.Queues(), Log: log})
	if err != nil {
		return err
	}
	defer n.Close()
	return queuestate.Settle(ctx, dir.QueueState(), n, log)
}

// Undo makes the folder of a node that was converted, and whose cluster has not formed, that of a single server again.
//
// Errors: ErrBegun, and those of [datadir.OpenExisting].
func Undo(folder string) (err error) {
	dir, err := datadir.OpenExisting(folder)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	id, err := peering.ReadIdentity(dir.Cluster())
	switch {
	case errors.Is(err, peering.ErrNoIdentity):
		return fmt.Errorf("%s is not the folder of a node", dir.Path())
	case err != nil:
		return err
	case !id.Seed:
		return fmt.Errorf("%w: node %s of cluster %s", ErrBegun, id.Node, id.Cluster)
	case id.State != peering.Founding:
		return fmt.Errorf("%w: node %s of cluster %s. If none of its nodes has ever been ready, stop all of them, empty "+
			"the folders of the others, and remove %s",
			ErrBegun, id.Node, id.Cluster, dir.Cluster())
	}
	// The identity goes first: without it, the folder is that of a single server.
	if err := dir.Forget(datadir.NodeFile); err != nil {
		return err
	}
	aside := strings.TrimRight(dir.Cluster(), string(filepath.Separator)) + ".undone"
	if err := errors.Join(os.RemoveAll(aside), os.Rename(dir.Cluster(), aside), disk.SyncDir(dir.Path())); err != nil {
		return err
	}
	return os.RemoveAll(aside)
}
