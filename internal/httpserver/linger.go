package httpserver

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// A request may be answered before its body has arrived: most refusals are known once the head is. The answer is sent
// at once, with "Connection: close", so that a client that reads while it sends stops. Many clients read nothing before
// they have sent all (HttpClient of .NET, http.client of Python), and a connection that is closed with bytes unread is
// reset, which they take for a broken network. So the sending direction is closed after the answer, and what still
// arrives is read and dropped until the client closes the connection, within the bounds of lingerLimits
// (https://www.rfc-editor.org/rfc/rfc9112#section-9.6).

// lingerLimits bound what is read of a request that was answered already.
type lingerLimits struct {
	// slots bounds the connections that linger at once; one beyond them lingers for shortTime.
	slots     *Limiter
	shortTime time.Duration
	// body bounds a declared length in bytes, undeclared a body in chunks, and head one whose length is not known
	// because the head could not be understood.
	body, undeclared, head int64
	// time bounds the whole. At least unit bytes have to arrive in each pause.
	time, pause time.Duration
	unit        int64
}

// defaultLinger are the limits of all servers of the process. The body is that of the largest operation, Put Blob
// (https://learn.microsoft.com/rest/api/storageservices/put-blob#remarks).
var defaultLinger = lingerLimits{slots: NewLimiter(128), shortTime: 500 * time.Millisecond, body: 5000 << 20,
	undeclared: 256 << 20, head: 16 << 20, time: 10 * time.Minute, pause: 5 * time.Second, unit: 16 << 10}

// lingering holds the connections of a server that linger, so that a stop does not wait for them.
type lingering struct {
	limits *lingerLimits

	mu      sync.Mutex
	conns   map[*conn]struct{} // guarded by mu
	stopped bool               // guarded by mu
}

// add notes a connection. It returns false after stop.
func (l *lingering) add(c *conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopped {
		return false
	}
	l.conns[c] = struct{}{}
	return true
}

func (l *lingering) remove(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, c)
}

// stop ends the lingering of all connections, and of those to come.
func (l *lingering) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopped = true
	for c := range l.conns {
		_ = c.tcp.SetReadDeadline(interrupted)
	}
}

// smallRest is the number of bytes up to which net/http waits for the rest of a body before it answers, and keeps the
// connection, less what its buffer may have of them: 256 KiB.
const smallRest = 252 << 10

// endsUnread is called when the answer to r begins. If more of the body is to come than is worth waiting for, it tells
// net/http to send the answer at once and to end the connection. A client that waits for "100 Continue" may send its
// body or not, one in chunks has no end that is known, and one that asked for the end of the connection gains nothing
// by the wait: for them any rest is too much.
func (c *conn) endsUnread(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength == 0 || c.ends {
		return
	}
	rest := c.requests.unread()
	if rest == 0 || rest > 0 && rest <= smallRest && !r.Close && r.Header["Expect"] == nil {
		return
	}
	c.ends = true
	// MaxBytesReader is net/http's way to end a connection after the answer; what it reads here is no request's body.
	_, _ = http.MaxBytesReader(w, io.NopCloser(strings.NewReader("ab")), 0).Read(make([]byte, 2))
}

// discarded are the buffers for what is dropped.
var discarded = sync.Pool{New: func() any { b := make([]byte, 32<<10); return &b }}

// linger reads and drops what the client sends after the answer. The sending direction is closed already.
func (c *conn) linger() {
	if c.ending == nil || !c.ending.add(c) {
		return
	}
	defer c.ending.remove(c)
	limits := c.ending.limits
	end := time.Now().Add(limits.time)
	if limits.slots.Enter() {
		defer limits.slots.Leave()
	} else {
		end = time.Now().Add(limits.shortTime)
	}
	buf := discarded.Get().(*[]byte)
	defer discarded.Put(buf)
	// It reads below TLS: nothing is decrypted to be dropped.
	for left := c.lingerBytes(limits); left > 0; {
		next := time.Now().Add(limits.pause)
		if next.After(end) {
			next = end
		}
		if !c.ending.arm(c, next) {
			return
		}
		// One deadline holds for a whole unit: a client that sends a byte now and then cannot prolong it with each of them.
		for unit := limits.unit; unit > 0 && left > 0; {
			n, err := c.tcp.Read((*buf)[:min(int64(len(*buf)), left)])
			if err != nil {
				return
			}
			unit -= int64(n)
			left -= int64(n)
		}
	}
}

// arm sets the read deadline of a connection that lingers. It returns false after stop, whose deadline must stay.
func (l *lingering) arm(c *conn, deadline time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.stopped && c.tcp.SetReadDeadline(deadline) == nil
}

// lingerBytes returns how many bytes of the client are read at most.
func (c *conn) lingerBytes(limits *lingerLimits) int64 {
	rest := c.requests.unread()
	switch {
	case !c.ends:
		return limits.head
	case rest < 0:
		return limits.undeclared
	}
	rest = min(rest, limits.body)
	if c.stream != stream(&c.tcp) {
		rest += rest/8 + 1<<20 // what TLS adds to each record, and its own messages
	}
	return rest
}
