package state

import (
	"encoding/base64"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/storage/natsserver"
	"github.com/lazuli-storage/lazuli/internal/test/workbudget"
)

func TestReceiptText(t *testing.T) {
	t.Parallel()
	s := memory(t)
	q, other := create(t, s, "orders"), create(t, s, "others")
	id, number := makeID(1, 2), Receipt(0x0123456789abcdef)
	text := q.ReceiptText(id, number)
	if len(text) != 28 {
		t.Errorf("the receipt %s has %d characters, want 28", text, len(text))
	}
	if r, ok := q.ParseReceipt(id, text); r != number || !ok {
		t.Errorf("%s is read as %d, %v; want %d", text, r, ok, number)
	}
	if r, ok := q.ParseReceipt(makeID(1, 3), text); r != 0 || !ok {
		t.Errorf("another message's receipt is read as %d, %v; want 0", r, ok)
	}
	if r, ok := other.ParseReceipt(id, text); r != 0 || !ok {
		t.Errorf("another queue's receipt is read as %d, %v; want 0", r, ok)
	}
	for _, bad := range []string{"", "invalid", text + "=", text[:27], "!" + text[1:], text[:27] + "!"} {
		if r, ok := q.ParseReceipt(id, bad); ok {
			t.Errorf("%q is read as %d", bad, r)
		}
	}
}

// No receipt but those that were given out is accepted: every change of one bit makes it worthless.
func TestReceiptsCannotBeMade(t *testing.T) {
	t.Parallel()
	q := create(t, memory(t), "orders")
	id := makeID(1, 2)
	given, err := base64.StdEncoding.DecodeString(q.ReceiptText(id, 7))
	if err != nil {
		t.Fatal(err)
	}
	for bit := range 8 * len(given) {
		given[bit/8] ^= 1 << (bit % 8)
		if r, ok := q.ParseReceipt(id, base64.StdEncoding.EncodeToString(given)); r != 0 || !ok {
			t.Errorf("with bit %d changed it is read as %d, %v; want 0", bit, r, ok)
		}
		given[bit/8] ^= 1 << (bit % 8)
	}
}

// All front-ends on one NATS accept the same receipts, also after a start.
func TestReceiptsAreSharedAndKept(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	n := startNATS(t, natsserver.Config{Dir: dir, Listen: "127.0.0.1:0"})
	s := open(t, n)
	q := create(t, s, "orders")
	m := putOne(t, q, "x", epoch)
	text := q.ReceiptText(m.ID, m.Receipt)
	elsewhere := find(t, open(t, startNATS(t, natsserver.Config{URL: n.ClientURL()})), "orders")
	if r, ok := elsewhere.ParseReceipt(m.ID, text); r != m.Receipt || !ok {
		t.Errorf("another front-end reads %d, %v; want %d", r, ok, m.Receipt)
	}
	s.Close()
	n.Close()
	again := find(t, open(t, startNATS(t, natsserver.Config{Dir: dir})), "orders")
	r, ok := again.ParseReceipt(m.ID, text)
	if r != m.Receipt || !ok {
		t.Errorf("after a start it is read as %d, %v; want %d", r, ok, m.Receipt)
	}
	if err := again.Delete(ctx, m.ID, r, epoch.Add(time.Second)); err != nil {
		t.Error(err)
	}
}

func FuzzReceipt(f *testing.F) {
	q := create(f, memory(f), "orders")
	id := makeID(1, 2)
	f.Add(q.ReceiptText(id, 1))
	f.Add("AwAAAAMAAAAAAAAAPnfWi0do1QEAAAAA")
	f.Fuzz(func(t *testing.T, s string) {
		defer workbudget.Default.Start(t, len(s))()
		if r, ok := q.ParseReceipt(id, s); ok && r != 0 && q.ReceiptText(id, r) != s {
			t.Errorf("%q is read as %d, which is written %q", s, r, q.ReceiptText(id, r))
		}
	})
}
