package httpserver

import (
	"bytes"
	"net"
	"strconv"
	"sync"
)

// net/http has a buffer of 4 KiB for what it sends. It sends the head of an answer together with the beginning of the
// body when the buffer is full, and then the rest: two system calls and two packets for a body of 4 KiB, which wake the
// client twice. So a connection holds back the first of these writes until the second, which follows at once as a rule,
// and sends both together.
//
// What is held is sent at the latest when the request has ended or the connection is closed.
type heldWrite struct {
	mu  sync.Mutex // guards buf: a server may close its connections at any time
	buf *[]byte    // nil: nothing is held

	both net.Buffers // space of Write
	room [2][]byte
}

// sendBuffer is the size of net/http's buffer.
const sendBuffer = 4 << 10

// joinedSize is the length in bytes up to which the two writes are copied into one.
const joinedSize = 2 * sendBuffer

var heldBuffers = sync.Pool{New: func() any { b := make([]byte, 0, joinedSize); return &b }}

// hold copies p and reports true if p is a full buffer with the head of an answer, and more of the body follows.
func (h *heldWrite) hold(p []byte) bool {
	if len(p) != sendBuffer || !bodyFollows(p) {
		return false
	}
	buf := heldBuffers.Get().(*[]byte)
	*buf = append((*buf)[:0], p...)
	h.mu.Lock()
	h.buf = buf
	h.mu.Unlock()
	return true
}

// take returns what is held, nil if nothing is. The caller puts the buffer back.
func (h *heldWrite) take() *[]byte {
	h.mu.Lock()
	defer h.mu.Unlock()
	buf := h.buf
	h.buf = nil
	return buf
}

// bodyFollows reports whether p, which begins with the head of an answer, has a Content-Length above the length of what
// it has after the head.
func bodyFollows(p []byte) bool {
	head, body, whole := bytes.Cut(p, []byte("\r\n\r\n"))
	_, length, found := bytes.Cut(head, []byte("\r\nContent-Length: "))
	if !whole || !found {
		return false
	}
	if end := bytes.IndexByte(length, '\r'); end >= 0 {
		length = length[:end]
	}
	n, err := strconv.ParseInt(string(length), 10, 64)
	return err == nil && n > int64(len(body))
}

// writeHeld sends held and p. It returns the number of bytes of p that were sent.
func (c *conn) writeHeld(held *[]byte, p []byte) (int, error) {
	defer heldBuffers.Put(held)
	before := len(*held)
	if before+len(p) <= joinedSize {
		*held = append(*held, p...)
		n, err := c.stream.Write(*held)
		return max(n-before, 0), err
	}
	if c.stream != stream(&c.tcp) {
		if _, err := c.stream.Write(*held); err != nil {
			return 0, err
		}
		return c.stream.Write(p)
	}
	h := &c.held
	h.room = [2][]byte{*held, p}
	h.both = h.room[:]
	defer func() { h.room, h.both = [2][]byte{}, nil }()
	n, err := c.tcp.writeBuffers(&h.both)
	return int(max(n-int64(before), 0)), err
}

// sendHeld sends what is held.
func (c *conn) sendHeld() error {
	held := c.held.take()
	if held == nil {
		return nil
	}
	_, err := c.writeHeld(held, nil)
	return err
}
