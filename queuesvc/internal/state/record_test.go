package state

import (
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestIDForms(t *testing.T) {
	t.Parallel()
	id := makeID(0x0123456789abcdef, 0xfedcba9876543210)
	if s := id.String(); s != "01234567-89ab-cdef-fedc-ba9876543210" || id.slot() != 0x0123456789abcdef || id.nonce() != 0xfedcba9876543210 {
		t.Errorf("%s of slot %x, nonce %x", s, id.slot(), id.nonce())
	}
	if back, ok := ParseID(strings.ToUpper(id.String())); !ok || back != id {
		t.Errorf("%s is read back as %s, %v", id, back, ok)
	}
	for _, s := range []string{"", "x", id.String() + "0", "0123456789ab-cdef-0123-4567-89abcdef0123"[:36],
		"zzzzzzzz-0000-0000-0000-000000000000", "00000000-0000-0000-0000-00000000000g"} {
		if got, ok := ParseID(s); ok {
			t.Errorf("%q is read as %s", s, got)
		}
	}
}

func TestSlotTokens(t *testing.T) {
	t.Parallel()
	for s, want := range map[slot]string{0: "0", 1: "1", 0xdeadbeef_00000001: "3dwoaqqwp9ce9", 0xfeef_80000001: "0000feef80000001", math.MaxUint64: "ffffffffffffffff"} {
		if s.token() != want {
			t.Errorf("%x is written %s, want %s", uint64(s), s.token(), want)
		}
		if back, ok := parseSlot(s.token()); !ok || back != s {
			t.Errorf("%d is written %s and read %d, %v", s, s.token(), back, ok)
		}
	}
	for _, text := range []string{"", "cleared!", "A", "01", "+1", "3w5e11264sgsg", "0000feef00000001", "0000FEEF80000001"} { // upper case, a leading zero, too large, without the bit
		if s, ok := parseSlot(text); ok {
			t.Errorf("%q is read as %d", text, s)
		}
	}
}

func TestRecordRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r := record{kind: recordKind(rapid.IntRange(0, 2).Draw(t, "kind")), writer: rapid.StringMatching(`[a-z0-9.]{1,20}`).Draw(t, "writer")}
		if r.kind == recordMessage {
			r.nonce = rapid.Uint64().Draw(t, "nonce")
			r.state = State{
				Inserted:     rapid.Int64Min(0).Draw(t, "inserted"),
				Expires:      rapid.Int64Min(0).Draw(t, "expires"),
				NextVisible:  rapid.Int64Min(0).Draw(t, "visible"),
				DequeueCount: rapid.Uint32().Draw(t, "count"),
			}
			r.receipt, r.bodySum = rapid.Uint64().Draw(t, "receipt"), rapid.Uint32().Draw(t, "sum")
		}
		if back, err := decodeRecord(r.encode()); err != nil || back != r {
			t.Fatalf("%+v is written as %q and read as %+v, %v", r, r.encode(), back, err)
		}
	})
}

func TestRecordRefuses(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"", "1", "1 deleted", "3 f 1 0 1 0 0 0 w", "2 f 1 0 1 0 w", "2 f 1 0 1 0 0 100000000 w", "2 f 1 0 1 0 -1 0 w", "1 f 1 0 1 0", "1 f 1 0 1 w", "1 f -1 0 1 0 w",
		"1 f x 0 1 0 w", "1 g 1 0 1 0 w", "1 f 1 0 1 4294967296 w", "1 f 1 0 1 0 "} {
		if r, err := decodeRecord(s); err == nil {
			t.Errorf("%q is read as %+v", s, r)
		}
	}
}

func FuzzRecord(f *testing.F) {
	f.Add("1 f 1 0 1 0 w")
	f.Add("1 deleted a.b")
	f.Add("1 cleared a")
	f.Add("2 f 1 0 1 0 17 abc w")
	f.Fuzz(func(t *testing.T, s string) {
		r, err := decodeRecord(s)
		if err != nil {
			return
		}
		r.former = false // version 1 is not written
		if back, err := decodeRecord(r.encode()); err != nil || back != r {
			t.Errorf("%q: %+v becomes %+v, %v", s, r, back, err)
		}
	})
}
