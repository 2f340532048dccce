package table

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/state/table/entity"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/faultdisk"
)

// Keys are described by the tables that they belong to, as far as these are there. A file whose tables cannot be read
// is not described as one without tables.
func TestDescribe(t *testing.T) {
	t.Parallel()
	path := filepath.Join(check.MemoryDir(t), "tables.db")
	s := check.Must(Open(path, store.Options{Relaxed: true}, Follower{},
		slog.New(slog.DiscardHandler)))(t)
	check.OK(t, s.CreateTable("acc", "People", contractNow))
	id := uint64(0)
	check.OK(t, s.db.View(func(tx *store.Tx) error {
		id, _ = tableID(tx.Get(bucketTables, tableKey("acc", "People")))
		return nil
	}))
	check.OK(t, s.Close())
	describe := func(bucket store.Bucket, key []byte) (text string, err error) {
		err = Describe(path, func(name func(store.Bucket, []byte) string) { text = name(bucket, key) })
		return text, err
	}
	for _, c := range []struct {
		bucket store.Bucket
		key    []byte
		want   string
	}{
		{bucketTables, tableKey("acc", "People"), "table acc/people"},
		{bucketEntities, entity.AppendKey(nil, id, "p", "r"), `table acc/People, PartitionKey "p", RowKey "r"`},
		{bucketEntities, entity.AppendKey(nil, id+7, "p", "r"),
			fmt.Sprintf(`table number %d, which is gone, PartitionKey "p", RowKey "r"`, id+7)},
		{bucketEntities, []byte("short"), fmt.Sprintf("%s, key %q", bucketEntities, "short")},
		{bucketService, []byte("k"), fmt.Sprintf("%s, key %q", bucketService, "k")},
	} {
		if got, err := describe(c.bucket, c.key); err != nil || got != c.want {
			t.Errorf("%s %q: %q, %v; want %q", c.bucket, c.key, got, err, c.want)
		}
	}
	file := check.Must(os.ReadFile(path))(t)
	check.OK(t, os.WriteFile(path, bytes.ReplaceAll(file, []byte("People"), []byte("Peoqle")), 0o600))
	if text, err := describe(bucketTables, nil); !errors.Is(err, store.ErrDamaged) {
		t.Errorf("with a damaged record: %q, %v; want ErrDamaged", text, err)
	}
}

// A store whose log could not be synced says so, and why.
func TestAStoreThatHasFailedSaysSo(t *testing.T) {
	t.Parallel()
	disk := &faultdisk.FS{}
	s := check.Must(Open(filepath.Join(check.MemoryDir(t), "tables.db"), store.Options{FS: disk}, Follower{},
		slog.New(slog.DiscardHandler)))(t)
	defer s.Close()
	check.OK(t, s.CreateTable("acc", "t", contractNow))
	check.OK(t, s.Failed())
	disk.FailNth(1, syscall.EIO, faultdisk.Sync)
	if err := s.CreateTable("acc", "u", contractNow); !errors.Is(err, syscall.EIO) {
		t.Errorf("create: %v, want EIO", err)
	}
	disk.SetHook(nil)
	if err := s.Failed(); !errors.Is(err, store.ErrFailed) || !errors.Is(err, syscall.EIO) {
		t.Errorf("failed: %v, want ErrFailed with EIO", err)
	}
}

// Reset does not report tables as deleted that it could not read.
func TestResetOfADamagedTable(t *testing.T) {
	t.Parallel()
	s := open(t, filepath.Join(check.MemoryDir(t), "tables.db"))
	check.OK(t, s.CreateTable("acc", "a", contractNow))
	check.OK(t, s.db.Update(func(tx *store.Tx) error {
		tx.Put(bucketTables, tableKey("acc", "b"), []byte("x"))
		return nil
	}))
	if n, err := s.Reset("acc", ""); n != 0 || err == nil {
		t.Errorf("reset: %d tables, %v; want an error", n, err)
	}
	check.Must(s.GetTable("acc", "a"))(t)
	check.OK(t, s.db.Update(func(tx *store.Tx) error { tx.Delete(bucketTables, tableKey("acc", "b")); return nil }))
}

// Who asks for the changes of a table that was deleted meanwhile gets a position that no table with its name knows: the
// next call begins again.
func TestChangesOfATableThatIsGone(t *testing.T) {
	t.Parallel()
	s := open(t, filepath.Join(check.MemoryDir(t), "tables.db"))
	f := check.Must(s.page(999, formatPosition(999, 5, 0)))(t)
	if f.Known || len(f.Changes) > 0 || f.Position != formatPosition(999, 0, 0) {
		t.Errorf("%+v; want no change, and a position before the first one", f)
	}
}
