package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"syscall"

	"github.com/lazuli-storage/lazuli/internal/server/config"
)

// listenAdmin opens the admin listener. Azurite has none, so a script that starts two Azurites with different ports, or one for each service, names
// no port for it: if the default port is taken then, a free one is used.
func listenAdmin(c *config.Result, log *slog.Logger) (net.Listener, error) {
	l, err := net.Listen("tcp", c.Admin.Address())
	if errors.Is(err, syscall.EADDRINUSE) && c.Source("admin-port") == config.FromDefault &&
		(len(c.Services) > 0 || c.Source("blob-port") != config.FromDefault && c.Source("queue-port") != config.FromDefault && c.Source("table-port") != config.FromDefault) {
		log.Warn("the default admin port is in use; using another one", "in_use", c.Admin.Port)
		l, err = net.Listen("tcp", net.JoinHostPort(c.Admin.Host, "0"))
	}
	if errors.Is(err, syscall.EADDRINUSE) {
		beside := ""
		if c.Source("admin-port") == config.FromDefault {
			beside = "; to run a second Lazuli, use --blob-port 0 --queue-port 0 --table-port 0 and another --location"
		}
		return nil, fmt.Errorf("the admin listener cannot listen on %s: %w; stop what uses it, or choose another port with --admin-port%s",
			c.Admin.Address(), errPortTaken, beside)
	}
	if err != nil {
		return nil, fmt.Errorf("the admin listener cannot listen on %s: %w", c.Admin.Address(), err)
	}
	return l, nil
}

// reachable is an address that this machine can call for one that a listener has: a wildcard cannot be called.
func reachable(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return addr
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port)
}
