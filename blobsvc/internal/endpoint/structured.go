package endpoint

import (
	"encoding/binary"
	"errors"
	"io"
	"net/http"

	"github.com/minio/crc64nvme"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/state/blob/content"
)

// Structured bodies: content in segments, each with its checksum, so that a long body is checked while it comes. The
// form is that of Azure's SDKs, version 1; integers are little-endian:
//
//	message header   1  version, 1
//	                 8  length of the message, all in all
//	                 2  flags: 1 for CRC64
//	                 2  number of segments
//	each segment     2  its number, from 1
//	                 8  length of its content
//	                 n  content
//	                 8  CRC64 of the content
//	message footer   8  CRC64 of the content of all segments

const (
	structuredHeader = "X-Ms-Structured-Body"
	structuredLength = "X-Ms-Structured-Content-Length"
	// StructuredForm is the only form there is.
	StructuredForm = "XSM/1.0; properties=crc64"
	// structuredSegment is the content of a segment in an answer, in bytes.
	structuredSegment = 4 * MiB

	messageHeaderSize, segmentHeaderSize, checksumSize = 13, 10, 8
)

// errStructuredBody: a body that is not of the form that its header names.
var errStructuredBody = wire.ErrInvalidInput.WithMessage("The structured body is malformed.")

// Structured reports whether the body of a request is structured, or its answer is to be.
func Structured(h wire.Headers) (bool, error) {
	form := h.Get(structuredHeader)
	if form != "" && form != StructuredForm {
		return false, wire.InvalidHeader("x-ms-structured-body", form)
	}
	return form != "", nil
}

// takesStructured are the operations whose bodies may be structured, by method and comp.
var takesStructured = map[[2]string]bool{
	{http.MethodGet, ""}: true, {http.MethodHead, ""}: true,
	{http.MethodPut, ""}: true, {http.MethodPut, "block"}: true, {http.MethodPut, "page"}: true,
	{http.MethodPut, "appendblock"}: true,
}

// refuseStructured refuses a structured body where the operation takes none, and its length without it.
func (c *Call) refuseStructured() error {
	takes := takesStructured[[2]string{c.HTTP.Method, c.Comp}]
	if c.Lake {
		takes = c.Comp == "append"
	}
	if c.HasHeader(structuredHeader) && (!takes || c.HasHeader(CopySourceHeader)) {
		return wire.ErrUnsupportedHeader.With("HeaderName", "x-ms-structured-body")
	}
	if c.HasHeader(structuredLength) && !c.HasHeader(structuredHeader) {
		return wire.MissingHeader("x-ms-structured-body")
	}
	return nil
}

// structuredContent is the length of a request's content, where its body is structured and has a length in bytes.
func structuredContent(h wire.Headers, length int64) (int64, error) {
	text := h.Get(structuredLength)
	if text == "" {
		return 0, wire.MissingHeader("x-ms-structured-content-length")
	}
	n, ok := ParseOffset(text)
	if !ok || n > length {
		return 0, wire.InvalidHeader("x-ms-structured-content-length", text)
	}
	return n, nil
}

// structuredReader reads the content of a structured body and checks its headers, checksums and trailer. An error is
// final.
type structuredReader struct {
	r              io.Reader
	length         int64 // of the message
	left           int64 // of the content of the segment at hand
	number, total  int   // of segments
	segment, whole uint64
	err            error
}

func newStructuredReader(r io.Reader, length int64) *structuredReader {
	return &structuredReader{r: r, length: length, total: -1}
}

// Read implements io.Reader.
func (m *structuredReader) Read(p []byte) (int, error) {
	// Segments may be empty, so that several headers may come before the next content.
	for m.err == nil && m.left == 0 {
		m.err = m.next()
	}
	if m.err != nil {
		return 0, m.err
	}
	n, err := m.r.Read(p[:min(int64(len(p)), m.left)])
	m.segment = crc64nvme.Update(m.segment, p[:n])
	m.whole = crc64nvme.Update(m.whole, p[:n])
	if m.left -= int64(n); err == io.EOF && m.left > 0 {
		err = io.ErrUnexpectedEOF
	}
	// The content of the segment is complete. If its checksum is missing, the next call finds out.
	if err == io.EOF {
		err = nil
	}
	if err != nil {
		m.err = wire.BodyError(err)
	}
	return n, m.err
}

// next reads up to the content of the next segment. It fails with io.EOF after the last.
func (m *structuredReader) next() error {
	var b [messageHeaderSize]byte
	take := func(n int) ([]byte, error) {
		if _, err := io.ReadFull(m.r, b[:n]); err != nil {
			return nil, wire.BodyError(err)
		}
		return b[:n], nil
	}
	checksum := func(want uint64) error {
		got, err := take(checksumSize)
		if err == nil && binary.LittleEndian.Uint64(got) != want {
			err = wire.ErrCRC64Mismatch.With("UserSpecifiedCrc",
				FormatCRC(binary.LittleEndian.Uint64(got))).With("ServerCalculatedCrc", FormatCRC(want))
		}
		return err
	}
	if m.total < 0 {
		h, err := take(messageHeaderSize)
		if err != nil {
			return err
		}
		if h[0] != 1 || int64(binary.LittleEndian.Uint64(h[1:])) != m.length || binary.LittleEndian.Uint16(h[9:]) != 1 {
			return errStructuredBody
		}
		m.total = int(binary.LittleEndian.Uint16(h[11:]))
	} else if err := checksum(m.segment); err != nil {
		return err
	}
	// The checksum of the last segment is followed by that of the whole, and then by nothing.
	if m.number == m.total {
		if err := checksum(m.whole); err != nil {
			return err
		}
		return io.EOF
	}
	h, err := take(segmentHeaderSize)
	if err != nil {
		return err
	}
	m.number++
	m.segment = 0
	// A negative length would make Read panic, and one beyond the message cannot be true.
	if m.left = int64(binary.LittleEndian.Uint64(h[2:])); int(binary.LittleEndian.Uint16(h)) != m.number || m.left < 0 ||
		m.left > m.length {
		return errStructuredBody
	}
	return nil
}

// finish checks what follows the content: it must be over.
func (m *structuredReader) finish() error {
	n, err := m.Read(make([]byte, 1))
	switch {
	case n > 0:
		return errStructuredBody
	case errors.Is(err, io.EOF):
		return nil
	}
	return err
}

// StructuredSize is the length in bytes of a structured body with n bytes of content.
func StructuredSize(n int64) int64 {
	return messageHeaderSize + structuredSegments(n)*(segmentHeaderSize+checksumSize) + n + checksumSize
}

// structuredSegments is in how many segments n bytes are sent: one at least, and as many as their number has room for.
func structuredSegments(n int64) int64 { return max(1, (n+segmentSize(n)-1)/segmentSize(n)) }

func segmentSize(n int64) int64 { return max(structuredSegment, (n+1<<16-2)/(1<<16-1)) }

// WriteStructured writes n bytes of r as a structured body.
func WriteStructured(w io.Writer, r io.Reader, n int64) error {
	chunk := content.TakeChunk()
	defer content.FreeChunk(chunk)
	segments, size := structuredSegments(n), segmentSize(n)
	// head is the header of the message and of the first segment, and later the checksum of one segment with the header
	// of the next: each goes out in one write.
	head := append(make([]byte, 0, messageHeaderSize+segmentHeaderSize), 1)
	head = binary.LittleEndian.AppendUint64(head, uint64(StructuredSize(n)))
	head = binary.LittleEndian.AppendUint16(head, 1)
	head = binary.LittleEndian.AppendUint16(head, uint16(segments))
	var whole uint64
	for i := range segments {
		left := min(size, n-i*size)
		head = binary.LittleEndian.AppendUint16(head, uint16(i+1))
		head = binary.LittleEndian.AppendUint64(head, uint64(left))
		if _, err := w.Write(head); err != nil {
			return err
		}
		var crc uint64
		for left > 0 {
			b := chunk[:min(left, content.ChunkSize)]
			if _, err := io.ReadFull(r, b); err != nil {
				return err
			}
			crc, whole = crc64nvme.Update(crc, b), crc64nvme.Update(whole, b)
			if _, err := w.Write(b); err != nil {
				return err
			}
			left -= int64(len(b))
		}
		head = binary.LittleEndian.AppendUint64(head[:0], crc)
	}
	_, err := w.Write(binary.LittleEndian.AppendUint64(head, whole))
	return err
}
