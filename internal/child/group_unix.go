//go:build unix

package child

import (
	"os/exec"
	"syscall"
)

// newProcessGroup makes the command the leader of a new process group, so that all of its children can be ended with
// it, and Ctrl-C at the terminal reaches this process alone.
func newProcessGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	dieWithParent(cmd.SysProcAttr)
}

func terminateGroup(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }

func killGroup(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
