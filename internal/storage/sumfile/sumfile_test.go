package sumfile

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/fault"
	"github.com/lazuli-storage/lazuli/internal/storage/disk"
	"github.com/lazuli-storage/lazuli/internal/test/faultdisk"
)

// Each bit and each byte of a file counts.
func TestDamageIsFound(t *testing.T) {
	t.Parallel()
	p, err := Encode("test file, version", 1, map[string]int{"a": 1, "b": 22})
	if err != nil {
		t.Fatal(err)
	}
	decode := func(p []byte) error {
		var v map[string]int
		return Decode(p, "test file, version", 1, &v)
	}
	if err := decode(p); err != nil {
		t.Fatal(err)
	}
	for bit := range len(p) * 8 {
		damaged := bytes.Clone(p)
		damaged[bit/8] ^= 1 << (bit % 8)
		if err := decode(damaged); !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrVersion) {
			t.Errorf("bit %d: %v", bit, err)
		}
	}
	for n := range len(p) {
		if err := decode(p[:n]); !errors.Is(err, ErrDamaged) {
			t.Errorf("cut to %d bytes: %v", n, err)
		}
	}
}

// A process that is killed at any step of a Write leaves the old content or the new one.
func TestKilledAtEachStep(t *testing.T) {
	t.Parallel()
	if path := os.Getenv("SUMFILE_TEST_PATH"); path != "" {
		plan, err := fault.ParsePlan(os.Getenv(fault.EnvVar))
		if err != nil {
			t.Fatal(err)
		}
		fault.Activate(plan)
		t.Fatal("not killed", Write(disk.OS, path, "test", 1, "new"))
	}
	for point, want := range map[fault.Name]string{pointWritten: "old", pointRenamed: "new"} {
		path := filepath.Join(t.TempDir(), "file")
		if err := Write(disk.OS, path, "test", 1, "old"); err != nil {
			t.Fatal(err)
		}
		child := exec.Command(os.Args[0], "-test.run=^TestKilledAtEachStep$")
		child.Env = append(os.Environ(), "SUMFILE_TEST_PATH="+path, fault.EnvVar+"="+string(point)+"=kill")
		if out, err := child.CombinedOutput(); err == nil || bytes.Contains(out, []byte("not killed")) {
			t.Fatalf("%s: the process was not killed: %s", point, out)
		}
		got := ""
		if err := Read(path, "test", 1, &got); err != nil || got != want {
			t.Errorf("%s: %q, %v; want %q", point, got, err, want)
		}
		if err := Write(disk.OS, path, "test", 1, "newer"); err != nil {
			t.Errorf("%s: writing again: %v", point, err)
		}
	}
}

// The old file is replaced by the rename: the new content is on disk before it, and the name before Write returns.
func TestAFileIsDurableBeforeItHasItsName(t *testing.T) {
	t.Parallel()
	fsys := &faultdisk.FS{}
	var kinds []faultdisk.Kind
	fsys.SetHook(func(op faultdisk.Op) error {
		kinds = append(kinds, op.Kind)
		return nil
	})
	if err := Write(fsys, filepath.Join(t.TempDir(), "file"), "test file, version", 1, 1); err != nil {
		t.Fatal(err)
	}
	rest := kinds
	for _, want := range []faultdisk.Kind{faultdisk.Write, faultdisk.Sync, faultdisk.Rename, faultdisk.SyncDir} {
		at := slices.Index(rest, want)
		if at < 0 {
			t.Fatalf("no %s in its place; all operations: %v", want, kinds)
		}
		rest = rest[at+1:]
	}
}
