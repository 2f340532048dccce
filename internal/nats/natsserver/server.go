package natsserver

import (
	"context"
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

	"github.com/lazuli-storage/lazuli/internal/storage/disk"
)

// startTimeout is the time limit for the embedded server to read its streams, and for a connection to it.
const startTimeout = 5 * time.Minute

// readyPoll is the interval at which a start looks for a failure.
const readyPoll = 50 * time.Millisecond

// Each connection attempt to an existing server takes at most dialTimeout. At the start of the process, attempts are
// repeated for dialPatience: the handshake can take long on a busy machine.
const (
	dialTimeout  = 5 * time.Second
	dialPatience = time.Minute
)

// leastFiles is the minimum number of files that a process with an embedded server must be allowed to open.
const leastFiles = 256

// MaxPayload is the largest message of the embedded server, in bytes, headers included: a queue message of 64 KiB with
// its record, or the properties of a service.
const MaxPayload = 1 << 20

// NodeMaxPayload is the largest message of a node of a cluster, in bytes: content of blobs travels in records of 1 MiB.
const NodeMaxPayload = 2 << 20

// Server is the process's NATS. It is safe for concurrent use.
type Server struct {
	config  Config
	conn    *nats.Conn
	dir     string // the folder of the embedded server; "" in memory and with an external NATS
	streams string // the folder that holds the embedded server's streams; "" if dir is
	scratch string // removed by Close
	recover recovery
	member  Member // nil unless the server is a node of a cluster

	mu       sync.Mutex                    // guards the rest
	embedded *server.Server                // nil with an external NATS
	options  *server.Options               // of embedded, which changes them
	settled  map[string]time.Time          // by stream: the modification time of its folder that is durable
	stores   map[string]server.StreamStore // of embedded, by stream
	closed   bool
	// reported is the error of the client that was logged last.
	reported   string
	reportedAt time.Time
}

// Start is [StartContext] without a time limit.
func Start(c Config) (*Server, error) { return StartContext(context.Background(), c) }

// StartContext starts the embedded server, or connects to the configured one, and returns when JetStream is ready: on a
// node of a cluster when it is part of a majority. ctx bounds only the wait for other nodes.
func StartContext(ctx context.Context, c Config) (*Server, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	s := &Server{config: c, settled: make(map[string]time.Time), stores: make(map[string]server.StreamStore)}
	var err error
	switch {
	case c.URL != "":
		err = s.connect()
	case c.Member != nil:
		if s.member, err = c.Member(s); err == nil {
			err = s.member.Form(ctx)
		}
	default:
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
	var err error
	if dir == "" {
		// JetStream needs a folder even if all of its streams are in memory.
		scratch, err := os.MkdirTemp("", "lazuli-nats-")
		if err != nil {
			return fmt.Errorf("natsserver: %w", err)
		}
		s.scratch, dir = scratch, scratch
	} else if err := disk.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("natsserver: %w", err)
	}
	if s.config.Dir != "" {
		s.dir, s.streams = dir, filepath.Join(dir, server.JetStreamStoreDir, server.DEFAULT_GLOBAL_ACCOUNT, "streams")
		if files := disk.OpenFiles(); files < leastFiles {
			return fmt.Errorf("natsserver: the process may open only %d files, and needs %d: raise the limit (ulimit -n)", files,
				leastFiles)
		}
		if err := s.verify(); err != nil {
			return err
		}
	}
	if err = s.StartIn(dir); err != nil {
		return err
	}
	return s.ConnectInProcess()
}

// ConnectInProcess makes the connection that [Server.Conn] returns.
func (s *Server) ConnectInProcess() (err error) {
	s.conn, err = s.Connect("lazuli")
	return err
}

// syncQueue is the number of messages that may wait in a subscription that is read message by message. A log reads at
// most 512 messages at a time, and each log looks twice a second, for which NATS would make a queue of 64 Ki messages:
// with 32 logs that was half of the processor time of an idle server.
const syncQueue = 1024

// Connect opens another connection to the embedded server, which the caller closes.
func (s *Server) Connect(name string) (*nats.Conn, error) {
	options := []nats.Option{nats.InProcessServer(inProcess{s}), nats.Name(name), nats.MaxReconnects(-1),
		nats.ReconnectWait(10 * time.Millisecond), nats.ReconnectBufSize(-1), nats.Timeout(startTimeout),
		nats.IgnoreAuthErrorAbort(), nats.SyncQueueLen(syncQueue), nats.ErrorHandler(s.onError)}
	if s.member != nil {
		options = append(options, nats.UserInfo(s.member.User()))
	}
	conn, err := nats.Connect("", options...)
	if err != nil {
		return nil, fmt.Errorf("natsserver: connecting in process: %w", err)
	}
	return conn, nil
}

// Running returns the embedded server that runs now, nil if none does.
func (s *Server) Running() *server.Server {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.embedded
}

// inProcess connects to the embedded server that currently runs: [Server.restart] replaces it.
type inProcess struct{ s *Server }

func (p inProcess) InProcessConn() (net.Conn, error) {
	e := p.s.Running()
	if e == nil {
		return nil, errors.New("natsserver: the embedded server is not running")
	}
	return e.InProcessConn()
}

// StartIn starts an embedded server on a folder.
func (s *Server) StartIn(dir string) error {
	host, port, err := s.config.listenAddress()
	if err != nil {
		return err
	}
	if s.config.Listen != "" && port == 0 {
		port = server.RANDOM_PORT
	}
	var logger server.Logger = &Logger{s.config.Log}
	options := &server.Options{
		SyncAlways: s.config.Dir != "" && !s.config.Relaxed,
		ServerName: "lazuli",
		JetStream:  true,
		StoreDir:   dir,
		Host:       host,
		Port:       port,
		DontListen: s.config.Listen == "",
		MaxPayload: MaxPayload,
		// Without a limit JetStream takes a share of the machine's memory and free disk, and refuses writes beyond it.
		JetStreamMaxMemory: 1 << 40,
		JetStreamMaxStore:  1 << 60,
		// The default of ten seconds would end the connection of a process that gets no processor time for that long.
		WriteDeadline: time.Minute,
		NoSigs:        true,
	}
	if s.member != nil {
		if err := s.member.Configure(options); err != nil {
			return err
		}
		s.dir, logger = dir, s.member.Logger()
	}
	e, err := server.NewServer(options)
	if err != nil {
		return fmt.Errorf("natsserver: %w", err)
	}
	fatal := make(chan string, 1)
	e.SetLoggerV2(&startLogger{logger, fatal}, false, false, false)
	if s.config.Listen != "" { // the server itself would only log the error, and exit
		l, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(max(port, 0))))
		if err != nil {
			return fmt.Errorf("natsserver: the NATS address is in use: %w", err)
		}
		l.Close()
	}
	go e.Start()
	end := time.Now().Add(startTimeout)
	for err == nil && !e.ReadyForConnections(readyPoll) {
		select {
		case text := <-fatal: // the server does not start then, and would not say so
			err = fmt.Errorf("natsserver: the embedded NATS server did not start: %s", text)
		default:
			if time.Now().After(end) {
				err = errors.New("natsserver: the embedded NATS server did not become ready")
			}
		}
	}
	switch {
	case err != nil:
	case !e.JetStreamEnabled():
		err = fmt.Errorf("natsserver: JetStream did not start; is %s readable and writable?", dir)
	default:
		s.mu.Lock()
		defer s.mu.Unlock()
		s.embedded, s.options = e, options
		clear(s.settled)
		clear(s.stores)
		return nil
	}
	e.Shutdown()
	e.WaitForShutdown()
	return err
}

// connect connects to the configured server.
func (s *Server) connect() error {
	options := []nats.Option{
		nats.Name("lazuli"), nats.MaxReconnects(-1), nats.ReconnectWait(250 * time.Millisecond), nats.Timeout(dialTimeout),
		nats.ReconnectBufSize(-1),   // fail while disconnected: callers cannot wait for long
		nats.IgnoreAuthErrorAbort(), // a server that refuses the user twice may accept it later
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
		return fmt.Errorf("natsserver: connecting to %s: %w", redact(s.config.URL), err)
	}
	s.conn = conn
	if conn.MaxPayload() < 128<<10 {
		return fmt.Errorf("natsserver: %s accepts messages of at most %d bytes: set max_payload to 256KB or more",
			redact(s.config.URL),
			conn.MaxPayload())
	}
	if s.config.Prove {
		return s.prove()
	}
	return nil
}

// isTimeout reports whether a server did not answer in time, as opposed to a refusal.
func isTimeout(err error) bool {
	var e net.Error
	return errors.Is(err, nats.ErrTimeout) || errors.As(err, &e) && e.Timeout()
}

// redact returns a list of URLs for logs: without passwords and tokens.
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

// repeatAfter is the time after which the same error of the client is logged again: it may come with each attempt to
// connect.
const repeatAfter = time.Minute

func (s *Server) onError(_ *nats.Conn, _ *nats.Subscription, err error) {
	s.mu.Lock()
	repeated := err.Error() == s.reported && time.Since(s.reportedAt) < repeatAfter
	if !repeated {
		s.reported, s.reportedAt = err.Error(), time.Now()
	}
	s.mu.Unlock()
	if !repeated {
		s.config.Log.Warn("NATS reported an error", "err", err)
	}
}

// Conn returns the connection to the server.
func (s *Server) Conn() *nats.Conn { return s.conn }

// InMemory reports whether streams must use memory storage.
func (s *Server) InMemory() bool { return s.config.URL == "" && s.config.Dir == "" }

// Replicas is the number of replicas for each stream.
func (s *Server) Replicas() int { return s.config.Replicas }

// Shared reports whether others may write to the streams as well: another process, or a client at the open port.
func (s *Server) Shared() bool { return s.config.URL != "" || s.config.Listen != "" || s.member != nil }

// ClientURL returns the address of the embedded server for other processes; "" if it opened no port.
func (s *Server) ClientURL() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.embedded == nil || s.config.Listen == "" {
		return ""
	}
	return s.embedded.ClientURL()
}

// Healthy returns nil if NATS can be used and its disk can be written.
func (s *Server) Healthy() error {
	if err := s.Failed(); err != nil {
		return err
	}
	if !s.conn.IsConnected() {
		return fmt.Errorf("natsserver: %s", s.conn.Status())
	}
	if s.member != nil {
		return s.member.Ready()
	}
	return nil
}

// Close disconnects and stops the embedded server. It waits until the server's files are closed; a second call does
// nothing.
func (s *Server) Close() {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return
	}
	s.closed = true
	s.mu.Unlock()
	if s.member != nil {
		s.member.Close()
	}
	s.recover.stop()
	s.mu.Lock()
	e := s.embedded
	s.mu.Unlock()
	if s.conn != nil {
		s.conn.Close()
	}
	if e != nil {
		e.Shutdown()
		e.WaitForShutdown()
	}
	if s.scratch != "" {
		os.RemoveAll(s.scratch)
	}
}
