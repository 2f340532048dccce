package replog

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// The simulation found what these tests hold.

// A node that had no room for a record until the log was cut behind it learns that it needs a snapshot.
func TestLogIsCutWhileANodeHasNoRoom(t *testing.T) {
	t.Parallel()
	conn := single(t)
	a := openLog(t, conn, 1, Position{})
	l, err := Open(t.Context(), Config{Conn: conn, Name: "test", Log: slog.New(slog.DiscardHandler)})
	check.OK(t, err)
	t.Cleanup(l.Close)
	check.OK(t, l.Follow(Position{}, func([]byte, Position) error { return fmt.Errorf("%w: full", ErrLater) }))
	a.add(t, "no room for this")
	check.Eventually(t, func() bool { return errors.Is(l.Barrier(), ErrDisk) }, "the node says that it has no room")
	for i := range 3 {
		a.add(t, fmt.Sprint(i))
	}
	if l.Err() != nil {
		t.Errorf("the log has all messages, and the node stops: %v", l.Err())
	}
	check.OK(t, a.Purge(t.Context(), a.last()))
	check.Eventually(t, func() bool { return errors.Is(l.Err(), ErrPurged) }, "the node learns that it needs a snapshot")
}

// A snapshot that took longer than a newer one takes its place no more: the log is cut for that, and its own pieces are
// gone.
func TestOlderSnapshotDoesNotReplaceANewerOne(t *testing.T) {
	t.Parallel()
	conn := single(t)
	slow, quick := openLog(t, conn, 1, Position{}), openLog(t, conn, 1, Position{})
	write := func(a *applied, during func()) {
		p, text := a.Position(), strings.Join(a.all(), " ")
		check.OK(t, a.WriteSnapshot(t.Context(), p, func(w io.Writer) error {
			during()
			_, err := io.WriteString(w, text)
			return err
		}))
	}
	slow.add(t, "a")
	write(slow, func() {
		for _, text := range []string{"b", "c"} {
			quick.barrier(t)
			quick.add(t, text)
			write(quick, func() {})
		}
	})
	check.OK(t, quick.ReadSnapshot(t.Context(), func(p Position, r io.Reader) error {
		text, err := io.ReadAll(r)
		if string(text) != "a b c" || p != quick.Position() {
			t.Errorf("the snapshot has %q at %v, want \"a b c\" at %v", text, p, quick.Position())
		}
		return err
	}))
}

// A node that has processed marks which the stream has lost passes over none of the records that have their sequences
// now.
func TestNodeWithLostMarksStops(t *testing.T) {
	t.Parallel()
	conn := single(t)
	a := openLog(t, conn, 1, Position{})
	a.add(t, "a")
	a.barrier(t) // writes a mark, message 2
	last := a.last()
	record := encode(header{kind: kindRecord, writer: 1, counter: 1, prev: last.Last, chain: last.Chain}, []byte("b"))
	m := a.message(kindRecord, record, nil)
	m.Header.Set(headerSequence, "2")
	a.republished(m)
	if err := a.Err(); !errors.Is(err, ErrDiverged) {
		t.Errorf("the node has seen another message 2: %v, want ErrDiverged", err)
	}
	if got := a.all(); len(got) != 1 {
		t.Errorf("applied %q", got)
	}
}

// A stream that loses its end, and gets other messages with the same sequences, which a node does not receive: the node
// must not acknowledge what only it has, nor serve it, and neither may its folder or its snapshot be used.
func TestLostEndIsFoundAtTheNextTerm(t *testing.T) {
	t.Parallel()
	conn := single(t)
	var term atomic.Uint64
	term.Store(1)
	open := func(from Position) *applied {
		return openWith(t, Config{Conn: conn, Replicas: 1, Timeout: time.Second,
			Term: func(string) (uint64, bool) { return term.Load(), true }}, from)
	}
	a := open(Position{})
	a.add(t, "first")
	kept := a.last()
	a.add(t, "second")
	a.add(t, "third")
	before := a.last()
	js := check.Must(jetstream.New(conn))(t)
	config := check.Must(js.Stream(t.Context(), a.stream))(t).CachedInfo().Config
	first := check.Must(js.Stream(t.Context(), a.stream))(t)
	message := check.Must(first.GetMsg(t.Context(), 1))(t)
	check.OK(t, js.DeleteStream(t.Context(), a.stream))
	republish := config.RePublish
	config.RePublish = nil // a does not hear of it
	check.Must(js.CreateStream(t.Context(), config))(t)
	check.Must(js.Publish(t.Context(), message.Subject, message.Data))(t)
	h := header{kind: kindRecord, writer: 7, counter: 1, prev: 1, chain: kept.Chain}
	for i := range 3 {
		data := encode(h, fmt.Appendf(nil, "other %d", i))
		ack := check.Must(js.Publish(t.Context(), a.subject(kindRecord), data))(t)
		h.counter, h.prev, h.chain = h.counter+1, ack.Sequence, sumOf(data)
	}
	config.RePublish = republish
	check.Must(js.UpdateStream(t.Context(), config))(t)
	term.Store(2)
	if err := a.Barrier(); !errors.Is(err, ErrDiverged) {
		t.Errorf("a read of what the stream has lost: %v, want ErrDiverged", err)
	}
	if err := a.Append(before.Last, []byte("alone"), nil); !errors.Is(err, ErrDiverged) {
		t.Errorf("an append after what the stream has lost: %v, want ErrDiverged", err)
	}
	b := open(kept)
	b.barrier(t)
	if got, want := b.all(), []string{"other 0", "other 1", "other 2"}; !slices.Equal(got, want) {
		t.Errorf("a node that had not processed what was lost applied %q, want %q", got, want)
	}
	if held, err := b.Holds(t.Context(), before); !errors.Is(err, ErrDiverged) {
		t.Errorf("the folder of the other one: %t, %v; want ErrDiverged", held, err)
	}
	// What the other one has appended without knowing of the loss has no effect, and stops none.
	alone := encode(header{kind: kindRecord, writer: 8, counter: 1, prev: 4, chain: 99}, []byte("alone"))
	check.Must(js.Publish(t.Context(), b.subject(kindRecord), alone))(t)
	b.add(t, "after")
	if got := b.all(); !slices.Equal(got, []string{"other 0", "other 1", "other 2", "after"}) {
		t.Errorf("after a record of another history applied %q", got)
	}
}
