package replog

import (
	"errors"
	"io"
	"slices"
	"testing"
)

// A seeded log begins with a snapshot: a node without state must read it, and appends after it.
func TestSeededLogBeginsWithASnapshot(t *testing.T) {
	t.Parallel()
	conn := single(t)
	c := Config{Conn: conn, Name: "seeded", Node: "n1"}
	write := func(w io.Writer) error { _, err := io.WriteString(w, "the state"); return err }
	if err := Seed(t.Context(), c, write); err != nil {
		t.Fatal(err)
	}
	if err := Seed(t.Context(), c, write); !errors.Is(err, ErrExists) {
		t.Errorf("a second seed: %v", err)
	}
	l, err := Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if held, err := l.Holds(t.Context(), Position{}); err != nil || held {
		t.Errorf("a node without state could follow the log: %v, %v", held, err)
	}
	var p Position
	var state []byte
	if err := l.ReadSnapshot(t.Context(), func(at Position, r io.Reader) (err error) {
		p = at
		state, err = io.ReadAll(r)
		return err
	}); err != nil || string(state) != "the state" {
		t.Fatalf("the snapshot is %q, %v", state, err)
	}
	if held, err := l.Holds(t.Context(), p); err != nil || !held {
		t.Errorf("the log does not go on after the snapshot: %v, %v", held, err)
	}
	a := &applied{Log: l, pos: p}
	if err := l.Follow(p, a.apply); err != nil {
		t.Fatal(err)
	}
	a.add(t, "one")
	a.add(t, "two")
	if got := a.all(); !slices.Equal(got, []string{"one", "two"}) {
		t.Errorf("applied %q", got)
	}
}

// A log that nodes have written to is not seeded.
func TestSeedRefusesALogWithRecords(t *testing.T) {
	t.Parallel()
	conn := single(t)
	openLog(t, conn, 1, Position{}).add(t, "one")
	err := Seed(t.Context(), Config{Conn: conn, Name: "test", Node: "n1"}, func(io.Writer) error { return nil })
	if !errors.Is(err, ErrExists) {
		t.Errorf("a seed of a log with records: %v", err)
	}
}
