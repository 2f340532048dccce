package datadir

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

func open1(t *testing.T, path string) *Dir {
	t.Helper()
	d, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

func TestOpenCreatesWithSafePermissions(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("file modes mean nothing on Windows")
	}
	d := open1(t, filepath.Join(t.TempDir(), "a", "b"))
	for name, want := range map[string]os.FileMode{"": 0o700, "../": 0o700, ManifestFile: 0o600, lockFile: 0o600} {
		st, err := os.Stat(filepath.Join(d.Path(), name))
		if err != nil {
			t.Fatal(err)
		}
		if st.Mode().Perm() != want {
			t.Errorf("%q has mode %o, want %o", name, st.Mode().Perm(), want)
		}
	}
}

func TestOpenAgain(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "data")
	d := open1(t, path)
	if err := os.WriteFile(d.Tables(), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	d = open1(t, path)
	if _, err := os.Stat(d.Tables()); err != nil {
		t.Error(err)
	}
}

// A copy of a database of an earlier stop is complete in itself. Put back after a kill, without the logs, it must not
// be served. The folder as the kill has left it opens, whether that was before the manifest was written or after.
func TestAnOlderDatabaseAfterAKill(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "data")
	start := func() (*Dir, *store.DB) {
		d := open1(t, path)
		return d, check.Must(store.Open(d.Tables(), store.Options{Buckets: []store.Bucket{"b"}}))(t)
	}
	d, db := start()
	check.OK(t, errors.Join(d.Record(), db.Close(), d.Close()))
	stopped := check.Must(os.ReadFile(filepath.Join(path, tablesFile)))(t)

	d, db = start()
	killed := func(older bool) error {
		to := filepath.Join(t.TempDir(), "data")
		check.OK(t, os.CopyFS(to, os.DirFS(path)))
		if older {
			check.OK(t, os.WriteFile(filepath.Join(to, tablesFile), stopped, 0o600))
			for _, beside := range []string{"-log0", "-log1", "-mark"} {
				check.OK(t, os.Remove(filepath.Join(to, tablesFile+beside)))
			}
		}
		d, err := Open(to)
		if err == nil {
			err = d.Close()
		}
		return err
	}
	check.OK(t, killed(false))
	check.OK(t, killed(true)) // nothing was acknowledged: the file has everything
	check.OK(t, d.Record())
	check.OK(t, killed(false))
	if err := killed(true); !errors.As(err, new(*ContentError)) {
		t.Errorf("an older tables.db after a kill: %v, want a ContentError", err)
	}
	check.OK(t, errors.Join(db.Close(), d.Close()))
}

// A start that is refused because of a damaged file, after a process was killed, must not note that file as what the
// folder must hold: the right one, put back, would be refused, and the damage hidden.
func TestARefusedStartAfterAKill(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "data")
	killed, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(killed.EncryptionScopes(), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("intact")
	if err := errors.Join(killed.Record(), killed.lock.release()); err != nil { // the system unlocks the file
		t.Fatal(err)
	}
	before, err := os.ReadFile(filepath.Join(path, ManifestFile))
	if err != nil {
		t.Fatal(err)
	}
	write("damaged")
	if err := open1(t, path).Close(); err != nil {
		t.Fatal(err)
	}
	if after, err := os.ReadFile(filepath.Join(path, ManifestFile)); err != nil || string(after) != string(before) {
		t.Errorf("the manifest was %s, and is %s, %v", before, after, err)
	}
	write("intact")
	d := open1(t, path)
	if err := errors.Join(d.Record(), d.Close()); err != nil {
		t.Fatal(err)
	}
	write("damaged")
	if _, err := Open(path); !errors.As(err, new(*ContentError)) {
		t.Errorf("open after an orderly stop and damage: %v, want a ContentError", err)
	}
}

// The lock is between processes, and the second one learns who holds it.
func TestLockNamesItsHolder(t *testing.T) {
	t.Parallel()
	if path := os.Getenv("DATADIR_TEST_HOLD"); path != "" {
		if _, err := Open(path); err != nil {
			t.Fatal(err)
		}
		fmt.Println("held")
		_, _ = io.Copy(io.Discard, os.Stdin) // until killed, or its parent has gone
	}
	path := filepath.Join(t.TempDir(), "data")
	child := exec.Command(os.Args[0], "-test.run=^TestLockNamesItsHolder$")
	child.Env = append(os.Environ(), "DATADIR_TEST_HOLD="+path)
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := child.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = child.Process.Kill(); _ = child.Wait() }()
	b := make([]byte, 4)
	if _, err := io.ReadFull(out, b); err != nil || string(b) != "held" {
		t.Fatalf("child said %q, %v", b, err)
	}

	_, err = Open(path)
	if !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), fmt.Sprintf("process %d", child.Process.Pid)) {
		t.Fatalf("got %v; want ErrLocked by process %d", err, child.Process.Pid)
	}
	_ = child.Process.Kill()
	_ = child.Wait()
	open1(t, path) // a killed process holds nothing
}

func TestOpenTwiceInOneProcess(t *testing.T) {
	t.Parallel()
	d := open1(t, t.TempDir())
	if _, err := Open(d.Path()); !errors.Is(err, ErrLocked) {
		t.Fatalf("got %v, want ErrLocked", err)
	}
}

func TestFormat(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, text, hint string
		err              error
	}{
		{"newer", "lazuli data folder, format 4\n", "use the newer release", ErrFormat},
		{"zero", "lazuli data folder, format 0\n", "fsck --repair", ErrManifest},
		{"foreign", "something else\n", "fsck --repair", ErrManifest},
		{"empty", "", "fsck --repair", ErrManifest},
		{"without a checksum", "lazuli data folder, format 1\n{}\n", "fsck --repair", ErrManifest},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path := t.TempDir()
			if err := os.WriteFile(filepath.Join(path, ManifestFile), []byte(tc.text), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := Open(path); !errors.Is(err, tc.err) || err != nil && !strings.Contains(err.Error(), tc.hint) {
				t.Fatalf("got %v, want %v with %q", err, tc.err, tc.hint)
			}
			if l, err := acquire(filepath.Join(path, lockFile)); err != nil {
				t.Errorf("the refused folder stays locked: %v", err)
			} else {
				l.release()
			}
		})
	}
}

// A folder of a development build, and data without a manifest, are refused.
func TestDataWithoutManifestIsRefused(t *testing.T) {
	t.Parallel()
	refused := map[string]error{"FORMAT": ErrFormat, streamsFolder + "/jetstream/file": ErrManifest,
		extentsFolder + "/0001": ErrManifest}
	for _, p := range parts {
		refused[p.name] = ErrManifest
	}
	for name, want := range refused {
		path := t.TempDir()
		name = filepath.Join(path, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(path); !errors.Is(err, want) {
			t.Errorf("%s: got %v, want %v", name, err, want)
		}
	}
}

func TestBadPaths(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, link := filepath.Join(dir, "file"), filepath.Join(dir, "link")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(dir, "nowhere"), link); err != nil {
		t.Skip("no symbolic links here: ", err)
	}
	for name, path := range map[string]string{
		"empty": "", "NUL": "a\x00b", "root": string(filepath.Separator), "file": file,
		"below a file":  filepath.Join(file, "x"),
		"dangling link": link,
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Open(path)
			if !errors.As(err, new(*PathError)) {
				t.Fatalf("got %v, want a PathError", err)
			}
		})
	}
}

func TestUnwritableFolder(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("needs a folder in which nobody can make files")
	}
	for path, reason := range map[string]string{"/proc/self/lazuli": "cannot be created",
		"/proc/self": "cannot be written to"} {
		_, err := Open(path)
		var p *PathError
		if !errors.As(err, &p) || !strings.Contains(p.Reason, reason) {
			t.Errorf("%s: got %v, want a PathError: %s", path, err, reason)
		}
	}
}

func TestOpenExisting(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	if _, err := OpenExisting(path); !errors.Is(err, ErrNotFound) {
		t.Fatalf("got %v, want ErrNotFound", err)
	}
	if entries, _ := os.ReadDir(path); len(entries) > 0 {
		t.Errorf("OpenExisting left %v behind", entries)
	}
	open1(t, path).Close()
	d, err := OpenExisting(path)
	if err != nil {
		t.Fatal(err)
	}
	d.Close()
}

func TestTempGoesAtClose(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	d, err := OpenTemp(parent)
	if err != nil {
		t.Fatal(err)
	}
	if !d.Temporary() || os.MkdirAll(filepath.Join(d.Extents(), "x"), 0o700) != nil {
		t.Fatal("no temporary folder")
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if entries, _ := os.ReadDir(parent); len(entries) != 0 {
		t.Errorf("%v is left", entries)
	}
}

func TestSweep(t *testing.T) {
	t.Parallel()
	parent, old := t.TempDir(), time.Now().Add(-time.Hour)
	folder := func(name string, made time.Time) string {
		path := filepath.Join(parent, name)
		if err := os.MkdirAll(filepath.Join(path, "queues"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, made, made); err != nil {
			t.Fatal(err)
		}
		return path
	}
	abandoned := folder(tempPrefix+"1", old)
	young := folder(tempPrefix+"2", time.Now())
	foreign := folder("other", old)
	held := folder(tempPrefix+"3", old)
	l, err := acquire(filepath.Join(held, lockFile))
	if err != nil {
		t.Fatal(err)
	}
	defer l.release()
	if err := os.Chtimes(held, old, old); err != nil {
		t.Fatal(err)
	}

	d, err := OpenTemp(parent)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for path, want := range map[string]bool{abandoned: false, young: true, foreign: true, held: true} {
		if _, err := os.Stat(filepath.Join(path, "queues")); (err == nil) != want {
			t.Errorf("%s: exists is %v, want %v", filepath.Base(path), err == nil, want)
		}
	}
}

// A part of a folder that is a symbolic link is refused, and what it names stays as it is; the folder itself may be
// one.
func TestLinksInTheFolder(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("links need a privilege on Windows")
	}
	for _, name := range append(unlinked[:len(unlinked):len(unlinked)], tablesFile+"-log0") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path, target := t.TempDir(), filepath.Join(t.TempDir(), "elsewhere")
			if err := os.WriteFile(target, []byte("mine"), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(target, filepath.Join(path, name)); err != nil {
				t.Fatal(err)
			}
			var p *PathError
			if _, err := Open(path); !errors.As(err, &p) || !strings.Contains(err.Error(), name+" is a symbolic link") {
				t.Errorf("got %v, want that %s is a symbolic link", err, name)
			}
			if text, err := os.ReadFile(target); string(text) != "mine" {
				t.Errorf("the target of the link is %q, %v", text, err)
			}
		})
	}
	t.Run("the folder", func(t *testing.T) {
		t.Parallel()
		link := filepath.Join(t.TempDir(), "link")
		if err := os.Symlink(t.TempDir(), link); err != nil {
			t.Fatal(err)
		}
		d := open1(t, link)
		if _, err := Open(link); !errors.Is(err, ErrLocked) {
			t.Errorf("%s: a second Open: %v", d.Path(), err)
		}
	})
}

// A snapshot fails if what it should copy is a link: without it the snapshot would lack that content.
func TestSnapshotRefusesLinks(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("links need a privilege on Windows")
	}
	d := open1(t, t.TempDir())
	folder := filepath.Join(d.Path(), extentsFolder)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(t.TempDir(), "nothing"), filepath.Join(folder, "e1")); err != nil {
		t.Fatal(err)
	}
	if err := d.Save("one", false, nil); err == nil || !strings.Contains(err.Error(), "symbolic link") {
		t.Errorf("got %v, want an error for the link", err)
	}
}
