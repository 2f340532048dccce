// Package ownserver starts a server in a process of its own, for examples and tests in packages that users import.
//
// `go mod tidy` of a program also downloads what the tests of the imported packages import. A test that imports the
// server brings the server's modules to everyone who imports the package that it tests; one that talks to a process
// does not. Tests that need the server in their process, for its clock or its faults, are in a folder servertest.
package ownserver

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/killrig"
)

// started is the server of this process, or the error of its start.
var started struct {
	once   sync.Once
	server *killrig.Server
	folder string
	err    error
}

// ConnectionString returns the connection string of the development account on a server that has nothing in it before
// the first call, which builds and starts it. It panics if the server does not start: examples have no test to fail.
func ConnectionString() string {
	started.once.Do(func() { started.err = start() })
	if started.err != nil {
		panic(started.err)
	}
	return started.server.Connection
}

func start() error {
	folder, err := os.MkdirTemp("", "lazuli-ownserver")
	if err != nil {
		return err
	}
	started.folder = folder
	binary, err := killrig.Build(folder)
	if err != nil {
		return err
	}
	command := func(args ...string) *exec.Cmd { return exec.Command(binary, args...) }
	started.server, err = killrig.StartServer(context.Background(), command, filepath.Join(folder, "data"))
	return err
}

// Main runs the tests of a package as testing.M does, and ends the server after them.
type Main struct{ *testing.M }

// Run implements the interface that goleak's VerifyTestMain takes.
func (m Main) Run() int {
	code := m.M.Run()
	if started.server != nil {
		started.server.Kill()
	}
	// What is left of a folder of temporary files harms nothing.
	if err := os.RemoveAll(started.folder); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	return code
}
