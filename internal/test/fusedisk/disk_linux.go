package fusedisk

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// Disk is a mounted file system. Its methods are safe for concurrent use.
type Disk struct {
	// Dir is the folder with the files.
	Dir string

	t       *testing.T
	mu      sync.Mutex // held during a command
	input   io.WriteCloser
	replies *bufio.Reader
}

// child is the environment variable with the name of the test whose file system a process serves; childFolder has the
// folder.
const (
	child       = "LAZULI_FUSEDISK_TEST"
	childFolder = "LAZULI_FUSEDISK_FOLDER"
)

// Mount mounts a file system until the test ends. It must be the first statement of a test function, after t.Parallel:
// the process that serves the file system runs the same test, up to Mount. Where no file system can be mounted the test
// is skipped.
func Mount(t *testing.T) *Disk {
	t.Helper()
	// This is the process that serves: it must not go on to the test itself.
	if os.Getenv(child) == t.Name() {
		serve(os.Getenv(childFolder))
		os.Exit(0)
	}
	if f, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0); err != nil {
		t.Skip("a file system cannot be mounted here: ", err)
	} else if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	d := &Disk{Dir: filepath.Join(folder, "mount"), t: t}
	for _, name := range []string{d.Dir, filepath.Join(folder, "files")} {
		if err := os.Mkdir(name, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	// The same binary, as a file system in this process would wait for itself: a test that blocks in a read holds the
	// thread that should answer it.
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), child+"="+t.Name(), childFolder+"="+folder)
	cmd.Stderr = os.Stderr
	input, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	d.input, d.replies = input, bufio.NewReader(output)
	// Unmounted before the process ends, or accesses would hang.
	t.Cleanup(func() {
		_ = unix.Unmount(d.Dir, unix.MNT_DETACH)
		_ = input.Close()
		_ = cmd.Wait()
	})
	reply, err := d.replies.ReadString('\n')
	// Mounting needs rights that are often missing in a container.
	if reason, failed := strings.CutPrefix(reply, "error "); err != nil || failed {
		t.Skip("a file system cannot be mounted here: ", reason, err)
	}
	return d
}

// Kind is a kind of calls.
type Kind string

// The kinds of calls that can fail.
const (
	Read     Kind = "read"     // pread and page faults of mapped files
	Write    Kind = "write"    // pwrite and fallocate
	Truncate Kind = "truncate" // ftruncate
	Sync     Kind = "sync"     // fsync of files and folders
	Create   Kind = "create"   // open with O_CREAT, mkdir, link
	Rename   Kind = "rename"
	Remove   Kind = "remove" // unlink, rmdir
)

// Changes are the kinds of calls that change a disk.
var Changes = []Kind{Write, Truncate, Sync, Create, Rename, Remove}

// Failure says which calls fail, and how.
type Failure struct {
	// Err is the error of the calls.
	Err syscall.Errno
	// Kinds are the kinds of the calls.
	Kinds []Kind
	// Path is the file that fails, or the folder with the files that fail, relative to [Disk.Dir]; "" is all files.
	Path string
	// After is the number of such calls that work first.
	After int
	// Once makes one call fail; otherwise all later ones fail as well. The system repeats a read.
	Once bool
}

// Fail makes calls fail until the next call of Fail or Heal.
func (d *Disk) Fail(f Failure) {
	d.t.Helper()
	list := make([]string, len(f.Kinds))
	for i, k := range f.Kinds {
		list[i] = string(k)
	}
	d.command(fmt.Sprintf("fail %d %s %d %t %q", f.Err, strings.Join(list, ","), f.After, f.Once, f.Path))
}

// Heal makes all calls work again and returns the number of calls that failed since Fail was called.
func (d *Disk) Heal() int {
	d.t.Helper()
	return d.command("heal")
}

// Failures returns the number of calls that failed since Fail was called.
func (d *Disk) Failures() int {
	d.t.Helper()
	return d.command("count")
}

func (d *Disk) command(line string) int {
	d.t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	_, err := fmt.Fprintln(d.input, line)
	reply, readErr := d.replies.ReadString('\n')
	if err = errors.Join(err, readErr); err != nil {
		d.t.Fatal("fusedisk: the process that serves the file system has ended: ", err)
	}
	n, err := strconv.Atoi(strings.TrimSpace(reply))
	if err != nil {
		d.t.Fatalf("fusedisk: %q: %v", reply, err)
	}
	return n
}
