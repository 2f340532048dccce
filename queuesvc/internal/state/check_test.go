package state

import (
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/lazuli-storage/lazuli/internal/storage/natsserver"
)

func problems(t *testing.T, n *natsserver.Server) (Counts, []string) {
	t.Helper()
	var list []string
	c, err := Check(ctx, n, func(err error) { list = append(list, err.Error()) })
	if err != nil {
		t.Fatal(err)
	}
	return c, list
}

func TestCheck(t *testing.T) {
	t.Parallel()
	n := startNATS(t, natsserver.Config{})
	if c, list := problems(t, n); c != (Counts{}) || list != nil {
		t.Errorf("where nothing is: %+v, %v", c, list)
	}
	s := open(t, n)
	q := create(t, s, "orders")
	for range 5 {
		putOne(t, q, "12345", epoch)
	}
	m := getOne(t, q, epoch)
	if err := q.Delete(ctx, m.ID, m.Receipt, epoch); err != nil {
		t.Fatal(err)
	}
	if err := create(t, s, "empty").needStream(ctx); err != nil {
		t.Fatal(err)
	}
	cleared := create(t, s, "cleared")
	putOne(t, cleared, "x", epoch)
	if err := cleared.Clear(ctx); err != nil {
		t.Fatal(err)
	}
	create(t, s, "gone")
	if err := s.Delete(ctx, "acct", "gone"); err != nil {
		t.Fatal(err)
	}
	if err := s.SetProperties(ctx, "acct", []byte("{}")); err != nil {
		t.Fatal(err)
	}
	if c, list := problems(t, n); c != (Counts{Queues: 3, Messages: 4, Bytes: 20}) || list != nil {
		t.Errorf("in order: %+v, %v", c, list)
	}

	// One defect of each kind.
	publish := func(subject, header string, data []byte) {
		t.Helper()
		m := nats.NewMsg(subject)
		m.Data = data
		if header != "" {
			m.Header.Set(headerRecord, header)
		}
		p := s.client.send("", m)
		if _, err := p.sequence(ctx); err != nil {
			t.Fatal(err)
		}
	}
	publish(q.prefix+"NONSENSE", "1 f 1 0 1 0 w", nil)
	publish(q.subject(1), "9 f 1 0 1 0 w", nil)
	publish(q.subject(2), "1 deleted w", []byte("x"))
	publish(q.subject(3), "1 f 5 0 1 0 w", nil)
	publish(q.subject(4), "1 f 5 5 5 0 w", nil)
	publish(q.subject(5), "1 f 5 0 5 0 w", make([]byte, maxRecord+1))
	publish(catalogSubject("acct", "broken"), "", []byte("{"))
	publish(catalogPrefix+"acct.strange", "", nil)
	orphan := s.streamConfig("acct", "lost", "0123456789")
	if _, err := s.js.CreateStream(ctx, orphan); err != nil {
		t.Fatal(err)
	}
	if err := s.js.DeleteStream(ctx, find(t, s, "empty").stream); err != nil {
		t.Fatal(err)
	}
	other := s.streamConfig("acct", "cleared", "x")
	other.Name, other.Subjects, other.MaxMsgsPerSubject = cleared.stream, []string{cleared.prefix + "*"}, 2
	if _, err := s.js.UpdateStream(ctx, other); err != nil {
		t.Fatal(err)
	}
	_, list := problems(t, n)
	for _, want := range []string{"does not belong to a message", "known version", "deleted message has a body", "visible before it was put",
		"expires before it was put", "bytes", "unexpected end of JSON", "unknown subject", "belongs to no queue",
		"stream not found", "not configured"} {
		found := false
		for _, p := range list {
			found = found || strings.Contains(p, want)
		}
		if !found {
			t.Errorf("no problem with %q in %v", want, list)
		}
	}
	if len(list) != 11 {
		t.Errorf("%d problems, want 11: %s", len(list), strings.Join(list, "\n"))
	}
}
