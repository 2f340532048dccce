package parquettest

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/pierrec/lz4/v4"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/parquet/lz4block"
)

// Blocks of another implementation are unpacked to what they were made of. Damaged ones are refused, or give what that
// implementation gives if it accepts them.
func TestLZ4(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 1))
	noise := make([]byte, 3000)
	for i := range noise {
		noise[i] = byte(rng.Uint32())
	}
	mixed := append(bytes.Repeat(noise[:40], 30), noise...)
	for _, content := range [][]byte{[]byte(strings.Repeat("a", 5000)), []byte(strings.Repeat("abc, ", 700)), mixed,
		append(mixed, make([]byte, 70_000)...)} {
		block := make([]byte, lz4.CompressBlockBound(len(content)))
		n, err := lz4.CompressBlock(content, block, nil)
		if err != nil || n == 0 {
			t.Fatalf("%d bytes: %d, %v", len(content), n, err)
		}
		block = block[:n]
		got := make([]byte, len(content))
		if !lz4block.Unpack(got, block) || !bytes.Equal(got, content) {
			t.Fatalf("%d bytes are not unpacked to what they were made of", len(content))
		}
		for _, size := range []int{0, len(content) - 1, len(content) + 1} {
			if lz4block.Unpack(make([]byte, size), block) {
				t.Errorf("%d bytes were unpacked to %d", len(content), size)
			}
		}
		for range 2000 {
			damaged := bytes.Clone(block[:rng.IntN(len(block))+1])
			if rng.IntN(2) == 0 {
				damaged = bytes.Clone(block)
				damaged[rng.IntN(len(damaged))] ^= 1 << rng.IntN(8)
			}
			if !lz4block.Unpack(got, damaged) {
				continue
			}
			want := make([]byte, len(content))
			if n, err := lz4.UncompressBlock(damaged, want); err == nil && (n != len(want) || !bytes.Equal(got, want)) {
				t.Fatalf("a damaged block of %d bytes was unpacked to something else", len(damaged))
			}
		}
	}
	for _, block := range []string{"", "\xf0", "\xf0\xff\xff", "\x10a\x00\x00", "\x10a\x02\x00", "\x10a\x01"} {
		if lz4block.Unpack(make([]byte, 20), []byte(block)) {
			t.Errorf("%q was unpacked", block)
		}
	}
}
