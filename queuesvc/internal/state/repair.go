package state

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lazuli-storage/lazuli/internal/storage/natsserver"
)

// Repair makes the decisions that a start of the service leaves to the operator, on an embedded server that no other process uses. It reports
// each change:
//
//   - a queue with a stream whose record in the catalog is damaged or lost is added again, without its metadata and access policies; a queue
//     without a stream is deleted
//   - a message that cannot be read is removed from its queue; its record is kept in a file
//   - a queue that lost records is used again with the intact ones. A message whose last record was lost has an older state, or reappears
func Repair(ctx context.Context, n *natsserver.Server, report func(string)) error {
	r := &repair{nats: n, report: report}
	// The catalog is repaired first, because it determines which streams belong to queues. Losses of queues are accepted before the queues are
	// opened.
	for _, stream := range n.LostStreams() {
		for _, d := range n.Lost(stream) {
			r.say("the loss is accepted: %v; a copy of the damaged file is %s", d, d.Kept)
		}
		if stream != catalogStream {
			if err := n.Accept(stream); err != nil {
				return err
			}
		}
	}
	var err error
	if r.s, err = Open(ctx, n, slog.New(slog.DiscardHandler)); err != nil {
		return err
	}
	defer r.s.Close()
	if err := r.catalog(ctx); err != nil {
		return err
	}
	if err := n.Accept(catalogStream); err != nil {
		return err
	}
	for name := range r.s.catalog.streams() {
		if err := r.messages(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

type repair struct {
	nats   *natsserver.Server
	s      *Store
	report func(string)
}

func (r *repair) say(format string, args ...any) { r.report(fmt.Sprintf(format, args...)) }

// catalog adds the queues again whose record cannot be read.
func (r *repair) catalog(ctx context.Context) error {
	lister := r.s.js.ListStreams(ctx, jetstream.WithStreamListSubject("lazuli.queue.>"))
	found := make(map[string]string) // incarnations by account and queue
	for info := range lister.Info() {
		if account, queue, incarnation, ok := parseStreamName(info.Config.Name); ok && info.State.LastSeq > 0 {
			found[account+"/"+queue] = incarnation
		}
	}
	if err := lister.Err(); err != nil {
		return fmt.Errorf("queues: listing streams: %w", err)
	}
	for account, a := range r.s.catalog.accounts {
		for queue, record := range a.queues {
			if !record.damaged {
				continue
			}
			incarnation, ok := found[account+"/"+queue]
			var entry *catalogEntry
			if ok {
				entry = &catalogEntry{Incarnation: incarnation}
				r.say("queue %s of account %s is entered in the catalog again, without metadata and access policies", queue, account)
			} else {
				r.say("queue %s of account %s, whose record in the catalog cannot be read, has no stream and is deleted", queue, account)
			}
			if err := r.s.write(ctx, account, queue, record.seq, entry); err != nil {
				return err
			}
		}
	}
	return nil
}

// messages removes the messages that cannot be read from a queue.
func (r *repair) messages(ctx context.Context, name string) error {
	account, queue, incarnation, _ := parseStreamName(name)
	q, err := r.s.Queue(ctx, account, queue)
	if err != nil {
		return err
	}
	prefix := subjectPrefix(account, queue, incarnation)
	broken := make(map[string]raw) // by subject
	c := &checker{ctx: ctx, nats: r.nats, js: r.s.js, report: func(error) {}}
	err = c.each(name, func(m *nats.Msg, seq uint64) {
		delete(broken, m.Subject)
		if parsed, err := c.record(m, prefix); err != nil && seq >= q.floor {
			broken[m.Subject] = raw{seq, m.Header, bytes.Clone(m.Data)}
		} else if err == nil && parsed.kind == recordCleared {
			clear(broken)
		}
	})
	if err != nil {
		return err
	}
	for subject, m := range broken {
		token := strings.TrimPrefix(subject, prefix)
		path, err := r.nats.Keep(fmt.Sprintf("%s.%s.message", name, token), m.text())
		if err != nil {
			return err
		}
		at, ok := parseSlot(token)
		if !ok {
			r.say("queue %s of account %s: record %d is not a message's; a copy is %s", queue, account, m.seq, path)
			continue
		}
		seq, err := q.change(ctx, at, m.seq, record{kind: recordTombstone}, nil)
		if err == nil {
			err = q.sync(ctx, seq)
		}
		if err != nil {
			return fmt.Errorf("queue %s of account %s: removing a message: %w", queue, account, err)
		}
		r.say("queue %s of account %s: a message that cannot be read was taken out; its record is in %s", queue, account, path)
	}
	return nil
}

// text returns the record as text: its headers, an empty line and its body.
func (r *raw) text() []byte {
	var b bytes.Buffer
	for key, values := range r.header {
		fmt.Fprintf(&b, "%s: %s\n", key, strings.Join(values, " "))
	}
	b.WriteByte('\n')
	b.Write(r.body)
	return b.Bytes()
}
