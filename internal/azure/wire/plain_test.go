package wire

import (
	"bytes"
	"testing"
)

func TestPlainPrefix(t *testing.T) {
	t.Parallel()
	for c := range 256 {
		plain := c >= 0x20 && c < 0x80 && c != '&' && c != '<' && c != '>'
		for at := range 8 {
			// Bytes at both ends of the range around it, to which a borrow could spread.
			for _, around := range []byte{' ', '=', 0x7f} {
				text := bytes.Repeat([]byte{around}, 24)
				text[8+at] = byte(c)
				want := 8
				if plain {
					want = 24
				}
				if got := PlainPrefix(text); got != want {
					t.Errorf("byte %#x at %d among %q: %d, want %d", c, at, around, got, want)
				}
			}
		}
	}
	for n := range 8 {
		if got := PlainPrefix(bytes.Repeat([]byte{'a'}, 8+n)); got != 8 {
			t.Errorf("of %d bytes: %d, want 8", 8+n, got)
		}
	}
}
