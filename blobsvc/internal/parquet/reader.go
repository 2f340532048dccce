package parquet

import (
	"encoding/binary"
	"hash/crc32"
	"io"
	"math/bits"
)

const (
	// maxPage is the maximum length of a page in bytes, both compressed and decompressed.
	maxPage = 64 << 20
	// maxHeader is the maximum length of a page header in bytes; it may contain statistics.
	maxHeader = 1 << 20
)

// Reader reads a column. It is not safe for concurrent use.
type Reader struct {
	file   *File
	column int
	of     *Column
	budget *Budget

	chunk      chunk // its at advances
	left       int   // values of the page
	levels     hybrid
	values     decoder
	dictionary dictionary

	// header, stored and page are buffers for a page's header, the page, and the decompressed page; dict is for
	// a dictionary's.
	header, stored, page, dict []byte
}

// Reader returns a reader of a column. It has no values until [File.Next] moves it to a row group.
func (f *File) Reader(column int, budget *Budget) *Reader {
	return &Reader{file: f, column: column, of: &f.Columns[column], budget: budget}
}

// begin moves to a chunk.
func (r *Reader) begin(c chunk) {
	r.chunk = c
	r.left = 0
	r.values = nil
	r.dictionary.there = false
}

// Next returns the next value. It returns io.EOF at the end of the row group.
func (r *Reader) Next() (Value, error) {
	for r.left == 0 {
		if r.chunk.values <= 0 {
			return Value{}, io.EOF
		}
		if err := r.nextPage(); err != nil {
			return Value{}, err
		}
	}
	r.left--
	r.chunk.values--
	if r.of.levels > 0 {
		switch level, err := r.levels.next(); {
		case err != nil:
			return Value{}, err
		case level > r.of.levels:
			return Value{}, errEncoding
		case level < r.of.levels:
			return Value{Null: true}, nil
		}
	}
	return r.values.next()
}

// Page types.
const (
	dataPage       = 0
	dictionaryPage = 2
	dataPageV2     = 3
)

// pageHeader is the header of a page.
type pageHeader struct {
	kind, size, stored int32
	crc                uint32
	hasCRC             bool
	values, encoding   int32
	levelEncoding      int32
	// Version 2 only: the lengths of the levels in bytes, and whether the values after them are not compressed.
	repetitions, definitions int32
	clear                    bool
}

func (h *pageHeader) read(r *thrift) {
	// Fields that the file leaves out keep values that the checks refuse; levels are RLE unless said otherwise. Field
	// numbers are those of parquet.thrift: https://github.com/apache/parquet-format
	*h = pageHeader{kind: -1, levelEncoding: rleEncoding}
	r.fields(func(id int16, kind byte) bool {
		switch id {
		case 1:
			h.kind = r.int32()
		case 2:
			h.size = r.int32()
		case 3:
			h.stored = r.int32()
		case 4:
			h.crc, h.hasCRC = uint32(r.int32()), true
		case 5, 7:
			// The headers of a data page (5) and a dictionary page (7) begin with the same two fields.
			return r.structure(kind, func(inner int16, _ byte) bool {
				switch {
				case inner == 1:
					h.values = r.int32()
				case inner == 2:
					h.encoding = r.int32()
				case inner == 3 && id == 5:
					h.levelEncoding = r.int32()
				default:
					return false
				}
				return true
			})
		case 8:
			return r.structure(kind, func(id int16, kind byte) bool {
				switch id {
				case 1:
					h.values = r.int32()
				case 4:
					h.encoding = r.int32()
				case 5:
					h.definitions = r.int32()
				case 6:
					h.repetitions = r.int32()
				case 7:
					// is_compressed is true if it is absent, so what is kept is its opposite.
					h.clear = kind == thriftFalse
				default:
					return false
				}
				return true
			})
		default:
			return false
		}
		return true
	})
}

// nextHeader reads the next page header of the chunk and moves past it.
func (r *Reader) nextHeader() (h pageHeader, err error) {
	// A header has no length before it. Usually 256 bytes hold it; statistics in it can make it long, so more is read
	// when the text ends too early.
	for size := int64(256); ; size *= 8 {
		size = min(size, maxHeader, r.chunk.end-r.chunk.at)
		if r.header, err = r.budget.grow(r.header, int(size)); err != nil {
			return h, err
		}
		if err := readAt(r.file.content, r.header, r.chunk.at); err != nil {
			return h, err
		}
		t := thrift{b: r.header}
		h.read(&t)
		// Only a short read is tried again, and only if there is more: other errors stay the same with more bytes.
		if t.err == errShort && size < maxHeader && size < r.chunk.end-r.chunk.at {
			continue
		}
		if t.err != nil {
			return h, t.err
		}
		r.chunk.at += int64(t.at)
		break
	}
	switch {
	// Sizes are of the file's author; page and chunk bound them before memory is taken.
	case h.size < 0 || h.stored < 0 || h.values < 0 || int64(h.stored) > r.chunk.end-r.chunk.at:
		return h, errDamaged
	case h.size > maxPage || h.stored > maxPage:
		return h, ErrMemory
	}
	return h, nil
}

// nextPage reads a page, or a dictionary.
func (r *Reader) nextPage() error {
	h, err := r.nextHeader()
	if err != nil {
		return err
	}
	// Index pages and kinds of later versions are skipped, as the specification says.
	if h.kind != dataPage && h.kind != dataPageV2 && h.kind != dictionaryPage {
		r.chunk.at += int64(h.stored)
		return nil
	}
	if r.stored, err = r.budget.grow(r.stored, int(h.stored)); err != nil {
		return err
	}
	if err := readAt(r.file.content, r.stored, r.chunk.at); err != nil {
		return err
	}
	r.chunk.at += int64(h.stored)
	// The sum is of the stored bytes, before they are decompressed: damage must not reach a decompressor.
	if h.hasCRC && crc32.ChecksumIEEE(r.stored) != h.crc {
		return errDamaged
	}
	switch h.kind {
	case dictionaryPage:
		return r.readDictionary(&h)
	case dataPageV2:
		return r.readV2(&h)
	}
	return r.readV1(&h)
}

// content decompresses stored, whose content has the given length. The result is in buffer, or stored itself if it is
// not compressed.
func (r *Reader) content(buffer *[]byte, stored []byte, size int) ([]byte, error) {
	if r.chunk.codec == uncompressed {
		if len(stored) != size {
			return nil, errDamaged
		}
		return stored, nil
	}
	var err error
	if *buffer, err = r.budget.grow(*buffer, size); err != nil || size == 0 {
		return nil, err
	}
	return *buffer, decompress(r.chunk.codec, *buffer, stored)
}

func (r *Reader) readDictionary(h *pageHeader) error {
	if h.encoding != plainEncoding && h.encoding != plainDictionary {
		return errEncoding
	}
	b, err := r.content(&r.dict, r.stored, int(h.size))
	if err != nil {
		return err
	}
	if r.chunk.codec == uncompressed { // keep the buffer for the next page
		r.dict, r.stored = r.stored, r.dict
	}
	return r.dictionary.set(r.of, b, int(h.values), r.budget)
}

// readV1 reads a data page of version 1: levels and values are compressed together.
func (r *Reader) readV1(h *pageHeader) error {
	b, err := r.content(&r.page, r.stored, int(h.size))
	if err != nil {
		return err
	}
	if r.of.levels > 0 {
		if h.levelEncoding != rleEncoding || len(b) < 4 {
			return errEncoding
		}
		n := binary.LittleEndian.Uint32(b)
		if uint64(n) > uint64(len(b)-4) {
			return errEncoding
		}
		if r.levels, err = newHybrid(b[4:4+n], bits.Len32(r.of.levels)); err != nil {
			return err
		}
		b = b[4+n:]
	}
	return r.data(h, b)
}

// readV2 reads a data page of version 2: uncompressed levels precede the values.
func (r *Reader) readV2(h *pageHeader) error {
	rep, def := int(h.repetitions), int(h.definitions)
	if rep < 0 || def < 0 || rep > len(r.stored) || def > len(r.stored)-rep || rep+def > int(h.size) {
		return errDamaged
	}
	var err error
	if r.levels, err = newHybrid(r.stored[rep:rep+def], bits.Len32(r.of.levels)); err != nil {
		return err
	}
	stored, size := r.stored[rep+def:], int(h.size)-rep-def
	b := stored
	if !h.clear {
		b, err = r.content(&r.page, stored, size)
	} else if len(stored) != size {
		err = errDamaged
	}
	if err != nil {
		return err
	}
	return r.data(h, b)
}

// data starts decoding the values of a page.
func (r *Reader) data(h *pageHeader, b []byte) (err error) {
	r.left = int(min(int64(h.values), r.chunk.values))
	r.values, err = r.decoder(h.encoding, b, int(h.values))
	return err
}
