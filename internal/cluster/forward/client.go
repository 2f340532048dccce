package forward

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/lazuli-storage/lazuli/internal/httpserver/statusline"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// exchange is a request that this node has passed on. in has room for all that the home may send without a credit.
type exchange struct {
	key  string
	home string
	// elsewhere returns the node that can serve what the home, which is silent, has not answered; "" before that.
	elsewhere func() string
	in        chan *nats.Msg
}

// errNotTaken: the home has not begun to serve the request, and will not.
var errNotTaken = errors.New("forward: not taken")

// errBroken: the answer has ended in the middle.
var errBroken = errors.New("forward: the home has broken the answer off")

var (
	messages = sync.Pool{New: func() any { return new([]byte) }}
	timers   = sync.Pool{New: func() any { return time.NewTimer(time.Hour) }}
)

// Forward passes a request to the home of a service's log. done is false if it has to be served here: then no node has
// begun to serve it, nothing was sent to the client, and the body of r can be read from its beginning. released ends
// the wait of a request for a change; it may be nil.
//
// Errors, with done: [store.ErrUnknown] if the outcome is unknown; that of the request's context; and that the answer
// ended in the middle, when a part of it was sent.
func (f *Forwarder) Forward(w http.ResponseWriter, r *http.Request, service string,
	released <-chan struct{}) (done bool, err error) {
	node := f.home(service)
	if node == "" {
		return false, nil
	}
	log := f.service(service).Log
	h := f.homeAt(log)
	if h == nil { // it was removed just now
		return false, nil
	}
	if f.isSilent(node) {
		h.outcomes[kept].Add(1)
		return false, nil
	}
	body, whole := bodyOf(r)
	if !whole {
		h.outcomes[kept].Add(1)
		return false, nil
	}
	elsewhere := func() string { return f.HomeOf(log) }
	err = f.exchange(w, r, node, outgoing{content: body}, service, 0, elsewhere, released)
	switch {
	case errors.Is(err, errNotTaken):
		h.outcomes[kept].Add(1)
		return false, nil
	case errors.Is(err, store.ErrUnknown):
		h.outcomes[unknown].Add(1)
	default:
		h.outcomes[passed].Add(1)
	}
	return true, err
}

// bodyOf reads the body of a request, if it is small enough and can be read. In any case it can be read again.
func bodyOf(r *http.Request) (body []byte, whole bool) {
	switch {
	case r.Body == nil || r.Body == http.NoBody || r.ContentLength == 0:
		return nil, true
	case r.ContentLength > MaxBody || len(r.Trailer) > 0:
		return nil, false
	}
	var err error
	if n := r.ContentLength; n > 0 {
		body = make([]byte, n)
		var got int
		got, err = io.ReadFull(r.Body, body)
		body = body[:got]
	} else {
		body, err = io.ReadAll(io.LimitReader(r.Body, MaxBody+1))
	}
	// What was read comes first, then the rest, or the error again.
	again := &restored{rest: r.Body, Closer: r.Body}
	again.read.Reset(body)
	whole = err == nil && len(body) <= MaxBody && len(r.Trailer) == 0
	switch {
	case err != nil:
		again.rest = failing{err}
	case whole:
		again.rest = http.NoBody
	}
	r.Body = again
	return body, whole
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// restored is a body of which a part was read before.
type restored struct {
	read bytes.Reader
	rest io.Reader
	io.Closer
}

func (r *restored) Read(p []byte) (int, error) {
	if r.read.Len() > 0 {
		return r.read.Read(p)
	}
	return r.rest.Read(p)
}

// outgoing is the body of a request that is passed on.
type outgoing struct {
	content []byte // the whole body, unless it is streamed
	// stream is the body if the home gets it in parts, as it asks for them.
	stream io.Reader
	length int64  // of the stream; -1 if it is not known
	wanted uint64 // parts that the home takes now
	parts  uint64 // that were sent
	sent   int64  // bytes
	ended  bool   // the last part was sent
}

// sendPart reads the next part of the body and sends it. It waits for the client.
func (f *Forwarder) sendPart(e *exchange, body *outgoing) error {
	buf := messages.Get().(*[]byte)
	defer messages.Put(buf)
	body.parts++
	b := appendText(binary.AppendUvarint(append(begin((*buf)[:0], kindUpload), 0), body.parts), e.key)
	head := len(b)
	b = slices.Grow(b, partSize)[:head+partSize]
	// A slow client must not hold up what it has sent; a fast one sends more than a half at a time.
	n, err := io.ReadAtLeast(clientBody{body.stream}, b[head:], partSize/2)
	body.sent += int64(n)
	switch {
	case errors.Is(err, errShort):
		b[2], body.ended = flagLast|flagShort, true
	// A few last bytes are unexpected to ReadAtLeast. A home that knows the length may not ask for the end after them.
	case err != nil, body.sent == body.length:
		b[2], body.ended = flagLast, true
	}
	*buf = b[:head+n]
	body.wanted--
	return f.conn.Publish(uploadSubject(e.home), *buf)
}

// clientBody is a body whose early end is errShort, and no other error.
type clientBody struct{ io.Reader }

// errShort means that the client has broken its body off.
var errShort = errors.New("forward: the client has broken its body off")

func (b clientBody) Read(p []byte) (n int, err error) {
	if n, err = b.Reader.Read(p); err != nil && err != io.EOF { //nolint:errorlint // readers return io.EOF itself
		err = errShort
	}
	return n, err
}

// exchange sends a request and writes the answer. flags may have flagInsist.
func (f *Forwarder) exchange(w http.ResponseWriter, r *http.Request, node string, body outgoing, service string,
	flags byte, elsewhere func() string, released <-chan struct{}) error {
	e := &exchange{key: f.inbox + strconv.FormatUint(f.last.Add(1), 36), home: node, elsewhere: elsewhere,
		in: make(chan *nats.Msg, window+uploadWindow+8)}
	f.mu.Lock()
	f.sent[e.key] = e
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		delete(f.sent, e.key)
		f.mu.Unlock()
	}()
	if body.stream != nil {
		flags |= flagStream
	}
	if f.config.System != nil && f.config.System(r.Context()) {
		flags |= flagSystem
	}
	buf := messages.Get().(*[]byte)
	*buf = append(appendRequest((*buf)[:0], service, r, flags), body.content...)
	err := f.conn.PublishRequest(requestSubject(node), e.key, *buf)
	messages.Put(buf)
	if err != nil {
		return errNotTaken // the client library has not taken it
	}
	return f.receive(r.Context(), w, e, &body, released)
}

// receive writes the answer of an exchange as it arrives, and sends the body that the home asks for. It does both in
// turns: what reads a client's body must not run beside what answers it.
func (f *Forwarder) receive(ctx context.Context, w http.ResponseWriter, e *exchange, body *outgoing,
	released <-chan struct{}) error {
	got := receiver{body: body}
	quiet := timers.Get().(*time.Timer)
	quiet.Reset(f.config.probe)
	defer func() {
		quiet.Stop() // nothing is in its channel after that
		timers.Put(quiet)
	}()
	var looks <-chan time.Time // whether another node can serve the request, once this one is suspected
	for asked := 0; ; {
		// What the home has said comes first: it may have answered without the rest of the body.
		if body.wanted > 0 && !body.ended && len(e.in) == 0 {
			if err := f.sendPart(e, body); err != nil {
				return got.lost(err.Error())
			}
			asked = 0
			quiet.Reset(f.config.probe)
			continue
		}
		select {
		case m := <-e.in:
			asked = 0
			quiet.Reset(f.config.probe)
			last, err := got.take(w, m)
			if err != nil || last {
				return err
			}
			if got.credit { // that part was written
				got.credit = false
				f.control(e, kindCredit)
			}
		case <-quiet.C:
			// Silence is no proof: the request may take long. The home says whether it is still at work.
			if asked++; asked > 1 {
				f.suspect(e.home)
				looks = time.After(f.config.probe / 5)
			}
			if asked > patience {
				return got.lost("it does not answer")
			}
			if err := f.conn.PublishRequest(controlSubject(e.home), e.key+questionSuffix,
				control(kindAsk, e.key)); err != nil {
				return got.lost(err.Error())
			}
			quiet.Reset(f.config.probe)
		case <-looks:
			// The others have elected another leader, since they have not heard from this one for longer than this node. Its
			// client's next request can be served now, and the outcome of this one will not become known.
			if now := e.elsewhere(); asked > 1 && now != "" && now != e.home {
				return got.lost("it does not answer, and " + now + " can serve the request")
			}
			if asked > 1 {
				looks = time.After(f.config.probe / 5)
			}
		case <-released:
			released = nil
			f.control(e, kindEnd) // the answer is that of a wait that has ended
		case <-ctx.Done():
			f.control(e, kindEnd)
			return context.Cause(ctx)
		case <-f.closed:
			return got.lost("this node stops")
		}
	}
}

// control tells the home something about an exchange.
func (f *Forwarder) control(e *exchange, k kind) {
	_ = f.conn.Publish(controlSubject(e.home), control(k, e.key)) // a connection that was lost shows elsewhere
}

// receiver puts an answer together.
type receiver struct {
	parts  uint64 // that were written; the first one has the head
	credit bool   // the home waits for a credit
	body   *outgoing
}

// errHalf means that the home was lost before it had the whole body, so it has not changed anything.
var errHalf = errors.New("forward: the node that had the request was lost before it had the whole body")

// lost returns the error for an exchange whose home was lost.
func (g *receiver) lost(why string) error {
	switch {
	case g.parts > 0:
		return fmt.Errorf("%w: %s", errBroken, why)
	// An operation that has begun to read its body changes nothing before it has all of it. Where the length is not known,
	// what the body says may be its end.
	case g.body.sent > 0 && g.body.sent < g.body.length:
		return fmt.Errorf("%w: %s", errHalf, why)
	}
	return fmt.Errorf("%w: the node that had the request was lost: %s", store.ErrUnknown, why)
}

// take handles a message. It reports whether that was the last one.
func (g *receiver) take(w http.ResponseWriter, m *nats.Msg) (last bool, err error) {
	if len(m.Data) == 0 && m.Header.Get("Status") == "503" { // of the server: no node has subscribed
		if !strings.HasSuffix(m.Subject, questionSuffix) && g.parts == 0 { // it has dropped the request
			return false, errNotTaken
		}
		return false, g.lost("it has ended")
	}
	k, p := parse(m.Data)
	switch k {
	case kindHead:
		if g.parts > 0 {
			return false, g.lost("its answer does not parse")
		}
		a, err := p.answer(w.Header())
		if err != nil {
			return false, g.lost("its answer does not parse")
		}
		g.parts++
		if a.phrase != "" {
			statusline.SetReason(w, a.phraseOf, a.phrase)
		}
		w.WriteHeader(a.status)
		return g.write(w, a.flags, p.rest)
	case kindBody:
		flags, number := p.flags(), p.number()
		if p.err != nil || g.parts == 0 || number != g.parts {
			return false, g.lost("a part of its answer is missing")
		}
		g.parts++
		return g.write(w, flags, p.rest)
	case kindRefused:
		if g.parts == 0 {
			return false, errNotTaken
		}
	case kindAtWork:
		return false, nil
	case kindWant:
		n := p.number()
		if p.err != nil || g.body.stream == nil || n > uploadWindow {
			return false, g.lost("it asks for what there is not")
		}
		g.body.wanted = min(g.body.wanted+n, uploadWindow)
		return false, nil
	case kindUnknown:
		return false, g.lost("it does not know the request")
	case kindBroken:
		return false, errBroken
	}
	return false, g.lost("its answer does not parse")
}

func (g *receiver) write(w http.ResponseWriter, flags byte, part []byte) (last bool, err error) {
	if len(part) > 0 {
		if _, err := w.Write(part); err != nil {
			return false, err
		}
	}
	last = flags&flagLast != 0
	g.credit = !last
	return last, nil
}

// answered receives what the homes send.
func (f *Forwarder) answered(m *nats.Msg) {
	key := strings.TrimSuffix(m.Subject, questionSuffix)
	f.mu.Lock()
	e := f.sent[key]
	f.mu.Unlock()
	// The home asks whether the client's node is still there, while it waits for a part of the body.
	if m.Reply != "" {
		k := kindAtWork
		if e == nil {
			k = kindUnknown
		}
		_ = m.Respond(control(k, ""))
		return
	}
	if e == nil {
		return // its client is gone
	}
	select {
	case e.in <- m:
	default: // more than a home may send
		f.config.Log.Warn("a node sends more of an answer than it may", "peer", e.home)
	}
}
