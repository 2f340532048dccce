package functions

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/lazuli-storage/lazuli/internal/child"
	"github.com/lazuli-storage/lazuli/internal/fault"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/testlog"
	"github.com/lazuli-storage/lazuli/lazulitest"
	"github.com/lazuli-storage/lazuli/workers"
)

// role is the environment variable that makes this test's binary a handler or a host, so that tests have processes to
// kill.
const role = "CUSTOMHANDLER_TEST_ROLE"

func TestMain(m *testing.M) {
	switch os.Getenv(role) {
	case "handler":
		runTestHandler()
	case "host":
		runTestHost()
	default:
		check.MoreParallel(8)
		goleak.VerifyTestMain(m)
	}
}

// runTestHandler is a handler whose functions do as their names say. What it was asked, it prints.
func runTestHandler() {
	if os.Args[len(os.Args)-1] == "exits-at-once" {
		fmt.Println("cannot go on")
		os.Exit(3)
	}
	if os.Args[len(os.Args)-1] == "has-children" {
		child := exec.Command("sh", "-c", "trap '' TERM; sleep 600") // SIGTERM does not end it.
		if err := child.Start(); err != nil {
			panic(err)
		}
		fmt.Println("child", child.Process.Pid)
	}
	answer := func(w http.ResponseWriter, value any) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(value)
	}
	type call struct{ Data, Metadata map[string]any }
	read := func(r *http.Request) (c call) {
		_ = json.NewDecoder(r.Body).Decode(&c)
		return c
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /copy", func(w http.ResponseWriter, r *http.Request) {
		answer(w, map[string]any{"ReturnValue": read(r).Data["item"]})
	})
	mux.HandleFunc("POST /dieonce", func(w http.ResponseWriter, r *http.Request) {
		c := read(r)
		if c.Metadata["DequeueCount"] == "1" {
			if self, err := os.FindProcess(os.Getpid()); err == nil {
				_ = self.Kill()
			}
			select {}
		}
		answer(w, map[string]any{"ReturnValue": "survived"})
	})
	mux.HandleFunc("POST /hang", func(w http.ResponseWriter, r *http.Request) {
		if read(r).Metadata["DequeueCount"] == "1" {
			select {}
		}
		answer(w, map[string]any{"ReturnValue": "awake"})
	})
	mux.HandleFunc("POST /restart", func(w http.ResponseWriter, r *http.Request) {
		if read(r).Metadata["DequeueCount"] == "1" {
			os.Exit(child.ExitRestart)
		}
		answer(w, map[string]any{"ReturnValue": "again"})
	})
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGTERM)
	go func() {
		<-asked
		fmt.Println("asked to end")
		os.Exit(0)
	}()
	fmt.Println("handler's pid is", os.Getpid(), "setting is", os.Getenv("GREETING"))
	panic(http.ListenAndServe("127.0.0.1:"+os.Getenv("FUNCTIONS_CUSTOMHANDLER_PORT"), mux))
}

// runTestHost runs the folder in its last argument until SIGTERM.
func runTestHost() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if text := os.Getenv(fault.EnvVar); text != "" {
		plan, err := fault.ParsePlan(text)
		if err != nil {
			panic(err)
		}
		fault.Activate(plan)
	}
	host, err := Load(ctx, Config{Dir: os.Args[len(os.Args)-1], Environ: os.Environ(), Stdout: os.Stdout,
		Stderr: os.Stderr,
		Lease:  time.Second,
		Logger: slog.New(slog.NewTextHandler(os.Stdout, nil))})
	if err == nil {
		var l net.Listener
		if l, err = net.Listen("tcp", "127.0.0.1:0"); err == nil {
			err = host.Run(ctx, l)
		}
	}
	if err != nil {
		fmt.Println("host:", err)
		os.Exit(1)
	}
}

const patience = 2 * time.Minute

// folder writes a function app: files by name, host.json with this test's binary as the handler unless there is one.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	if _, ok := files["host.json"]; !ok {
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		write(t, dir, "host.json", hostJSON(self, ""))
	}
	for name, text := range files {
		write(t, dir, name, text)
	}
	return dir
}

// hostJSON polls often, so that tests are fast.
func hostJSON(command, more string) string {
	return fmt.Sprintf(`{"version": "2.0", "customHandler": {"description": {"defaultExecutablePath": %q}},
		"extensions": {"queues": {"maxPollingInterval": "00:00:00.1"}}%s}`, command, more)
}

func write(t testing.TB, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// running is a host in this process.
type running struct {
	*Host
	url     string
	storage *workers.Storage
	log     *testlog.Buffer
	stop    func() error
}

// run runs a folder against a Lazuli of its own. With a handler, that one is asked in place of a process.
func run(t *testing.T, files map[string]string, handler http.Handler, environ ...string) *running {
	t.Helper()
	return runOn(t, lazulitest.Start(t).ConnectionString(), folder(t, files), handler, environ...)
}

func runOn(t *testing.T, connection, dir string, handler http.Handler, environ ...string) *running {
	t.Helper()
	return runAfter(t, "", connection, dir, handler, environ...)
}

// runAfter is runOn with an address at which no good handler is, until that is doubted.
func runAfter(t *testing.T, before, connection, dir string, handler http.Handler, environ ...string) *running {
	t.Helper()
	return runConfig(t, before, Config{Dir: dir, Environ: append(os.Environ(), append(environ, role+"=handler")...),
		ConnectionString: connection}, handler)
}

func runConfig(t *testing.T, before string, c Config, handler http.Handler) *running {
	t.Helper()
	log := &testlog.Buffer{}
	c.Logger, c.Stdout, c.Stderr = slog.New(slog.NewTextHandler(log, nil)), log, log
	h, err := Load(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	h.process.Set(before, nil)
	if handler != nil {
		server := httptest.NewServer(handler)
		t.Cleanup(server.Close)
		h.keep = func(ctx context.Context) error {
			for first := true; ; first = false {
				if !first || before == "" {
					h.process.Set(server.URL, nil)
				}
				select {
				case <-h.process.Suspect:
				case <-h.process.Hangs:
				case <-ctx.Done():
					return nil
				}
			}
		}
	}
	storage, err := workers.OpenStorage(c.ConnectionString)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- h.Run(ctx, l) }()
	var once sync.Once
	var result error
	r := &running{Host: h, url: "http://" + l.Addr().String(), storage: storage, log: log, stop: func() error {
		once.Do(func() {
			cancel()
			select {
			case result = <-ended:
			case <-time.After(patience):
				t.Error("the host does not stop")
			}
		})
		return result
	}}
	t.Cleanup(func() {
		_ = r.stop()
		if t.Failed() {
			t.Log(log.String())
		}
	})
	return r
}

// asked holds what a handler was asked.
type asked struct {
	path   string
	header http.Header
	body   struct{ Data, Metadata map[string]any }
	raw    string
}

// record makes a handler that notes what it is asked and answers the same each time.
func record(answer string) (http.Handler, <-chan asked) {
	calls := make(chan asked, 100)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		a := asked{path: r.URL.Path, header: r.Header.Clone(), raw: string(text)}
		_ = json.Unmarshal(text, &a.body)
		calls <- a
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, answer)
	}), calls
}

func next(t *testing.T, calls <-chan asked) asked {
	t.Helper()
	select {
	case a := <-calls:
		return a
	case <-time.After(patience):
		t.Fatal("the handler was not asked")
		return asked{}
	}
}

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	check.Eventually(t, holds, "%s", what)
}
