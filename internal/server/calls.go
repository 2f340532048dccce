package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/cluster/forward"
	"github.com/lazuli-storage/lazuli/internal/httpserver/inproc"
	"github.com/lazuli-storage/lazuli/internal/storage/datadir"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// A node of a cluster whose shards are on some of the nodes calls operations on a shard that it does not have: they are
// requests between nodes, which go to the home of the log of its blobs as those of clients do. The address is
// http://shard/NUMBER/OPERATION. Only nodes send them: no listener has the service.

// callService is the name of the service between nodes, see serviceOf.
const callService = "Shard"

// callPath is the pattern of an operation.
func callPath(method, name string) string { return method + " /{shard}/" + name }

// callServices are the names of the service for all shards.
func callServices(shards int) (names []string) {
	for n := range shards {
		names = append(names, serviceOf(callService, datadir.ShardOf("", n)))
	}
	return names
}

// calls serves the operations for other nodes.
func (s *Server) calls() http.Handler {
	return s.gate.around(func() http.Handler {
		if open := s.services.Load(); open != nil && open.operations != nil {
			return open.operations
		}
		return http.HandlerFunc(notOpen)
	})
}

// callsOf is the service for one shard.
func (s *Server) callsOf(of *shard) forward.Service {
	return forward.Service{Log: of.Log(logOf[wire.Blob]), Handler: s.calls()}
}

// operation serves a call on a shard of this node. What it returns after it has written is lost.
type operation func(of *shard, w http.ResponseWriter, r *http.Request) error

// handleCall adds an operation.
type handleCall func(method, name string, do operation)

// newOperations returns the handler of the operations on the shards of this node.
func (s *Server) newOperations(o *services) http.Handler {
	mux := http.NewServeMux()
	var handle handleCall = func(method, name string, do operation) {
		mux.HandleFunc(callPath(method, name), func(w http.ResponseWriter, r *http.Request) {
			n, err := strconv.Atoi(r.PathValue("shard"))
			if err != nil || n < 0 || n >= s.dir.Shards() || !wire.IsSystem(r.Context()) {
				w.WriteHeader(http.StatusNotFound)
				return
			}
			of := o.numbered(n)
			if of == nil || of.leaving.Load() || !of.gate.enterOpen() {
				failCall(w, fmt.Errorf("%w: this node does not have shard %d", store.ErrUnavailable, n))
				return
			}
			defer of.gate.leave()
			if err := do(of, w, r); err != nil {
				failCall(w, err)
			}
		})
	}
	s.momentOperations(handle)
	o.eventOperations(handle)
	if o.accounts != nil {
		s.accountOperations(o, handle)
	}
	// A node of another release, or with other options, has other operations.
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "node "+o.node.Name()+" has no operation "+r.URL.Path+": give all nodes the same release and options",
			http.StatusNotFound)
	})
	return mux
}

// callErrors are the errors that a caller tells apart, by the status that carries them.
var callErrors = map[int]error{http.StatusServiceUnavailable: store.ErrUnavailable,
	http.StatusGatewayTimeout: store.ErrUnknown, http.StatusInsufficientStorage: ErrDiskFull,
	http.StatusConflict: errCallConflict, http.StatusNotFound: errNoOperation}

// errNoOperation: the node is of another release, or has other options.
var errNoOperation = errors.New("the node does not know the operation")

// errCallConflict: what was to be replaced has changed.
var errCallConflict = errors.New("another node has changed it")

func failCall(w http.ResponseWriter, err error) {
	status := http.StatusInternalServerError
	for code, known := range callErrors {
		if errors.Is(err, known) {
			status = code
		}
	}
	http.Error(w, err.Error(), status)
}

// answerCall answers with a JSON document.
func answerCall(w http.ResponseWriter, v any) error {
	text, err := json.Marshal(v)
	if err == nil {
		_, _ = w.Write(text) // the caller may be gone
	}
	return err
}

// call calls an operation on a shard, at this node if it has the shard. body and answer are JSON documents; nil is
// none. Errors: [store.ErrUnavailable], [store.ErrUnknown], and the other callErrors.
func (o *services) call(ctx context.Context, n int, method, operation string, query url.Values,
	body, answer any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	resp, err := o.send(ctx, n, method, operation, query, bytes.NewReader(text))
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if answer == nil {
		return nil
	}
	text, err = io.ReadAll(resp.Body)
	if err == nil {
		err = json.Unmarshal(text, answer)
	}
	if err != nil {
		return brokenOff(method, err)
	}
	return nil
}

// brokenOff is the error of a call without a whole answer. If it was to change something, it may have done so.
func brokenOff(method string, err error) error {
	if method == http.MethodGet {
		return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	}
	return fmt.Errorf("%w: %w", store.ErrUnknown, err)
}

// send is call without a document as the answer. The caller closes its body.
func (o *services) send(ctx context.Context, n int, method, operation string, query url.Values, body io.Reader) (
	*http.Response, error) {
	u := url.URL{Scheme: "http", Host: "shard", Path: fmt.Sprintf("/%d/%s", n, operation), RawQuery: query.Encode()}
	r, err := http.NewRequestWithContext(wire.WithSystem(ctx), method, u.String(), body)
	if err != nil {
		return nil, err
	}
	t := &inproc.Transport{Handlers: map[string]http.Handler{"shard": o.callHandler(n)}}
	resp, err := t.RoundTrip(r)
	if err != nil {
		return nil, brokenOff(method, err)
	}
	if resp.StatusCode < 300 {
		return resp, nil
	}
	defer func() { _ = resp.Body.Close() }()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
	if known := callErrors[resp.StatusCode]; known != nil {
		return nil, fmt.Errorf("%w: %s", known, bytes.TrimSpace(text))
	}
	return nil, fmt.Errorf("shard %d: %s: %s", n, resp.Status, bytes.TrimSpace(text))
}

// callHandler serves the operations on a shard: here, or at a node that has it.
func (o *services) callHandler(n int) http.Handler {
	if of := o.numbered(n); of != nil && !of.leaving.Load() {
		return o.operations
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		of := datadir.ShardOf("", n)
		err := o.elsewhere.forward.Serve(w, r, serviceOf(callService, of), of.Log(logOf[wire.Blob]), true,
			r.Method == http.MethodGet, nil)
		switch {
		case err == nil:
		case errors.Is(err, forward.ErrNoNode):
			failCall(w, fmt.Errorf("%w: no node with shard %d answers", store.ErrUnavailable, n))
		case errors.Is(err, store.ErrUnknown):
			failCall(w, err)
		default:
			panic(http.ErrAbortHandler)
		}
	})
}
