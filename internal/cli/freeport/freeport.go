// Package freeport finds ports for servers that start later, or that come back at the same address.
package freeport

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

var next atomic.Int64

// Address returns a loopback address whose port is likely to stay free while no process listens there. No two calls in a process return the same
// one, and processes at work at the same time use different parts of the range.
func Address() (string, error) {
	var err error
	for range ports {
		port := firstPort + (os.Getpid()*processPorts+int(next.Add(1)))%ports
		address := fmt.Sprint("127.0.0.1:", port)
		var l net.Listener
		if l, err = net.Listen("tcp", address); err == nil {
			_ = l.Close()
			return address, nil
		}
	}
	return "", fmt.Errorf("no free port: %w", err)
}
