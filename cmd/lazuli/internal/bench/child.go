package bench

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lazuli-storage/lazuli/internal/childproc"
)

// portTaken is the exit code by which `lazuli serve` says that another process has one of its ports.
const portTaken = 3

var errExit0 = errors.New("exit status 0")

// startTimeout bounds the start of a child, long enough for the recovery of a large data folder.
const startTimeout = 2 * time.Minute

// stopTimeout is the time after which a child that was asked to stop is killed.
const stopTimeout = 10 * time.Second

// stop stops a child; it kills a child that does not stop in time.
func stop(c *childproc.Process) {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	_ = c.Stop(ctx)
}

// stackServer is a child `lazuli serve` with a separate data folder.
type stackServer struct {
	child *childproc.Process
	self  []string
	extra []string // arguments that come last
	dir   string
	ready time.Duration // from start to the first good answer of /readyz
	stack *Stack
	ports func(n int) ([]int, error)
}

// startStack runs `self serve` on free ports with a data folder in a new directory under parent ("" is the system's
// temporary directory). extra arguments come last.
func startStack(ctx context.Context, self []string, extra []string, parent string) (*stackServer, error) {
	dir, err := os.MkdirTemp(parent, "lazuli-bench-")
	if err != nil {
		return nil, err
	}
	s := &stackServer{self: self, extra: extra, dir: dir, ports: freePorts}
	if err := s.start(ctx); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// start runs the server on the existing folder and waits until it is ready. A port that another process takes before the
// server does is no failure: others are tried.
func (s *stackServer) start(ctx context.Context) error {
	for attempt := 1; ; attempt++ {
		err := s.tryStart(ctx)
		var exit *exec.ExitError
		if err == nil || attempt == 10 || !errors.As(err, &exit) || exit.ExitCode() != portTaken {
			return err
		}
	}
}

func (s *stackServer) tryStart(ctx context.Context) error {
	ports, err := s.ports(int(serviceCount) + 1)
	if err != nil {
		return err
	}
	if s.stack, err = localStack([serviceCount]int(ports[:serviceCount])); err != nil {
		return err
	}
	admin := ports[serviceCount]
	argv := append(slices.Clone(s.self), "serve", "--location", filepath.Join(s.dir, "data"),
		"--blobPort", strconv.Itoa(ports[Blob]), "--queuePort", strconv.Itoa(ports[Queue]), "--tablePort", strconv.Itoa(ports[Table]),
		"--admin-port", strconv.Itoa(admin))
	argv = append(argv, s.extra...)
	began := time.Now()
	if s.child, err = childproc.Start(exec.Command(argv[0], argv[1:]...), nil); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for !isReady(ctx, admin) {
		select {
		case <-s.child.Exited():
			return fmt.Errorf("%s: server ended before it was ready: %w\n%s", strings.Join(argv, " "), cmp.Or(s.child.Err(), errExit0), s.child.Output())
		case <-ctx.Done():
			return fmt.Errorf("%s: not ready: %w", strings.Join(argv, " "), ctx.Err())
		case <-time.After(2 * time.Millisecond):
		}
	}
	s.ready = time.Since(began)
	return nil
}

// restart stops the server cleanly and starts it on the same data.
func (s *stackServer) restart(ctx context.Context) (time.Duration, error) {
	stop(s.child)
	err := s.start(ctx)
	return s.ready, err
}

func (s *stackServer) close() {
	if s.child != nil {
		stop(s.child)
	}
	os.RemoveAll(s.dir)
}

func isReady(ctx context.Context, port int) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/readyz", port), nil)
	if err != nil {
		return false
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	res.Body.Close()
	return res.StatusCode == http.StatusOK
}

// freePorts finds n free loopback ports. Another process may take one before the child does.
func freePorts(n int) ([]int, error) {
	ports := make([]int, n)
	for i := range ports {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		ports[i] = l.Addr().(*net.TCPAddr).Port
	}
	return ports, nil
}

// FloorReady is the prefix of the line in which a floor server prints its address.
const FloorReady = "floor listening on "

// startFloor runs the floor server in a separate process: argv prints FloorReady and the address once it listens.
func startFloor(argv []string) (*childproc.Process, *Target, error) {
	pr, pw := io.Pipe()
	c, err := childproc.Start(exec.Command(argv[0], argv[1:]...), pw)
	if err != nil {
		return nil, nil, err
	}
	line := make(chan string, 1)
	go func() {
		sc := bufio.NewScanner(pr)
		if sc.Scan() {
			line <- sc.Text()
		}
		io.Copy(io.Discard, pr)
	}()
	select {
	case l := <-line:
		addr, ok := strings.CutPrefix(l, FloorReady)
		if !ok {
			stop(c)
			return nil, nil, fmt.Errorf("floor server said %q", l)
		}
		t, err := floorTarget(addr, c.Pid())
		if err != nil {
			stop(c)
		}
		return c, t, err
	case <-c.Exited():
		return nil, nil, fmt.Errorf("floor server ended: %v\n%s", c.Err(), c.Output())
	case <-time.After(startTimeout):
		stop(c)
		return nil, nil, errors.New("floor server did not start")
	}
}
