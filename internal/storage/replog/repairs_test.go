package replog

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"

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
	m := a.message(kindRecord, record, nil, false)
	m.Header.Set(headerSequence, "2")
	a.republished(m)
	if err := a.Err(); !errors.Is(err, ErrDiverged) {
		t.Errorf("the node has seen another message 2: %v, want ErrDiverged", err)
	}
	if got := a.all(); len(got) != 1 {
		t.Errorf("applied %q", got)
	}
}
