package extent

import (
	"errors"
	"io"
	"runtime/debug"
)

// Content that is sent from a mapping is copied once, from the page cache to the socket, as by a write from memory.
// With sendfile, Linux passes page by page what it does not copy: on a loopback connection 64 MiB took 22 ms of
// processor time, from a mapping of a record at a time 16, from memory 15.

// errFault means that a page of a mapping cannot be read.
var errFault = errors.New("extent: a page of a mapping cannot be read")

// minMapped is the number of bytes from which a mapping costs less than it saves.
const minMapped = 256 << 10

// writeMapped writes a piece, at most a record, from a mapping of its file. mapped is false, and nothing is written, if
// the system maps no files.
//
// Errors: those of dst, or that of the file if a page of the mapping cannot be read.
func (s *Store) writeMapped(dst io.Writer, h *handle, x Slice) (n int, mapped bool, err error) {
	p, unmap, ok := mapFile(h.file, x.Offset, int(x.Length))
	if !ok {
		return 0, false, nil
	}
	defer unmap()
	n, err = writeFaulty(dst, p)
	if err == nil || !errors.Is(err, errFault) && !cannotRead(err) {
		return n, true, err
	}
	// Reading the bytes says why. Nothing more is written: a connection is of no use after a failed write.
	b := newBuffer(x.Length)
	defer b.free()
	if m, err := h.file.ReadAt(b.payload()[:x.Length], x.Offset); int64(m) < x.Length {
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
