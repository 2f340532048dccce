package forward

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/lazuli-storage/lazuli/internal/httpserver/headercase"
)

// A message begins with a version and a kind. Numbers are varints; a text is its length and its bytes.
//
//	kindRequest   flags, service, method, URI, host, address of the client, length of the body (-1: unknown), headers;
//	              the body is the rest
//	kindHead      flags, status, status of the phrase, phrase, headers; the first part of the body is the rest
//	kindBody      flags, number of the part, from 1 on; the next part of the body is the rest
//	kindUpload    flags, number of the part, from 1 on, key of the exchange; the next part of a request is the rest
//	kindWant      how many more parts of the request's body the home takes
//	kindHere      flags, number of logs, and for each its name and its home, as the node sees it
//	others        the key of the exchange, from the node that has sent the request; nothing, from the home
//
// Headers are their number, and for each its name, the number of its values, and the values.
const messageVersion = 1

type kind byte

const (
	kindRequest kind = 1
	kindHead    kind = 2
	kindBody    kind = 3
	kindBroken  kind = 4 // the handler has broken the connection
	kindRefused kind = 5 // the home has not begun to serve the request, and will not
	kindAsk     kind = 6 // is the home still at work?
	kindAtWork  kind = 7
	kindUnknown kind = 8 // the home knows no such exchange
	kindEnd     kind = 9 // the client is gone, or waits no more for a change
	kindCredit  kind = 10
	kindUpload  kind = 11
	kindWant    kind = 12
	kindWhere   kind = 13 // of a front-end: which homes does a node know, and what does it serve?
	kindHere    kind = 14
)

// The flags of a request, of an answer and of a part of either, and of kindHere.
const (
	flagTLS    = 1  // the client's connection was encrypted
	flagStream = 2  // the body of the request follows, as the home asks for it
	flagSystem = 4  // a request of the server itself, which needs no credential: the nodes trust each other
	flagWire   = 16 // it came over a connection of HTTP/1, where a body has a length or is sent in chunks
	flagInsist = 8  // a read, or no other node takes it: one that serves reads answers it, also if its disk is full

	flagLast  = 1 // nothing follows
	flagShort = 2 // the body ends before its end: the client has broken it off

	flagReads  = 1 // the node serves reads
	flagWrites = 2 // and writes
)

// errMessage means that a message does not parse.
var errMessage = errors.New("forward: a message does not parse")

// metadata is the beginning of the names of headers whose case is kept.
const metadata = "X-Ms-Meta-"

func begin(b []byte, k kind) []byte { return append(b, messageVersion, byte(k)) }

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func appendHeader(b []byte, h http.Header, name func(string) string) []byte {
	b = binary.AppendUvarint(b, uint64(len(h)))
	for key, values := range h {
		b = binary.AppendUvarint(appendText(b, name(key)), uint64(len(values)))
		for _, v := range values {
			b = appendText(b, v)
		}
	}
	return b
}

// appendRequest appends a request without its body. flags may have flagStream and flagSystem.
func appendRequest(b []byte, service string, r *http.Request, flags byte) []byte {
	if r.TLS != nil {
		flags |= flagTLS
	}
	if r.ProtoMajor == 1 && r.Context().Value(http.ServerContextKey) != nil {
		flags |= flagWire
	}
	uri := r.RequestURI
	if uri == "" { // a request of this process
		uri = r.URL.RequestURI()
	}
	b = append(begin(b, kindRequest), flags)
	for _, s := range [...]string{service, r.Method, uri, r.Host, r.RemoteAddr} {
		b = appendText(b, s)
	}
	b = binary.AppendVarint(b, r.ContentLength)
	return appendHeader(b, r.Header, func(key string) string {
		if strings.HasPrefix(key, metadata) {
			return headercase.Original(r.Context(), strings.ToLower(key))
		}
		return key
	})
}

// parser reads a message. After an error it returns zero values.
type parser struct {
	rest []byte
	err  error

	skipping bool // texts are passed over
	// head has the texts, as a string of which each of them is a part, and after is the number of bytes of rest that come
	// after it; "" if each text is a string of its own.
	head  string
	after int
}

// parse returns the kind of a message.
func parse(data []byte) (kind, *parser) {
	if len(data) < 2 || data[0] != messageVersion {
		return 0, &parser{err: errMessage}
	}
	return kind(data[1]), &parser{rest: data[2:]}
}

// share makes one string of all texts that read reads, which is called again after that. It reports whether read will
// have no error. A request has some thirty texts; but its body must not stay in memory for as long as one of them does.
func (p *parser) share(read func(*parser)) bool {
	ahead := parser{rest: p.rest, err: p.err, skipping: true}
	read(&ahead)
	if p.err = ahead.err; p.err != nil {
		p.fail()
		return false
	}
	p.after = len(ahead.rest)
	p.head = string(p.rest[:len(p.rest)-p.after])
	return true
}

func (p *parser) fail() { p.rest, p.err = nil, errMessage }

func (p *parser) flags() (b byte) {
	if len(p.rest) == 0 {
		p.fail()
		return 0
	}
	b, p.rest = p.rest[0], p.rest[1:]
	return b
}

func (p *parser) number() uint64 {
	v, n := binary.Uvarint(p.rest)
	if n <= 0 {
		p.fail()
		return 0
	}
	p.rest = p.rest[n:]
	return v
}

func (p *parser) signed() int64 {
	v, n := binary.Varint(p.rest)
	if n <= 0 {
		p.fail()
		return 0
	}
	p.rest = p.rest[n:]
	return v
}

func (p *parser) text() (s string) {
	n := p.number()
	if n > uint64(len(p.rest)) {
		p.fail()
		return ""
	}
	switch {
	case p.skipping:
	case p.head != "":
		from := len(p.head) - (len(p.rest) - p.after)
		s = p.head[from : from+int(n)]
	default:
		s = string(p.rest[:n])
	}
	p.rest = p.rest[n:]
	return s
}

// maxShared is the number of values of headers that have one slice.
const maxShared = 64

// header adds headers to h, which may be nil for a parser that skips. names gets the names of metadata as they were
// written; it is nil for an answer, whose names stay as they are.
func (p *parser) header(h http.Header, names *headercase.Names) {
	// Each name and each value has one byte at least: a number beyond the rest is not believed.
	n := p.number()
	if n > uint64(len(p.rest)) {
		p.fail()
	}
	var shared []string
	if !p.skipping && p.err == nil {
		shared = make([]string, min(n, maxShared))
	}
	for ; n > 0 && p.err == nil; n-- {
		name, k := p.text(), p.number()
		if k > uint64(len(p.rest)) {
			p.fail()
			return
		}
		if p.skipping {
			for range k {
				p.text()
			}
			continue
		}
		var values []string
		if k == 1 && len(shared) > 0 {
			values, shared = shared[:1:1], shared[1:]
		} else {
			values = make([]string, k)
		}
		for i := range values {
			values[i] = p.text()
		}
		if p.err != nil {
			return
		}
		if names != nil && len(name) > len(metadata) && strings.EqualFold(name[:len(metadata)], metadata) {
			names.Set(name)
			name = http.CanonicalHeaderKey(name)
		}
		h[name] = values
	}
}

// request reads a request, whose context is a child of ctx. The body of the message is in rest, unless it follows:
// flags say so.
func (p *parser) request(ctx context.Context) (service string, r *http.Request, flags byte, err error) {
	flags = p.flags()
	p.share(func(p *parser) {
		for range 5 {
			p.text()
		}
		p.signed()
		p.header(nil, nil)
	})
	names := new(headercase.Names)
	if flags&flagWire != 0 {
		ctx = context.WithValue(ctx, http.ServerContextKey, fromAnotherNode{})
	}
	r = (&http.Request{}).WithContext(headercase.NewContext(ctx, names))
	service = p.text()
	r.Method, r.RequestURI, r.Host, r.RemoteAddr = p.text(), p.text(), p.text(), p.text()
	r.Proto, r.ProtoMajor, r.ProtoMinor = "HTTP/1.1", 1, 1
	r.ContentLength, r.Header = p.signed(), make(http.Header, usualHeaders)
	p.header(r.Header, names)
	if p.err != nil {
		return "", nil, 0, p.err
	}
	if r.URL, err = url.ParseRequestURI(r.RequestURI); err != nil {
		return "", nil, 0, fmt.Errorf("%w: %w", errMessage, err)
	}
	if flags&flagTLS != 0 {
		r.TLS = new(tls.ConnectionState) // handlers look only whether there is one
	}
	if r.ContentLength < 0 {
		r.TransferEncoding = []string{"chunked"}
	}
	return service, r, flags, nil
}

// fromAnotherNode is in the context of a request where net/http has the server whose connection it came over.
type fromAnotherNode struct{}

// usualHeaders is a number of headers that most requests and answers do not exceed.
const usualHeaders = 14

// answer is the head of an answer.
type answer struct {
	flags  byte
	status int
	// phrase is the reason phrase of an answer with the status phraseOf, "" for none.
	phraseOf int
	phrase   string
	header   http.Header
}

func (a *answer) appendTo(b []byte) []byte {
	b = append(begin(b, kindHead), a.flags)
	b = binary.AppendUvarint(b, uint64(a.status))
	b = appendText(binary.AppendUvarint(b, uint64(a.phraseOf)), a.phrase)
	return appendHeader(b, a.header, func(key string) string { return key })
}

// answer reads the head of an answer and replaces the headers in h by its own, unless it has an error. The first part
// of the body is in rest.
func (p *parser) answer(h http.Header) (a answer, err error) {
	ok := p.share(func(p *parser) {
		if p.answerWithout(); p.err == nil {
			p.header(nil, nil)
		}
	})
	if !ok {
		return a, p.err
	}
	a = p.answerWithout()
	a.header = h
	clear(h) // the node that was asked has begun an answer of its own, with headers that this one may lack
	p.header(h, nil)
	return a, p.err
}

// answerWithout reads the head of an answer without its headers.
func (p *parser) answerWithout() answer {
	a := answer{flags: p.flags(), status: int(p.number()), phraseOf: int(p.number()), phrase: p.text()}
	if p.err == nil && (a.status < 200 || a.status > 999) {
		p.fail()
	}
	return a
}

// here is a node's report to a front-end.
type here struct {
	reads, writes bool
	homes         map[string]string // by log
}

func (h *here) message() []byte {
	var flags byte
	if h.reads {
		flags |= flagReads
	}
	if h.writes {
		flags |= flagWrites
	}
	b := binary.AppendUvarint(append(begin(nil, kindHere), flags), uint64(len(h.homes)))
	// In an order, so that equal reports are equal messages.
	for _, log := range slices.Sorted(maps.Keys(h.homes)) {
		b = appendText(appendText(b, log), h.homes[log])
	}
	return b
}

// here reads what a node says.
func (p *parser) here() (h here, err error) {
	flags := p.flags()
	h = here{flags&flagReads != 0, flags&flagWrites != 0, map[string]string{}}
	for n := p.number(); n > 0 && p.err == nil; n-- {
		log, home := p.text(), p.text()
		h.homes[log] = home
	}
	return h, p.err
}

// control returns a message about an exchange.
func control(k kind, key string) []byte {
	return append(begin(make([]byte, 0, 2+len(key)), k), key...)
}
