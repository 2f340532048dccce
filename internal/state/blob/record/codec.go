package record

import (
	"encoding/binary"
	"strings"

	"github.com/lazuli-storage/lazuli/internal/storage/extent"
)

// Records are a version byte followed by fields. A field is a tag byte and a value whose form the tag decides: an
// unsigned varint, or a length and bytes. Fields at their zero value are left out; unknown tags are an error, so that
// an older release never drops fields that a newer one wrote. The tags of a record are the constants beside its type.

// Version is the first byte of every record.
const Version = 1

// encoder appends fields.
type encoder struct{ b []byte }

func newEncoder(capacity int) encoder {
	return encoder{append(make([]byte, 0, capacity), Version)}
}

func (e *encoder) uint(tag byte, n uint64) {
	if n != 0 {
		e.b = binary.AppendUvarint(append(e.b, tag), n)
	}
}

func (e *encoder) bool(tag byte, v bool) {
	if v {
		e.b = append(e.b, tag, 1)
	}
}

func (e *encoder) text(tag byte, s string) {
	if s != "" {
		e.b = append(e.b, tag)
		e.string(s)
	}
}

// tag begins a field that the caller writes itself.
func (e *encoder) tag(tag byte) { e.b = append(e.b, tag) }

func (e *encoder) string(s string) {
	e.b = binary.AppendUvarint(e.b, uint64(len(s)))
	e.b = append(e.b, s...)
}

func (e *encoder) uvarint(n uint64) { e.b = binary.AppendUvarint(e.b, n) }

// decoder reads fields from one string and returns substrings of it, so that decoding a record costs one allocation.
// After an error every method returns zero values, and bad is set.
type decoder struct {
	s    string
	bad  bool
	list []Meta // space for metadata
	room *Node  // space for the node; nil for none
}

// newDecoder copies v, which may belong to a transaction, and checks the version.
func newDecoder(v []byte) decoder {
	if len(v) == 0 || v[0] != Version {
		return decoder{bad: true}
	}
	return decoder{s: string(v[1:])}
}

// Texts makes strings of bytes, with one allocation for many: for listings, which read hundreds of records and drop
// them together.
type Texts struct {
	chunk    strings.Builder
	metadata []Meta // of the last record
	node     Node   // of the last record
	forms    forms
	form     uint32 // of the last record
}

const textsChunk = 32 << 10

// Copy copies v.
func (t *Texts) Copy(v []byte) string { return t.Joined("", v) }

// Joined returns prefix and v in one string.
func (t *Texts) Joined(prefix string, v []byte) string {
	if n := len(prefix) + len(v); t.chunk.Cap()-t.chunk.Len() < n {
		// A new chunk and no growth: strings that were given out are parts of the old one, which must not move.
		t.chunk = strings.Builder{}
		t.chunk.Grow(max(textsChunk, n))
	}
	at := t.chunk.Len()
	t.chunk.WriteString(prefix)
	t.chunk.Write(v)
	return t.chunk.String()[at:]
}

// decoder is newDecoder with a copy in t.
func (t *Texts) decoder(v []byte) decoder {
	if len(v) == 0 || v[0] != Version {
		return decoder{bad: true}
	}
	return decoder{s: t.Copy(v[1:]), list: t.metadata, room: &t.node}
}

func (d *decoder) more() bool { return len(d.s) > 0 && !d.bad }

func (d *decoder) err() error {
	if d.bad {
		return ErrMalformed
	}
	return nil
}

func (d *decoder) fail() {
	d.bad = true
	d.s = ""
}

func (d *decoder) byte() byte {
	if len(d.s) == 0 {
		d.fail()
		return 0
	}
	c := d.s[0]
	d.s = d.s[1:]
	return c
}

func (d *decoder) uint() uint64 {
	var n uint64
	// At most ten bytes: a row of 0x80 in a damaged record would otherwise be read to its end.
	for i := 0; i < len(d.s) && i < binary.MaxVarintLen64; i++ {
		c := d.s[i]
		n |= uint64(c&0x7f) << (7 * i)
		if c < 0x80 {
			d.s = d.s[i+1:]
			return n
		}
	}
	d.fail()
	return 0
}

func (d *decoder) bool() bool { return d.byte() == 1 }

func (d *decoder) string() string {
	n := d.uint()
	if n > uint64(len(d.s)) {
		d.fail()
		return ""
	}
	s := d.s[:n]
	d.s = d.s[n:]
	return s
}

// count reads a number of things that take at least size bytes each, so that no promise of a record is believed before
// the bytes are there.
func (d *decoder) count(size int) int {
	n := d.uint()
	if n > uint64(len(d.s)/size) {
		d.fail()
		return 0
	}
	return int(n)
}

// slices is a list of extent slices: number, then extent, offset, length and CRC of each.
func (e *encoder) slices(list []extent.Slice) {
	e.uvarint(uint64(len(list)))
	for _, x := range list {
		e.uvarint(x.Extent)
		e.uvarint(uint64(x.Offset))
		e.uvarint(uint64(x.Length))
		e.b = binary.LittleEndian.AppendUint32(e.b, x.CRC)
	}
}

func (d *decoder) slices() []extent.Slice {
	n := d.count(7)
	if n == 0 {
		return nil
	}
	list := make([]extent.Slice, n)
	for i := range list {
		x := &list[i]
		x.Extent = d.uint()
		x.Offset = int64(d.uint())
		x.Length = int64(d.uint())
		// A damaged length that became negative would later be an index.
		if len(d.s) < 4 || x.Offset < 0 || x.Length < 0 {
			d.fail()
			return nil
		}
		x.CRC = uint32(d.s[0]) | uint32(d.s[1])<<8 | uint32(d.s[2])<<16 | uint32(d.s[3])<<24
		d.s = d.s[4:]
	}
	return list
}
