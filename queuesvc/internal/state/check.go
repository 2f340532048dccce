package state

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lazuli-storage/lazuli/internal/storage/natsserver"
)

// maxRecord is the largest body that a record may have, in bytes.
const maxRecord = 64 << 10

// Counts is what [Check] has seen.
type Counts struct {
	Queues, Messages int
	// Bytes is the size of all messages' bodies.
	Bytes int64
}

// Check reads everything that queues keep and reports whatever contradicts itself. It changes nothing. It may run
// beside a [Store] that nobody changes. Its error is that it could not read on.
//
//   - every record of the catalog can be read, and names its queue's stream, which exists and is configured as ours are
//   - every stream of ours belongs to a queue
//   - every record in a queue's stream can be read, its subject is a message's, its body is within its limit, and its
//     times are in order
//   - JetStream can read all records that it counts: it verifies their checksums
func Check(ctx context.Context, n *natsserver.Server, report func(error)) (Counts, error) {
	c := &checker{ctx: ctx, nats: n, report: report, expected: make(map[string]bool)}
	var err error
	if c.js, err = jetstream.New(n.Conn()); err != nil {
		return c.counts, fmt.Errorf("queues: %w", err)
	}
	if err := c.catalog(); err != nil {
		return c.counts, err
	}
	return c.counts, c.streams()
}

type checker struct {
	ctx      context.Context
	nats     *natsserver.Server
	js       jetstream.JetStream
	report   func(error)
	expected map[string]bool // the streams of all queues
	counts   Counts
}

func (c *checker) problem(format string, args ...any) { c.report(fmt.Errorf(format, args...)) }

// catalog checks the catalog and the queues that it names.
func (c *checker) catalog() error {
	_, err := c.js.Stream(c.ctx, catalogStream)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil // no queue service has ever run here
	}
	if err != nil {
		return fmt.Errorf("queue catalog: %w", err)
	}
	return c.each(catalogStream, func(m *nats.Msg, seq uint64) {
		account, rest, _ := strings.Cut(strings.TrimPrefix(m.Subject, catalogPrefix), ".")
		if rest == "properties" {
			return
		}
		queue, ok := strings.CutPrefix(rest, "queue.")
		if !ok {
			c.problem("queue catalog: record %d has the unknown subject %s", seq, m.Subject)
			return
		}
		entry, err := parseEntry(m.Data)
		if err != nil {
			c.problem("queue catalog: %s of account %s: %w", queue, account, err)
			return
		}
		if entry == nil {
			return // deleted
		}
		c.counts.Queues++
		name := streamName(account, queue, entry.Incarnation)
		c.expected[name] = true
		if !entry.NoStream {
			c.queue(account, queue, entry.Incarnation)
		}
	})
}

// queue checks a queue's stream.
func (c *checker) queue(account, queue, incarnation string) {
	name := streamName(account, queue, incarnation)
	stream, err := c.js.Stream(c.ctx, name)
	if err != nil {
		c.problem("queue %s of account %s: its stream %s: %w", queue, account, name, err)
		return
	}
	config := stream.CachedInfo().Config
	prefix := subjectPrefix(account, queue, incarnation)
	if config.MaxMsgsPerSubject != 1 || len(config.Subjects) != 1 || config.Subjects[0] != prefix+"*" {
		c.problem("queue %s of account %s: stream %s is not configured as a queue's", queue, account, name)
	}
	err = c.each(name, func(m *nats.Msg, seq uint64) {
		if err := c.record(m, prefix); err != nil {
			c.problem("queue %s of account %s: record %d: %w", queue, account, seq, err)
		}
	})
	if err != nil {
		c.problem("queue %s of account %s: %w", queue, account, err)
	}
}

// record checks one record of a queue.
func (c *checker) record(m *nats.Msg, prefix string) error {
	r, err := decodeRecord(m.Header.Get(headerRecord))
	if err != nil {
		return err
	}
	token, ok := strings.CutPrefix(m.Subject, prefix)
	if !ok {
		return fmt.Errorf("subject %s is another queue's", m.Subject)
	}
	if r.kind == recordCleared {
		return nil
	}
	if _, ok := parseSlot(token); !ok {
		return fmt.Errorf("subject %s is no message's", m.Subject)
	}
	if r.kind == recordTombstone {
		if len(m.Data) > 0 {
			return errors.New("a deleted message has a body")
		}
		return nil
	}
	c.counts.Messages++
	c.counts.Bytes += int64(len(m.Data))
	s := r.state
	switch {
	case len(m.Data) > maxRecord:
		return fmt.Errorf("the body has %d bytes", len(m.Data))
	case s.NextVisible < s.Inserted:
		return errors.New("the message is visible before it was put")
	case s.Expires != Never && s.Expires <= s.Inserted:
		return errors.New("the message expires before it was put")
	}
	return nil
}

// streams looks for streams that belong to no queue. A start of the service removes them.
func (c *checker) streams() error {
	lister := c.js.ListStreams(c.ctx, jetstream.WithStreamListSubject("lazuli.queue.>"))
	for info := range lister.Info() {
		if name := info.Config.Name; strings.HasPrefix(name, streamPrefix) && !c.expected[name] {
			c.problem("stream %s belongs to no queue", name)
		}
	}
	if err := lister.Err(); err != nil {
		return fmt.Errorf("queues: listing streams: %w", err)
	}
	return nil
}

// each calls fn for every record of a stream, in order.
func (c *checker) each(name string, fn func(m *nats.Msg, seq uint64)) error {
	stream, err := c.js.Stream(c.ctx, name)
	if err != nil {
		return fmt.Errorf("stream %s: %w", name, err)
	}
	var subject string
	if subjects := stream.CachedInfo().Config.Subjects; len(subjects) > 0 {
		subject = subjects[0]
	}
	f, err := follow(c.ctx, c.nats.Conn(), stream, subject, false, fn)
	if err != nil {
		return fmt.Errorf("stream %s: %w", name, err)
	}
	defer f.stop()
	if err := f.wait(c.ctx); err != nil {
		return fmt.Errorf("stream %s: %w", name, err)
	}
	return nil
}
