package languageworker

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/functions"
	rpc "github.com/lazuli-storage/lazuli/internal/functions/languageworker/internal/functionrpc"
	"github.com/lazuli-storage/lazuli/internal/killrig"
	"github.com/lazuli-storage/lazuli/internal/sdk/poison"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/lazulitest"
	"github.com/lazuli-storage/lazuli/workers"
)

// killsVar sets how often TestKills kills a process; without it that is done a few times.
const killsVar = "LAZULI_TEST_KILLS"

// attemptsVar names the file to which the function mixed adds a line for each of its calls: the dequeue count and the
// message.
const attemptsVar = "LANGUAGEWORKER_TEST_ATTEMPTS"

// mixed does as the message says.
func mixed(item, count string) *rpc.InvocationResponse {
	f, err := os.OpenFile(os.Getenv(attemptsVar), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		panic(err)
	}
	_, err = fmt.Fprintf(f, "%s %s\n", count, item)
	if err := f.Close(); err != nil {
		panic(err)
	}
	if err != nil {
		panic(err)
	}
	switch kind, _, _ := strings.Cut(item, " "); kind {
	case "fails":
		return failure("as it should")
	case "dies":
		os.Exit(7)
	case "hangs":
		select {}
	}
	return &rpc.InvocationResponse{Result: success, ReturnValue: text(item)}
}

// runTestHost runs the app of a folder until the process is killed.
func runTestHost(dir string) {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	host, err := functions.Load(context.Background(), functions.Config{Dir: dir, Environ: os.Environ(),
		Stdout: os.Stdout, Stderr: os.Stdout, Lease: time.Second,
		Functions: []string{"mixed"},
		Logger:    slog.New(slog.NewTextHandler(os.Stdout, nil)), Workers: Runtime{command: testCommand(self, "")}})
	if err != nil {
		panic(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	panic(host.Run(context.Background(), l))
}

// hostProcess is a host in a process of its own, which is started again after each kill.
type hostProcess struct {
	dir     string
	environ []string
	process *killrig.Process
	read    chan struct{} // closed at the end of the process's output

	mu      sync.Mutex
	workers []int // process IDs of those that are ready
}

var readyWorker = regexp.MustCompile(`the worker is ready.* pid=(\d+)`)

func (h *hostProcess) start(t *testing.T) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), append(h.environ, role+"=host "+h.dir)...)
	out, in := io.Pipe()
	var err error
	if h.process, err = killrig.Start(cmd, in); err != nil {
		t.Fatal(err)
	}
	process, read := h.process, make(chan struct{})
	h.read = read
	go func() {
		<-process.Exited()
		_ = in.Close()
	}()
	go func() {
		defer close(read)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if m := readyWorker.FindStringSubmatch(lines.Text()); m != nil {
				pid, _ := strconv.Atoi(m[1])
				h.mu.Lock()
				h.workers = append(h.workers, pid)
				h.mu.Unlock()
			}
		}
		_, _ = io.Copy(io.Discard, out)
	}()
}

// kill kills the host, with which the system ends its workers.
func (h *hostProcess) kill() {
	h.process.Kill()
	<-h.read
	h.mu.Lock()
	h.workers = nil
	h.mu.Unlock()
}

// killWorker kills a worker, if one is ready.
func (h *hostProcess) killWorker() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.workers) == 0 {
		return false
	}
	pid := h.workers[0]
	h.workers = h.workers[1:]
	p, err := os.FindProcess(pid)
	return err == nil && p.Kill() == nil
}

// Two hosts with two workers each are killed, and their workers, again and again under load: every message is handled
// or poisoned, and poisoned are those alone that were delivered as often as host.json says.
func TestKills(t *testing.T) {
	t.Parallel()
	kills, long := 4, false
	if text := os.Getenv(killsVar); text != "" {
		var err error
		if kills, err = strconv.Atoi(text); err != nil {
			t.Fatalf("%s: %v", killsVar, err)
		}
		long = true
	}
	const most = 5 // deliveries
	connection := lazulitest.Start(t).ConnectionString()
	dir := config(t, connection, "", map[string]string{"host.json": fmt.Sprintf(`{"version": "2.0",
  "functionTimeout": "00:00:03", "extensions": {"queues": {"visibilityTimeout": "00:00:00",
  "maxPollingInterval": "00:00:00.200", "maxDequeueCount": %d, "batchSize": 4, "newBatchThreshold": 2}}}`, most)}).Dir
	attempts := filepath.Join(t.TempDir(), "attempts")
	if err := os.WriteFile(attempts, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	calls := func() int {
		info, err := os.Stat(attempts)
		if err != nil {
			t.Fatal(err)
		}
		return int(info.Size())
	}
	hosts := make([]*hostProcess, 2)
	for i := range hosts {
		hosts[i] = &hostProcess{dir: dir, environ: []string{"AzureWebJobsStorage=" + connection, attemptsVar + "=" + attempts,
			"FUNCTIONS_WORKER_PROCESS_COUNT=2", "FUNCTIONS_WORKER_RUNTIME=python"}}
		hosts[i].start(t)
		t.Cleanup(hosts[i].kill)
	}
	r := &running{}
	var err error
	if r.storage, err = workers.OpenStorage(connection); err != nil {
		t.Fatal(err)
	}
	var sent []string
	add := func(n int) {
		var list []string
		for range n {
			kind := "works"
			switch i := len(sent) + len(list); {
			case i%20 == 5:
				kind = "fails"
			case i%50 == 10 && i < 300: // After each death it takes longer until the next process starts.
				kind = "dies"
			case long && i%200 == 15:
				kind = "hangs"
			}
			list = append(list, fmt.Sprint(kind, " ", len(sent)+len(list)))
		}
		put(t, r, "mixed-queue", list...)
		sent = append(sent, list...)
	}
	done := 0
	for n := range kills {
		add(15)
		before := calls()
		check.Eventually(t, func() bool { return calls() > before }, "a call after %d kills", n)
		if n%4 == 3 {
			h := hosts[rand.IntN(len(hosts))]
			h.kill()
			h.start(t)
			done++
			continue
		}
		check.Eventually(t, func() bool { return hosts[rand.IntN(len(hosts))].killWorker() }, "a worker to kill")
		done++
	}
	out, poisoned := map[string]int{}, map[string]int{}
	items := map[string]string{} // of the poison queue, by ID
	missing := func(m string) bool { return out[m]+poisoned[m] == 0 }
	t.Cleanup(func() {
		if left := slices.DeleteFunc(slices.Clone(sent), func(m string) bool { return !missing(m) }); len(left) > 0 {
			t.Logf("%d of %d messages are missing: %v", len(left), len(sent), left[:min(len(left), 20)])
		}
	})
	check.Eventually(t, func() bool {
		for takeSome(t, r, "mixed-out", func(_, item string) { out[item]++ }) {
			continue
		}
		for takeSome(t, r, "mixed-queue-poison", func(id, item string) { items[id] = item; poisoned[item]++ }) {
			continue
		}
		return !slices.ContainsFunc(sent, missing)
	}, "every message in one of the queues")
	records := 0
	for record, err := range poison.All(t.Context(), r.storage.Tables, "mixed-queue-poison") {
		if err != nil {
			t.Fatal(err)
		}
		if records++; record.Attempts < most {
			t.Errorf("%s was poisoned after %d deliveries: %s", items[record.ID], record.Attempts, record.Reason)
		}
	}
	if records == 0 { // The last one may be written later, and a kill may prevent some.
		t.Error("nothing says why messages were poisoned")
	}

	seen := map[string][]int{}
	content, err := os.ReadFile(attempts)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(content)) {
		count, item, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		n, err := strconv.Atoi(count)
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		seen[item] = append(seen[item], n)
	}
	unlucky := 0
	for _, m := range sent {
		counts := slices.Sorted(slices.Values(seen[m]))
		if len(slices.Compact(slices.Clone(counts))) != len(counts) || len(counts) > 0 && counts[len(counts)-1] > most {
			t.Errorf("%s was handled in its deliveries %v, want each once and none after %d", m, counts, most)
		}
		works := strings.HasPrefix(m, "works")
		if !works && out[m] > 0 {
			t.Errorf("%s gave a result", m)
		}
		if works && out[m] == 0 {
			unlucky++
		}
	}
	t.Logf("%d kills, %d messages, %d poisoned, %d of them because their workers were killed each time", done, len(sent),
		len(poisoned), unlucky)
}
