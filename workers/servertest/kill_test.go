package servertest

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/test/testaccount"
)

// childWorker is a worker process of this test's binary.
type childWorker struct {
	*exec.Cmd
	goOn io.Closer // its handlers wait until this is closed

	mu             sync.Mutex
	begun, handled map[string]bool
}

func startWorker(t *testing.T, a *testaccount.Account, queue string, plain bool) *childWorker {
	t.Helper()
	w := &childWorker{Cmd: exec.Command(os.Args[0]), begun: map[string]bool{}, handled: map[string]bool{}}
	w.Env = append(os.Environ(), fmt.Sprintf("LAZULI_TEST_WORKER=%s %s %t", queue, a.ConnectionString, plain))
	var err error
	if w.goOn, err = w.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := w.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Start(); err != nil {
		t.Fatal(err)
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			what, body, _ := strings.Cut(lines.Text(), " ")
			w.mu.Lock()
			map[string]map[string]bool{"begun": w.begun, "handled": w.handled}[what][body] = true
			w.mu.Unlock()
		}
	}()
	t.Cleanup(func() {
		_ = w.Process.Kill()
		<-read
		_ = w.Wait() // It was killed.
	})
	return w
}

func (w *childWorker) count() (begun, handled int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.begun), len(w.handled)
}

// Two processes share a queue; one is killed in the middle of its work. The other one handles every message. Both use
// the extensions of the protocol, or do without them.
func TestOneOfTwoProcessesIsKilled(t *testing.T) {
	t.Parallel()
	for name, plain := range map[string]bool{"extended": false, "plain": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			killOne(t, plain)
		})
	}
}

func killOne(t *testing.T, plain bool) {
	a := testaccount.Open(t)
	queue := a.Queue("shared")
	const messages = 60
	for i := range messages {
		send(t, a, queue, fmt.Sprint(i))
	}
	victim, survivor := startWorker(t, a, queue, plain), startWorker(t, a, queue, plain)
	eventually(t, "both have messages in work", func() bool {
		one, _ := victim.count()
		other, _ := survivor.count()
		return one > 0 && other > 0
	})
	if err := victim.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := survivor.goOn.Close(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "every message was handled by the one that is left", func() bool {
		_, handled := survivor.count()
		return handled == messages
	})
	eventually(t, "the queue is empty", func() bool { return length(t, a, queue) == 0 })
	if _, handled := victim.count(); handled > 0 {
		t.Errorf("%d messages were handled by the one that was killed before it could", handled)
	}
	if length(t, a, queue+"-poison") > 0 {
		t.Error("a death poisons messages")
	}
}
