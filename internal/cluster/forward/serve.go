package forward

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net/http"
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
	// maxHolding bounds the bodies of the requests that are served for other nodes at a time, in bytes. Beyond it they
	// are refused.
	maxHolding = 64 << 20
)

// serving is a request that this node serves for another one.
type serving struct {
	cancel context.CancelFunc
	credit chan struct{} // for a part of the answer each
}

// requested receives a request of another node.
func (f *Forwarder) requested(m *nats.Msg) {
	ctx, cancel := context.WithCancel(context.Background())
	s := &serving{cancel: cancel, credit: make(chan struct{}, window)}
	f.mu.Lock()
	if f.config.Refuses() || f.holding+int64(len(m.Data)) > maxHolding || f.served[m.Reply] != nil {
		f.mu.Unlock()
		cancel()
		_ = m.Respond(control(kindRefused, ""))
		return
	}
	f.served[m.Reply] = s
	f.holding += int64(len(m.Data))
	f.mu.Unlock()
	go func() {
		defer func() {
			cancel()
			f.mu.Lock()
			defer f.mu.Unlock()
			delete(f.served, m.Reply)
			f.holding -= int64(len(m.Data))
			f.ended.Broadcast()
		}()
		f.serve(ctx, s, m)
	}()
}

// serve serves a request and sends the answer.
func (f *Forwarder) serve(ctx context.Context, s *serving, m *nats.Msg) {
	k, p := parse(m.Data)
	service, r, err := p.request(f.config.Mark(ctx))
	handler := f.config.Services[service].Handler
	if k != kindRequest || err != nil || handler == nil {
		// Of a later release, perhaps. Its node serves it.
		_ = m.Respond(control(kindRefused, ""))
		return
	}
	r.Body = http.NoBody
	if len(p.rest) > 0 {
		r.Body = io.NopCloser(bytes.NewReader(p.rest))
	}
	w := &writer{ctx: ctx, serving: s, message: m, header: http.Header{}}
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
	parts int // that were sent
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
	w.part = a.appendTo(make([]byte, 0, 1<<10))
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
	w.part = binary.AppendUvarint(append(begin(nil, kindBody), 0), uint64(w.parts))
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
	w.part = nil
}

// controlled receives what another node says about its exchanges.
func (f *Forwarder) controlled(m *nats.Msg) {
	k, p := parse(m.Data)
	if p.err != nil {
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
