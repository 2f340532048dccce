package server

import (
	"bytes"
	"context"
	"path/filepath"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/server/backup"
	"github.com/lazuli-storage/lazuli/internal/server/fsck"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// testSpreadBackup makes backups at nodes that have a part of the shards: what was restored has all accounts, and the
// second backup reads only the content that the first one does not have.
func (c *spreadNodes) testSpreadBackup(t *testing.T) {
	ctx, place := t.Context(), backup.Folder(filepath.Join(t.TempDir(), "backups"))
	made := func(node int) backup.Result {
		t.Helper()
		return check.Must(backup.Make(ctx, place, func(ctx context.Context, held backup.Held) (backup.Source, error) {
			return c.nodes[node].Backup(ctx, false, held)
		}, backup.Options{}))(t)
	}
	first := made(0)
	name := c.names[0]
	added := random(99, 1<<20)
	check.Must(c.of(c.without(wire.Blob, name), name).blobs.UploadBuffer(ctx, "first"+name, "later", added, nil))(t)
	second := made(3)
	if first.New < 7<<20 || second.New < 1<<20 || second.New > first.New/2 {
		t.Errorf("the backups have %d and %d new bytes", first.New, second.New)
	}
	folder := filepath.Join(t.TempDir(), "restored")
	check.OK(t, backup.Restore(ctx, place, check.Must(backup.Read(ctx, place, second.Name))(t), folder,
		backup.RestoreOptions{Verify: func(ctx context.Context, path string) error {
			r, err := fsck.Check(ctx, path, fsck.Options{})
			if err == nil && (!r.Clean || r.Shards != spreadShards) {
				t.Errorf("fsck of what was restored: %d shards, %v", r.Shards, r.Findings)
			}
			return err
		}}))
	_, tenants := startShards(t, Config{Location: folder})
	for i, of := range c.names {
		x := tenants[of]
		if got := x.has(t, "first"+of); got != "bqt" {
			t.Errorf("%s has %q in what was restored", of, got)
		}
		got := make([]byte, 1<<20)
		check.Must(x.blobs.DownloadBuffer(ctx, "first"+of, "large", got, nil))(t)
		if !bytes.Equal(got, random(uint64(i), 1<<20)) {
			t.Errorf("%s has other content in what was restored", of)
		}
	}
	got := make([]byte, len(added))
	check.Must(tenants[name].blobs.DownloadBuffer(ctx, "first"+name, "later", got, nil))(t)
	if !bytes.Equal(got, added) {
		t.Error("what was written after the first backup is not in the second one")
	}
}
