package check

import (
	"fmt"
	"net"
	"os"
	"sync/atomic"
)

const (
	// firstPort and ports are a range from which systems give neither listeners that ask for any port, nor connections, theirs.
	firstPort, ports = 20000, 12000
	// processPorts is the number of ports that a process tries before those of others.
	processPorts = 100
)

var nextPort atomic.Int64

// FreeAddress returns a loopback address whose port is likely to stay free while no process listens there: a server that a test stops comes back at
// its address. No two calls in a process return the same one, and processes at work at the same time use different parts of the range.
func FreeAddress(t T) string {
	t.Helper()
	var err error
	for range ports {
		port := firstPort + (os.Getpid()*processPorts+int(nextPort.Add(1)))%ports
		address := fmt.Sprint("127.0.0.1:", port)
		var l net.Listener
		if l, err = net.Listen("tcp", address); err == nil {
			_ = l.Close()
			return address
		}
	}
	t.Fatalf("no free port: %v", err)
	return ""
}

// FreePort returns the port of a [FreeAddress].
func FreePort(t T) int {
	t.Helper()
	a, err := net.ResolveTCPAddr("tcp", FreeAddress(t))
	OK(t, err)
	return a.Port
}
