package fulldisk

import (
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
)

// child names the test that a process was started for.
const child = "LAZULI_FULLDISK_TEST"

// Alone runs the calling test in a process of its own, since a limit falls on all files of a process, the log that the go command
// asks for among them. It returns true there; in the first process it returns false, with the test's verdict.
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

// Limit makes the kernel refuse to write past n bytes of any file, as a full disk would, for the whole process, which must be the
// test's own: see [Alone]. The limit ends with lift or with the test.
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
