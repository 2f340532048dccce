//go:build unix

package customhandler

import (
	"os/exec"
	"syscall"
)

// ownGroup makes the command the leader of a process group of its own, so that all of its children can be ended with it, and
// Ctrl-C at the terminal reaches this process alone.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	dieWithParent(cmd.SysProcAttr)
}

func terminateGroup(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }

func killGroup(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
