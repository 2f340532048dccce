package entity

import (
	"bytes"
	"cmp"
	"slices"
	"testing"
	"unicode/utf16"

	"pgregory.net/rapid"
)

// keyText draws text that may be a key, rich in what orders differently in UTF-8 and UTF-16.
func keyText() *rapid.Generator[string] {
	interesting := rapid.SampledFrom(
		[]rune{'a', 'b', ' ', '~', '\u00e9', '\ud7ff', '\ue000', '\uffff', '\U00010000', '\U0010ffff'})
	r := rapid.OneOf(interesting, rapid.Rune().Filter(func(r rune) bool { return CheckKey(string(r)) == nil }))
	return rapid.StringOfN(r, 0, 6, -1)
}

func compareUTF16(a, b string) int {
	return slices.Compare(utf16.Encode([]rune(a)), utf16.Encode([]rune(b)))
}

func TestKeyOrderIsUTF16Order(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p1, r1, p2, r2 := keyText().Draw(t, "p1"), keyText().Draw(t, "r1"), keyText().Draw(t, "p2"), keyText().Draw(t, "r2")
		want := cmp.Or(compareUTF16(p1, p2), compareUTF16(r1, r2))
		got := bytes.Compare(AppendKey(nil, 7, p1, r1), AppendKey(nil, 7, p2, r2))
		if got != want {
			t.Fatalf("order of (%q,%q) and (%q,%q) is %d, want %d", p1, r1, p2, r2, got, want)
		}
		if got := CompareStrings([]byte(p1), []byte(p2)); got != compareUTF16(p1, p2) {
			t.Fatalf("CompareStrings(%q, %q) = %d", p1, p2, got)
		}
	})
}

func TestKeyRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p, r, id := keyText().Draw(t, "p"), keyText().Draw(t, "r"), rapid.Uint64().Draw(t, "id")
		table, ep, er, ok := SplitKey(AppendKey(nil, id, p, r))
		if !ok || table != id || string(DecodeKeyPart(ep)) != p || string(DecodeKeyPart(er)) != r {
			t.Fatalf("(%d, %q, %q) came back as (%d, %q, %q), %v", id, p, r, table, DecodeKeyPart(ep), DecodeKeyPart(er), ok)
		}
	})
}

func TestSplitKeyRefusesOtherBytes(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"", "1234567", "12345678", "12345678nothing"} {
		if _, _, _, ok := SplitKey([]byte(key)); ok {
			t.Errorf("%q was taken for a key", key)
		}
	}
}

func TestCheckKey(t *testing.T) {
	t.Parallel()
	long := string(bytes.Repeat([]byte("k"), 512))
	for _, tc := range []struct {
		name, key string
		want      *Error
	}{
		{"empty", "", nil},
		{"quotes, spaces, percent", `a'b "c" %41`, nil},
		{"512 characters", long, nil},
		{"513 characters", long + "k", ErrKeyTooLarge},
		{"257 pairs of surrogates", string(bytes.Repeat([]byte("\U0001F600"), 257)), ErrKeyTooLarge},
		{"256 pairs of surrogates", string(bytes.Repeat([]byte("\U0001F600"), 256)), nil},
		{"slash", "a/b", ErrOutOfRange},
		{"backslash", `a\b`, ErrOutOfRange},
		{"number sign", "a#b", ErrOutOfRange},
		{"question mark", "a?b", ErrOutOfRange},
		{"tab", "a\tb", ErrOutOfRange},
		{"U+007F", "\x7f", ErrOutOfRange},
		{"U+0080", "\u0080", ErrOutOfRange},
		{"U+009F", "\u009f", ErrOutOfRange},
		{"U+00A0", "\u00a0", nil},
		{"not UTF-8", "\xff", ErrOutOfRange},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := CheckKey(tc.key)
			if got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

func TestTableName(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"abc": true, "A12": true, "ab": false, "1ab": false, "a-b": false, "": false, "table_1": false, "abé": false,
		string(bytes.Repeat([]byte("t"), 63)): true, string(bytes.Repeat([]byte("t"), 64)): false, "a[b": false,
	} {
		if TableName(name) != want {
			t.Errorf("TableName(%q) = %v", name, !want)
		}
	}
}
