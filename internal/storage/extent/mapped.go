package extent

import (
	"errors"
	"io"
	"runtime/debug"
)

// Content that is sent from a mapping is copied once, from the page cache to the socket, as by a write from memory.
// With sendfile, Linux passes page by page what it does not copy: on a loopback connection 64 MiB took 22 ms of
// processor time where mappings of a record each took 16. Mappings of some records, whose pages are entered as they are
// read and not all at once, took 10.5 ms where those took 17.7, and memory 10.3.

// errFault means that a page of a mapping cannot be read.
var errFault = errors.New("extent: a page of a mapping cannot be read")

const (
	// minMapped is the number of bytes from which a mapping costs less than it saves.
	minMapped = 256 << 10
	// mapWindow is the maximum length in bytes of a mapping of several records. Longer ones save nothing more, and are
	// memory of the process as far as they were sent.
	mapWindow = 4 << 20
)

// mapping is a part of a file in memory, for the pieces in it that are sent one after the other.
type mapping struct {
	from  int64 // its offset in the file
	bytes []byte
	unmap func()
}

// part returns the bytes of a piece; nil if the mapping does not have all of them.
func (m *mapping) part(x Slice) []byte {
	at := x.Offset - m.from
	if at < 0 || at+x.Length > int64(len(m.bytes)) {
		return nil
	}
	return m.bytes[at : at+x.Length : at+x.Length]
}

func (m *mapping) close() {
	if m.unmap != nil {
		m.unmap()
		*m = mapping{}
	}
}

// take returns the bytes of a piece, and maps the file from there to end if they are not mapped. ok is false if the
// system maps no files.
func (m *mapping) take(h *handle, x Slice, end int64) (p []byte, ok bool) {
	if p := m.part(x); p != nil {
		return p, true
	}
	m.close()
	bytes, unmap, ok := mapFile(h.file, x.Offset, int(end-x.Offset))
	if !ok {
		return nil, false
	}
	*m = mapping{x.Offset, bytes, unmap}
	return m.part(x), true
}

// writeMapped writes a piece, at most a record, from a mapping of its file, which reaches to end if it is new.
// mapped is false, and nothing is written, if the system maps no files.
//
// Errors: those of dst, or that of the file if a page of the mapping cannot be read.
func (s *Store) writeMapped(dst io.Writer, h *handle, m *mapping, x Slice, end int64) (n int, mapped bool, err error) {
	p, ok := m.take(h, x, end)
	if !ok {
		return 0, false, nil
	}
	n, err = writeFaulty(dst, p)
	if err == nil || !errors.Is(err, errFault) && !cannotRead(err) {
		return n, true, err
	}
	// Reading the bytes says why. Nothing more is written: a connection is of no use after a failed write.
	b := newBuffer(x.Length)
	defer b.free()
	if got, err := h.file.ReadAt(b.payload()[:x.Length], x.Offset); int64(got) < x.Length {
		return n, true, s.readError(x, err)
	}
	return n, true, s.corrupt(x, "it could not be read")
}

// writeFaulty writes memory that may fault: the file may be shorter than it was, or a block of the disk unreadable. A
// destination that reads such a page itself must not end the process; in the kernel it is an error of the write. The
// answer is incomplete then, at the latest from the page after the end of the file on.
func writeFaulty(dst io.Writer, p []byte) (n int, err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		v := recover()
		if v == nil {
			return
		}
		if _, fault := v.(interface{ Addr() uintptr }); !fault {
			panic(v)
		}
		err = errFault
	}()
	return dst.Write(p)
}
