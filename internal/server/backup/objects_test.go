package backup_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/server/backup"
	"github.com/lazuli-storage/lazuli/internal/storage/disk"
	"github.com/lazuli-storage/lazuli/internal/storage/tier"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/crashimage"
)

// Objects of a folder are created once and as a whole, and are read by ranges.
func TestObjectsOfAFolder(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "objects")
	o, err := backup.OpenObjects(dir, "")
	check.OK(t, err)
	tryObjects(t, o)
	// What a killed process left is no object, and a disk that is not there is no loss of objects.
	check.OK(t, os.WriteFile(filepath.Join(dir, "folder", "x"+disk.PartSuffix), nil, 0o600))
	check.OK(t, o.List(t.Context(), "folder/", func(name string, _ int64) error {
		if strings.HasSuffix(name, disk.PartSuffix) {
			t.Errorf("%s is listed", name)
		}
		return nil
	}))
	check.OK(t, os.RemoveAll(dir))
	if err := o.Range(t.Context(), "folder/a", 0, make([]byte, 1)); err == nil || errors.Is(err, tier.ErrAbsent) {
		t.Errorf("an object of a folder that is gone: %v", err)
	}
	if _, err := backup.OpenObjects(filepath.Join(dir, "none", "objects"), ""); !errors.Is(err, backup.ErrNoFolder) {
		t.Errorf("%v", err)
	}
}

// Objects of a container are the same: here of another server.
func TestObjectsOfAContainer(t *testing.T) {
	t.Parallel()
	s := startServer(t, filepath.Join(t.TempDir(), "elsewhere"))
	o, err := backup.OpenObjects(s.URL(wire.Blob, auth.DevelopmentAccount)+"/objects", s.ConnectionString())
	check.OK(t, err)
	tryObjects(t, o)
}

// objectVar makes the test write an object, in a process whose disk is recorded.
const objectVar = "LAZULI_OBJECT_POWER_TEST"

// An object that was created outlives a power failure, with its name.
func TestPowerFailureOfAnObject(t *testing.T) {
	t.Parallel()
	if os.Getenv(objectVar) != "" {
		for _, name := range []string{"folder/a", "folder/b"} {
			o, err := backup.OpenObjects("place", "")
			check.OK(t, err)
			check.OK(t, o.Create(t.Context(), name, strings.NewReader(strings.Repeat("content ", 1000)), 8000))
			fmt.Println("finished")
		}
		return
	}
	if err := crashimage.Available(); err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	cmd := exec.Command(check.Must(filepath.Abs(os.Args[0]))(t), "-test.run=^TestPowerFailureOfAnObject$")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), objectVar+"=1")
	r := check.Must(crashimage.Record(dir, filepath.Join(t.TempDir(), "trace"), cmd))(t)
	seen := 0
	check.OK(t, r.Replay(func(_ int, e crashimage.Event, d *crashimage.Disk) error {
		if e.Kind != crashimage.Print || !strings.HasPrefix(string(e.Data), "finished") {
			return nil
		}
		seen++
		for _, v := range []crashimage.Variant{crashimage.Synced, crashimage.Names} {
			objects := 0
			for name, p := range d.Files("place", v, 1) {
				if !strings.HasSuffix(name, disk.PartSuffix) && len(p) == 8000 {
					objects++
				}
			}
			if objects != seen {
				t.Errorf("%v: %d objects of %d", v, objects, seen)
			}
		}
		return nil
	}))
	if seen != 2 {
		t.Errorf("%d steps were seen", seen)
	}
}

// tryObjects uses an empty object store.
func tryObjects(t *testing.T, o tier.Objects) {
	t.Helper()
	ctx := t.Context()
	content := bytes.Repeat([]byte("0123456789abcdef"), 600<<10)
	size := int64(len(content))
	check.OK(t, o.List(ctx, "folder/", func(name string, _ int64) error { return errors.New(name) }))
	check.OK(t, o.Create(ctx, "folder/a", bytes.NewReader(content), size))
	if err := o.Create(ctx, "folder/a", strings.NewReader("x"), 1); !errors.Is(err, tier.ErrExists) {
		t.Errorf("create again: %v", err)
	}
	failing := io.NewSectionReader(bytes.NewReader(content), 0, 5<<20)
	if err := o.Create(ctx, "folder/b", failing, size); err == nil {
		t.Error("an object was created of less than its content")
	}
	check.OK(t, o.Create(ctx, "other/c", strings.NewReader("c"), 1))
	p := make([]byte, 3_000_000)
	check.OK(t, o.Range(ctx, "folder/a", 5_000_001, p))
	if !bytes.Equal(p, content[5_000_001:8_000_001]) {
		t.Error("a range has other bytes")
	}
	for off, want := range map[int64]error{size - 10: io.ErrUnexpectedEOF, size: io.ErrUnexpectedEOF} {
		if err := o.Range(ctx, "folder/a", off, p); !errors.Is(err, want) {
			t.Errorf("a range past the end from %d: %v", off, err)
		}
	}
	if err := o.Range(ctx, "folder/b", 0, p); !errors.Is(err, tier.ErrAbsent) {
		t.Errorf("an object that was not created: %v", err)
	}
	var names []string
	check.OK(t, o.List(ctx, "folder/", func(name string, n int64) error {
		if names = append(names, name); n != size {
			t.Errorf("%s has %d bytes, want %d", name, n, size)
		}
		return nil
	}))
	if !slices.Equal(names, []string{"folder/a"}) {
		t.Errorf("listed %v", names)
	}
	check.OK(t, o.Remove(ctx, "folder/a"))
	check.OK(t, o.Remove(ctx, "folder/a"))
	if err := o.Range(ctx, "folder/a", 0, p); !errors.Is(err, tier.ErrAbsent) {
		t.Errorf("an object that was removed: %v", err)
	}
}
