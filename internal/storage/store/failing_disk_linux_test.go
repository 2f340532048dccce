package store

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/test/fusedisk"
)

// TestBboltsWritesFail makes bbolt's own writes and syncs fail. Nothing acknowledged is lost, and the store continues
// when the disk works again.
func TestBboltsWritesFail(t *testing.T) {
	t.Parallel()
	disk := fusedisk.Mount(t)
	for _, kind := range []fusedisk.Kind{fusedisk.Write, fusedisk.Sync} {
		for _, errno := range []syscall.Errno{syscall.EIO, syscall.EROFS, syscall.ENOSPC} {
			name := fmt.Sprintf("%s-%d", kind, errno)
			path := filepath.Join(disk.Dir, name)
			db := openAt(t, path, Options{})
			db.memtableSize = 2_000
			put := make(model)
			write := func(i int) error {
				key, value := fmt.Sprint(i), fmt.Sprintf("%0500d", i)
				err := db.Update(putting(key, value))
				if err == nil {
					put[key] = value
				}
				return err
			}
			for i := range 20 {
				if err := write(i); err != nil {
					t.Fatal(name, err)
				}
			}
			_ = db.awaitCheckpoint()
			disk.Fail(fusedisk.Failure{Err: errno, Path: name, Kinds: []fusedisk.Kind{kind}})
			var failed error
			for i := 100; failed == nil && i < 1_000; i++ {
				failed = write(i)
			}
			if !errors.Is(failed, errno) {
				t.Errorf("%s: writing: %v, want %v", name, failed, errno)
			}
			if disk.Heal() == 0 {
				t.Errorf("%s: no call failed: the test shows nothing", name)
			}
			for k, v := range put {
				want(t, db, "a", k, v)
			}
			if err := write(2_000); err != nil {
				t.Errorf("%s: writing when the disk works again: %v", name, err)
			}
			if err := db.Close(); err != nil {
				t.Errorf("%s: close: %v", name, err)
			}
			if found := examine(t, path); found > 0 {
				t.Errorf("%s: %d problems in the files", name, found)
			}
			db = openAt(t, path, Options{})
			if got := bucketContent(t, db, "a"); !maps.Equal(got, put) {
				t.Errorf("%s: after opening again there are %d keys, want %d", name, len(got), len(put))
			}
			closeChecked(t, db)
		}
	}
}
