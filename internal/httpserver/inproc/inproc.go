// Package inproc carries HTTP requests to handlers of the same process, without a connection: an Azure SDK client
// with this transport calls the services as over the network, without its cost. Worker roles that run inside the server
// use it.
//
// The services see the same as with HTTP/1.1, with one exception: the size of a request's head is not limited.
package inproc

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"golang.org/x/net/http/httpguts"

	"github.com/lazuli-storage/lazuli/internal/httpserver/headercase"
)

// Transport is an http.RoundTripper. Its zero value reaches nothing. Handlers are added before the first request.
type Transport struct {
	// Handlers are the services by the host of their address, "127.0.0.1:10000".
	Handlers map[string]http.Handler
	// Fallback takes requests for other hosts; nil refuses them.
	Fallback http.RoundTripper
}

// RoundTrip implements http.RoundTripper. The answer's body streams while the handler runs.
func (t *Transport) RoundTrip(out *http.Request) (*http.Response, error) {
	h := t.Handlers[out.URL.Host]
	if h == nil {
		if t.Fallback != nil {
			return t.Fallback.RoundTrip(out)
		}
		if out.Body != nil {
			_ = out.Body.Close()
		}
		return nil, fmt.Errorf("inproc: no service at %s", out.URL.Host)
	}
	err := validHeader(out.Header)
	if err == nil {
		// As net/http: a request that was cancelled before it is sent never reaches the service. Its handler would run at
		// some time later, beside what the caller does next.
		err = out.Context().Err()
	}
	if err != nil {
		if out.Body != nil {
			_ = out.Body.Close()
		}
		return nil, err
	}
	names := new(headercase.Names)
	in := out.WithContext(headercase.NewContext(out.Context(), names))
	in.Header = make(http.Header, len(out.Header)+1)
	for name, values := range out.Header { // as a server would read them from a connection
		in.Header[http.CanonicalHeaderKey(name)] = append([]string(nil), values...)
		names.Set(name)
	}
	in.RequestURI = out.URL.RequestURI()
	in.RemoteAddr = "127.0.0.1:0"
	in.Proto, in.ProtoMajor, in.ProtoMinor = "HTTP/1.1", 1, 1
	if in.Host == "" {
		in.Host = out.URL.Host
	}
	a := newAnswer(out)
	if in.Body == nil {
		in.Body = http.NoBody
	} else if in.Body != http.NoBody {
		in.Body = &requestBody{ReadCloser: out.Body, answer: a}
	}
	if in.ContentLength >= 0 && (in.ContentLength > 0 || in.Body == http.NoBody && out.Method != http.MethodGet) {
		in.Header.Set("Content-Length", strconv.FormatInt(in.ContentLength, 10))
	}
	go func() {
		defer func() {
			if out.Body != nil {
				_ = out.Body.Close()
			}
			if p := recover(); p != nil { // as net/http: the connection breaks
				a.finish(io.ErrUnexpectedEOF)
			}
		}()
		h.ServeHTTP(a, in)
		a.finish(io.EOF)
	}()
	select {
	case <-a.begun:
	case <-out.Context().Done():
		// The caller does not wait for the handler. Its next write fails, as on a connection that was closed.
		a.gaveUp.Store(true)
		a.abandon()
		return nil, out.Context().Err()
	}
	if a.response == nil {
		return nil, errors.New("inproc: the service broke the request off")
	}
	return a.response, nil
}

// requestBody is the body of a request, until the caller gives the request up. The caller may then read the same body
// for another try: what the handler still reads of it is not what was sent, and it gets an error in its place.
type requestBody struct {
	io.ReadCloser
	answer *answer
}

// Read implements io.Reader.
func (b *requestBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	// After the read, as the caller may have given up while it ran.
	if b.answer.gaveUp.Load() {
		return 0, io.ErrUnexpectedEOF
	}
	return n, err
}

// answer is the http.ResponseWriter of one request and the body of its response.
type answer struct {
	request *http.Request
	header  http.Header
	begun   chan struct{} // closed when response is set, or will not be set
	gaveUp  atomic.Bool   // the caller did not wait for the answer

	mu        sync.Mutex
	changed   sync.Cond
	response  *http.Response
	status    int    // of phrase
	phrase    string // the reason phrase of an answer with the status
	opened    bool   // begun is closed
	buf       bytes.Buffer
	end       error // what Read returns after buf; nil while the handler runs
	abandoned bool  // the reader has closed the body
}

// window bounds the bytes of an answer that wait to be read.
const window = 1 << 20

func newAnswer(r *http.Request) *answer {
	a := &answer{request: r, header: make(http.Header), begun: make(chan struct{})}
	a.changed.L = &a.mu
	return a
}

// Header implements http.ResponseWriter.
func (a *answer) Header() http.Header { return a.header }

// SetReason implements statusline.Reasoner.
func (a *answer) SetReason(status int, phrase string) { a.status, a.phrase = status, phrase }

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(status int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.begin(status)
}

func (a *answer) begin(status int) {
	if a.response != nil || status < 200 {
		return
	}
	header := make(http.Header, len(a.header))
	for name, values := range a.header { // as a client would read them from a connection
		header[http.CanonicalHeaderKey(name)] = append([]string(nil), values...)
	}
	length := int64(-1)
	if n, err := strconv.ParseInt(header.Get("Content-Length"), 10, 64); err == nil {
		length = n
	}
	phrase := http.StatusText(status)
	if a.phrase != "" && a.status == status {
		phrase = a.phrase
	}
	a.response = &http.Response{
		Status: strconv.Itoa(status) + " " + phrase, StatusCode: status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: header, Body: a, ContentLength: length, Request: a.request,
	}
	a.open()
}

func (a *answer) open() {
	if !a.opened {
		a.opened = true
		close(a.begun)
	}
}

// Write implements http.ResponseWriter. It waits while the reader is far behind.
func (a *answer) Write(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.begin(http.StatusOK)
	for a.buf.Len() >= window && !a.abandoned {
		a.changed.Wait()
	}
	if a.abandoned {
		return 0, io.ErrClosedPipe
	}
	if a.request.Method == http.MethodHead {
		return len(p), nil
	}
	n, err := a.buf.Write(p)
	a.changed.Broadcast()
	return n, err
}

// finish ends the answer with what Read returns at its end.
func (a *answer) finish(end error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if end == io.EOF {
		a.begin(http.StatusOK)
	}
	a.end = end
	a.open()
	a.changed.Broadcast()
}

func (a *answer) abandon() {
	a.mu.Lock()
	a.abandoned = true
	a.changed.Broadcast()
	a.mu.Unlock()
}

// Read implements io.Reader for the response's body.
func (a *answer) Read(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for a.buf.Len() == 0 && a.end == nil && !a.abandoned {
		a.changed.Wait()
	}
	if a.abandoned {
		return 0, http.ErrBodyReadAfterClose
	}
	if a.buf.Len() == 0 {
		return 0, a.end
	}
	n, _ := a.buf.Read(p)
	a.changed.Broadcast()
	return n, nil
}

// Close implements io.Closer for the response's body.
func (a *answer) Close() error {
	a.abandon()
	return nil
}

// validHeader refuses what net/http does not send over a connection.
func validHeader(h http.Header) error {
	for name, values := range h {
		if !httpguts.ValidHeaderFieldName(name) {
			return fmt.Errorf("inproc: invalid header field name %q", name)
		}
		if slices.ContainsFunc(values, func(v string) bool { return !httpguts.ValidHeaderFieldValue(v) }) {
			return fmt.Errorf("inproc: invalid header field value for %q", name) // the value may be a secret
		}
	}
	return nil
}
