package parquet

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/parquet/lz4block"
)

// Compression codecs of column chunks.
const (
	uncompressed = 0
	snappyCodec  = 1
	gzipCodec    = 2
	brotliCodec  = 4
	zstdCodec    = 6
	lz4Raw       = 7
)

var errCompressed = errors.New("a page is not compressed as it says")

// zstdDecoder is shared by all readers. It never writes past the capacity of its destination.
var zstdDecoder = sync.OnceValues(func() (*zstd.Decoder, error) {
	return zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxMemory(maxPage),
		zstd.WithDecodeAllCapLimit(true))
})

// decompress decompresses src, whose content must have exactly the length of dst.
func decompress(codec int32, dst, src []byte) error {
	switch codec {
	case snappyCodec:
		// The length in the stream first: Decode would allocate whatever it says.
		if n, err := snappy.DecodedLen(src); err != nil || n != len(dst) {
			return errCompressed
		}
		if out, err := snappy.Decode(dst, src); err != nil || len(out) != len(dst) {
			return errCompressed
		}
		return nil
	case gzipCodec:
		r, err := gzip.NewReader(bytes.NewReader(src))
		if err != nil {
			return errCompressed
		}
		// A stream has no length. fill reads as much as dst holds and wants the end there, so a bomb is not unpacked.
		return fill(dst, r)
	case brotliCodec:
		return fill(dst, brotli.NewReader(bytes.NewReader(src)))
	case zstdCodec:
		d, err := zstdDecoder()
		if err != nil {
			return err
		}
		// The capacity is the limit: a longer content would be allocated elsewhere, and its length differs.
		if out, err := d.DecodeAll(src, dst[:0:len(dst)]); err != nil || len(out) != len(dst) {
			return errCompressed
		}
		return nil
	case lz4Raw:
		if !lz4block.Unpack(dst, src) {
			return errCompressed
		}
		return nil
	}
	return fmt.Errorf("it is compressed by method %d, which is not known here", codec)
}

// fill reads all of dst from r, which must end after it.
func fill(dst []byte, r io.Reader) error {
	var more [1]byte
	if _, err := io.ReadFull(r, dst); err != nil {
		return errCompressed
	}
	if n, err := r.Read(more[:]); n > 0 || err != io.EOF {
		return errCompressed
	}
	return nil
}
