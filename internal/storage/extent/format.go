package extent

import (
	"encoding/binary"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/lazuli-storage/lazuli/internal/storage/crc32c"
)

// An extent is a file header followed by records without gaps. Integers are little-endian.
//
//	file header   0  8  "LAZULIX1": kind of file and version
//	              8  8  id of the extent
//	             16 12  zero
//	             28  4  CRC-32C of bytes 0 to 27
//
//	record        0  4  "LZR1"
//	              4  4  length of the payload, 1 to 1 MiB
//	              8  4  CRC-32C of the payload
//	             12  4  CRC-32C of bytes 0 to 11, the extent's id (8 bytes) and the record's offset (8 bytes)
//	             16  n  payload
//
// A record's header CRC depends on where it is, so that no stray copy passes for a record.
const (
	fileHeaderSize   = 32
	recordHeaderSize = 16

	// MaxRecord is the maximum size of a record's payload, in bytes. A bulk writer holds one record in memory, and a
	// reader can pass one to the kernel at once. Larger records would save little: a header is 16 bytes, and a slice in
	// the metadata about as much, per MiB.
	MaxRecord = 1 << 20
)

const (
	fileMagic   = "LAZULIX1"
	recordMagic = "LZR1"
)

// The ends of the names of extents: those that are being written, those that are finished, and those of other nodes of
// which this node does not have everything.
const (
	openSuffix   = ".open"
	sealedSuffix = ".extent"
	copySuffix   = ".copy"
)

// Slice is a reference to content: a record's payload, or a part of one.
type Slice struct {
	Extent         uint64
	Offset, Length int64  // position and length of the payload in the file, in bytes
	CRC            uint32 // CRC-32C of the payload; 0 if unknown, as for a part of a payload
}

// Sub returns the n bytes of s from off on. Both must lie within s.
func (s Slice) Sub(off, n int64) Slice {
	if off < 0 || n < 0 || off > s.Length-n {
		panic(fmt.Sprintf("extent: part [%d, +%d) of a slice of %d bytes", off, n, s.Length))
	}
	if off == 0 && n == s.Length {
		return s
	}
	return Slice{Extent: s.Extent, Offset: s.Offset + off, Length: n}
}

func fileHeader(id uint64) []byte {
	b := make([]byte, fileHeaderSize)
	copy(b, fileMagic)
	binary.LittleEndian.PutUint64(b[8:], id)
	binary.LittleEndian.PutUint32(b[28:], crc32c.Checksum(b[:28]))
	return b
}

// putRecordHeader fills the header of the payload that follows it in record.
func putRecordHeader(record []byte, crc uint32, id uint64, offset int64) {
	copy(record, recordMagic)
	binary.LittleEndian.PutUint32(record[4:], uint32(len(record)-recordHeaderSize))
	binary.LittleEndian.PutUint32(record[8:], crc)
	binary.LittleEndian.PutUint32(record[12:], headerCRC(record, id, offset))
}

// parseRecordHeader parses the header at offset; ok is false if it is not a valid header.
func parseRecordHeader(b []byte, id uint64, offset int64) (length int64, crc uint32, ok bool) {
	length = int64(binary.LittleEndian.Uint32(b[4:]))
	if string(b[:4]) != recordMagic || length == 0 || length > MaxRecord ||
		binary.LittleEndian.Uint32(b[12:]) != headerCRC(b, id, offset) {
		return 0, 0, false
	}
	return length, binary.LittleEndian.Uint32(b[8:]), true
}

func headerCRC(header []byte, id uint64, offset int64) uint32 {
	var b [28]byte
	copy(b[:12], header)
	binary.LittleEndian.PutUint64(b[12:], id)
	binary.LittleEndian.PutUint64(b[20:], uint64(offset))
	return crc32c.Checksum(b[:])
}

func (s *Store) path(id uint64, suffix string) string {
	return filepath.Join(s.dir, fmt.Sprintf("%016x%s", id, suffix))
}

// parseName returns the id in a file's name, and the end of the name.
func parseName(name string) (id uint64, suffix string, ok bool) {
	hex, suffix, _ := strings.Cut(name, ".")
	suffix = "." + suffix
	if suffix != openSuffix && suffix != sealedSuffix && suffix != copySuffix {
		return 0, "", false
	}
	id, err := strconv.ParseUint(hex, 16, 64)
	return id, suffix, err == nil && len(hex) == 16 && id != 0
}

// Records that are written past the page cache begin at multiples of directAlign: filler, a record of zeros that
// nothing refers to, follows each of them. It is part of the format since version 1: filler is dead content.

// directAlign is the alignment of direct writes in bytes. It is a multiple of the block sizes of devices, 512 or 4096.
const directAlign = 4096

// maxFiller is the maximum size of filler, in bytes: it has a header and at least one byte.
const maxFiller = directAlign + recordHeaderSize

// fillerCRC has the CRC-32C of n zeros at index n.
var fillerCRC = func() (sums [maxFiller]uint32) {
	zeros := make([]byte, maxFiller)
	for n := range sums {
		sums[n] = crc32c.Checksum(zeros[:n])
	}
	return sums
}()

// addFiller returns p, which lies at an aligned offset of an extent, with filler behind its first n bytes. p must have
// room for it.
func addFiller(p []byte, n int, id uint64, offset int64) []byte {
	filler := int(fillerBehind(int64(n)))
	if p = p[:n+filler]; filler > 0 {
		clear(p[n:])
		putRecordHeader(p[n:], fillerCRC[filler-recordHeaderSize], id, offset+int64(n))
	}
	return p
}

// fillerBehind returns the size of the filler behind a record that ends at an offset, 0 for none.
func fillerBehind(end int64) int64 {
	n := -end & (directAlign - 1)
	if n > 0 && n <= recordHeaderSize {
		n += directAlign
	}
	return n
}
