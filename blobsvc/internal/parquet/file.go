package parquet

import (
	"encoding/binary"
	"errors"
	"io"
)

// maxFooter is the maximum length of a footer in bytes.
const maxFooter = 16 << 20

var (
	errMagic     = errors.New("it does not begin and end as such a file does")
	errEncrypted = errors.New("it is encrypted")
	errFooter    = errors.New("its footer is too long")
)

// File is an open file. It keeps the footer in memory. It is not safe for concurrent use.
type File struct {
	// Columns are the leaves of the schema, in order.
	Columns []Column

	content io.ReaderAt
	end     int64  // memory for pages
	groups  thrift // at the next row group
	left    int    // row groups
}

// Open reads the footer of content, which has size bytes. All errors except those of content mean that the file cannot
// be read.
func Open(content io.ReaderAt, size int64) (*File, error) {
	const magic, tail = 4, 8
	var head [magic]byte
	var foot [tail]byte
	// A file of head and foot alone has no footer, and is refused by its length below.
	if size < magic+tail {
		return nil, errMagic
	}
	if err := readAt(content, head[:], 0); err != nil {
		return nil, err
	}
	if err := readAt(content, foot[:], size-tail); err != nil {
		return nil, err
	}
	// The last four bytes say whether the footer is encrypted; the first four are of the format alone.
	switch end := string(foot[4:]); {
	case end == "PARE":
		return nil, errEncrypted
	case string(head[:]) != "PAR1" || end != "PAR1":
		return nil, errMagic
	}
	n := int64(binary.LittleEndian.Uint32(foot[:]))
	// The length is of the file's author: unchecked it would be allocated, and read before the beginning.
	if n > size-magic-tail {
		return nil, errShort
	}
	if n > maxFooter {
		return nil, errFooter
	}
	f := &File{content: content, end: size - tail - n}
	footer := make([]byte, n)
	if err := readAt(content, footer, f.end); err != nil {
		return nil, err
	}
	return f, f.describe(footer)
}

// describe reads the FileMetaData. The row groups may precede or follow the schema.
func (f *File) describe(footer []byte) error {
	r := thrift{b: footer}
	var columns *thrift
	r.fields(func(id int16, kind byte) bool {
		// A copy of the reader at this field: fields come in any order, and columns must be known before row groups are
		// read.
		here := r
		switch {
		case id == 2 && kind == thriftList:
			columns = &here
		case id == 4 && kind == thriftList:
			f.groups = here
		case id == 8:
			r.fail(errEncrypted)
		}
		// False lets the caller skip the field. Only its place was needed.
		return false
	})
	if r.err != nil {
		return r.err
	}
	if columns == nil {
		return errSchema
	}
	var err error
	if f.Columns, err = readSchema(columns); err != nil {
		return err
	}
	if f.groups.b != nil {
		f.left = f.groups.list()
	}
	return f.groups.err
}

// chunk is the position of a column's pages in one row group.
type chunk struct {
	at, end int64
	values  int64
	codec   int32
}

// Next moves all readers to the next row group and returns its number of rows. It returns io.EOF at the end.
func (f *File) Next(readers []*Reader) (rows int64, err error) {
	if f.left == 0 {
		return 0, io.EOF
	}
	// Before the group is read: after an error the next call must not read it again from the middle.
	f.left--
	r := &f.groups
	wanted := make(map[int]*Reader, len(readers))
	for _, x := range readers {
		wanted[x.column] = x
	}
	seen := false
	r.fields(func(id int16, kind byte) bool {
		switch {
		case id == 1 && kind == thriftList:
			seen = true
			n := r.list()
			// Chunks have no names here, only places: with another number they would belong to other columns.
			if n != len(f.Columns) {
				r.fail(errDamaged)
			}
			for i := 0; i < n && r.err == nil; i++ {
				f.chunk(i, wanted[i])
			}
		case id == 3:
			rows = r.int()
		default:
			return false
		}
		return true
	})
	// A group without chunks says nothing of its rows, and a negative number would be a loop without end for the caller.
	if r.err == nil && (!seen || rows < 0) {
		r.fail(errDamaged)
	}
	return rows, r.err
}

// chunk reads a ColumnChunk and passes it to reader, if that is not nil.
func (f *File) chunk(column int, to *Reader) {
	r := &f.groups
	if to == nil {
		r.fields(func(int16, byte) bool { return false })
		return
	}
	var c chunk
	var kind int32
	var pages, dictionary int64
	there := false
	r.fields(func(id int16, k byte) bool {
		switch id {
		case 1, 8, 9: // in another file, or encrypted
			r.fail(errEncrypted)
		case 3:
			there = true
			return r.structure(k, func(id int16, _ byte) bool {
				switch id {
				case 1:
					kind = r.int32()
				case 4:
					c.codec = r.int32()
				case 5:
					c.values = r.int()
				case 7:
					c.end = r.int()
				case 9:
					pages = r.int()
				case 11:
					dictionary = r.int()
				default:
					return false
				}
				return true
			})
		}
		return false
	})
	if c.at = pages; dictionary > 0 && dictionary < pages {
		c.at = dictionary
	}
	if r.err == nil && (!there || kind != int32(f.Columns[column].Kind) || c.values < 0 || c.end < 0 || c.at < 0 ||
		c.at > f.end || c.end > f.end-c.at) {
		r.fail(errDamaged)
	}
	c.end += c.at
	to.begin(c)
}

// readAt reads all of p.
func readAt(r io.ReaderAt, p []byte, off int64) error {
	if n, err := r.ReadAt(p, off); n < len(p) {
		if err == nil || err == io.EOF {
			err = errShort
		}
		return err
	}
	return nil
}
