//go:build unix

package functions

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/fault"
	"github.com/lazuli-storage/lazuli/internal/sdk/connstr"
	"github.com/lazuli-storage/lazuli/internal/test/testlog"
	"github.com/lazuli-storage/lazuli/lazulitest"
	"github.com/lazuli-storage/lazuli/workers"
)

const copyFunction = `{"bindings": [
	{"type": "queueTrigger", "direction": "in", "name": "item", "queueName": "in-queue"},
	{"type": "queue", "direction": "out", "name": "$return", "queueName": "out-queue", "dataType": "binary"}]}`

func alive(pid int) bool { return syscall.Kill(pid, 0) == nil && !zombie(pid) }

// zombie: a process that is dead, and that its parent has not asked about.
func zombie(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && strings.Contains(string(text), ") Z ")
}

func number(t *testing.T, text, pattern string) int {
	t.Helper()
	found := regexp.MustCompile(pattern).FindStringSubmatch(text)
	if found == nil {
		return 0
	}
	n, err := strconv.Atoi(found[1])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestProcess(t *testing.T) {
	t.Parallel()
	r := run(t, map[string]string{"copy/function.json": copyFunction,
		"local.settings.json": `{"Values": {"GREETING": "hello"}}`}, nil)
	put(t, r.storage, "in-queue", "text")
	eventually(t, "the message is copied", func() bool { return len(messages(t, r.storage, "out-queue")) == 1 })
	if got := messages(t, r.storage, "out-queue")[0]; got != `"text"` {
		t.Error(got)
	}
	var pid int
	eventually(t, "the handler says who it is, and what its setting is", func() bool {
		pid = number(t, r.log.String(), `handler \| handler's pid is (\d+) setting is hello`)
		return pid != 0
	})
	if !alive(pid) {
		t.Fatal("the handler has ended")
	}
	if err := r.stop(); err != nil {
		t.Error(err)
	}
	if alive(pid) || !strings.Contains(r.log.String(), "handler | asked to end") {
		t.Error("the handler outlives its host, or was not asked to end")
	}
}

// What the handler has started ends with it.
func TestProcessGroup(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	host := strings.Replace(hostJSON(self, ""), `"description": {`, `"description": {"arguments": ["has-children"], `, 1)
	r := run(t, map[string]string{"copy/function.json": copyFunction, "host.json": host}, nil)
	eventually(t, "the handler is ready", func() bool { return strings.Contains(r.log.String(), "the handler is ready") })
	var child int // its line may come after that of the host
	eventually(t, "the handler has a child", func() bool {
		child = number(t, r.log.String(), `child (\d+)`)
		return child != 0
	})
	if !alive(child) {
		t.Fatal("there is no child")
	}
	if err := r.stop(); err != nil {
		t.Error(err)
	}
	eventually(t, "the child is gone", func() bool { return !alive(child) })
}

// A handler that is killed is started again; the invocation it had is tried again.
func TestHandlerKilled(t *testing.T) {
	t.Parallel()
	r := run(t, map[string]string{"dieonce/function.json": copyFunction}, nil)
	put(t, r.storage, "in-queue", "text")
	eventually(t, "the second attempt succeeds", func() bool { return len(messages(t, r.storage, "out-queue")) == 1 })
	log := r.log.String()
	if strings.Count(log, "handler's pid is") < 2 || !strings.Contains(log, "the handler ended; starting it again") ||
		!strings.Contains(log, "signal: killed") {
		t.Error("it was not started again, or nothing was said of it")
	}
}

// Invocations that come between a handler's death and its successor wait, and lose no attempt.
func TestHandlerKilledAtWork(t *testing.T) {
	t.Parallel()
	r := run(t, map[string]string{"copy/function.json": copyFunction}, nil)
	const count = 100
	last := regexp.MustCompile(`handler's pid is (\d+)`)
	for round := range 2 {
		var pid int
		eventually(t, "a handler comes up", func() bool {
			found := last.FindAllStringSubmatch(r.log.String(), -1)
			if len(found) <= round {
				return false
			}
			pid, _ = strconv.Atoi(found[round][1])
			return true
		})
		for i := range count / 2 {
			put(t, r.storage, "in-queue", fmt.Sprintf("message %d", round*count/2+i))
			if i == count/4 {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	}
	done := map[string]bool{}
	eventually(t, "every message comes out", func() bool {
		for _, m := range drainQueue(t, r.storage, "out-queue") {
			done[m] = true
		}
		return len(done) == count
	})
	if poison := messages(t, r.storage, "in-queue-poison"); len(poison) > 0 {
		t.Errorf("poisoned: %q", poison)
	}
}

// Exit code 200 is a wish, not a failure.
func TestHandlerAsksForRestart(t *testing.T) {
	t.Parallel()
	r := run(t, map[string]string{"restart/function.json": copyFunction}, nil)
	put(t, r.storage, "in-queue", "text")
	eventually(t, "the second attempt succeeds", func() bool { return len(messages(t, r.storage, "out-queue")) == 1 })
	if log := r.log.String(); !strings.Contains(log, "the handler asks for a restart") ||
		strings.Contains(log, "the handler ended") {
		t.Error("it was not restarted, or with a complaint")
	}
}

// One that does not answer in time is replaced by another.
func TestHandlerThatHangs(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r := run(t, map[string]string{"hang/function.json": copyFunction,
		"host.json": hostJSON(self, `, "functionTimeout": "00:00:05"`)}, nil)
	put(t, r.storage, "in-queue", "text")
	eventually(t, "the second attempt succeeds", func() bool { return len(messages(t, r.storage, "out-queue")) == 1 })
	if log := r.log.String(); strings.Count(log, "handler's pid is") < 2 ||
		!strings.Contains(log, "did not answer within the functionTimeout; starting another one") ||
		!strings.Contains(log, "asked to end") || strings.Contains(log, "the handler ended") {
		t.Error("it was not replaced, or with a complaint")
	}
}

func TestHandlerThatDoesNotCome(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, host, want string }{
		{"not there", hostJSON("no-such-program", ""),
			`host.json: customHandler.description.defaultExecutablePath: "no-such-program" is neither a file in the project nor a command on the path`},
		{"for another system", hostJSON("handler.exe", ""), "on this system programs have no .exe"},
		{"ends at once", strings.Replace(hostJSON(self, ""), `"description": {`,
			`"description": {"arguments": ["exits-at-once"], `, 1), "does not come up: exit status 3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h, err := Load(t.Context(), Config{Dir: folder(t,
				map[string]string{"host.json": c.host, "H/function.json": fmt.Sprintf(httpOnly, "")}),
				Environ: append(os.Environ(), role+"=handler")})
			if err != nil {
				t.Fatal(err)
			}
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			if err := h.Run(t.Context(), l); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// At a stop, invocations that have begun end, and their outputs are written.
func TestDrain(t *testing.T) {
	t.Parallel()
	begun, release := make(chan bool, 10), make(chan bool)
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begun <- true
		<-release
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprint(w, `{"ReturnValue": "done", "Outputs": {"res": {"body": "done"}}}`)
	})
	r := run(t, map[string]string{"Q/function.json": copyFunction, "H/function.json": fmt.Sprintf(httpOnly, "")}, handler)
	put(t, r.storage, "in-queue", "text")
	<-begun
	answer := make(chan string, 1)
	go func() { answer <- tryGet(r.url + "/api/H") }()
	<-begun
	stopped := make(chan error, 1)
	go func() { stopped <- r.stop() }()
	eventually(t, "it takes no more requests", func() bool {
		c, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
		if err == nil {
			c.Close()
		}
		return err != nil
	})
	close(release)
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	if got := <-answer; got != "200 done" {
		t.Error(got)
	}
	if got := messages(t, r.storage, "out-queue"); len(got) != 1 {
		t.Errorf("%q", got)
	}
	if p, err := r.storage.Queues.NewQueueClient("in-queue").GetProperties(t.Context(), nil); err != nil ||
		*p.ApproximateMessagesCount != 0 {
		t.Error("the message is still there")
	}
}

// hostProcess is a host in a process of its own, with a handler in another.
type hostProcess struct {
	cmd    *exec.Cmd
	log    *testlog.Buffer
	exited chan struct{}
}

func startHost(t *testing.T, dir, connection string, environ ...string) *hostProcess {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// The host starts its handler with the roles' variable from the settings file: the environment would go first.
	p := &hostProcess{cmd: exec.Command("/bin/sh", "-c", `exec env `+role+`=host "$0" "$1"`, self, dir),
		log: &testlog.Buffer{}, exited: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), append(environ, connstr.DefaultConnection+"="+connection)...)
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	p.cmd.WaitDelay = time.Second
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { defer close(p.exited); _ = p.cmd.Wait() }()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.exited
		if t.Failed() {
			t.Log(p.log.String())
		}
	})
	return p
}

// crashFolder has the function copy, with a handler that is this test's binary.
func crashFolder(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	host := strings.Replace(hostJSON("env", ""), `"description": {`,
		fmt.Sprintf(`"description": {"arguments": [%q, %q], `, role+"=handler", self), 1)
	// A slow machine may miss leases of a second, and an attempt with each.
	host = strings.Replace(host, `"queues": {`, `"queues": {"maxDequeueCount": 50, `, 1)
	return folder(t, map[string]string{"host.json": host, "copy/function.json": copyFunction})
}

// However the host dies, no message is lost: each comes out at least once.
func TestHostKilled(t *testing.T) {
	t.Parallel()
	const count = 20
	for _, plan := range []string{"functions/after-answer=kill@7", "functions/after-outputs=kill@5",
		"workers/before-delete-message=kill@9", ""} {
		t.Run(plan, func(t *testing.T) {
			connection := lazulitest.Start(t).ConnectionString()
			storage, err := workers.OpenStorage(connection)
			if err != nil {
				t.Fatal(err)
			}
			dir := crashFolder(t)
			for i := range count {
				put(t, storage, "in-queue", fmt.Sprintf("message %d", i))
			}
			first := startHost(t, dir, connection, fault.EnvVar+"="+plan)
			var handler int
			eventually(t, "the handler comes up", func() bool {
				handler = number(t, first.log.String(), `handler's pid is (\d+)`)
				return handler != 0
			})
			if plan == "" {
				eventually(t, "something is done", func() bool { return len(messages(t, storage, "out-queue")) > 0 })
				_ = first.cmd.Process.Kill()
			}
			select {
			case <-first.exited:
			case <-time.After(patience):
				t.Fatal("the first host does not die")
			}
			if runtime.GOOS == "linux" {
				eventually(t, "the handler dies with it", func() bool { return !alive(handler) })
			}
			startHost(t, dir, connection)
			done := map[string]int{}
			eventually(t, "every message comes out", func() bool {
				for _, m := range drainQueue(t, storage, "out-queue") {
					done[m]++
				}
				return len(done) == count
			})
			eventually(t, "the queue is empty", func() bool {
				p, err := storage.Queues.NewQueueClient("in-queue").GetProperties(context.Background(), nil)
				return err == nil && *p.ApproximateMessagesCount == 0
			})
			if poison := messages(t, storage, "in-queue-poison"); len(poison) != 0 {
				t.Errorf("poisoned: %q", poison)
			}
		})
	}
}

// drainQueue takes all messages that are visible.
func drainQueue(t *testing.T, s *workers.Storage, queue string) (texts []string) {
	t.Helper()
	q := s.Queues.NewQueueClient(queue)
	for {
		got, err := q.DequeueMessage(t.Context(), nil)
		if err != nil || len(got.Messages) == 0 {
			return texts
		}
		m := got.Messages[0]
		texts = append(texts, *m.MessageText)
		if _, err := q.DeleteMessage(t.Context(), *m.MessageID, *m.PopReceipt, nil); err != nil {
			t.Fatal(err)
		}
	}
}
