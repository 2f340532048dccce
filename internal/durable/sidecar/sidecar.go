// Package sidecar serves the gRPC protocol of the Durable Task SDKs (TaskHubSidecarService), so that workflows in
// Python, JavaScript, Java and Go run on a hub of package durable. Workers connect to it and fetch work; clients start
// and watch instances through it.
//
// A call's metadata "taskhub" names its hub; without it the default hub is meant. A hub takes part in the work only
// while a worker is connected to it here, so that a sidecar without workers does not hold work back from others.
package sidecar

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"

	"github.com/lazuli-storage/lazuli/internal/durable/hub"
	"github.com/lazuli-storage/lazuli/internal/durable/hubname"
	"github.com/lazuli-storage/lazuli/internal/exposure"
)

// Options are the settings of a [Server]. The zero value of a field means its default.
type Options struct {
	// Durable are the settings of every hub; its Hub is the default one. MaxOrchestrations, MaxActivities and MaxEntities
	// bound the work that one hub hands out at once; their default is 100 here.
	Durable hub.Options
	// Token, unless it is empty, must come with every call, as the metadata "authorization: Bearer TOKEN".
	Token string
	// Verify, unless it is nil, accepts other bearer tokens than Token by returning nil.
	Verify func(ctx context.Context, token string) error
	// Open lets Listen open an address beyond loopback without a token.
	Open bool
	// Hubs, unless it is empty, are the only hubs. They are made when the server starts.
	Hubs []string
	// TLS enables TLS; nil means plain text.
	TLS *tls.Config
	// MaxHubs bounds the hubs that are open at once. If there are more, those without workers are closed. Default 64.
	MaxHubs int
	// ReplaceRunning lets a start without a policy replace an instance that still runs, and not only one that has ended.
	ReplaceRunning bool
	// MaxStreams bounds the calls of one connection that are under way at once. Default 1,000.
	MaxStreams uint32
	// Heartbeat is the interval at which the server writes a row for each connected worker to the table lazuliworkers of
	// the account, for the dashboard and `lazuli workers ls`; 0 means that it writes none.
	Heartbeat time.Duration
	// Logger is the place where the server reports. Default: slog.Default.
	Logger *slog.Logger
}

const (
	// maxMessage bounds one message of a client: the history of a workflow is larger than any payload.
	maxMessage = 64 << 20
	// maxHeader bounds the metadata of a call, in bytes. It is received before the token is checked.
	maxHeader = 64 << 10
)

// hubKey is the metadata that names a call's hub.
const hubKey = "taskhub"

// Server is the gRPC server.
type Server struct {
	options Options
	log     *slog.Logger
	grpc    *grpc.Server
	token   [sha256.Size]byte

	reports sync.WaitGroup // of workers' rows

	mu       sync.Mutex // guards the rest
	hubs     map[string]*openHub
	closed   bool
	reported int // workers with a row
}

// ErrUnsafe means that the address is not a loopback address and the server has no token.
var ErrUnsafe = errors.New("durable: a listener that other machines can reach needs a token")

// New returns a server. It sends no request to storage.
func New(o Options) (*Server, error) {
	if o.Durable.Hub == "" {
		o.Durable.Hub = hubname.Default
	}
	for _, bound := range []*int{&o.Durable.MaxOrchestrations, &o.Durable.MaxActivities, &o.Durable.MaxEntities} {
		*bound = cmp.Or(*bound, 100)
	}
	if o.MaxHubs == 0 {
		o.MaxHubs = 64
	}
	if o.MaxStreams == 0 {
		o.MaxStreams = 1000
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	o.Durable.Logger = o.Logger
	stored, err := hubname.Stored(o.Durable.Hub)
	if err != nil {
		return nil, err
	}
	// The options are checked now. A hub is opened by the first call that names it, which is too late to refuse them.
	one := o.Durable
	one.Hub = stored
	if _, err := hub.New(one); err != nil {
		return nil, err
	}
	for _, name := range o.Hubs {
		if _, err := hubname.Stored(name); err != nil {
			return nil, err
		}
	}
	if len(o.Hubs) > o.MaxHubs {
		return nil, fmt.Errorf("durable: %d hubs; %d can be open at once", len(o.Hubs), o.MaxHubs)
	}
	s := &Server{options: o, log: o.Logger, hubs: map[string]*openHub{}, token: sha256.Sum256([]byte("Bearer " +
		o.Token))}
	settings := []grpc.ServerOption{grpc.InTapHandle(s.allow), grpc.MaxRecvMsgSize(maxMessage),
		grpc.MaxHeaderListSize(maxHeader), grpc.MaxConcurrentStreams(o.MaxStreams),
		grpc.ChainUnaryInterceptor(s.unary), grpc.ChainStreamInterceptor(s.stream),
		grpc.UnknownServiceHandler(refuseUnknown),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 10 * time.Second, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: time.Minute})}
	if o.TLS != nil {
		settings = append(settings, grpc.Creds(credentials.NewTLS(o.TLS)))
	}
	s.grpc = grpc.NewServer(settings...)
	s.grpc.RegisterService(s.describe(), nil)
	state := health.NewServer()
	state.SetServingStatus(serviceName, healthpb.HealthCheckResponse_SERVING)
	healthpb.RegisterHealthServer(s.grpc, state)
	return s, nil
}

// Listen opens a listener for Serve. It returns ErrUnsafe for an address that is not a loopback one unless there is a
// token.
func (s *Server) Listen(address string) (net.Listener, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("durable: the address %q is not host:port: %w", address, err)
	}
	if s.options.Token == "" && !s.options.Open && !exposure.Local(host) {
		return nil, fmt.Errorf("%w: %s", ErrUnsafe, address)
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("durable: listen: %w", err)
	}
	return l, nil
}

// Serve serves a listener until Stop.
func (s *Server) Serve(l net.Listener) error {
	go s.makeHubs()
	if err := s.grpc.Serve(l); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return fmt.Errorf("durable: serve: %w", err)
	}
	return nil
}

// makeHubs makes the hubs of Options.Hubs. One that cannot be made now is made at the first call that names it.
func (s *Server) makeHubs() {
	for _, name := range s.options.Hubs {
		ctx := metadata.NewIncomingContext(context.Background(), metadata.Pairs(hubKey, name))
		if _, err := s.hub(ctx); err != nil {
			s.log.Warn("cannot make a task hub", "hub", name, "err", err)
		}
	}
}

// Stop ends all calls and returns once the work that was fetched is given back.
func (s *Server) Stop() {
	s.mu.Lock()
	s.closed = true
	all := make([]*openHub, 0, len(s.hubs))
	for _, h := range s.hubs {
		all = append(all, h)
	}
	s.mu.Unlock()
	s.grpc.Stop()
	for _, h := range all {
		h.stop()
	}
	s.reports.Wait() // The streams are closed, so that each removes its row.
}

// allow checks a call's token, before its message is received.
func (s *Server) allow(ctx context.Context, call *tap.Info) (context.Context, error) {
	if s.options.Token == "" || strings.HasPrefix(call.FullMethodName, "/"+healthpb.Health_ServiceDesc.ServiceName+"/") {
		return ctx, nil
	}
	if bearer, ok := strings.CutPrefix(first(ctx, "authorization"), "Bearer "); ok && s.options.Verify != nil &&
		s.options.Verify(ctx, bearer) == nil {
		return ctx, nil
	}
	sum := sha256.Sum256([]byte(first(ctx, "authorization")))
	if subtle.ConstantTimeCompare(sum[:], s.token[:]) != 1 {
		return nil, status.Error(codes.Unauthenticated, "the call's metadata has no authorization with the server's token")
	}
	return ctx, nil
}

func first(ctx context.Context, key string) string {
	md, _ := metadata.FromIncomingContext(ctx)
	if v := md.Get(key); len(v) > 0 {
		return v[0]
	}
	return ""
}

func (s *Server) unary(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (answer any,
	err error) {
	defer s.recovered(&err)
	answer, err = next(ctx, req)
	return answer, asStatus(err)
}

// recovered turns a panic of a handler, which would end the process, into an error of its call.
func (s *Server) recovered(err *error) {
	if p := recover(); p != nil {
		s.log.Error("a call panicked", "err", p, "stack", string(debug.Stack()))
		*err = status.Error(codes.Internal, "the call failed by a defect of the server; its log has the details")
	}
}

func (s *Server) stream(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo,
	next grpc.StreamHandler) (err error) {
	defer s.recovered(&err)
	return asStatus(next(srv, stream))
}

// hub returns the hub that a call names, and opens it if it is not open.
func (s *Server) hub(ctx context.Context) (*openHub, error) {
	name := first(ctx, hubKey)
	if name == "" {
		name = s.options.Durable.Hub
	}
	if len(s.options.Hubs) > 0 && !slices.ContainsFunc(s.options.Hubs,
		func(h string) bool { return strings.EqualFold(h, name) }) {
		return nil, status.Errorf(codes.NotFound, "the task hub %.100q is not one of the server's", name)
	}
	key := strings.ToLower(name) // As the names of tables, hubs do not differ by case.
	s.mu.Lock()
	h := s.hubs[key]
	switch {
	case s.closed:
		s.mu.Unlock()
		return nil, status.Error(codes.Unavailable, "the server is stopping")
	case h == nil && len(s.hubs) >= s.options.MaxHubs && !s.closeIdle():
		s.mu.Unlock()
		return nil, status.Errorf(codes.ResourceExhausted, "%d hubs have workers already", s.options.MaxHubs)
	case h == nil:
		var err error
		if h, err = s.newHub(name); err != nil {
			s.mu.Unlock()
			return nil, status.Error(codes.InvalidArgument, err.Error())
		}
		s.hubs[key] = h
	}
	h.used = time.Now()
	s.mu.Unlock()
	// Opening a hub takes requests to storage: calls of other hubs do not wait for them.
	return h, h.open(ctx)
}

// closeIdle closes the hub without workers that was used the longest time ago; false if all have workers. A hub opens
// at any call that names it, also by mistake. s.mu is held.
func (s *Server) closeIdle() bool {
	for _, name := range slices.SortedFunc(maps.Keys(s.hubs),
		func(a, b string) int { return s.hubs[a].used.Compare(s.hubs[b].used) }) {
		if s.hubs[name].close() {
			delete(s.hubs, name)
			return true
		}
	}
	return false
}
