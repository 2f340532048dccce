package crc32c

import (
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"testing"
)

// TestUpdateEqualsHashCRC32 compares every length to beyond two rounds of chains, at each alignment, as a beginning and
// as a continuation.
func TestUpdateEqualsHashCRC32(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	data := make([]byte, 9000+8)
	for i := range data {
		data[i] = byte(r.Uint32())
	}
	for n := 0; n <= 9000; n++ {
		p := data[n%8:][:n]
		start := uint32(n%3) * r.Uint32()
		if got, want := Update(start, p), crc32.Update(start, table, p); got != want {
			t.Fatalf("%d bytes after %08x: %08x, want %08x", n, start, got, want)
		}
	}
	if got := Checksum([]byte("123456789")); got != 0xE3069283 { // the check value of RFC 3720's CRC
		t.Fatalf("%08x", got)
	}
}

func FuzzUpdate(f *testing.F) {
	f.Add(uint32(0), []byte("123456789"), 3)
	f.Add(^uint32(0), make([]byte, 5000), 4081)
	f.Fuzz(func(t *testing.T, start uint32, p []byte, cut int) {
		want := crc32.Update(start, table, p)
		if got := Update(start, p); got != want {
			t.Fatalf("%d bytes: %08x, want %08x", len(p), got, want)
		}
		cut = max(0, min(cut, len(p)))
		if got := Update(Update(start, p[:cut]), p[cut:]); got != want {
			t.Fatalf("%d bytes cut at %d: %08x, want %08x", len(p), cut, got, want)
		}
	})
}

func BenchmarkUpdate(b *testing.B) {
	for _, n := range []int{20, 64, 200, 1000, 4096, 65536} {
		p := make([]byte, n)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.SetBytes(int64(n))
			for b.Loop() {
				Update(0, p)
			}
		})
		b.Run(fmt.Sprintf("%d/hash", n), func(b *testing.B) {
			b.SetBytes(int64(n))
			for b.Loop() {
				crc32.Update(0, table, p)
			}
		})
	}
}
