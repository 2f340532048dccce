package tablesvc

import (
	"encoding/binary"
	"math/rand/v2"
	"net/http"
	"strconv"

	"github.com/lazuli-storage/lazuli/internal/state/table/entity"
)

// batchWriter writes the answer to a transaction, byte for byte as Azure does: CRLF everywhere, one blank line after a
// part's headers, and one line end between a part's content and the next boundary.
type batchWriter struct {
	call            *call
	buf             []byte
	boundary, inner string
	room            answerMemory

	// The lines before those of an entity, as they were last written, and what they depend on: most transactions have the
	// same ones a hundred times.
	opening            opening
	openingAt, openEnd int // in buf, 0 without a last one
}

// opening is what the first lines of the answer to a change depend on, but for its headers.
type opening struct {
	method                             string
	format                             format
	status                             int
	content, uncontrolled, unpreferred bool
}

// answerRoom is the approximate size in bytes of the answer to one change.
const answerRoom = 700

// newBatchWriter returns a writer with room for the answers to a number of changes. It may use the memory of buf.
func newBatchWriter(c *call, changes int, buf []byte) *batchWriter {
	if room := (changes + 1) * answerRoom; cap(buf) < room {
		buf = make([]byte, 0, room)
	}
	return &batchWriter{call: c, buf: buf[:0], boundary: "batchresponse_" + newGUID(),
		inner: "changesetresponse_" + newGUID()}
}

// newGUID returns a random GUID. It is unique, not secret.
func newGUID() string {
	var b [16]byte
	binary.LittleEndian.PutUint64(b[:8], rand.Uint64())
	binary.LittleEndian.PutUint64(b[8:], rand.Uint64())
	b[6], b[8] = b[6]&0x0F|0x40, b[8]&0x3F|0x80
	return string(entity.AppendGUID(nil, b[:]))
}

func (w *batchWriter) line(parts ...string) {
	for _, s := range parts {
		w.buf = append(w.buf, s...)
	}
	w.buf = append(w.buf, "\r\n"...)
}

// bytes writes a line that ends with value.
func (w *batchWriter) bytes(name string, value []byte) {
	w.buf = append(append(w.buf, name...), value...)
	w.buf = append(w.buf, "\r\n"...)
}

// beginChanges begins the part with the answers to the change set.
func (w *batchWriter) beginChanges() {
	w.line("--", w.boundary)
	w.line("Content-Type: multipart/mixed; boundary=", w.inner)
	w.line()
}

// change writes the answer to one change.
func (w *batchWriter) change(p *part, f format, a answer) { w.changeLike(nil, p, f, a) }

// changeLike is change after the answer to the change before, nil for none.
func (w *batchWriter) changeLike(before, p *part, f format, a answer) {
	o := opening{p.method, f, a.status, a.body != nil, a.uncontrolled, a.unpreferred}
	if before != nil && w.opening == o && p.sameHead(before) {
		w.buf = append(w.buf, w.buf[w.openingAt:w.openEnd]...)
	} else {
		w.opening, w.openingAt = o, len(w.buf)
		w.line("--", w.inner)
		w.open(p, f, a)
		w.openEnd = len(w.buf)
	}
	w.entity(a)
}

func (w *batchWriter) endChanges() { w.line("--", w.inner, "--") }

// single writes an answer outside a change set.
func (w *batchWriter) single(p *part, f format, a answer) {
	w.line("--", w.boundary)
	w.part(p, f, a)
}

func (w *batchWriter) part(p *part, f format, a answer) {
	w.open(p, f, a)
	w.entity(a)
}

// open writes the lines of a part up to those of its entity.
func (w *batchWriter) open(p *part, f format, a answer) {
	w.line("Content-Type: application/http")
	w.line("Content-Transfer-Encoding: binary")
	w.line()
	w.line("HTTP/1.1 ", strconv.Itoa(a.status), " ", http.StatusText(a.status))
	if id, ok := p.get("Content-ID"); ok {
		w.line("Content-ID: ", id)
	}
	w.line("X-Content-Type-Options: nosniff")
	if !a.uncontrolled {
		w.line("Cache-Control: no-cache")
	}
	prefer, _ := p.get("Prefer")
	if prefer = w.call.preference(prefer); prefer != "" && !a.unpreferred && preferenceApplies(p.method, a.status) {
		w.line("Preference-Applied: ", prefer)
	}
	// An answer with content has the version of its format, one without has the oldest possible version.
	if !f.atom && (a.body != nil || p.method == http.MethodPost) {
		w.line("DataServiceVersion: 3.0;")
	} else {
		w.line("DataServiceVersion: 1.0;")
	}
	if a.body != nil {
		w.line("Content-Type: ", a.contentType)
	}
}

// entity writes the rest of a part.
func (w *batchWriter) entity(a answer) {
	if a.location != nil {
		w.bytes("Location: ", a.location)
	}
	if a.located {
		w.bytes("DataServiceId: ", a.location)
	}
	if a.etag != "" {
		w.line("ETag: ", a.etag)
	}
	for _, h := range a.headers {
		w.line(h.Name, ": ", h.Value)
	}
	w.line()
	w.buf = append(w.buf, a.body...)
	w.line()
}

// preferenceApplies reports whether the answer to a part repeats its Prefer header: that of an insert or of a PUT also
// if it fails, that of a deletion never (recorded).
func preferenceApplies(method string, status int) bool {
	return method == http.MethodPost || method == http.MethodPut || status < 400 && method != http.MethodDelete
}

// end ends the answer and returns it.
func (w *batchWriter) end() []byte {
	w.line("--", w.boundary, "--")
	return w.buf
}
