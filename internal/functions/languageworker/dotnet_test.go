package languageworker

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/lazuli-storage/lazuli/functions"
	"github.com/lazuli-storage/lazuli/internal/functions/durablefunc"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/lazulitest"
)

// dotnetVar names a folder with published .NET apps, each in a folder of its name, and their cases, expected-NAME.json;
// .ci/functions sets it.
const dotnetVar = "LAZULI_TEST_DOTNET"

// dotnetConfig copies a published app, and returns the configuration that runs it.
func dotnetConfig(t testing.TB, connection, app string, environ ...string) functions.Config {
	t.Helper()
	return builtConfig(t, folderOf(t, dotnetVar, "published .NET apps"), connection, app, environ...)
}

// folderOf returns the folder that a variable names, and skips the test without one.
func folderOf(t testing.TB, variable, content string) string {
	t.Helper()
	folder := os.Getenv(variable)
	if folder == "" {
		t.Skipf("set %s to a folder with %s", variable, content)
	}
	return folder
}

// builtConfig copies an app that was built into a folder, and returns the configuration that runs the copy.
func builtConfig(t testing.TB, folder, connection, app string, environ ...string) functions.Config {
	t.Helper()
	dir := filepath.Join(t.TempDir(), app)
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(folder, app))); err != nil {
		t.Fatal(err)
	}
	return functions.Config{Dir: dir, ConnectionString: connection, Environ: append(os.Environ(), environ...),
		Workers: Runtime{}, Durable: durablefunc.Runtime{}}
}

const functionsPort = 7071

// dotnetCases runs all cases of an app on an empty account.
func dotnetCases(t *testing.T, app string) {
	c := dotnetConfig(t, lazulitest.Start(t).ConnectionString(), app)
	c.Port = functionsPort // For WEBSITE_HOSTNAME; the host listens elsewhere.
	r := run(t, c)
	r.runCases(t, readCases(t, filepath.Join(os.Getenv(dotnetVar), "expected-"+app+".json"), r.url,
		filepath.ToSlash(r.dir)))
}

func TestDotNetCases(t *testing.T) {
	t.Parallel()
	dotnetCases(t, "all")
}

func TestDotNetCasesASPNET(t *testing.T) {
	t.Parallel()
	dotnetCases(t, "aspnet")
}

// TestDotNetKills kills processes of a .NET app again and again, while it has 200 messages and 50 workflows: nothing is
// lost, and there is no result twice. The app has three processes.
func TestDotNetKills(t *testing.T) {
	t.Parallel()
	const messages, workflows, kills = 200, 50, 6
	c := dotnetConfig(t, lazulitest.Start(t).ConnectionString(), "all", "FUNCTIONS_WORKER_PROCESS_COUNT=3",
		// A message that each kill meets is not to be poisoned.
		"AzureFunctionsJobHost__extensions__queues__maxDequeueCount="+strconv.Itoa(kills+1))
	r := run(t, c)
	var sent []string
	for i := range messages {
		sent = append(sent, fmt.Sprint("message ", i))
	}
	ctx, stop := context.WithTimeout(t.Context(), 2*patience)
	defer stop()
	killed := make(chan error, 1)
	go func() {
		killed <- func() error {
			for n := range kills {
				// Each process is killed in the middle of its work.
				before := strings.Count(r.log.String(), "Executing 'Functions.")
				if err := until(ctx, func() error {
					if strings.Count(r.log.String(), "Executing 'Functions.") < before+20 || !r.killWorker(n) {
						return fmt.Errorf("no process to kill after %d kills", n)
					}
					return nil
				}); err != nil {
					return err
				}
			}
			return nil
		}()
	}()
	put(t, r, "dn-text", sent...)
	for i := range workflows {
		id := fmt.Sprint("kill-", i)
		check.Eventually(t, func() bool {
			status, _ := r.get(t, "/api/flows/Chain?id="+id, `["`+id+`"]`)
			// A process that is killed may have started the workflow before.
			started, _ := r.read(t, "/api/flow/"+id)
			return status.StatusCode == http.StatusAccepted || started == http.StatusOK
		}, "the start of %s", id)
	}
	got := map[string]int{}
	check.Eventually(t, func() bool {
		takeSome(t, r, "dn-text-out", func(_, message string) { got[message]++ })
		return len(got) == messages
	}, "%d results", messages)
	for i := range workflows {
		id := fmt.Sprint("kill-", i)
		var flow struct{ Status, Output string }
		check.Eventually(t, func() bool {
			status, body := r.read(t, "/api/flow/"+id)
			return status == http.StatusOK && json.Unmarshal([]byte(body), &flow) == nil && flow.Status == "Completed"
		}, "the end of %s", id)
		if want := `"Hello ` + id; !strings.HasPrefix(flow.Output, want) {
			t.Errorf("%s: %s, want %s", id, flow.Output, want)
		}
	}
	if err := <-killed; err != nil {
		t.Error(err)
	}
	takeSome(t, r, "dn-text-out", func(_, message string) { got[message]++ })
	for message, n := range got {
		if n != 1 {
			t.Errorf("%s: %d results", message, n)
		}
	}
	if len(got) != messages {
		t.Errorf("%d different results", len(got))
	}
}

// read asks the host by GET.
func (r *running) read(t *testing.T, path string) (int, string) {
	t.Helper()
	a, err := r.request(t.Context(), &caseRequest{Method: http.MethodGet, Path: path})
	if err != nil {
		t.Fatal(err)
	}
	return a.StatusCode, string(a.body)
}

// killWorker kills the n-th process that has become ready, if there is one.
func (r *running) killWorker(n int) bool {
	ready := readyWorker.FindAllStringSubmatch(r.log.String(), -1)
	if len(ready) <= n {
		return false
	}
	pid, err := strconv.Atoi(ready[n][1])
	if err != nil {
		return false
	}
	p, err := os.FindProcess(pid)
	return err == nil && p.Kill() == nil
}
