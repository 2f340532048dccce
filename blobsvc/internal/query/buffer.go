package query

import (
	"errors"
	"io"
)

const (
	// maxRecord is the length of the longest record in bytes.
	maxRecord = 4 << 20
	// readSize is the size of one read.
	readSize = 256 << 10
)

// window is the part of the content that is in memory: what lies between the record that is being read and what was read
// ahead of it.
type window struct {
	src  io.Reader
	work *work
	buf  []byte
	// start is where the record begins in buf, end where what was read ends; base is the offset in the content of buf[0].
	start, end int
	base       int64
	eof        bool
}

// bytes returns the buffered bytes from the record's start on.
func (w *window) bytes() []byte { return w.buf[w.start:w.end] }

// offset is the place in the content where the record starts.
func (w *window) offset() int64 { return w.base + int64(w.start) }

// more reads further. Bytes that were handed out before are not to be used any more. It returns io.EOF when there is nothing
// more, and errRecordTooLong when the record fills the window.
func (w *window) more() error {
	if w.eof {
		return io.EOF
	}
	if w.end-w.start >= maxRecord+readSize {
		return errRecordTooLong
	}
	if free := len(w.buf) - w.end; free < readSize/2 {
		to := w.buf
		if used := w.end - w.start; used+readSize > len(w.buf) {
			to = make([]byte, max(2*used, 2*readSize))
		}
		n := copy(to, w.bytes())
		w.buf, w.base, w.start, w.end = to, w.offset(), 0, n
	}
	// All that there is room for, however small the pieces of the content are: readers look at a record again after each call.
	n, err := io.ReadFull(w.src, w.buf[w.end:min(len(w.buf), w.end+readSize)])
	w.end += n
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		w.eof = true
		if err = nil; n == 0 {
			return io.EOF
		}
	}
	if err != nil {
		return err
	}
	return w.work.read(n)
}
