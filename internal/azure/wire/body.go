package wire

import (
	"bytes"
	"crypto/md5"
	"encoding/base64"
	"encoding/xml"
	"errors"
	"io"
	"net/http"
	"strings"
)

// maxAhead bounds the memory that is allocated for a body before its bytes arrive.
const maxAhead = 1 << 20

// ReadBody returns the whole request body. It fails with [ErrRequestBodyTooLarge] over limit bytes, with
// [ErrIncompleteBody] if the client stopped early, and with [ErrMD5Mismatch] or [ErrInvalidMD5] if
// Content-MD5 does not match. It allocates memory as bytes arrive, at most 1 MiB ahead of them, whatever the headers
// say.
func (r *Request) ReadBody(limit int64) ([]byte, error) { return r.ReadBodyInto(nil, limit) }

// ReadBodyInto is like [Request.ReadBody], in the memory of buf if its capacity suffices.
func (r *Request) ReadBodyInto(buf []byte, limit int64) ([]byte, error) {
	n := r.HTTP.ContentLength
	if n > limit {
		return nil, ErrRequestBodyTooLarge
	}
	// Only a short body, or one that fits into buf, gets its memory at once: the length is what the client says, and a
	// long one may never come.
	var b []byte
	switch {
	case n == 0:
		return nil, checkMD5(r.Headers().Get("Content-Md5"), nil)
	case n > 0 && n <= max(64<<10, int64(cap(buf))):
		if b = buf; int64(cap(b)) < n {
			b = make([]byte, n)
		}
		b = b[:n]
		if _, err := io.ReadFull(r.HTTP.Body, b); err != nil {
			return nil, BodyError(err)
		}
	default:
		grown := bytes.NewBuffer(buf[:0])
		grown.Grow(int(min(max(n, 0), maxAhead)) + bytes.MinRead) // MinRead: without it the buffer grows once more at the end
		// One byte more than the limit is read, which tells a body of the limit from a longer one.
		if _, err := io.Copy(grown, io.LimitReader(r.HTTP.Body, limit+1)); err != nil {
			return nil, BodyError(err)
		}
		if b = grown.Bytes(); int64(len(b)) > limit {
			return nil, ErrRequestBodyTooLarge
		}
	}
	return b, checkMD5(r.Headers().Get("Content-Md5"), b)
}

// checkMD5 compares a body with the Content-MD5 that was sent with it, "" for none.
func checkMD5(sent string, b []byte) error {
	if sent == "" {
		return nil
	}
	want, err := base64.StdEncoding.DecodeString(sent)
	if err != nil || len(want) != md5.Size {
		return ErrInvalidMD5
	}
	if got := md5.Sum(b); !bytes.Equal(got[:], want) {
		return ErrMD5Mismatch
	}
	return nil
}

// BodyError turns an error from reading a request body into the client's error: a body shorter than its
// Content-Length is [ErrIncompleteBody], one over a limit is [ErrRequestBodyTooLarge].
func BodyError(err error) error {
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		return ErrRequestBodyTooLarge
	}
	return ErrIncompleteBody
}

// DecodeXML reads the body, up to limit bytes, into v with encoding/xml, which does not load external entities. It
// fails with [ErrInvalidXMLDocument] and the errors of [Request.ReadBody]. An empty body is an invalid document.
func (r *Request) DecodeXML(limit int64, v any) error {
	b, err := r.ReadBody(limit)
	if err != nil {
		return err
	}
	return ParseXML(b, v)
}

// ParseXML decodes one document, with or without a byte order mark. It refuses anything after it, and elements for
// which v has no field.
func ParseXML(b []byte, v any) error {
	if err := refuseUnknown(newXMLDecoder(b), v); err != nil {
		return err
	}
	d := newXMLDecoder(b)
	if err := d.Decode(v); err != nil {
		return ErrInvalidXMLDocument
	}
	for {
		switch tok, err := d.Token(); {
		case err == io.EOF:
			return nil
		case err != nil:
			return ErrInvalidXMLDocument
		default:
			if text, ok := tok.(xml.CharData); !ok || len(bytes.TrimSpace(text)) > 0 {
				if _, comment := tok.(xml.Comment); !comment {
					return ErrInvalidXMLDocument
				}
			}
		}
	}
}

func newXMLDecoder(b []byte) *xml.Decoder {
	d := xml.NewDecoder(bytes.NewReader(bytes.TrimPrefix(b, []byte(byteOrderMark))))
	d.CharsetReader = XMLCharset
	return d
}

// XMLCharset is the CharsetReader of all XML documents of requests. Besides UTF-8 it reads ASCII, which the XML
// libraries of some clients declare.
func XMLCharset(label string, in io.Reader) (io.Reader, error) {
	if strings.EqualFold(label, "us-ascii") || strings.EqualFold(label, "ascii") {
		return in, nil
	}
	return nil, errors.New("only UTF-8 and ASCII are read")
}
