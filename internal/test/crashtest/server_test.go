package crashtest

import (
	"bufio"
	"bytes"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
)

const (
	account = "devstoreaccount1"
	key     = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)

// folder is a folder for all tests. TestMain makes and removes it.
var folder string

// copyTo is the variable that makes this binary copy the program in its arguments to the file that it names, and end.
const copyTo = "LAZULI_CRASHTEST_COPY_TO"

func TestMain(m *testing.M) {
	if to := os.Getenv(copyTo); to != "" {
		program, err := os.ReadFile(os.Args[1])
		if err == nil {
			err = os.WriteFile(to, program, 0o700)
		}
		if err != nil {
			panic(err)
		}
		return
	}
	var err error
	if folder, err = os.MkdirTemp("", "lazuli-crashtest"); err != nil {
		panic(err)
	}
	code := m.Run()
	os.RemoveAll(folder)
	os.Exit(code)
}

// build builds the binary that is to be killed. It uses go run, which keeps what it links in the build cache, with a copy in place of a run.
var build = sync.OnceValues(func() (string, error) {
	binary := filepath.Join(folder, "lazuli")
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	cmd := exec.Command("go", "run", "-exec", self, "github.com/lazuli-storage/lazuli/cmd/lazuli")
	cmd.Env = append(os.Environ(), copyTo+"="+binary)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build: %w\n%s", err, out)
	}
	return binary, nil
})

// server is a server process.
type server struct {
	cmd                *exec.Cmd
	blob, queue, table string // URLs of the account
	took               time.Duration
	client             *http.Client
	stderr             *tail
}

var endpoint = regexp.MustCompile(`^\s+(Blob|Queue|Table)\s.*(http://127\.0\.0\.1:\d+/` + account + `)`)

// start starts the binary and waits until it is ready.
func start(t *testing.T, binary, data string, flags ...string) *server {
	t.Helper()
	s := &server{client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}}, stderr: &tail{}}
	s.cmd = exec.Command(binary, append([]string{"serve", "--location", data, "--blob-port", "0", "--queue-port", "0", "--table-port", "0", "--admin-port", "0"}, flags...)...)
	s.cmd.Stderr = s.stderr
	stdout, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.cmd.Process.Kill(); s.client.CloseIdleConnections() })
	in := bufio.NewScanner(stdout)
	for in.Scan() {
		if m := endpoint.FindStringSubmatch(in.Text()); m != nil {
			*map[string]*string{"Blob": &s.blob, "Queue": &s.queue, "Table": &s.table}[m[1]] = m[2]
		}
		if strings.HasPrefix(in.Text(), "Ready") {
			break
		}
	}
	s.took = time.Since(begun)
	if s.blob == "" || s.queue == "" || s.table == "" {
		_ = s.cmd.Wait()
		t.Fatalf("the server did not start:\n%s", s.stderr)
	}
	return s
}

// kill ends the process with SIGKILL.
func (s *server) kill(t *testing.T) {
	if err := s.cmd.Process.Kill(); err != nil {
		t.Errorf("the server was dead before it was killed: %v\n%s", err, s.stderr)
	}
	_ = s.cmd.Wait() // returns that the process was killed
	if state, ok := s.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && state.Signal() != syscall.SIGKILL {
		t.Errorf("the server ended by itself: %v\n%s", s.cmd.ProcessState, s.stderr)
	}
}

// terminate stops the process orderly.
func (s *server) terminate(t *testing.T) {
	t.Helper()
	if err := s.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Wait(); err != nil {
		t.Errorf("the server ended with %v\n%s", err, s.stderr)
	}
}

// options disable retries of an SDK client, so that the acknowledged operations are known.
func (s *server) options() policy.ClientOptions {
	return policy.ClientOptions{Transport: s.client, Retry: policy.RetryOptions{MaxRetries: -1}}
}

// tail keeps the end of its input.
type tail struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (w *tail) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.buf.Write(p)
	if n := w.buf.Len() - 16<<10; n > 0 {
		w.buf.Next(n)
	}
	return len(p), nil
}

func (w *tail) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buf.String()
}

// mismatch is a violated promise.
type mismatch struct{ text string }

func (m *mismatch) Error() string { return m.text }

func mismatchf(format string, args ...any) error { return &mismatch{fmt.Sprintf(format, args...)} }
