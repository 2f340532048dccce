package workers_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/testaccount"
)

// Two processes share a queue; one is killed in the middle of its work. The other one goes on, and every message is handled.
func TestOneOfTwoProcessesIsKilled(t *testing.T) {
	a := testaccount.Open(t)
	queue := a.Queue("shared")
	const messages = 60
	for i := range messages {
		send(t, a, queue, fmt.Sprint(i))
	}
	var mu sync.Mutex // guards what follows
	handled := map[string]int{}
	by := map[int]int{}
	some := make(chan struct{}) // closed when both have handled a few
	run := func(worker int) *exec.Cmd {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "LAZULI_TEST_WORKER="+queue+" "+a.ConnectionString)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		go func() {
			for lines := bufio.NewScanner(out); lines.Scan(); {
				mu.Lock()
				handled[lines.Text()]++
				by[worker]++
				if by[0] == 5 && by[1] >= 5 || by[1] == 5 && by[0] >= 5 {
					select {
					case <-some:
					default:
						close(some)
					}
				}
				mu.Unlock()
			}
		}()
		return cmd
	}
	victim, survivor := run(0), run(1)
	defer func() {
		_ = survivor.Process.Kill()
		_ = survivor.Wait()
	}()
	<-some
	if err := victim.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = victim.Wait() // It was killed.
	eventually(t, "the queue is empty", func() bool { return length(t, a, queue) == 0 })
	eventually(t, "every message was handled", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(handled) == messages
	})
	mu.Lock()
	defer mu.Unlock()
	t.Logf("%d were handled by the one that was killed, %d by the other", by[0], by[1])
	if length(t, a, queue+"-poison") > 0 {
		t.Error("a death poisons messages")
	}
}
