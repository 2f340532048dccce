package query

import (
	"errors"
	"io"
)

const (
	// maxRecord is the length of the longest record in bytes.
	maxRecord = 4 << 20
	// readSize is what is read at a time.
	readSize = 256 << 10
)

// window is the part of the content that is in memory: what lies between the record that is being read and what was read
// ahead of it.
type window struct {
	src io.Reader
	buf []byte
	// start is where the record begins in buf, end where what was read ends; base is the offset in the content of buf[0].
	start, end int
	base       int64
	eof        bool
}

// bytes is what is there from the record's start on.
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
	for range 100 {
		n, err := w.src.Read(w.buf[w.end:min(len(w.buf), w.end+readSize)])
		w.end += n
		if errors.Is(err, io.EOF) {
			w.eof = true
			if n > 0 {
				err = nil
			}
		}
		if n > 0 || err != nil {
			return err
		}
	}
	return io.ErrNoProgress
}
