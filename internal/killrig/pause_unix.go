//go:build unix

package killrig

import "syscall"

// Pause stops the process without ending it.
func (n *Node) Pause() { _ = n.Signal(syscall.SIGSTOP) }

// Resume lets a paused process go on.
func (n *Node) Resume() { _ = n.Signal(syscall.SIGCONT) }
