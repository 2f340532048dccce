// Package freeport finds ports for servers that start later, or that come back at the same address.
package freeport

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"sync"

	"github.com/lazuli-storage/lazuli/internal/storage/filelock"
)

const (
	// firstPort and ports are a range from which systems give neither listeners that ask for any port, nor connections,
	// theirs.
	firstPort, ports = 20000, 12000
	// processPorts is the number of ports of a part, which belongs to one process at a time.
	processPorts = 100
	parts        = ports / processPorts
)

// taken are the parts of the range that this process has, the latest at the end, and how many ports of that one were
// tried.
var taken struct {
	sync.Mutex
	parts []int
	tried int
}

// Address returns a loopback address whose port is likely to stay free while no process listens there. No two calls in
// a process return the same one, before the range is used up, and processes at work at the same time use different
// parts of the range: a process takes another part where it has used its own, as tests of clusters do.
func Address() (string, error) {
	var err error
	for range ports {
		address := fmt.Sprint("127.0.0.1:", port())
		var l net.Listener
		if l, err = net.Listen("tcp", address); err == nil {
			_ = l.Close()
			return address, nil
		}
	}
	return "", fmt.Errorf("no free port: %w", err)
}

// port returns the next port to try.
func port() int {
	taken.Lock()
	defer taken.Unlock()
	if len(taken.parts) == 0 || taken.tried == processPorts {
		taken.parts, taken.tried = append(taken.parts, part()), 0
	}
	taken.tried++
	return firstPort + taken.parts[len(taken.parts)-1]*processPorts + taken.tried - 1
}

// part returns a part of the range that this process did not use yet: one that no other process of this user has
// locked, and where that cannot be known, one by its process number and how many it has.
func part() int {
	own := (os.Getpid() + len(taken.parts)) % parts
	for i := range parts {
		// An open file of this process that has the lock refuses it to another one, also of the same process.
		if n := (own + i) % parts; lockPart(lockPath(n)) {
			return n
		}
	}
	return own
}

// folderVariable is the environment variable with the folder of the locks, for tests of this package.
const folderVariable = "LAZULI_FREEPORT_FOLDER"

// lockPath returns the file that a process locks to have a part. It is the same for all processes, also for those that
// have their temporary files elsewhere.
func lockPath(part int) string {
	folder := os.Getenv(folderVariable)
	switch {
	case folder != "":
	case runtime.GOOS == "windows":
		folder = os.TempDir()
	default:
		folder = "/tmp"
	}
	return filepath.Join(folder, fmt.Sprintf("lazuli-ports-%d-%d", os.Getuid(), part))
}

// locked keeps the files open, and so the lock, for as long as the process runs.
var locked []*os.File

func lockPart(path string) bool {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return false
	}
	if filelock.Try(f) != nil {
		_ = f.Close()
		return false
	}
	locked = append(locked, f)
	return true
}
