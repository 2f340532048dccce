package state

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lazuli-storage/lazuli/internal/storage/natsserver"
)

// maxRecord is the maximum size of a record's body, in bytes.
const maxRecord = 64 << 10

// Counts are totals of what [Check] has read.
type Counts struct {
	Queues, Messages int
	// Bytes is the size of all messages' bodies.
	Bytes int64
}

// Check reads all data of queues and reports each inconsistency. It changes nothing. It may run together with a [Store] that makes no changes.
// It returns an error if it could not continue reading.
//
//   - every record of the catalog can be read, and names its queue's stream, which exists and has the right configuration
//   - every stream of Lazuli belongs to a queue
//   - every record in a queue's stream can be read, its subject is a message's, its body is within the limit, and its times are in order
//   - every record matches its checksum, and JetStream can read all records that it counts: it verifies its own checksums
//   - no loss of records is recorded that was not accepted
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

// catalog checks the catalog and the queues in it.
func (c *checker) catalog() error {
	_, err := c.js.Stream(c.ctx, catalogStream)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil // the queue service was never used
	}
	if err != nil {
		return fmt.Errorf("queue catalog: %w", err)
	}
	for _, d := range c.nats.Lost(catalogStream) {
		c.problem("queue catalog: %w: %v", ErrDamaged, d)
	}
	queues := make(map[string]catalogRecord) // by subject; the last record of a subject counts
	damaged := make(map[string]error)        // by subject, where the last record cannot be read
	floor := uint64(0)
	err = c.each(catalogStream, func(m *nats.Msg, seq uint64) {
		delete(damaged, m.Subject)
		if want := m.Header.Get(headerSum); want != "" && want != sumText(m.Subject, string(m.Data)) {
			damaged[m.Subject] = fmt.Errorf("record %d (%s): %w", seq, m.Subject, errDamaged)
			return
		}
		account, rest, _ := strings.Cut(strings.TrimPrefix(m.Subject, catalogPrefix), ".")
		queue, ok := strings.CutPrefix(rest, "queue.")
		switch {
		case rest == "properties", m.Subject == receiptKeySubject:
			return
		case m.Subject == catalogFloorSubject:
			var f floorRecord
			if err := json.Unmarshal(m.Data, &f); err != nil {
				c.problem("queue catalog: its floor: %w", err)
			}
			floor = max(floor, f.Floor)
			return
		case !ok:
			c.problem("queue catalog: record %d has the unknown subject %s", seq, m.Subject)
			return
		}
		entry, err := parseEntry(m.Data)
		if err != nil {
			damaged[m.Subject] = fmt.Errorf("%s of account %s: %w", queue, account, err)
		}
		queues[m.Subject] = catalogRecord{seq, entry, err != nil}
	})
	if err != nil {
		return err
	}
	for _, err := range damaged {
		c.problem("queue catalog: %w", err)
	}
	for subject, r := range queues {
		if r.entry == nil || r.seq < floor {
			continue
		}
		account, rest, _ := strings.Cut(strings.TrimPrefix(subject, catalogPrefix), ".")
		queue := strings.TrimPrefix(rest, "queue.")
		c.counts.Queues++
		c.expected[streamName(account, queue, r.entry.Incarnation)] = true
		if !r.entry.NoStream {
			c.queue(account, queue, r.entry)
		}
	}
	return nil
}

// queue checks a queue's stream.
func (c *checker) queue(account, queue string, entry *catalogEntry) {
	name := streamName(account, queue, entry.Incarnation)
	stream, err := c.js.Stream(c.ctx, name)
	if err != nil {
		c.problem("queue %s of account %s: its stream %s: %w", queue, account, name, err)
		return
	}
	for _, d := range c.nats.Lost(name) {
		c.problem("queue %s of account %s: %w: %v", queue, account, ErrDamaged, d)
	}
	info := stream.CachedInfo()
	prefix := subjectPrefix(account, queue, entry.Incarnation)
	if per := info.Config.MaxMsgsPerSubject; per > 1 || len(info.Config.Subjects) != 1 || info.Config.Subjects[0] != prefix+"*" {
		c.problem("queue %s of account %s: stream %s is not configured as a queue's", queue, account, name)
	}
	if info.State.LastSeq+1 < entry.Floor {
		c.problem("queue %s of account %s: stream %s ends at record %d, and the catalog knows of %d", queue, account, name, info.State.LastSeq, entry.Floor)
	}
	floor := entry.Floor
	messages := make(map[string]int) // sizes of the bodies of existing messages, by slot
	damaged := make(map[string]error)
	err = c.each(name, func(m *nats.Msg, seq uint64) {
		delete(damaged, m.Subject)
		r, err := c.record(m, prefix)
		switch {
		case err != nil && seq < floor:
		case err != nil:
			damaged[m.Subject] = fmt.Errorf("record %d (%s): %w", seq, m.Subject, err)
		case r.kind == recordCleared:
			clear(messages)
			clear(damaged)
		case r.kind == recordMessage && seq >= floor:
			messages[m.Subject] = len(m.Data)
		default:
			delete(messages, m.Subject)
		}
	})
	for _, err := range damaged {
		c.problem("queue %s of account %s: %w", queue, account, err)
	}
	c.counts.Messages += len(messages)
	for _, size := range messages {
		c.counts.Bytes += int64(size)
	}
	if err != nil {
		c.problem("queue %s of account %s: %w", queue, account, err)
	}
}

// record checks one record of a queue.
func (c *checker) record(m *nats.Msg, prefix string) (record, error) {
	token, ok := strings.CutPrefix(m.Subject, prefix)
	if !ok {
		return record{}, fmt.Errorf("subject %s belongs to another queue", m.Subject)
	}
	r, err := decodeHeader(token, m.Header)
	if err != nil {
		return r, err
	}
	if err := r.checkBody(m.Data); err != nil {
		return r, err
	}
	if r.kind == recordCleared {
		return r, nil
	}
	if _, ok := parseSlot(token); !ok {
		return r, fmt.Errorf("subject %s does not belong to a message", m.Subject)
	}
	if r.kind == recordTombstone {
		if len(m.Data) > 0 {
			return r, errors.New("a deleted message has a body")
		}
		return r, nil
	}
	s := r.state
	switch {
	case len(m.Data) > maxRecord:
		return r, fmt.Errorf("the body has %d bytes", len(m.Data))
	case s.NextVisible < s.Inserted:
		return r, errors.New("the message is visible before it was put")
	case s.Expires != Never && s.Expires <= s.Inserted:
		return r, errors.New("the message expires before it was put")
	}
	return r, nil
}

// streams reports streams that belong to no queue. The service removes them at its start if the catalog proves that they belong to none.
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
	for from := uint64(0); ; {
		f, err := follow(c.ctx, reading{conn: c.nats.Conn(), stream: stream, subject: subject, from: from, take: fn, log: slog.New(slog.DiscardHandler)})
		if err != nil {
			return fmt.Errorf("stream %s: %w", name, err)
		}
		err = f.wait(c.ctx)
		f.stop()
		var stuck stuckAt
		switch {
		case errors.As(err, &stuck):
			c.problem("stream %s: %w", name, err)
			from = stuck.seq + 1
		case err != nil:
			return fmt.Errorf("stream %s: %w", name, err)
		default:
			return nil
		}
	}
}
