package natsserver

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
)

// Config selects the NATS server to use. The zero value is an embedded server in memory without a port.
type Config struct {
	// Dir is the folder of the embedded server's state. If it is empty, the state is in memory and lost on Close.
	Dir string
	// Relaxed acknowledges without waiting for a sync: a power failure may lose the writes of the last seconds. A killed
	// process loses nothing either way.
	Relaxed bool
	// Listen opens the embedded server to NATS clients, such as the nats CLI, at host:port. Port 0 selects a free one. If
	// it is empty, no port is opened. There is no authentication: use a loopback address.
	Listen string

	// URL is the address of an existing NATS server or cluster (several URLs separated by commas). Then no server is
	// embedded, and Dir, Relaxed and Listen must be empty.
	URL string
	// Credentials is the path of a NATS .creds file for URL; it may be empty. URL may contain user and password.
	Credentials string
	// CAFile, CertFile and KeyFile configure TLS to URL: the authority that signed the server's certificate, and the
	// client certificate with its key. If they are empty, the system's authorities and no client certificate are used.
	CAFile, CertFile, KeyFile string
	// Prove refuses URL unless all servers are known to sync each write, and the streams have enough replicas. Monitors
	// are the monitoring addresses of all servers, http://host:port.
	Prove    bool
	Monitors []string
	// Replicas is the number of servers of the cluster that keep each stream: 1 to 5, 0 means 1.
	Replicas int

	// Member, if set, makes the embedded server a node of a cluster: Dir must be set, and Replicas is the number of nodes,
	// at most 3. See package cluster.
	Member func(*Server) (Member, error) `json:"-"`
	// Exhausted, of a node of a cluster, reports that its disk has no room for what other nodes write. The embedded server
	// is stopped meanwhile: its files would fill the disk up to the last byte. Nil means never.
	Exhausted func() bool `json:"-"`

	// Log receives the warnings and errors of the embedded server, and lost connections. Nil means slog.Default().
	Log *slog.Logger
}

// validate returns an error that names the first invalid field.
func (c *Config) validate() error {
	if c.Replicas < 0 || c.Replicas > 5 {
		return fmt.Errorf("natsserver: Replicas is %d: want 1 to 5", c.Replicas)
	}
	// 0 becomes 1 only here, after it has been checked: a negative number is a mistake.
	if c.Replicas == 0 {
		c.Replicas = 1
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	if (c.CertFile == "") != (c.KeyFile == "") {
		return errors.New("natsserver: CertFile and KeyFile go together")
	}
	if c.Member != nil {
		return c.validateMember()
	}
	// Without URL the server is embedded: options of a foreign one would be ignored, which is why they are refused.
	if c.URL == "" {
		if c.Replicas != 1 {
			return errors.New("natsserver: Replicas needs an existing cluster: set URL")
		}
		if c.Prove || len(c.Monitors) > 0 {
			return errors.New("natsserver: Prove and Monitors are for an existing server: set URL")
		}
		if c.Credentials != "" || c.CAFile != "" || c.CertFile != "" {
			return errors.New("natsserver: Credentials, CAFile and CertFile are for an existing server: set URL")
		}
		// The address is parsed for its error; it is used when the server starts.
		_, _, err := c.listenAddress()
		return err
	}
	if len(c.Monitors) > 0 && !c.Prove {
		return errors.New("natsserver: Monitors are for a proof: set Prove")
	}
	if c.Dir != "" || c.Listen != "" || c.Relaxed {
		return errors.New("natsserver: Dir, Listen and Relaxed are for the embedded server: not together with URL")
	}
	return nil
}

// clusterReplicas is the number of nodes of a cluster of embedded servers that keep each stream.
const clusterReplicas = 3

func (c *Config) validateMember() error {
	switch {
	case c.URL != "":
		return errors.New("natsserver: Member is for embedded servers: not together with URL")
	case c.Dir == "":
		return errors.New("natsserver: a node of a cluster needs a folder: set Dir")
	}
	c.Replicas = clusterReplicas
	_, _, err := c.listenAddress()
	return err
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
