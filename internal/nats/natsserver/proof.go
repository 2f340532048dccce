package natsserver

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"
)

// ErrUnproven means that an existing NATS does not keep acknowledged messages through a power failure, or that this is
// not known. The error that wraps it says what to change.
var ErrUnproven = errors.New("the durability of NATS is not proven")

// leastVersion is the first version whose replicated streams are safe with synced writes: earlier ones acknowledge
// proposals of a deposed leader, or compact without syncing (nats-server #8370, #8475).
const leastVersion = "2.15"

const (
	proofTimeout = 10 * time.Second
	maxProof     = 4 << 20
)

// monitored holds what a server says at its monitoring address.
type monitored struct {
	at         string // monitoring address
	id, name   string
	version    string
	cluster    string
	jetstream  bool
	syncAlways bool
	size       int // number of servers that JetStream's cluster has; 1 without a cluster
}

// prove checks that each server of the existing NATS syncs each write, has a version that does so safely, and that the
// streams have enough replicas. See https://docs.nats.io/running-a-nats-service/nats_admin/monitoring for what servers
// report.
func (s *Server) prove() error {
	if len(s.config.Monitors) == 0 {
		return fmt.Errorf("%w: give the monitoring address of each of its servers (nats-monitor, such as "+
			"http://a:8222,http://b:8222), or accept it as it is (nats-unproven)", ErrUnproven)
	}
	client, err := s.proofClient()
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(context.Background(), proofTimeout)
	defer cancel()
	var servers []monitored
	for _, at := range s.config.Monitors {
		m, err := monitor(ctx, client, strings.TrimRight(strings.TrimSpace(at), "/"))
		if err != nil {
			return fmt.Errorf("%w: %s: %w", ErrUnproven, redact(at), err)
		}
		servers = append(servers, m)
	}
	if err := judge(servers, s.conn.ConnectedServerId(), s.config.Replicas); err != nil {
		return fmt.Errorf("%w: %w", ErrUnproven, err)
	}
	s.config.Log.Info("all servers of NATS sync each write", "servers", len(servers), "replicas", s.config.Replicas)
	return nil
}

// proofClient returns a client for monitoring addresses.
func (s *Server) proofClient() (*http.Client, error) {
	transport := &http.Transport{TLSClientConfig: &tls.Config{}}
	if s.config.CAFile != "" {
		pem, err := os.ReadFile(s.config.CAFile)
		if err != nil {
			return nil, err
		}
		transport.TLSClientConfig.RootCAs = x509.NewCertPool()
		transport.TLSClientConfig.RootCAs.AppendCertsFromPEM(pem)
	}
	return &http.Client{Transport: transport}, nil
}

// monitor reads /varz and /jsz of a server.
func monitor(ctx context.Context, client *http.Client, at string) (monitored, error) {
	m := monitored{at: at, size: 1}
	if u, err := url.Parse(at); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return m, errors.New("this is not an address of the form http://host:8222")
	}
	var varz struct {
		ID      string `json:"server_id"`
		Name    string `json:"server_name"`
		Version string `json:"version"`
		Cluster struct {
			Name string `json:"name"`
		} `json:"cluster"`
		JetStream struct {
			Config *struct {
				SyncAlways bool `json:"sync_always"`
			} `json:"config"`
		} `json:"jetstream"`
	}
	// Two documents: /varz says how the server syncs, and /jsz how many servers the cluster's metadata has.
	if err := getJSON(ctx, client, at+"/varz", &varz); err != nil {
		return m, err
	}
	var jsz struct {
		Meta *struct {
			Size int `json:"cluster_size"`
		} `json:"meta_cluster"`
	}
	if err := getJSON(ctx, client, at+"/jsz", &jsz); err != nil {
		return m, err
	}
	m.id, m.name, m.version, m.cluster = varz.ID, varz.Name, varz.Version, varz.Cluster.Name
	if c := varz.JetStream.Config; c != nil {
		m.jetstream, m.syncAlways = true, c.SyncAlways
	}
	if jsz.Meta != nil {
		// A server that has not found the others yet reports a smaller number.
		m.size = max(m.size, jsz.Meta.Size)
	}
	return m, nil
}

func getJSON(ctx context.Context, client *http.Client, address string, into any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	answer, err := client.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("the server answers %s", answer.Status)
	}
	if err := json.NewDecoder(io.LimitReader(answer.Body, maxProof)).Decode(into); err != nil {
		return fmt.Errorf("the answer is not that of a NATS server: %w", err)
	}
	return nil
}

// judge decides from what the servers say. connected is the ID of the server that the connection uses.
func judge(servers []monitored, connected string, replicas int) error {
	seen, size := map[string]string{}, 1
	for _, m := range servers {
		switch {
		case m.id == "" || m.version == "":
			return fmt.Errorf("%s is not a NATS server", m.at)
		case !m.jetstream:
			return fmt.Errorf("%s has no JetStream: enable it on all servers that nats-monitor names", m.at)
		case !versionAtLeast(m.version, leastVersion):
			return fmt.Errorf("%s has version %s, and only %s and newer keep replicated messages safely: update it", m.at,
				m.version, leastVersion)
		case !m.syncAlways:
			return fmt.Errorf("%s does not sync each write, and a power failure may lose what it acknowledged in the last "+
				"two minutes: set `sync_interval: always` in the jetstream section of its configuration, and restart it", m.at)
		case m.cluster != servers[0].cluster:
			return fmt.Errorf("%s belongs to cluster %q, and %s to %q", m.at, m.cluster, servers[0].at, servers[0].cluster)
		// Two addresses of one server would count as two copies.
		case seen[m.id] != "":
			return fmt.Errorf("%s and %s are the same server", seen[m.id], m.at)
		}
		seen[m.id] = m.at
		size = max(size, m.size)
	}
	switch {
	// A server that is not asked might not sync, and it may hold the copy that is read.
	case len(servers) < size:
		return fmt.Errorf("the cluster has %d servers, and nats-monitor names %d: name all of them", size, len(servers))
	// Proof of another cluster proves nothing.
	case seen[connected] == "":
		return errors.New("the server that nats-url leads to is not among those of nats-monitor")
	case replicas > size:
		return fmt.Errorf("nats-replicas is %d, and the cluster has %d servers", replicas, size)
	case size >= 3 && replicas < 3:
		return fmt.Errorf("the cluster has %d servers, and nats-replicas is %d, so that the loss of one server would lose "+
			"messages: set nats-replicas to 3", size, replicas)
	}
	return nil
}

// versionAtLeast compares versions by their first two numbers.
func versionAtLeast(version, least string) bool {
	var got, want [2]int
	_, _ = fmt.Sscanf(strings.TrimPrefix(version, "v"), "%d.%d", &got[0], &got[1])
	_, _ = fmt.Sscanf(least, "%d.%d", &want[0], &want[1])
	return slices.Compare(got[:], want[:]) >= 0
}
