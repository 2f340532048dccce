package endpoint

import (
	"bytes"
	"io"
	"testing"

	"github.com/minio/crc64nvme"

	"github.com/lazuli-storage/lazuli/internal/test/workbudget"
)

// Whatever comes as a structured body is read to its end or refused, and what is read has the checksum that it ends
// with.
func FuzzStructuredReader(f *testing.F) {
	for _, n := range []int{0, 1, 1000} {
		var b bytes.Buffer
		if err := WriteStructured(&b, bytes.NewReader(make([]byte, n)), int64(n)); err != nil {
			f.Fatal(err)
		}
		f.Add(b.Bytes())
		f.Add(b.Bytes()[:b.Len()/2])
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		defer workbudget.Default.Start(t, len(body))()
		m := newStructuredReader(bytes.NewReader(body), int64(len(body)))
		content, err := io.ReadAll(m)
		if err != nil {
			return
		}
		if int64(len(content)) > int64(len(body)) || m.whole != crc64nvme.Checksum(content) {
			t.Errorf("%d bytes out of %d, checksum %x", len(content), len(body), m.whole)
		}
		var again bytes.Buffer
		if err := WriteStructured(&again, bytes.NewReader(content), int64(len(content))); err != nil {
			t.Fatal(err)
		}
		if int64(again.Len()) != StructuredSize(int64(len(content))) {
			t.Errorf("%d bytes encoded, %d announced", again.Len(), StructuredSize(int64(len(content))))
		}
	})
}

// Long content has segments of more than 4 MiB, for their number has 16 bits.
func TestStructuredSegments(t *testing.T) {
	t.Parallel()
	for _, n := range []int64{0, 1, structuredSegment, structuredSegment + 1, 190 << 40} {
		if k := structuredSegments(n); k < 1 || k > 1<<16-1 || k*segmentSize(n) < n || (k-1)*segmentSize(n) >= max(n, 1) {
			t.Errorf("%d bytes in %d segments of %d", n, k, segmentSize(n))
		}
	}
}

// The work of a structured body is bounded by its length, whatever it repeats.
func TestStructuredWork(t *testing.T) {
	const size = 2 << 20
	for _, piece := range [][]byte{{0}, {1}, {0, 1, 2, 3}} {
		body := bytes.Repeat(piece, size/len(piece))
		workbudget.Default.Check(t, len(body),
			func() { _, _ = io.Copy(io.Discard, newStructuredReader(bytes.NewReader(body), int64(len(body)))) })
	}
}
