package child

import "syscall"

// dieWithParent makes the kernel kill the process when this one dies, however it dies.
func dieWithParent(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGKILL }
