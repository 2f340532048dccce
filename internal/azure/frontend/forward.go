package frontend

import (
	"net/http"

	"github.com/lazuli-storage/lazuli/internal/azure/longpoll"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
)

// Forwarder passes requests to the node of a cluster through which all changes of a service go, its home: several nodes
// that change the same log at the same time overtake each other, and repeat their work. Any node can serve any request,
// so what cannot be passed on is served where it arrived. See package internal/cluster/forward.
type Forwarder interface {
	// Elsewhere reports whether the home of a service is another node.
	Elsewhere(service string) bool
	// Forward passes a request to the home, which authenticates it, and writes the answer. done is false if it has to be
	// served here: nothing has been done and sent then. released ends the wait of a request for a change.
	Forward(w http.ResponseWriter, r *http.Request, service string, released <-chan struct{}) (done bool, err error)
}

// mayChange reports whether an operation may write to the log of its service.
func mayChange(method, name string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return name == "GetMessages" // they become invisible
	}
	return name != "QueryBlobContents" && name != "GetUserDelegationKey"
}

// forward passes a request to the home of the service, if that is another node and the request may change something, or
// waits for a change: the home learns of it first. What is wrong with a request is for the home to say, except for an
// address without an operation.
func (f *Frontend[S, C]) forward(r *wire.Request, out *Recorder) (done bool, err error) {
	// Faults are rules of this node. Requests of the server itself, and those that were passed on, stay.
	if f.Forwarder == nil || f.Faults != nil || r.Secondary || r.System() || r.Here() {
		return false, nil
	}
	service := r.Endpoint().String()
	if !f.Forwarder.Elsewhere(service) {
		return false, nil
	}
	_, level, err := f.Resolve(f.State, r)
	if err != nil {
		return false, nil
	}
	op, err := f.index.find(r, level)
	if err != nil || op.Do == nil {
		return false, nil
	}
	// The waits for blobs are those of each node: all nodes learn of their changes alike.
	waits := r.Service != wire.Blob && (r.HasHeader(longpoll.WaitHeader) || r.HasHeader(longpoll.ReleaseHeader))
	if !waits {
		if !mayChange(op.Method, op.Name) {
			return false, nil
		}
		r.Operation = op.Name
		return f.Forwarder.Forward(out, r.HTTP, service, nil)
	}
	r.Operation = op.Name
	f.outside(r.Account, func() { done, err = f.Forwarder.Forward(out, r.HTTP, service, f.Board.Ended()) })
	return done, err
}
