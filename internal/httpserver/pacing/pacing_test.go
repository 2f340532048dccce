package pacing

import (
	"bytes"
	"io"
	"net/http/httptest"
	"testing"
	"time"
)

// conn counts how often its deadlines are set and removed.
type conn struct{ reads, removed, writes int }

func (c *conn) SetReadDeadline(t time.Time) error {
	if t.IsZero() {
		c.removed++
	} else {
		c.reads++
	}
	return nil
}

func (c *conn) SetWriteDeadline(time.Time) error { c.writes++; return nil }

func TestBodyHasADeadlineForEachUnit(t *testing.T) {
	t.Parallel()
	const units = 5
	var c conn
	b := NewBody(io.NopCloser(bytes.NewReader(make([]byte, units*receiveUnit))), &c, time.Minute)
	p := make([]byte, receiveUnit/4)
	for {
		if _, err := b.Read(p); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	b.Finish()
	if want := units + 1; c.reads != want { // the last one is for the end
		t.Errorf("%d deadlines, want %d", c.reads, want)
	}
	if c.removed != 1 {
		t.Errorf("the deadline was removed %d times at the end, want once", c.removed)
	}
}

func TestFinishGivesAnUnreadBodyADeadline(t *testing.T) {
	t.Parallel()
	var c conn
	NewBody(io.NopCloser(bytes.NewReader(nil)), &c, time.Minute).Finish()
	if c.reads != 1 {
		t.Errorf("%d deadlines, want 1", c.reads)
	}
}

func TestWriterHasADeadlineForEachPart(t *testing.T) {
	t.Parallel()
	var c conn
	w := NewWriter(&c, time.Minute)
	for range 4 {
		w.Sending(sendUnit / 8)
	}
	if c.writes != 1 {
		t.Errorf("%d deadlines for half a unit, want 1", c.writes)
	}
	c.writes = 0
	out := httptest.NewRecorder()
	n, err := w.Copy(out, bytes.NewReader(make([]byte, 2*sendUnit+1)))
	if err != nil || n != 2*sendUnit+1 || int64(out.Body.Len()) != n {
		t.Errorf("copied %d bytes to %d, %v", n, out.Body.Len(), err)
	}
	if c.writes != 3 {
		t.Errorf("%d deadlines for three parts, want 3", c.writes)
	}
	var none Writer
	none.Next() // without a connection
}
