package lazulitest

import (
	"context"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/egress"
	"github.com/lazuli-storage/lazuli/internal/server/events"
)

// EventSubscription says which events of an account go to a webhook or a queue; docs/events.md describes all fields. An
// empty Account is the development account.
type EventSubscription = events.Subscription

// WithEvents allows event subscriptions whose webhooks are at hosts, "127.0.0.1:8080". Queues need no host.
func WithEvents(hosts ...string) Option {
	return func(c *config) { c.Events, c.EventHosts = true, egress.Policy{Hosts: hosts, Private: true} }
}

// Subscribe adds an event subscription, once its webhook has confirmed it. It is removed when the test ends. A
// subscription that is refused fails the test.
func (l *Lazuli) Subscribe(t testing.TB, s EventSubscription) {
	t.Helper()
	if s.Account == "" {
		s.Account = auth.DevelopmentAccount
	}
	m := l.events(t)
	if _, err := m.Add(context.Background(), s); err != nil {
		t.Fatalf("lazulitest: %v", err)
	}
	t.Cleanup(func() { _ = m.Remove(s.Account, s.Name) })
}

// FlushEvents waits until all events so far are delivered, dead-lettered or dropped. It fails the test if that takes
// more than a minute.
func (l *Lazuli) FlushEvents(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if left, err := l.events(t).Flush(ctx); err != nil {
		t.Fatalf("lazulitest: %v: %v", err, left.Undelivered)
	}
}

func (l *Lazuli) events(t testing.TB) *events.Manager {
	t.Helper()
	m := l.server.Events()
	if m == nil {
		t.Fatal("lazulitest: events need the option WithEvents")
	}
	return m
}
