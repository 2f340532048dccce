package queue

import (
	"strings"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/nats/natsserver"
	"github.com/lazuli-storage/lazuli/internal/test/workbudget"
)

func TestReceiptText(t *testing.T) {
	t.Parallel()
	q := create(t, memory(t), "orders")
	text := putOne(t, q, "x", epoch).Receipt.String()
	if len(text) != 28 {
		t.Errorf("the receipt %s has %d characters, want 28", text, len(text))
	}
	for _, bad := range []string{"", "invalid", text + "=", text[:27], "!" + text[1:], text[:27] + "!",
		strings.Repeat("=", 28)} {
		if r, ok := ParseReceipt(bad); ok {
			t.Errorf("%q is read as %v", bad, r)
		}
	}
}

// No receipt but those that were given out is accepted: every change of one bit makes it worthless, and so does another
// message or queue.
func TestReceiptsCannotBeMade(t *testing.T) {
	t.Parallel()
	s := memory(t)
	q := create(t, s, "orders")
	putOne(t, q, "x", epoch)
	m := getOne(t, q, epoch)
	for bit := range 8 * len(m.Receipt) {
		forged := m.Receipt
		forged[bit/8] ^= 1 << (bit % 8)
		wantErr(t, "a forged receipt", q.Delete(m.ID, forged, epoch), ErrReceiptMismatch)
	}
	for bit := range 8 * len(m.ID) {
		id := m.ID
		id[bit/8] ^= 1 << (bit % 8)
		wantErr(t, "the receipt of another message", q.Delete(id, m.Receipt, epoch), ErrMessageNotFound)
	}
	other := create(t, s, "others")
	putOne(t, other, "x", epoch)
	there := getOne(t, other, epoch)
	wantErr(t, "the receipt of a message of another queue", other.Delete(there.ID, m.Receipt, epoch), ErrReceiptMismatch)
	if err := q.Delete(m.ID, m.Receipt, epoch); err != nil {
		t.Error(err)
	}
}

// All front-ends on one NATS accept the same receipts, also after a start.
func TestReceiptsAreSharedAndKept(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	n := startNATS(t, natsserver.Config{Dir: dir, Listen: "127.0.0.1:0"})
	s := open(t, n)
	first, second := putOne(t, create(t, s, "orders"), "x", epoch), putOne(t, find(t, s, "orders"), "y", epoch)
	elsewhere := find(t, open(t, startNATS(t, natsserver.Config{URL: n.ClientURL()})), "orders")
	if err := elsewhere.Delete(first.ID, first.Receipt, epoch.Add(time.Second)); err != nil {
		t.Errorf("at another front-end: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	n.Close()
	again := find(t, open(t, startNATS(t, natsserver.Config{Dir: dir})), "orders")
	if err := again.Delete(second.ID, second.Receipt, epoch.Add(time.Second)); err != nil {
		t.Errorf("after a start: %v", err)
	}
}

func FuzzReceipt(f *testing.F) {
	f.Add(Receipt{1}.String())
	f.Add("AwAAAAMAAAAAAAAAPnfWi0do1QEAAAAA")
	f.Fuzz(func(t *testing.T, s string) {
		defer workbudget.Default.Start(t, len(s))()
		if r, ok := ParseReceipt(s); ok && r.String() != s {
			t.Errorf("%q is read as %v", s, r)
		}
	})
}
