package natsserver

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// startTimeout bounds how long the embedded server may take to read its streams back, and a connection to be made.
const startTimeout = 5 * time.Minute

// An existing server is dialled for dialTimeout, and when the process starts, again and again for dialPatience: a machine that
// is busy can take long to shake hands.
const (
	dialTimeout  = 5 * time.Second
	dialPatience = time.Minute
)

// MaxPayload is the largest message of the embedded server, in bytes, headers included: a queue message of 64 KiB with
// room for its record, and for the properties of a service.
const MaxPayload = 1 << 20

// Server is the process's NATS. It is safe for concurrent use.
type Server struct {
	config   Config
	embedded *server.Server // nil with an external NATS
	conn     *nats.Conn
	streams  string // the folder that holds the embedded server's streams; "" if there is nothing to sync
	scratch  string // removed by Close

	mu      sync.Mutex
	syncers map[string]*syncer
	closed  bool
}

// Start starts the embedded server, or connects to the configured one, and returns when JetStream is ready.
func Start(c Config) (*Server, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	s := &Server{config: c, syncers: make(map[string]*syncer)}
	var err error
	if c.URL != "" {
		err = s.connect()
	} else {
		err = s.embed()
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// embed starts the embedded server and connects to it in process.
func (s *Server) embed() error {
	dir := s.config.Dir
	if dir == "" {
		// JetStream wants a folder even if all of its streams live in memory.
		scratch, err := os.MkdirTemp("", "lazuli-nats-")
		if err != nil {
			return fmt.Errorf("natsd: %w", err)
		}
		s.scratch, dir = scratch, scratch
	} else if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("natsd: %w", err)
	}
	if s.config.Dir != "" && !s.config.Relaxed {
		s.streams = filepath.Join(dir, server.JetStreamStoreDir, server.DEFAULT_GLOBAL_ACCOUNT, "streams")
	}
	host, port, err := s.config.listenAddress()
	if err != nil {
		return err
	}
	if s.config.Listen != "" && port == 0 {
		port = server.RANDOM_PORT
	}
	e, err := server.NewServer(&server.Options{
		ServerName: "lazuli",
		JetStream:  true,
		StoreDir:   dir,
		Host:       host,
		Port:       port,
		DontListen: s.config.Listen == "",
		MaxPayload: MaxPayload,
		// Without a limit JetStream takes a share of the machine's memory and free disk, and refuses writes beyond.
		JetStreamMaxMemory: 1 << 40,
		JetStreamMaxStore:  1 << 60,
		// The default of ten seconds ends the connection of a process that gets no processor time for so long.
		WriteDeadline: time.Minute,
		NoSigs:        true,
	})
	if err != nil {
		return fmt.Errorf("natsd: %w", err)
	}
	e.SetLoggerV2(&logger{s.config.Log}, false, false, false)
	if s.config.Listen != "" { // the server itself only logs it, and ends the process
		l, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(max(port, 0))))
		if err != nil {
			return fmt.Errorf("natsd: the NATS address is taken: %w", err)
		}
		l.Close()
	}
	s.embedded = e
	go e.Start()
	if !e.ReadyForConnections(startTimeout) {
		return errors.New("natsd: the embedded NATS server did not get ready")
	}
	if !e.JetStreamEnabled() {
		return fmt.Errorf("natsd: JetStream did not start; is %s readable and writable?", dir)
	}
	s.conn, err = nats.Connect("", nats.InProcessServer(e), nats.Name("lazuli"), nats.MaxReconnects(-1),
		nats.Timeout(startTimeout), nats.ErrorHandler(s.onError))
	if err != nil {
		return fmt.Errorf("natsd: connecting in process: %w", err)
	}
	return nil
}

// connect connects to the configured server.
func (s *Server) connect() error {
	options := []nats.Option{
		nats.Name("lazuli"), nats.MaxReconnects(-1), nats.ReconnectWait(250 * time.Millisecond), nats.Timeout(dialTimeout),
		nats.ReconnectBufSize(-1), // while it is away, fail: who waits for the answer cannot wait for long
		nats.ErrorHandler(s.onError),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil {
				s.config.Log.Warn("lost the connection to NATS", "url", redact(s.config.URL), "err", err)
			}
		}),
	}
	if s.config.Credentials != "" {
		options = append(options, nats.UserCredentials(s.config.Credentials))
	}
	if s.config.CAFile != "" {
		options = append(options, nats.RootCAs(s.config.CAFile))
	}
	if s.config.CertFile != "" {
		options = append(options, nats.ClientCert(s.config.CertFile, s.config.KeyFile))
	}
	conn, err := nats.Connect(s.config.URL, options...)
	for began := time.Now(); isTimeout(err) && time.Since(began) < dialPatience; {
		conn, err = nats.Connect(s.config.URL, options...)
	}
	if err != nil {
		return fmt.Errorf("natsd: connecting to %s: %w", redact(s.config.URL), err)
	}
	s.conn = conn
	if conn.MaxPayload() < 128<<10 {
		return fmt.Errorf("natsd: %s takes messages of %d bytes at most: set max_payload to 256KB or more", redact(s.config.URL),
			conn.MaxPayload())
	}
	return nil
}

// isTimeout reports whether a server did not answer in time, rather than with a refusal.
func isTimeout(err error) bool {
	var e net.Error
	return errors.Is(err, nats.ErrTimeout) || errors.As(err, &e) && e.Timeout()
}

// redact writes a list of URLs for people: without passwords and tokens.
func redact(list string) string {
	parts := strings.Split(list, ",")
	for i, part := range parts {
		u, err := url.Parse(strings.TrimSpace(part))
		switch {
		case err != nil:
			parts[i] = "(not a URL)"
		case u.User != nil:
			u.User = url.User("redacted")
			parts[i] = u.String()
		}
	}
	return strings.Join(parts, ",")
}

func (s *Server) onError(_ *nats.Conn, _ *nats.Subscription, err error) {
	s.config.Log.Warn("NATS reports an error", "err", err)
}

// Conn is the connection that everything goes through.
func (s *Server) Conn() *nats.Conn { return s.conn }

// InMemory reports whether streams must use memory storage.
func (s *Server) InMemory() bool { return s.config.URL == "" && s.config.Dir == "" }

// Replicas is the number of replicas for each stream.
func (s *Server) Replicas() int { return s.config.Replicas }

// Shared reports whether others may write to the streams as well: another process, or somebody at the open port.
func (s *Server) Shared() bool { return s.config.URL != "" || s.config.Listen != "" }

// External reports whether NATS is another process: it can be away, and answers can be lost.
func (s *Server) External() bool { return s.config.URL != "" }

// ClientURL is where the embedded server can be reached from outside; "" if it opened no port.
func (s *Server) ClientURL() string {
	if s.embedded == nil || s.config.Listen == "" {
		return ""
	}
	return s.embedded.ClientURL()
}

// Healthy returns nil while NATS can be used.
func (s *Server) Healthy() error {
	if !s.conn.IsConnected() {
		return fmt.Errorf("natsd: %s", s.conn.Status())
	}
	return nil
}

// Close disconnects and stops the embedded server. It waits until its files are closed; a second call does nothing.
func (s *Server) Close() {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return
	}
	s.closed = true
	syncers := s.syncers
	s.syncers = nil
	s.mu.Unlock()
	if s.conn != nil {
		s.conn.Close()
	}
	if s.embedded != nil {
		s.embedded.Shutdown()
		s.embedded.WaitForShutdown()
	}
	for _, y := range syncers {
		y.close()
	}
	if s.scratch != "" {
		os.RemoveAll(s.scratch)
	}
}
