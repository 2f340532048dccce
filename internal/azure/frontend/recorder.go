package frontend

import (
	"io"
	"net/http"
	"time"

	"github.com/lazuli-storage/lazuli/internal/httpserver/pacing"
)

// Recorder notes the status and the size of an answer and sends it under deadlines. It implements io.ReaderFrom, so
// that the kernel still sends files.
type Recorder struct {
	http.ResponseWriter
	// Status is the status that was sent, 0 before.
	Status int
	// Written is the size of the body in bytes.
	Written int64

	pace pacing.Writer
	// failed is set if a write failed.
	failed bool
	// sending, if set, is called before anything is sent, which can take as long as the client likes.
	sending func()
}

// NewRecorder returns a recorder of w that sends without deadlines if timeout is not positive, or if w has none.
func NewRecorder(w http.ResponseWriter, timeout time.Duration) *Recorder {
	out := &Recorder{ResponseWriter: w}
	if conn, ok := w.(pacing.Deadlines); ok && timeout > 0 {
		out.pace = pacing.NewWriter(conn, timeout)
	}
	return out
}

// begin is called once, before anything is sent.
func (w *Recorder) begin(status int) {
	w.Status = status
	expandExposedHeaders(w.Header())
	w.pace.Next()
}

// WriteHeader implements http.ResponseWriter.
func (w *Recorder) WriteHeader(status int) {
	if status >= 200 && w.Status == 0 {
		w.begin(status)
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements io.Writer.
func (w *Recorder) Write(p []byte) (int, error) {
	if w.Status == 0 {
		w.begin(http.StatusOK)
	}
	if w.sending != nil {
		w.sending()
	}
	w.pace.Sending(len(p))
	n, err := w.ResponseWriter.Write(p)
	w.Written += int64(n)
	w.failed = w.failed || err != nil
	return n, err
}

// ReadFrom implements io.ReaderFrom.
func (w *Recorder) ReadFrom(src io.Reader) (int64, error) {
	if w.Status == 0 {
		w.begin(http.StatusOK)
	}
	if w.sending != nil {
		w.sending()
	}
	n, err := w.pace.Copy(w.ResponseWriter, src)
	w.Written += n
	return n, err
}

// Unwrap lets http.ResponseController reach the connection.
func (w *Recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }
