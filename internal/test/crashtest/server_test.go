package crashtest

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"sync"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"github.com/lazuli-storage/lazuli/internal/killrig"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

const (
	account = "devstoreaccount1"
	key     = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)

// folder is a folder for all tests. TestMain makes and removes it.
var folder string

func TestMain(m *testing.M) {
	if text := os.Getenv(lakeChild); text != "" {
		fmt.Fprintln(os.Stderr, runLakeChild(text))
		os.Exit(1) // it should have been killed
	}
	check.FilesInMemory()
	var err error
	if folder, err = os.MkdirTemp("", "lazuli-crashtest"); err != nil {
		panic(err)
	}
	check.MoreParallel(6) // most tests wait, for elections and servers that start
	code := m.Run()
	os.RemoveAll(folder)
	os.Exit(code)
}

// build builds the binary that is to be killed.
var build = sync.OnceValues(func() (string, error) { return killrig.Build(folder) })

// server is a server process.
type server struct {
	*killrig.Server
	blob, queue, table string // URLs of the account
	client             *http.Client
}

// start starts the binary and waits until it is ready.
func start(t *testing.T, binary, data string, flags ...string) *server {
	t.Helper()
	p, err := killrig.StartServer(t.Context(), func(args ...string) *exec.Cmd { return exec.Command(binary, args...) },
		data, flags...)
	if err != nil {
		t.Fatal(err)
	}
	s := &server{Server: p, blob: p.Blob, queue: p.Queue, table: p.Table,
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}}}
	t.Cleanup(func() { s.Kill(); s.client.CloseIdleConnections() })
	return s
}

// kill ends the process with SIGKILL.
func (s *server) kill(t *testing.T) {
	s.Kill()
	if err := s.Killed(); err != nil {
		t.Error(err)
	}
}

// terminate stops the process orderly.
func (s *server) terminate(t *testing.T) {
	t.Helper()
	if err := s.Terminate(); err != nil {
		t.Error(err)
	}
}

// options disable retries of an SDK client, so that the acknowledged operations are known.
func (s *server) options() policy.ClientOptions {
	return policy.ClientOptions{Transport: s.client, Retry: policy.RetryOptions{MaxRetries: -1}}
}

// mismatch is a violated promise.
type mismatch struct{ text string }

func (m *mismatch) Error() string { return m.text }

func mismatchf(format string, args ...any) error { return &mismatch{fmt.Sprintf(format, args...)} }
