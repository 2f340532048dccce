package killrig

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// TestMain lets the test binary be the child: it ignores SIGTERM or exits, as its environment says.
func TestMain(m *testing.M) {
	switch os.Getenv("CHILDPROC_TEST") {
	case "wait":
		os.Stdout.WriteString(strings.Repeat("x", 2*tailBytes) + "end\n")
		_, _ = os.Stdin.Read(make([]byte, 1)) // until it is killed
	case "fail":
		os.Stderr.WriteString("reason\n")
		os.Exit(3)
	}
	os.Exit(m.Run())
}

func start(t *testing.T, mode string) *Process {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "CHILDPROC_TEST="+mode)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stdin.Close() })
	p, err := Start(cmd, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	return p
}

func TestFailureHasOutput(t *testing.T) {
	t.Parallel()
	p := start(t, "fail")
	var exit *exec.ExitError
	if err := p.Err(); !errors.As(err, &exit) || exit.ExitCode() != 3 {
		t.Errorf("Err: %v, want exit code 3", err)
	}
	if p.Running() {
		t.Error("Running after the exit")
	}
	if err := p.Stop(t.Context()); err == nil || !strings.Contains(err.Error(), "reason") {
		t.Errorf("Stop of a failed process: %v, want its output", err)
	}
}

func TestKill(t *testing.T) {
	t.Parallel()
	p := start(t, "wait")
	check.Eventually(t, func() bool { return strings.HasSuffix(p.Output(), "end") || !p.Running() }, "the output ends")
	if n := len(p.Output()); n > tailBytes {
		t.Errorf("%d bytes of output are kept, want at most %d", n, tailBytes)
	}
	if !p.Running() {
		t.Fatalf("the process exited: %v", p.Err())
	}
	p.Kill()
	if p.Running() {
		t.Error("Running after Kill")
	}
}

func TestStopKillsWhenTheContextEnds(t *testing.T) {
	t.Parallel()
	p := start(t, "wait")
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("no more time")
	cancel(cause)
	// The process may exit by SIGTERM before the context is checked; both are failures of the stop.
	if err := p.Stop(ctx); err == nil {
		t.Error("Stop of a process that does not exit by itself: no error")
	}
	if p.Running() {
		t.Error("Running after Stop")
	}
}
