package bench

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/lazuli-storage/lazuli/internal/exposure"
)

// opTimeout bounds one request: a server that says nothing for so long counts as an error, not as a hang of the run.
const opTimeout = 2 * time.Minute

// maxIdle is the time that an unused connection is trusted: servers close idle ones (Node.js after 5 s), and a request
// that meets such a close would count as an error of the server.
const maxIdle = 2 * time.Second

// StatusError is an answer other than the wanted one.
type StatusError struct {
	Method string
	Status int
	Code   string // Azure's error code, empty when the answer had none
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("%s answered %d %s", e.Method, e.Status, e.Code)
}

// Conn sends one worker's requests to one target, over one kept-alive connection per service. It reconnects after an
// error. Not safe for concurrent use.
type Conn struct {
	target *Target
	signer *Signer
	links  [serviceCount]*link
	head   []byte
	res    Response
	date   dateCache
	// capture, when set, sees every good answer.
	capture func(*Request, *Response)
	// done, when closed, keeps further requests from being sent: operations of many requests end early.
	done <-chan struct{}
}

type link struct {
	net.Conn
	in *reader
	// touched is the time at which the deadline was last moved: moving it costs as much as a small system call.
	touched time.Time
	used    time.Time
}

func newConn(t *Target) *Conn {
	return &Conn{target: t, signer: NewSigner(t.Stack.Account, t.Stack.Key)}
}

// Close closes the connections; the Conn stays usable and dials again.
func (c *Conn) Close() {
	for svc := range c.links {
		c.drop(Service(svc))
	}
}

func (c *Conn) drop(svc Service) {
	if l := c.links[svc]; l != nil {
		l.Close()
		c.links[svc] = nil
	}
}

func (c *Conn) link(svc Service, now time.Time) (*link, error) {
	if l := c.links[svc]; l != nil {
		if now.Sub(l.used) < maxIdle {
			return l, nil
		}
		c.drop(svc)
	}
	e := &c.target.Stack.Endpoints[svc]
	nc, err := net.DialTimeout("tcp", e.Addr, 10*time.Second)
	if err != nil {
		return nil, err
	}
	if e.TLS {
		host, _, _ := net.SplitHostPort(e.Addr)
		nc = tls.Client(nc, &tls.Config{ServerName: host, InsecureSkipVerify: exposure.Local(host)})
	}
	l := &link{Conn: nc, in: newReader(nc)}
	c.links[svc] = l
	return l, nil
}

// Do sends r and reads the answer, which is valid until the next Do. An answer with another status than r.Want is a
// *StatusError, returned together with the response. Once the run is interrupted it sends nothing and returns errDone.
func (c *Conn) Do(r *Request) (*Response, error) {
	select {
	case <-c.done:
		return nil, errDone
	default:
	}
	now := time.Now()
	l, err := c.link(r.Service, now)
	if err != nil {
		return nil, err
	}
	// The deadline is moved once in a while and not for each request: setting it costs a timer, as much as a small
	// request does.
	if now.Sub(l.touched) > opTimeout/2 {
		l.touched = now
		if err := l.SetDeadline(now.Add(opTimeout + opTimeout/2)); err != nil {
			return nil, err
		}
	}
	e := &c.target.Stack.Endpoints[r.Service]
	c.head = r.encode(c.head[:0], e, c.signer, c.date.at(now), c.target.sample(r.Class))
	reusable, err := c.exchange(l, r)
	// Taken after the answer: a connection that the server may close when idle is judged by this.
	l.used = time.Now()
	// A connection whose answer was not read to its end would give that rest to the next request.
	if err != nil || !reusable {
		c.drop(r.Service)
	}
	if err != nil {
		return nil, err
	}
	// A wrong status is an error and the answer is still returned, as its headers and code say why.
	if c.res.Status != r.Want {
		return &c.res, &StatusError{Method: r.Method, Status: c.res.Status, Code: errorCode(&c.res)}
	}
	if c.capture != nil {
		c.capture(r, &c.res)
	}
	return &c.res, nil
}

// exchange writes the encoded head and the body, and reads the answer.
func (c *Conn) exchange(l *link, r *Request) (reusable bool, err error) {
	const joinLimit = 256 << 10 // below this, one copy is cheaper than a second packet
	if n := len(r.Body); n > 0 && n <= joinLimit {
		c.head = append(c.head, r.Body...)
		_, err = l.Write(c.head)
	} else {
		parts := net.Buffers{c.head, r.Body}
		_, err = parts.WriteTo(l.Conn)
	}
	if err != nil {
		return false, err
	}
	return l.in.read(r, &c.res)
}

// dateCache keeps the HTTP date of the current second.
type dateCache struct {
	second int64
	text   string
}

func (d *dateCache) at(now time.Time) string {
	if s := now.Unix(); s != d.second || d.text == "" {
		d.second, d.text = s, now.UTC().Format(http.TimeFormat)
	}
	return d.text
}

// errorCode finds Azure's error code: in its header, or in the XML or JSON body of servers that leave the header out.
func errorCode(res *Response) string {
	if v := res.Header("x-ms-error-code"); v != nil {
		return string(v)
	}
	for _, mark := range []string{"<Code>", `"code":"`, "<m:code>", "<code>"} {
		if v := textAfter(res.Body, mark); v != nil {
			return string(v)
		}
	}
	return ""
}

// textAfter returns the text between mark and the next '<' or '"' of b, at most 128 bytes; nil if mark is absent.
func textAfter(b []byte, mark string) []byte { return textAfterN(b, mark, 128) }

// textAfterN is textAfter with a bound of its own.
func textAfterN(b []byte, mark string, limit int) []byte {
	i := bytes.Index(b, []byte(mark))
	if i < 0 {
		return nil
	}
	b = b[i+len(mark):]
	if n := bytes.IndexAny(b[:min(len(b), limit+1)], `<"`); n >= 0 {
		return b[:n]
	}
	return nil
}

// errorLabel is the name under which a failed operation is counted.
func errorLabel(err error) string {
	var status *StatusError
	var netErr net.Error
	switch {
	case errors.As(err, &status):
		if status.Code == "" {
			return fmt.Sprintf("%d", status.Status)
		}
		return fmt.Sprintf("%d %s", status.Status, status.Code)
	case errors.As(err, &netErr) && netErr.Timeout():
		return "timeout"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "connection closed"
	}
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Op + ": " + op.Err.Error()
	}
	return err.Error()
}

// errDone ends a worker's slice early: there is nothing left to do.
var errDone = errors.New("nothing left to do in this slice")
