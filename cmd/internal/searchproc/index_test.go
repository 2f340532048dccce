package searchproc_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/lazuli-storage/lazuli/cmd/internal/searchproc"
	"github.com/lazuli-storage/lazuli/cmd/internal/searchserver"
	"github.com/lazuli-storage/lazuli/internal/searchapi"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/lazulitest"
	"github.com/lazuli-storage/lazuli/workers"
)

// pidFile names a variable with the file to which the program adds its process id.
const pidFile = "LAZULI_TEST_SEARCH_PIDS"

// TestMain lets the test binary be the program, as a link with its name on the path.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == searchproc.Program {
		f, err := os.OpenFile(os.Getenv(pidFile), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err == nil {
			_, err = f.WriteString(strconv.Itoa(os.Getpid()) + "\n")
		}
		if err != nil {
			panic(err)
		}
		os.Exit(searchserver.Main())
	}
	os.Exit(m.Run())
}

// program puts the program on the path, and returns a function that returns the ids of the processes so far.
func program(t *testing.T) (pids func() []int) {
	t.Helper()
	folder := t.TempDir()
	self := check.Must(os.Executable())(t)
	check.OK(t, os.Symlink(self, filepath.Join(folder, searchproc.Program)))
	t.Setenv("PATH", folder)
	t.Setenv(pidFile, filepath.Join(folder, "pids"))
	return func() (list []int) {
		for _, line := range strings.Fields(string(check.Must(os.ReadFile(filepath.Join(folder, "pids")))(t))) {
			list = append(list, check.Must(strconv.Atoi(line))(t))
		}
		return list
	}
}

// found returns the number of entities that a search finds.
func found(t *testing.T, x *searchproc.Index, text string) uint64 {
	t.Helper()
	var r searchapi.Result
	if err := x.Ask(t.Context(), http.MethodGet, "/search?q="+url.QueryEscape(text), nil, &r); err != nil {
		t.Logf("search: %v", err)
	}
	return r.Total
}

// A program that is killed is started again, and the index goes on from where it was.
func TestKilledProgramIsStartedAgain(t *testing.T) {
	pids := program(t)
	a := lazulitest.Start(t).Account(t)
	check.Must(a.Tables.CreateTable(t.Context(), "People", nil))(t)
	people := a.Tables.NewClient("People")
	add := func(row string) {
		t.Helper()
		check.Must(people.AddEntity(t.Context(), []byte(`{"PartitionKey":"p","RowKey":"`+row+`","Name":"Ada"}`), nil))(t)
	}
	add("1")
	x := check.Must(searchproc.Open(searchproc.Config{Folder: t.TempDir(), Table: "People", Fields: "Name:text",
		ConnectionString: a.ConnectionString()}))(t)
	app := workers.New(workers.Config{Storage: a.Storage})
	x.Register(app, "index")
	check.OK(t, app.Start(context.Background()))
	check.Eventually(t, func() bool { return found(t, x, "ada") == 1 }, "the entity")
	for round := range 3 {
		list := pids()
		check.OK(t, check.Must(os.FindProcess(list[len(list)-1]))(t).Kill())
		add(strconv.Itoa(round + 2))
		check.Eventually(t, func() bool { return found(t, x, "ada") == uint64(round+2) }, "the entity after a kill")
		if n := len(pids()); n != round+2 {
			t.Errorf("%d processes after %d kills", n, round+1)
		}
	}
	check.OK(t, app.Stop(t.Context()))
	check.OK(t, x.Close())
	check.OK(t, x.Close())
	if err := x.Ask(t.Context(), http.MethodGet, "/search", nil, nil); err == nil {
		t.Error("a closed index answers")
	}
}

// The program ends with its standard input, whatever happened to the process that had the other end.
func TestProgramEndsWithItsInput(t *testing.T) {
	program(t)
	cmd := exec.Command(check.Must(exec.LookPath(searchproc.Program))(t))
	in := check.Must(cmd.StdinPipe())(t)
	check.OK(t, cmd.Start())
	check.OK(t, in.Close())
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 2 {
		t.Errorf("without settings it ends with %v", err)
	}
}

// What is wrong is said at the start, as the kind of error that it is.
func TestStartErrors(t *testing.T) {
	program(t)
	account := lazulitest.Start(t).Account(t).ConnectionString()
	open := func(c searchproc.Config) error {
		c.ConnectionString = account
		x, err := searchproc.Open(c)
		if err == nil {
			t.Cleanup(func() { _ = x.Close() })
		}
		return err
	}
	folder := t.TempDir()
	index := searchproc.Config{Folder: folder, Table: "People", Fields: "Name:text"}
	check.OK(t, open(index))
	if err := open(index); !errors.Is(err, searchproc.ErrInUse) {
		t.Errorf("a folder in use: %v", err)
	}
	if err := open(searchproc.Config{Folder: t.TempDir(), Table: "People", Fields: "Name"}); !errors.Is(err,
		searchproc.ErrSettings) || !strings.Contains(err.Error(), "NAME:TYPE") {
		t.Errorf("wrong fields: %v", err)
	}
	if err := open(searchproc.Config{Folder: t.TempDir()}); !errors.Is(err, searchproc.ErrNoIndex) {
		t.Errorf("an empty folder: %v", err)
	}
	t.Setenv("PATH", t.TempDir())
	if err := open(index); !errors.Is(err, searchproc.ErrProgram) || !strings.Contains(err.Error(), "install") {
		t.Errorf("without the program: %v", err)
	}
}

// recorded is a transport that counts what reaches the account's tables.
type recorded struct{ requests int }

// RoundTrip implements http.RoundTripper.
func (r *recorded) RoundTrip(q *http.Request) (*http.Response, error) {
	r.requests++
	w := httptest.NewRecorder()
	_, _ = w.WriteString(q.URL.String())
	return w.Result(), nil
}

// The listeners of both sides ask for the token, and that of the tables lets nothing be written.
func TestGuard(t *testing.T) {
	var r recorded
	g := check.Must(searchproc.OpenGate(&r, "http://tables/account", "secret"))(t)
	defer g.Close()
	ask := func(method, token string) int {
		t.Helper()
		q := check.Must(http.NewRequestWithContext(t.Context(), method, g.Address()+"/People()?$top=1", nil))(t)
		if token != "" {
			q.Header.Set("Authorization", "Bearer "+token)
		}
		resp := check.Must(http.DefaultClient.Do(q))(t)
		check.OK(t, resp.Body.Close())
		return resp.StatusCode
	}
	for _, c := range []struct {
		method, token string
		want          int
	}{{"GET", "", 401}, {"GET", "other", 401}, {"POST", "secret", 405}, {"DELETE", "secret", 405}} {
		if got := ask(c.method, c.token); got != c.want || r.requests != 0 {
			t.Errorf("%s with the token %q: %d, and %d requests came through", c.method, c.token, got, r.requests)
		}
	}
	if got := ask("GET", "secret"); got != 200 || r.requests != 1 {
		t.Errorf("with the token: %d, %d requests", got, r.requests)
	}
}
