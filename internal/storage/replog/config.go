package replog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/lazuli-storage/lazuli/internal/lazyregexp"
	"github.com/lazuli-storage/lazuli/internal/schedule"
)

// Config configures a Log.
type Config struct {
	// Conn is the connection to NATS. JetStream must be at least version 2.11 there. The log does not close it.
	Conn *nats.Conn
	// Name identifies the log in the cluster: lower-case letters, digits, hyphens.
	Name string
	// Replicas is the number of servers that keep the log; 0 means 1.
	Replicas int
	// Placement are the tags that a server must have to keep the log; nil allows all servers.
	Placement []string
	// Store stores a message in the stream, durably, and returns its sequence. It is for a server in this process that
	// no other node uses: the stream does not republish its messages. headers are as on the wire. Nil publishes messages.
	Store func(stream, subject string, headers, message []byte) (uint64, error)
	// InMemory keeps the stream in memory.
	InMemory bool
	// Node is the name of this node, for status and logs.
	Node string
	// Timeout is the time after which Append and Barrier give up without an answer of a majority; 0 means ten seconds.
	Timeout time.Duration
	// Majority reports whether this node is connected to a majority of the servers. While it is not, calls fail at once
	// instead of after Timeout. Nil means unknown.
	Majority func() bool
	// End returns the sequence of the last message of a stream, or of a later one: it includes every message that had been
	// acknowledged before the call. term is that of the leader, 0 if there are no terms. Nil, or an error, makes Barrier
	// write a mark.
	End func(ctx context.Context, stream string) (seq, term uint64, err error)
	// Term returns a number that changes when the stream has another leader, or when it could have got one without this
	// node; it never is 0. member is false if the server of this node does not know: then End says it. Nil means that the
	// stream cannot lose its end without this node: see verify.go.
	Term func(stream string) (term uint64, member bool)
	// Heads asks the leader of a stream for its messages of a range. Nil reads the messages.
	Heads func(ctx context.Context, stream string, from, to uint64) (Heads, error)
	// Copied returns what this node's own copy of a stream has; known is false if there is no such copy. It must be cheap:
	// it is called twice a second. Nil makes the log ask other servers as often.
	Copied func(stream string) (copied Copied, known bool)
	// Settle is called after the stream was opened, and before each record is applied, for a server that makes something
	// durable only then. After an error the record is applied later, when Settle succeeds. Nil does nothing.
	Settle func(stream string) error
	// Sync makes durable what the server has stored in a stream, for a server that acknowledges before it syncs; nil does
	// nothing. See [Log.Sync].
	Sync func(stream string) error
	// Cut returns a sequence up to which the stream can be purged if messages from one on must stay, for a server that can
	// be purged at some of them only; 0 for none. See [Log.Trim]. Nil means all.
	Cut func(stream string, stay uint64) (uint64, error)
	// Failed returns why the stream cannot be written at the moment, nil if it can: calls fail at once with
	// [ErrUnavailable] and the reason. Suspect is called after a publish without success, and finds out. Nil means
	// unknown.
	Failed  func() error
	Suspect func(stream string) error
	// Leads reports whether this node is the one that does what one node is enough for; see [Log.Leads]. Nil means always.
	Leads func(stream string) bool
	// Ahead reports whether records may name a predecessor whose place in the stream is not known yet: all nodes have to
	// understand that; see [Log.Extends]. Nil means that they do not.
	Ahead func() bool
	// Log receives changes of availability; nil means slog.Default().
	Log *slog.Logger

	seeded bool // Open creates a seeded log

	// For simulations; see schedule.go.
	schedule schedule.Schedule
	servers  servers
	chunk    int // largest payload of a message; 0 is what the server accepts
}

// Copied describes a node's own copy of a stream, which may lag behind the stream.
type Copied struct {
	// Last is the sequence of its last message, 0 if it never had one.
	Last uint64
	// Bytes is its size.
	Bytes int64
}

var nameRule = lazyregexp.New(`^[a-z0-9-]{1,64}$`)

func (c *Config) validate() error {
	switch {
	case c.Conn == nil && c.servers == nil:
		return errors.New("replog: Conn is missing")
	case !nameRule().MatchString(c.Name):
		return fmt.Errorf("replog: Name is %q: want lower-case letters, digits and hyphens", c.Name)
	case c.Replicas < 0 || c.Replicas > 5:
		return fmt.Errorf("replog: Replicas is %d: want 1 to 5", c.Replicas)
	}
	c.Replicas = max(c.Replicas, 1)
	if c.Timeout == 0 {
		c.Timeout = 10 * time.Second
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	c.Log = c.Log.With("log", c.Name)
	return nil
}
