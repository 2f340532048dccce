package frontend

import (
	"io"
	"net/http"
	"time"
)

// recorder notes the status and size of an answer, and sends it under deadlines. It passes ReadFrom through, so that
// files are still sent by the kernel.
type recorder struct {
	http.ResponseWriter
	status  int
	written int64
	d       deadlines // nil: without deadlines
	every   time.Duration
	unpaced int64 // bytes written since the deadline was moved
	failed  bool  // something could not be written
	// refusing, if set, is called before an error is rendered.
	refusing func()
}

// begin is called once, before anything is sent.
func (w *recorder) begin(status int) {
	w.status = status
	expose(w.Header())
	w.pace()
}

func (w *recorder) WriteHeader(status int) {
	if status >= 200 && w.status == 0 {
		w.begin(status)
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *recorder) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.begin(http.StatusOK)
	}
	if w.unpaced += int64(len(p)); w.unpaced > sendUnit/4 {
		w.unpaced = 0
		w.pace()
	}
	n, err := w.ResponseWriter.Write(p)
	w.written += int64(n)
	w.failed = w.failed || err != nil
	return n, err
}

// ReadFrom implements io.ReaderFrom.
func (w *recorder) ReadFrom(src io.Reader) (int64, error) {
	if w.status == 0 {
		w.begin(http.StatusOK)
	}
	n, err := w.readFrom(src)
	w.written += n
	return n, err
}

// Unwrap lets http.ResponseController reach the connection.
func (w *recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }
