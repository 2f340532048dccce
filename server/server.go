package server

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/lazuli-storage/lazuli/internal/azure/faultrule"
	"github.com/lazuli-storage/lazuli/internal/azure/frontend"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	assembly "github.com/lazuli-storage/lazuli/internal/server"
	"github.com/lazuli-storage/lazuli/internal/server/events"
)

// The errors of Start and of the methods of a Server, for errors.Is.
var (
	// ErrPortTaken means that another process listens on the address. The error that wraps it names the address.
	ErrPortTaken = assembly.ErrPortTaken
	// ErrNotReady means that a node does not know what is current, for example because it has no majority of the cluster.
	ErrNotReady = assembly.ErrNotReady
	// ErrBusy means that requests did not end within the wait for them. The state has not changed.
	ErrBusy = assembly.ErrBusy
	// ErrElsewhere means that the queues are on an external NATS server: a snapshot of the data folder would not have all
	// of the state.
	ErrElsewhere = assembly.ErrElsewhere
	// ErrClustered means that the data folder is that of one node of a cluster, and not the cluster's state.
	ErrClustered = assembly.ErrClustered
	// ErrNotAllowed means that Config does not allow what was asked for: fault rules, events or changes of accounts.
	ErrNotAllowed = fmt.Errorf("the server's Config does not allow it")
)

// Server is a running Lazuli. Its methods are safe for concurrent use.
type Server struct {
	assembled *assembly.Server
}

// Start opens the state and serves. It returns when all services answer. After an error nothing is left running. ctx
// bounds the wait for other nodes of a cluster; it does not end the server: see [Server.Stop].
//
// Errors: a field of c that is not valid, by its name; [ErrPortTaken]; a folder that is damaged or of another kind of
// server, with what to do.
func Start(ctx context.Context, c Config) (*Server, error) {
	a, err := c.assembly()
	if err != nil {
		return nil, fmt.Errorf("server: %w", err)
	}
	assembled, err := assembly.StartContext(ctx, a)
	if err != nil {
		return nil, err
	}
	return &Server{assembled}, nil
}

// Stop waits for requests under way until ctx is done, then ends them, and closes the state. Another call returns the
// first call's error.
func (s *Server) Stop(ctx context.Context) error { return s.assembled.Stop(ctx) }

// Ready returns nil while the server serves everything, otherwise the reason why it does not.
func (s *Server) Ready() error { return s.assembled.Ready() }

// Location returns the data folder.
func (s *Server) Location() string { return s.assembled.Path() }

// ConnectionString returns the connection string of the development account, whose key is public.
func (s *Server) ConnectionString() string { return s.assembled.ConnectionString() }

// ConnectionStringOf returns the connection string of an account with one of its keys.
func (s *Server) ConnectionStringOf(account, key string) string {
	return s.assembled.ConnectionStringOf(account, key)
}

// URL returns an account's endpoint of a service, "http://127.0.0.1:10000/devstoreaccount1"; "" for a service that does
// not listen. A wildcard address is shown as the loopback address.
func (s *Server) URL(service Service, account string) string {
	svc, ok := wireService(service)
	if !ok {
		return ""
	}
	return s.assembled.URL(svc, account)
}

// Client returns a client that reaches the services inside the process, at the addresses of
// [Server.ConnectionString]. It saves the connection, and nothing else: requests are authorized, counted and logged as
// those of other programs. Clients of the Azure SDK take it as their Transport.
func (s *Server) Client() *http.Client { return s.assembled.Client() }

// Save copies the state of all services and accounts to a snapshot inside the data folder, with leases, ETags, dequeue
// counts and receipts; replace allows that a snapshot of the name exists. No request is served meanwhile: new requests
// wait, and ctx bounds the wait for those under way. Errors: [ErrBusy], [ErrElsewhere], [ErrClustered], and one for
// Config.InMemory, which has no files to copy.
func (s *Server) Save(ctx context.Context, name string, replace bool) error {
	return s.assembled.Save(ctx, name, replace)
}

// Restore replaces the state by a snapshot; requests wait as during [Server.Save]. Clocks are not restored: what has
// expired since the snapshot is expired. A damaged snapshot is refused, and the state stays. Errors: [ErrBusy],
// [ErrElsewhere], [ErrClustered].
func (s *Server) Restore(ctx context.Context, name string) error {
	return s.assembled.Restore(ctx, name)
}

// AddFault adds a rule by which requests fail on purpose, in the JSON of docs/faults.md, and returns its name. Rules
// end with the server. Errors: [ErrNotAllowed] without Config.Faults, a rule that is not valid or exists already.
func (s *Server) AddFault(rule []byte) (name string, err error) {
	set := s.assembled.Faults()
	if set == nil {
		return "", ErrNotAllowed
	}
	r, err := faultrule.Decode(rule)
	if err != nil {
		return "", err
	}
	added, err := set.Add(r)
	return added.Name, err
}

// RemoveFault removes a rule. Errors: [ErrNotAllowed] without Config.Faults, a name that no rule has.
func (s *Server) RemoveFault(name string) error {
	set := s.assembled.Faults()
	if set == nil {
		return ErrNotAllowed
	}
	return set.Remove(name)
}

// Subscribe adds or replaces a subscription to the events of an account, in the JSON of docs/events.md. It is stored.
// Errors: [ErrNotAllowed] without Config.Events, or while another node of the cluster delivers the events; a
// subscription that is not valid.
func (s *Server) Subscribe(ctx context.Context, subscription []byte) error {
	manager := s.assembled.Events()
	if manager == nil {
		return ErrNotAllowed
	}
	decoded, err := events.Decode(subscription)
	if err != nil {
		return err
	}
	_, err = manager.Add(ctx, decoded)
	return err
}

// Unsubscribe removes a subscription of an account. Errors: those of [Server.Subscribe], a name that does not exist.
func (s *Server) Unsubscribe(account, name string) error {
	manager := s.assembled.Events()
	if manager == nil {
		return ErrNotAllowed
	}
	return manager.Remove(account, name)
}

// Request describes a request that was served.
type Request struct {
	// Service is the service, and Operation the name of the operation in the REST reference, "PutBlob"; "" if the request
	// failed before it was known.
	Service   Service
	Operation string
	// Account is the account; Method and Path are those of the request, the path as sent.
	Account, Method, Path string
	// ID is the x-ms-request-id of the answer, ClientID the x-ms-client-request-id of the request.
	ID, ClientID string
	// Status is the HTTP status that was sent; 0 if the connection broke before. Code is Azure's error code, "" for
	// success.
	Status int
	Code   string
	// Written is the size of the answer's body in bytes.
	Written int64
	// Duration is from the request's head to the end of its answer.
	Duration time.Duration
}

func observer(observe func(Request)) func(*wire.Request, frontend.Outcome) {
	if observe == nil {
		return nil
	}
	return func(r *wire.Request, o frontend.Outcome) {
		seen := Request{Service: Service(r.Service.String()), Operation: r.Operation, Account: r.Account,
			Method: r.HTTP.Method, Path: r.URIPath, ID: r.ID, ClientID: r.ClientID,
			Status: o.Status, Written: o.Written, Duration: o.Duration}
		if r.Failure != nil {
			seen.Code = r.Failure.Code
		}
		observe(seen)
	}
}

func wireService(s Service) (wire.Service, bool) {
	for _, svc := range []wire.Service{wire.Blob, wire.Queue, wire.Table} {
		if svc.String() == string(s) {
			return svc, true
		}
	}
	return 0, false
}

func wireServices(list []Service) ([]wire.Service, error) {
	if list == nil {
		return nil, nil
	}
	found := make([]wire.Service, len(list))
	for i, s := range list {
		svc, ok := wireService(s)
		if !ok {
			return nil, fmt.Errorf("%q is not a service; the services are blob, queue and table", s)
		}
		found[i] = svc
	}
	return found, nil
}
