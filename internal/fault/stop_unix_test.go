//go:build unix

package fault

import (
	"bufio"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// A child of this test binary says where it is and stops itself; sent on, it goes on from there.
func TestStopsProcess(t *testing.T) {
	if plan := os.Getenv(EnvVar); plan != "" {
		p, err := ParsePlan(plan)
		if err != nil {
			t.Fatal(err)
		}
		Activate(p)
		if err := Point(first); err != nil {
			t.Fatal(err)
		}
		os.Exit(7)
	}
	child := exec.Command(os.Args[0], "-test.run=^TestStopsProcess$")
	child.Env = append(os.Environ(), EnvVar+"=test/first=say,test/first=stop")
	said, err := child.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(said).ReadString('\n')
	if err != nil || line != "fault: test/first\n" {
		t.Errorf("the child said %q, %v", line, err)
	}
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(child.Process.Pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
		t.Fatalf("the child is not stopped: %v, %v", status, err)
	}
	if err := child.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if err := child.Wait(); err == nil || child.ProcessState.ExitCode() != 7 {
		t.Errorf("the child ended with %v", err)
	}
}
