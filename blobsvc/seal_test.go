package blobsvc

import (
	"bytes"
	"crypto/cipher"
	"net/http"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
)

// A seal at any place is the same stream as from its beginning, also where the counter overflows into its upper half.
func TestSealAtAnyPlace(t *testing.T) {
	block, err := contentCipher(bytes.Repeat([]byte{7}, 32))
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		iv := rapid.SampledFrom([]string{strings.Repeat("\xff", 16), strings.Repeat("\x00", 8) + strings.Repeat("\xff", 8), "0123456789abcdef"}).Draw(t, "counter")
		from, cut := rapid.Int64Range(0, 5000).Draw(t, "from"), rapid.Int64Range(0, 500).Draw(t, "cut")
		whole := make([]byte, 6000)
		cipher.NewCTR(block, []byte(iv)).XORKeyStream(whole, whole)
		stream, err := seal{iv: iv, off: from}.at(cut).stream(block)
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
	s := &Service{}
	key := &customerKey{bytes.Repeat([]byte{1}, 32), "hash"}
	seen := map[string]bool{}
	for range 100 {
		x, err := s.newSealer("a", encryption{key: "hash"}, key)
		if err != nil {
			t.Fatal(err)
		}
		out := string(x.seal(make([]byte, 64)))
		if seen[out[:16]] || seen[x.iv] || out[:16] == out[16:32] {
			t.Fatal("a key stream twice")
		}
		seen[out[:16]], seen[x.iv] = true, true
		x.close()
	}
	if _, err := s.newSealer("a", encryption{key: "hash"}, &customerKey{sha: "other"}); err != errUsesCustomerKey {
		t.Error(err)
	}
}

// Keys travel over https, or not beyond this machine.
func TestKeysNeedHTTPS(t *testing.T) {
	for remote, ok := range map[string]bool{"127.0.0.1:5": true, "[::1]:5": true, "": true, "10.0.0.5:5": false, "[fe80::1]:5": false} {
		hr, err := http.NewRequest(http.MethodGet, "http://x/a/b", nil)
		if err != nil {
			t.Fatal(err)
		}
		hr.RemoteAddr = remote
		hr.Header = http.Header{"X-Ms-Encryption-Key": {"AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE="}, "X-Ms-Encryption-Algorithm": {"AES256"},
			"X-Ms-Encryption-Key-Sha256": {"cs1oiVOBbCgFNcJFc7fzkorTsI8XDFUyYSfRl6W69tw="}}
		c := &call{Request: &wire.Request{HTTP: hr}}
		if err := c.readKeys(); ok != (err == nil || !strings.Contains(err.Error(), "https")) {
			t.Errorf("from %q: %v", remote, err)
		}
	}
}
