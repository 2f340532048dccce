package parquet

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
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
		return fill(dst, r)
	case brotliCodec:
		return fill(dst, brotli.NewReader(bytes.NewReader(src)))
	case zstdCodec:
		d, err := zstdDecoder()
		if err != nil {
			return err
		}
		if out, err := d.DecodeAll(src, dst[:0:len(dst)]); err != nil || len(out) != len(dst) {
			return errCompressed
		}
		return nil
	case lz4Raw:
		return unpackLZ4(dst, src)
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

// unpackLZ4 decompresses a block of LZ4 (https://github.com/lz4/lz4/blob/dev/doc/lz4_Block_format.md): sequences of
// literals and of copies of what precedes, the last one without a copy. The module of the format is 34 MB, for a build
// the largest of all but one.
func unpackLZ4(dst, src []byte) error {
	at := 0
	for len(src) > 0 {
		token := src[0]
		n, rest, ok := lz4Length(int(token>>4), src[1:])
		if !ok || n > len(rest) || n > len(dst)-at {
			return errCompressed
		}
		at += copy(dst[at:], rest[:n])
		if src = rest[n:]; len(src) == 0 && at == len(dst) {
			return nil
		}
		if len(src) < 2 {
			return errCompressed
		}
		back := int(binary.LittleEndian.Uint16(src))
		n, src, ok = lz4Length(int(token&15), src[2:])
		if n += 4; !ok || back == 0 || back > at || n > len(dst)-at {
			return errCompressed
		}
		from, end := at-back, at+n
		for at < end { // A copy may overlap itself: what was copied is copied again.
			at += copy(dst[at:end], dst[from:at])
		}
	}
	return errCompressed
}

// lz4Length returns a length, which bytes follow if it begins with 15, and what is after it.
func lz4Length(n int, src []byte) (_ int, rest []byte, ok bool) {
	if n < 15 {
		return n, src, true
	}
	for i, b := range src {
		if n += int(b); b < 255 {
			return n, src[i+1:], true
		}
	}
	return 0, nil, false
}
