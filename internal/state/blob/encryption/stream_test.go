package encryption

import (
	"bytes"
	"crypto/cipher"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// A seal at any offset continues the stream that begins at 0, also where the counter overflows into its upper half.
func TestSealAtAnyPlace(t *testing.T) {
	t.Parallel()
	block, err := contentCipher(bytes.Repeat([]byte{7}, 32))
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		iv := rapid.SampledFrom([]string{strings.Repeat("\xff", 16), strings.Repeat("\x00", 8) + strings.Repeat("\xff", 8),
			"0123456789abcdef"}).Draw(t, "counter")
		from, cut := rapid.Int64Range(0, 5000).Draw(t, "from"), rapid.Int64Range(0, 500).Draw(t, "cut")
		whole := make([]byte, 6000)
		cipher.NewCTR(block, []byte(iv)).XORKeyStream(whole, whole)
		stream, err := Seal{IV: iv, Offset: from}.At(cut).stream(block)
		if err != nil {
			t.Fatal(err)
		}
		got := make([]byte, 400)
		stream.XORKeyStream(got, got)
		if !bytes.Equal(got, whole[from+cut:][:400]) {
			t.Fatal("another stream")
		}
	})
}

// Two uploads of the same bytes with the same key have nothing in common.
func TestSealsDiffer(t *testing.T) {
	t.Parallel()
	s := new(Scopes)
	key := &CustomerKey{bytes.Repeat([]byte{1}, 32), "hash"}
	seen := map[string]bool{}
	for range 100 {
		x, err := s.NewSealer("a", ID{KeySHA256: "hash"}, key)
		if err != nil {
			t.Fatal(err)
		}
		out := make([]byte, 64)
		x.Encrypt(out, make([]byte, 64))
		if seen[string(out[:16])] || seen[x.Seal().IV] || bytes.Equal(out[:16], out[16:32]) {
			t.Fatal("a key stream twice")
		}
		seen[string(out[:16])], seen[x.Seal().IV] = true, true
	}
	if _, err := s.NewSealer("a", ID{KeySHA256: "hash"}, &CustomerKey{SHA256: "other"}); err != ErrKeyMissing {
		t.Error(err)
	}
}
