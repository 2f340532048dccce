package httpserver

import (
	"bytes"
	"math"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/lazuli-storage/lazuli/internal/httpserver/headercase"
)

// requestScanner follows the requests in the bytes that a connection reads, for what net/http does not tell: the names
// of metadata headers as they were written, and which requests have both a Content-Length and a Transfer-Encoding. Such
// a request has two ends, and whatever stands between client and server may have taken the other one
// (https://www.rfc-editor.org/rfc/rfc9112#section-6.1). net/http drops the Content-Length and serves the request.
//
// It knows where each request ends, so content is never taken for a head, and a request that was sent right after
// another is found. It follows all requests that net/http accepts; net/http closes the connection after any other.
type requestScanner struct {
	names *headercase.Names
	state scanState
	pass  int64  // bytes of content, and of the line end after a chunk, before the next line
	line  []byte // what is known of a line that continues in the next read; at most maxLine bytes

	// Of the head that is being read.
	length        int64 // of the content; 0 without Content-Length
	hasLength     bool
	hasCoding     bool // Transfer-Encoding
	chunked       bool
	oldVersion    bool // HTTP/1.0, for which net/http ignores Transfer-Encoding
	framing       bool // the line before was one of the two
	contradictory bool // a value that cannot be understood

	heads, served int64        // complete heads, and those whose requests were served
	refused       atomic.Int64 // the number of the first head to refuse, 0 for none
	complete      atomic.Int64 // the number of requests that have arrived whole; see unread
	rest          atomic.Int64 // what is to arrive of the one after them
}

// scanState holds what the next line is.
type scanState uint8

const (
	scanRequestLine scanState = iota
	scanHeader
	scanChunkSize
	scanTrailer
)

// maxLine bounds the bytes that are kept of a line, which is above the length of a metadata name.
const maxLine = 1024

// scan follows the next bytes of the connection. Calls do not overlap.
func (s *requestScanner) scan(p []byte) {
	defer s.note()
	for len(p) > 0 {
		// A body is passed by its length, whatever is in it: it may look like a head.
		if s.pass > 0 {
			n := min(s.pass, int64(len(p)))
			s.pass -= n
			p = p[n:]
			continue
		}
		end := bytes.IndexByte(p, '\n')
		if end < 0 {
			s.keep(p)
			return
		}
		line := p[:end]
		if len(s.line) > 0 {
			s.keep(line)
			line = s.line
		}
		s.next(bytes.TrimSuffix(line, []byte("\r")))
		s.line = s.line[:0]
		p = p[end+1:]
	}
}

// keep keeps the beginning of a line.
func (s *requestScanner) keep(p []byte) {
	s.line = append(s.line, p[:min(len(p), maxLine-len(s.line))]...)
}

// next takes a line without its end.
func (s *requestScanner) next(line []byte) {
	switch s.state {
	case scanRequestLine:
		if len(line) == 0 { // net/http ignores it after POST
			return
		}
		s.length = 0
		s.hasLength = false
		s.hasCoding = false
		s.chunked = false
		s.framing = false
		s.contradictory = false
		s.oldVersion = bytes.HasSuffix(line, []byte("HTTP/1.0"))
		s.state = scanHeader
	case scanHeader:
		if len(line) == 0 {
			s.endHead()
		} else {
			s.header(line)
		}
	case scanChunkSize:
		size, ok := chunkSize(line)
		switch {
		case !ok: // net/http reads no further
			s.pass = math.MaxInt64
		case size == 0:
			s.state = scanTrailer
		default:
			s.pass = size + int64(len("\r\n"))
		}
	case scanTrailer:
		if len(line) == 0 {
			s.state = scanRequestLine
		}
	}
}

// header takes a line of a head.
func (s *requestScanner) header(line []byte) {
	switch line[0] {
	case 'x', 'X':
		s.names.Keep(line)
	case 'c', 'C':
		if value, ok := valueOf(line, "content-length"); ok {
			n, err := strconv.ParseUint(value, 10, 63)
			s.contradictory = s.contradictory || err != nil || s.hasLength && int64(n) != s.length
			s.hasLength, s.length, s.framing = true, int64(n), true
			return
		}
	case 't', 'T':
		if value, ok := valueOf(line, "transfer-encoding"); ok {
			s.contradictory = s.contradictory || s.hasCoding || !strings.EqualFold(value, "chunked")
			s.hasCoding, s.chunked, s.framing = true, !s.oldVersion, true
			return
		}
	case ' ', '\t': // the line before continues
		s.contradictory = s.contradictory || s.framing
		return
	}
	s.framing = false
}

// valueOf returns the value of the header with a name, given in lower case, if line is one of it.
func valueOf(line []byte, name string) (string, bool) {
	if len(line) <= len(name) || line[len(name)] != ':' || !strings.EqualFold(string(line[:len(name)]), name) {
		return "", false
	}
	return string(bytes.TrimSpace(line[len(name)+1:])), true
}

// endHead takes the end of a head.
func (s *requestScanner) endHead() {
	s.heads++
	if s.hasLength && s.hasCoding || s.contradictory {
		// The first one is kept, since every later request of the connection is refused as well.
		s.refused.CompareAndSwap(0, s.heads)
	}
	s.state = scanRequestLine
	if s.chunked {
		s.state = scanChunkSize
	} else {
		s.pass = s.length
	}
}

// chunkSize returns the size of a chunk, which begins the line.
func chunkSize(line []byte) (int64, bool) {
	digits, _, _ := bytes.Cut(line, []byte(";"))
	n, err := strconv.ParseUint(string(bytes.TrimSpace(digits)), 16, 62)
	return int64(n), err == nil
}

// note publishes how far the last request has arrived. The look-out of net/http for a closed connection reads while a
// handler asks.
func (s *requestScanner) note() {
	rest, complete := s.pass, s.heads
	switch {
	case s.heads == 0: // no head has arrived
	case s.state == scanRequestLine && rest > 0:
		complete--
	case s.state == scanChunkSize || s.state == scanTrailer:
		rest, complete = -1, complete-1
	}
	s.rest.Store(rest)
	s.complete.Store(complete)
}

// unread returns how many bytes are still to arrive of the body of the request that is served; -1 if it is sent in
// chunks and has not ended.
func (s *requestScanner) unread() int64 {
	if s.complete.Load() >= s.served {
		return 0
	}
	return s.rest.Load()
}

// ambiguous reports whether the next request to serve has to be refused. Once it has, every later one has to be.
func (s *requestScanner) ambiguous() bool {
	s.served++
	refused := s.refused.Load()
	return refused != 0 && s.served >= refused
}
