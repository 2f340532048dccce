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

// Repair decides what a start of the service leaves to a person, on an embedded server that nobody else uses, and reports each thing that it
// does:
//
//   - a queue whose record in the catalog is damaged or lost, and that has a stream, is entered again, without its metadata and access
//     policies; one without a stream is deleted
//   - a message that cannot be read is taken out of its queue; its record is kept in a file
//   - a queue of which records were lost is used again with those that are intact. A message whose last record was lost has an older state,
//     or is there again
func Repair(ctx context.Context, n *natsserver.Server, report func(string)) error {
	r := &repair{nats: n, report: report}
	// First the catalog, since which streams are queues' is known from it; the losses of queues are accepted before they are opened.
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

// catalog enters the queues again whose record cannot be read.
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

// messages takes the messages out of a queue that cannot be read.
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
			return fmt.Errorf("queue %s of account %s: taking out a message: %w", queue, account, err)
		}
		r.say("queue %s of account %s: a message that cannot be read was taken out; its record is in %s", queue, account, path)
	}
	return nil
}

// text is the record for people: its headers, an empty line and its body.
func (r *raw) text() []byte {
	var b bytes.Buffer
	for key, values := range r.header {
		fmt.Fprintf(&b, "%s: %s\n", key, strings.Join(values, " "))
	}
	b.WriteByte('\n')
	b.Write(r.body)
	return b.Bytes()
}
