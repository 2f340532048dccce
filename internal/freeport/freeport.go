// Package freeport finds ports for servers that start later, or that come back at the same address.
package freeport

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/lazuli-storage/lazuli/internal/storage/filelock"
)

const (
	// firstPort and ports are a range from which systems give neither listeners that ask for any port, nor connections,
	// theirs.
	firstPort, ports = 20000, 12000
	// processPorts is the number of ports that a process tries before those of others.
	processPorts = 100
	parts        = ports / processPorts
)

var next atomic.Int64

// Address returns a loopback address whose port is likely to stay free while no process listens there. No two calls in
// a process return the same one, and processes at work at the same time use different parts of the range.
func Address() (string, error) {
	var err error
	for range ports {
		port := firstPort + (part()*processPorts+int(next.Add(1)))%ports
		address := fmt.Sprint("127.0.0.1:", port)
		var l net.Listener
		if l, err = net.Listen("tcp", address); err == nil {
			_ = l.Close()
			return address, nil
		}
	}
	return "", fmt.Errorf("no free port: %w", err)
}

// part returns the part of the range that this process uses: one that no other process of this user has locked, and
// where that cannot be known, one by its process number.
var part = sync.OnceValue(func() int {
	own := os.Getpid() % parts
	for i := range parts {
		if n := (own + i) % parts; lockPart(lockPath(n)) {
			return n
		}
	}
	return own
})

func lockPath(part int) string {
	return filepath.Join(os.TempDir(), fmt.Sprintf("lazuli-ports-%d-%d", os.Getuid(), part))
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
