package killrig

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"time"

	"github.com/lazuli-storage/lazuli/internal/lazyregexp"
)

const (
	// startTimeout bounds a start, long enough for the recovery of a large data folder on a slow machine.
	startTimeout = 5 * time.Minute
	// stopTimeout bounds an orderly stop.
	stopTimeout = 3 * time.Minute
)

// ErrNotReady is the error of a server that exited before it was ready.
var ErrNotReady = errors.New("the server exited before it was ready")

// Server is a process of `lazuli serve` on its own data folder.
type Server struct {
	*Process
	// Connection is the connection string of the account that the server printed. It and the URLs are set when the server
	// is ready.
	Connection string
	// Blob, Queue and Table are the URLs of the account, Admin is that of the admin listener; none ends with a slash.
	Blob, Queue, Table, Admin string
	// Took is the time from the start until the server was ready.
	Took time.Duration

	ready chan bool // receives true when the server is ready, or is closed
}

var (
	connectionLine = lazyregexp.New(`^\s*(DefaultEndpointsProtocol=\S+)`)
	endpointLine   = lazyregexp.New(`^\s+(Blob|Queue|Table|Admin)\s.*?(https?://[^\s/]+(?:/[\w-]+)?)`)
)

// Launch starts `lazuli serve` on a data folder and returns without waiting until it is ready. command returns a
// command of lazuli; flags are further arguments, which come last.
func Launch(command func(args ...string) *exec.Cmd, folder string, flags ...string) (*Server, error) {
	cmd := command(append([]string{"serve", "--location", folder, "--blob-port", "0", "--queue-port", "0", "--table-port",
		"0", "--admin-port", "0"}, flags...)...)
	in, out := io.Pipe()
	began := time.Now()
	p, err := Start(cmd, out)
	if err != nil {
		return nil, fmt.Errorf("start the server: %w", err)
	}
	s := &Server{Process: p, ready: make(chan bool, 1)}
	// The scanner ends with the process, also with one that is killed before it is ready: Await would not return
	// otherwise.
	go func() {
		<-p.Exited()
		out.Close()
	}()
	go func() {
		defer close(s.ready)
		for lines := bufio.NewScanner(in); lines.Scan(); {
			line := lines.Text()
			if m := connectionLine().FindStringSubmatch(line); m != nil {
				s.Connection = m[1]
			}
			if m := endpointLine().FindStringSubmatch(line); m != nil {
				*map[string]*string{"Blob": &s.Blob, "Queue": &s.Queue, "Table": &s.Table, "Admin": &s.Admin}[m[1]] = m[2]
			}
			if strings.HasPrefix(line, "Ready") {
				s.Took = time.Since(began)
				s.ready <- true
				break
			}
		}
		_, _ = io.Copy(io.Discard, in) // no goroutine reads later lines, and a full pipe would stop the server
	}()
	return s, nil
}

// Await waits until the server is ready. If it does not become ready it is killed; ErrNotReady is the error of a server
// that exited by itself.
func (s *Server) Await(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout,
		fmt.Errorf("the server was not ready after %v", startTimeout))
	defer cancel()
	select {
	case ok := <-s.ready:
		if !ok {
			return fmt.Errorf("%w: %w\n%s", ErrNotReady, cmp.Or(s.Err(), errExit0), s.Output())
		}
		return nil
	case <-ctx.Done():
		s.Kill()
		return fmt.Errorf("%w\n%s", context.Cause(ctx), s.Output())
	}
}

var errExit0 = errors.New("exit status 0")

// StartServer is [Launch] and [Server.Await].
func StartServer(ctx context.Context, command func(args ...string) *exec.Cmd, folder string, flags ...string) (*Server,
	error) {
	s, err := Launch(command, folder, flags...)
	if err != nil {
		return nil, err
	}
	return s, s.Await(ctx)
}

// Terminate stops the process, which must exit without an error within three minutes.
func (p *Process) Terminate() error {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	return p.Stop(ctx)
}
