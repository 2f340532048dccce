package check

import (
	"net"

	"github.com/lazuli-storage/lazuli/internal/freeport"
)

// FreeAddress returns a loopback address for a server that a test starts later, or stops and starts again; see
// [freeport.Address].
func FreeAddress(t T) string {
	t.Helper()
	return Must(freeport.Address())(t)
}

// FreePort returns the port of a [FreeAddress].
func FreePort(t T) int {
	t.Helper()
	return Must(net.ResolveTCPAddr("tcp", FreeAddress(t)))(t).Port
}
