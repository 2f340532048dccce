package forward

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

const (
	// partSize is the size of the parts of an answer, in bytes.
	partSize = 128 << 10
	// window is the number of parts of an answer that are under way.
	window = 8
	// creditTimeout is the time that the node of the client may take to write the next part.
	creditTimeout = time.Minute
	// uploadWindow is the number of parts of a request's body that are under way.
	uploadWindow = 4
	// maxHolding bounds the bodies of the requests that are served for other nodes at a time, in bytes: those in one
	// message, and of the others what is under way. Beyond it they are refused.
	maxHolding = 64 << 20
)

// serving is a request that this node serves for another one.
type serving struct {
	cancel context.CancelFunc
	credit chan struct{} // for a part of the answer each
	parts  chan part     // of the body; it has room for all that were asked for
}

// part is one of a request's body.
type part struct {
	flags  byte
	number uint64
	data   []byte
}

// received receives what other nodes send to this one.
func (f *Forwarder) received(m *nats.Msg) {
	switch about := strings.TrimPrefix(m.Subject, subjectPrefix); {
	case strings.HasPrefix(about, "request."):
		f.requested(m)
	case strings.HasPrefix(about, "control."):
		f.controlled(m)
	case strings.HasPrefix(about, "upload."):
		f.uploaded(m)
	}
}

// requested receives a request of another node.
func (f *Forwarder) requested(m *nats.Msg) {
	ctx, cancel := context.WithCancel(context.Background())
	s := &serving{cancel: cancel, credit: make(chan struct{}, window)}
	holds := int64(len(m.Data))
	refuses := f.config.Refuses()
	if k, p := parse(m.Data); k == kindRequest {
		flags := p.flags()
		if flags&flagStream != 0 {
			s.parts = make(chan part, uploadWindow)
			holds += uploadWindow * partSize
		}
		refuses = refuses && (flags&flagInsist == 0 || !f.config.Reads())
	}
	f.mu.Lock()
	if f.closing || refuses || f.holding+holds > maxHolding || f.served[m.Reply] != nil {
		f.mu.Unlock()
		cancel()
		_ = m.Respond(control(kindRefused, ""))
		return
	}
	f.served[m.Reply] = s
	f.holding += holds
	f.mu.Unlock()
	t := task{ctx, s, m, holds}
	select {
	case f.tasks <- t:
	default:
		go f.work(t)
	}
}

// task is a request of another node that is to be served.
type task struct {
	ctx     context.Context
	serving *serving
	message *nats.Msg
	holds   int64 // bytes of it that are held
}

// maxIdle is the number of goroutines that wait for requests of other nodes. A new one begins with a small stack, and
// to make that larger several times costs as much as half of what passing an insert on costs this node.
const maxIdle = 64

// work serves a request, and then those that come, unless enough others wait for them.
func (f *Forwarder) work(t task) {
	for {
		f.finish(t)
		if f.idle.Add(1) > maxIdle {
			f.idle.Add(-1)
			return
		}
		select {
		case t = <-f.tasks:
			f.idle.Add(-1)
		case <-f.closed:
			return
		}
	}
}

// finish serves a request, and forgets it.
func (f *Forwarder) finish(t task) {
	defer func() {
		t.serving.cancel()
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.served, t.message.Reply)
		f.holding -= t.holds
		f.ended.Broadcast()
	}()
	f.serve(t.ctx, t.serving, t.message)
}

// serve serves a request and sends the answer.
func (f *Forwarder) serve(ctx context.Context, s *serving, m *nats.Msg) {
	k, p := parse(m.Data)
	service, r, flags, err := p.request(f.config.Mark(ctx))
	handler := f.service(service).Handler
	if k != kindRequest || err != nil || handler == nil {
		// Of a later release, perhaps. Its node serves it.
		_ = m.Respond(control(kindRefused, ""))
		return
	}
	if flags&flagSystem != 0 && f.config.AsSystem != nil {
		r = r.WithContext(f.config.AsSystem(r.Context()))
	}
	r.Body = http.NoBody
	switch {
	case flags&flagStream != 0:
		r.Body = &upload{f: f, ctx: ctx, serving: s, message: m}
	case len(p.rest) > 0:
		r.Body = io.NopCloser(bytes.NewReader(p.rest))
	}
	w := &writer{ctx: ctx, serving: s, message: m, header: make(http.Header, usualHeaders)}
	defer func() {
		// As net/http does: the handler has broken the connection, or has a defect, which it has logged.
		if recover() != nil {
			_ = m.Respond(control(kindBroken, ""))
		}
	}()
	handler.ServeHTTP(w, r)
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	w.send(flagLast)
}

// writer is the http.ResponseWriter of a request of another node.
type writer struct {
	ctx     context.Context
	serving *serving
	message *nats.Msg

	header   http.Header
	status   int // 0 before WriteHeader
	phraseOf int
	phrase   string
	// part is the next message: it begins with the head of the answer if that was not sent.
	part  []byte
	buf   *[]byte // that part is in
	parts int     // that were sent
	err   error
}

// Header implements http.ResponseWriter.
func (w *writer) Header() http.Header { return w.header }

// SetReason implements statusline.Reasoner.
func (w *writer) SetReason(status int, phrase string) { w.phraseOf, w.phrase = status, phrase }

// WriteHeader implements http.ResponseWriter.
func (w *writer) WriteHeader(status int) {
	if w.status != 0 || status < 200 {
		return
	}
	w.status = status
	a := answer{status: status, phraseOf: w.phraseOf, phrase: w.phrase, header: w.header}
	w.buf = messages.Get().(*[]byte)
	w.part = a.appendTo((*w.buf)[:0])
}

// Write implements io.Writer.
func (w *writer) Write(p []byte) (n int, err error) {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	for len(p) > 0 && w.err == nil {
		if w.part == nil {
			w.next()
		}
		some := min(len(p), max(partSize-len(w.part), 1))
		w.part, p, n = append(w.part, p[:some]...), p[some:], n+some
		if len(w.part) >= partSize {
			w.send(0)
		}
	}
	return n, w.err
}

// next begins the next part of the body.
func (w *writer) next() {
	w.buf = messages.Get().(*[]byte)
	w.part = binary.AppendUvarint(append(begin((*w.buf)[:0], kindBody), 0), uint64(w.parts))
}

// errGone means that the node of the client does not take the answer.
var errGone = errors.New("forward: the node of the client is gone")

// send sends the next part, when the other node has room for it.
func (w *writer) send(flags byte) {
	if w.err != nil {
		return
	}
	if w.part == nil {
		w.next()
	}
	w.part[2] = flags // of the head and of a part of the body
	if w.parts++; w.parts > window {
		late := time.NewTimer(creditTimeout)
		defer late.Stop()
		select {
		case <-w.serving.credit:
		case <-w.ctx.Done():
			w.err = errGone
			return
		case <-late.C:
			w.err = errGone
			return
		}
	}
	w.err = w.message.Respond(w.part)
	*w.buf = w.part // which may have grown; the connection has a copy
	messages.Put(w.buf)
	w.part, w.buf = nil, nil
}

// controlled receives what another node says about its exchanges.
func (f *Forwarder) controlled(m *nats.Msg) {
	k, p := parse(m.Data)
	if p.err != nil {
		return
	}
	if k == kindWhere {
		_ = m.Respond(f.here())
		return
	}
	f.mu.Lock()
	s := f.served[string(p.rest)]
	f.mu.Unlock()
	switch {
	case k == kindAsk && s != nil:
		_ = m.Respond(control(kindAtWork, ""))
	case k == kindAsk:
		_ = m.Respond(control(kindUnknown, ""))
	case s == nil: // its answer is complete
	case k == kindEnd:
		s.cancel()
	case k == kindCredit:
		select {
		case s.credit <- struct{}{}:
		default:
		}
	}
}

// here returns what this node says to a front-end.
func (f *Forwarder) here() []byte {
	h := here{reads: f.config.Reads(), homes: map[string]string{}}
	h.writes = h.reads && !f.config.Refuses()
	for log := range f.allHomes() {
		h.homes[log] = f.HomeOf(log)
	}
	return h.message()
}

// uploaded receives the parts of the bodies that this node has asked for.
func (f *Forwarder) uploaded(m *nats.Msg) {
	k, p := parse(m.Data)
	flags, number, key := p.flags(), p.number(), p.text()
	if p.err != nil || k != kindUpload {
		return
	}
	f.mu.Lock()
	s := f.served[key]
	f.mu.Unlock()
	if s == nil || s.parts == nil {
		return // it was answered without the rest
	}
	select {
	case s.parts <- part{flags, number, p.rest}:
	default: // more than was asked for
		s.cancel()
	}
}

// upload is the body of a request that arrives in parts. The first Read asks for it, so a request that is refused
// before costs no body, and a client that waits for 100 Continue need not send it.
type upload struct {
	f       *Forwarder
	ctx     context.Context
	serving *serving
	message *nats.Msg

	rest  []byte // of the part that is read
	last  byte   // flags of that part
	count uint64 // parts that have arrived
	asked bool
	err   error // what all further calls of Read return
}

// Read implements io.Reader.
func (u *upload) Read(p []byte) (n int, err error) {
	for len(u.rest) == 0 {
		switch {
		case u.err != nil:
			return 0, u.err
		case u.last&flagShort != 0:
			u.err = io.ErrUnexpectedEOF
			continue
		case u.last&flagLast != 0:
			u.err = io.EOF
			continue
		}
		u.err = u.next()
	}
	n = copy(p, u.rest)
	u.rest = u.rest[n:]
	return n, nil
}

// Close implements io.Closer.
func (u *upload) Close() error { return nil }

// next waits for the next part.
func (u *upload) next() error {
	// One part was read, so there is room for another one; at the beginning for all.
	wanted := uint64(1)
	if !u.asked {
		wanted, u.asked = uploadWindow, true
	}
	if err := u.message.Respond(binary.AppendUvarint(begin(nil, kindWant), wanted)); err != nil {
		return errGone
	}
	quiet := time.NewTimer(u.f.config.probe)
	defer quiet.Stop()
	for silent := 0; ; {
		select {
		case q := <-u.serving.parts:
			if u.count++; q.number != u.count {
				return errGone // one was lost on the way
			}
			u.rest, u.last = q.data, q.flags
			return nil
		case <-u.ctx.Done():
			return errGone
		case <-quiet.C:
			// A slow client is no reason to end its request; that its node is gone is one.
			m, err := u.f.conn.Request(u.message.Reply, control(kindAsk, ""), u.f.config.probe)
			silent++
			if err == nil {
				if k, _ := parse(m.Data); k == kindUnknown {
					return errGone
				}
				silent = 0
			}
			if errors.Is(err, nats.ErrNoResponders) || silent > patience {
				return errGone
			}
			quiet.Reset(u.f.config.probe)
		}
	}
}
