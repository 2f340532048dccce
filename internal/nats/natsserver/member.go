package natsserver

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// Member makes an embedded server a node of a cluster. Package cluster implements it.
type Member interface {
	// Form starts the server, with StartIn and ConnectInProcess, and returns when it is part of a majority.
	Form(ctx context.Context) error
	// Configure sets the options of a server that is about to start.
	Configure(*server.Options) error
	// Logger gets what the server logs.
	Logger() server.Logger
	// User returns the credentials of this process's own connections.
	User() (name, password string)
	// Name is the name of the node.
	Name() string
	// NoMajority returns an [ErrNoMajority] with the nodes that are missing, nil if there is a majority.
	NoMajority() error
	// Ready returns why the node is not ready.
	Ready() error
	// Index returns what confirms the ends of streams. Errors: [ErrNoReadIndex] before the node has joined.
	Index() (*ReadIndex, error)
	// Close ends what Form has begun, but for the server.
	Close()
}

// ErrNoMajority means that this node is not connected to a majority of the cluster: nothing can be changed, and nothing
// is known to be current.
var ErrNoMajority = errors.New("this node has no majority of the cluster")

// ClusterNode returns the name of this node, "" if the server is not a node of a cluster.
func (s *Server) ClusterNode() string {
	if s.member == nil {
		return ""
	}
	return s.member.Name()
}

// Majority reports whether this node of a cluster is connected to a majority.
func (s *Server) Majority() bool { return s.member != nil && s.member.NoMajority() == nil }

// Config returns the configuration, with defaults set.
func (s *Server) Config() Config { return s.config }

// StopEmbedded stops the embedded server and waits until its files are closed.
func (s *Server) StopEmbedded() {
	s.mu.Lock()
	e := s.embedded
	s.embedded = nil
	s.mu.Unlock()
	e.Shutdown()
	e.WaitForShutdown()
}

// InProcess connects to the embedded server that currently runs.
func (s *Server) InProcess() nats.InProcessConnProvider { return inProcess{s} }

// AnswerJSON answers a node with a value as JSON. If it cannot, the node that asks does not get an answer, as from one
// that is stopped.
func AnswerJSON(m *nats.Msg, value any) {
	if text, err := json.Marshal(value); err == nil {
		_ = m.Respond(text)
	}
}

// AskJSON asks a node for a value of type T. question is nil, or sent as JSON.
func AskJSON[T any](ctx context.Context, conn *nats.Conn, subject string, question any) (value T, err error) {
	var data []byte
	if question != nil {
		if data, err = json.Marshal(question); err != nil {
			return value, err
		}
	}
	m, err := conn.RequestWithContext(ctx, subject, data)
	if err != nil {
		return value, err
	}
	if err := json.Unmarshal(m.Data, &value); err != nil {
		return value, fmt.Errorf("natsserver: bad answer of a node: %w", err)
	}
	return value, nil
}

// PeerID returns the ID by which JetStream knows a server: a hash of its name.
func PeerID(serverName string) string {
	const digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	sum := sha256.Sum256([]byte(serverName))
	id := sum[:8]
	for i, b := range id {
		id[i] = digits[int(b)%len(digits)]
	}
	return string(id)
}
