package datadir

import (
	"path/filepath"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/crashimage"
)

// A snapshot is there once Save has returned, and what a folder had before is gone once Restore has.
func TestSnapshotsAreDurable(t *testing.T) {
	t.Parallel()
	saved := func(t *testing.T, dir string) *Dir {
		t.Helper()
		d := open1(t, filepath.Join(dir, "data"))
		write(t, d.Tables(), "old")
		write(t, filepath.Join(d.Extents(), "1.open"), "content")
		crashimage.Prepared(t, dir)
		must0(t, d.Save("a", false, nil))
		return d
	}
	t.Run("save", func(t *testing.T) {
		crashimage.OfTest(t, func(dir string) { saved(t, dir) }).Durable(t, []string{"LOCK"})
	})
	t.Run("restore", func(t *testing.T) {
		r := crashimage.OfTest(t, func(dir string) {
			d := saved(t, dir)
			write(t, d.Tables(), "new")
			write(t, d.Blobs(), "new")
			crashimage.Prepared(t, dir)
			must0(t, d.Restore("a", nil))
		})
		r.Durable(t, []string{"LOCK"})
		r.Order(t, "rename data/"+restoringFolder+partSuffix, "sync data", "remove data/blobs.db", "sync data",
			"rename data/"+restoringFolder+"/tables.db", "sync data", "remove data/"+restoringFolder, "sync data")
	})
}

// The files of a shard are gone once RemoveShard has returned, and the list of the folder's files forgets them first.
func TestARemovedShardIsDurable(t *testing.T) {
	t.Parallel()
	r := crashimage.OfTest(t, func(dir string) {
		d := check.Must(OpenShards(filepath.Join(dir, "data"), 2))(t)
		of := d.Shard(1)
		write(t, of.Tables(), "moved")
		write(t, filepath.Join(of.Extents(), "1.open"), "content")
		write(t, d.Tables(), "stays")
		crashimage.Prepared(t, dir)
		must0(t, d.RemoveShard(1))
		if empty := check.Must(of.Empty())(t); !empty {
			t.Error("the shard has files")
		}
		must0(t, d.RemoveShard(1)) // again
	})
	r.Durable(t, []string{"LOCK"})
	r.Order(t, "rename data/"+ManifestFile+".part", "sync data", "remove data/shards/01/tables.db", "sync data/shards/01")
}
