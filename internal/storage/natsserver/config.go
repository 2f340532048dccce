package natsserver

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
)

// Config says which NATS to use. The zero value is an embedded server in memory without a port.
type Config struct {
	// Dir is the folder of the embedded server's state. Empty keeps everything in memory, and nothing after Close.
	Dir string
	// Relaxed acknowledges without waiting for a sync: what was written in the last seconds before a power failure
	// may be lost. A killed process loses nothing either way.
	Relaxed bool
	// Listen opens the embedded server to NATS clients, such as the nats CLI, at host:port. Port 0 picks a free one.
	// Empty opens no port. There is no authentication: keep it on a loopback address.
	Listen string

	// URL is an existing NATS server or cluster (several URLs separated by commas); nothing is embedded then, and
	// Dir, Relaxed and Listen must be empty.
	URL string
	// Credentials is a NATS .creds file for URL; empty for none. User and password may stand in URL.
	Credentials string
	// CAFile, CertFile and KeyFile are for TLS to URL: the authority that signed the server's certificate, and our
	// own certificate with its key. Empty: the system's authorities, and no certificate.
	CAFile, CertFile, KeyFile string
	// Replicas is how many servers of the cluster keep each stream: 1 to 5, 0 means 1.
	Replicas int

	// Log receives what the embedded server has to say from warnings on, and lost connections. Nil is slog.Default().
	Log *slog.Logger
}

// validate names the first field that is wrong.
func (c *Config) validate() error {
	if c.Replicas < 0 || c.Replicas > 5 {
		return fmt.Errorf("natsserver: Replicas is %d: want 1 to 5", c.Replicas)
	}
	if c.Replicas == 0 {
		c.Replicas = 1
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	if (c.CertFile == "") != (c.KeyFile == "") {
		return errors.New("natsserver: CertFile and KeyFile go together")
	}
	if c.URL == "" {
		if c.Replicas != 1 {
			return errors.New("natsserver: Replicas needs an existing cluster: set URL")
		}
		if c.Credentials != "" || c.CAFile != "" || c.CertFile != "" {
			return errors.New("natsserver: Credentials, CAFile and CertFile are for an existing server: set URL")
		}
		_, _, err := c.listenAddress()
		return err
	}
	if c.Dir != "" || c.Listen != "" || c.Relaxed {
		return errors.New("natsserver: Dir, Listen and Relaxed are for the embedded server: not together with URL")
	}
	return nil
}

// listenAddress splits Listen.
func (c *Config) listenAddress() (host string, port int, err error) {
	if c.Listen == "" {
		return "", 0, nil
	}
	host, p, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return "", 0, fmt.Errorf("natsserver: Listen: %w", err)
	}
	if port, err = strconv.Atoi(p); err != nil || port < 0 || port > 65535 {
		return "", 0, fmt.Errorf("natsserver: Listen: %q is not a port", p)
	}
	if host == "" {
		host = "127.0.0.1"
	}
	return host, port, nil
}
