//go:build unix

package fault

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// Stop is an action that stops its own process with SIGSTOP, all goroutines at once, until it gets SIGCONT.
func Stop(Name) error {
	goOn := make(chan os.Signal, 1)
	signal.Notify(goOn, syscall.SIGCONT)
	defer signal.Stop(goOn)
	if err := syscall.Kill(os.Getpid(), syscall.SIGSTOP); err != nil {
		return fmt.Errorf("fault: stop this process: %w", err)
	}
	<-goOn // Another thread may take the first signal; until then this one must not go on.
	return nil
}
