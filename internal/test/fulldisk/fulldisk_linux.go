package fulldisk

import (
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
)

// child is the environment variable with the name of the test that a process was started for.
const child = "LAZULI_FULLDISK_TEST"

// Alone runs the calling test in a separate process, since a limit applies to all files of a process, including a log
// that the go command requests. It returns true in the new process. In the first process it returns false, with the
// test's result.
func Alone(t *testing.T) bool {
	t.Helper()
	if os.Getenv(child) == t.Name() {
		return true
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), child+"="+t.Name())
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("in a process of its own: %v\n%s", err, out)
	}
	return false
}

// Limit makes the kernel refuse to write past n bytes of any file, as a full disk would, for the whole process, which
// must run only this test: see [Alone]. The limit ends with lift or with the test.
func Limit(t *testing.T, n uint64) (lift func()) {
	t.Helper()
	if test, _, _ := strings.Cut(t.Name(), "/"); os.Getenv(child) != test {
		t.Fatal("fulldisk: call Alone first")
	}
	signal.Ignore(syscall.SIGXFSZ)
	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &old); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: n, Max: old.Max}); err != nil {
		t.Fatal(err)
	}
	lift = func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &old); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(lift)
	return lift
}
