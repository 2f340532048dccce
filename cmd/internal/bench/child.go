package bench

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/lazuli-storage/lazuli/internal/killrig"
)

// stopTimeout is the time after which a child that was asked to stop is killed.
const stopTimeout = 10 * time.Second

// stop stops a child; it kills a child that does not stop in time.
func stop(c *killrig.Process) {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	_ = c.Stop(ctx)
}

// stackServer is a child `lazuli serve` with a data folder of its own.
type stackServer struct {
	*killrig.Server
	command func(args ...string) *exec.Cmd
	extra   []string // arguments that come last
	dir     string
	stack   *Stack
}

// startStack starts a server with a data folder in a new directory under parent ("" is the system's temporary
// directory). extra arguments come last.
func startStack(ctx context.Context, command func(args ...string) *exec.Cmd, extra []string,
	parent string) (*stackServer, error) {
	dir, err := os.MkdirTemp(parent, "lazuli-bench-")
	if err != nil {
		return nil, err
	}
	s := &stackServer{command: command, extra: extra, dir: dir}
	if err := s.start(ctx); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// start runs the server on the folder, which may have data, and waits until it is ready.
func (s *stackServer) start(ctx context.Context) (err error) {
	if s.Server, err = killrig.StartServer(ctx, s.command, filepath.Join(s.dir, "data"), s.extra...); err != nil {
		return err
	}
	s.stack, err = ParseConnectionString(s.Connection)
	return err
}

// restart stops the server cleanly and starts it on the same data.
func (s *stackServer) restart(ctx context.Context) (time.Duration, error) {
	stop(s.Process)
	err := s.start(ctx)
	return s.Took, err
}

func (s *stackServer) close() {
	if s.Server != nil {
		stop(s.Process)
	}
	os.RemoveAll(s.dir)
}
