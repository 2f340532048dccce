package queuesvc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/frontend"
	"github.com/lazuli-storage/lazuli/internal/azure/properties"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/storage/natsserver"
	"github.com/lazuli-storage/lazuli/queuesvc/internal/state"
)

// Config configures a Queue service.
type Config struct {
	// NATS stores the queues. Required; it must stay open until after [Service.Close].
	NATS *natsserver.Server
	// Features are the analytics settings that may be enabled. The zero value refuses all.
	Features properties.Features
	// Common has accounts, clock and log. Accounts are required.
	frontend.Common
}

// Service is the Queue service. It is safe for concurrent use.
type Service struct {
	state      *state.Store
	log        *slog.Logger
	front      *frontend.Frontend[*Service, *call]
	common     frontend.Common
	now        func() time.Time
	properties *properties.Registry
	close      sync.Once
}

// New opens the queues and returns when they can be used. Call Close after the last request.
func New(c Config) (*Service, error) {
	if c.NATS == nil || c.Accounts == nil {
		return nil, errors.New("queuesvc: Config.NATS and Config.Accounts are required")
	}
	s := &Service{log: c.Log, common: c.Common, now: c.Now}
	if s.now == nil {
		s.now = time.Now
	}
	if s.log == nil {
		s.log = slog.Default()
	}
	var err error
	if s.state, err = state.Open(context.Background(), c.NATS, s.log); err != nil {
		return nil, fmt.Errorf("opening queues: %w", err)
	}
	s.properties = properties.NewRegistry(wire.Queue, c.Features,
		properties.Backend{Change: s.changeProperties, Current: s.state.Properties}, s.log)
	s.front = frontend.New(frontend.Config[*Service, *call]{
		Service:    wire.Queue,
		State:      s,
		Operations: operations,
		Resolve:    resolve,
		Render:     wire.RenderXML,
		Policy:     (*Service).policy,
		Admit:      (*Service).admit,
		Before:     (*Service).before,
		Common:     c.Common,
	})
	return s, nil
}

// admit records the caller's identity. It is the front-end's Admit.
func (s *Service) admit(c *call, id auth.Identity, _ auth.Need) error {
	c.identity = id
	if id.Mechanism == auth.Anonymous {
		return frontend.RefuseAnonymous(c.Request)
	}
	return nil
}

// Ready returns nil if requests can be served, and otherwise the reason: the disk refuses writes, or NATS is not reachable.
func (s *Service) Ready() error { return s.state.Failed() }

// Damage returns the number of messages that cannot be read and were set aside, in the queues that have been used since the start, and of queues
// that are not used because records of them were lost.
func (s *Service) Damage() (messages, queues int) { return s.state.Damage() }

// Handler serves the Queue service.
func (s *Service) Handler() http.Handler { return s.front }

// Close stops background work. It may be called twice.
func (s *Service) Close() error {
	s.close.Do(s.state.Close)
	return nil
}

// policy returns a stored access policy of the queue in the request. It is the front-end's Policy.
func (s *Service) policy(c *call, id string) (auth.Policy, bool, error) {
	if c.queue == "" {
		return auth.Policy{}, false, nil
	}
	list, err := s.policiesOf(c.HTTP.Context(), c.Account, c.queue)
	if errors.Is(err, state.ErrQueueNotFound) {
		return auth.Policy{}, false, nil
	}
	if err != nil {
		return auth.Policy{}, false, s.failure(c, err)
	}
	p, found := properties.FindPolicy(list, id)
	return p, found, nil
}

// before sets the headers of cross-origin answers. It is the front-end's Before.
func (s *Service) before(r *wire.Request) { s.properties.SetCORS(r) }

// changeProperties replaces the service properties of an account.
func (s *Service) changeProperties(ctx context.Context, account string, change func([]byte) (*properties.Properties, []byte, error)) error {
	return s.state.ChangeProperties(ctx, account, func(old []byte) ([]byte, error) {
		_, value, err := change(old)
		return value, err
	})
}
