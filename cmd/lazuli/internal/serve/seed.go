package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/console"
	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/server/events"
	"github.com/lazuli-storage/lazuli/internal/server/seed"
)

// loadSeed reads a seed file for the accounts of the server. Entries outside any account belong to the
// only account, or to the development account if there are several.
func loadSeed(path string, accounts *auth.Accounts) (*seed.Seed, error) {
	fallback := auth.DevelopmentAccount
	if names := accounts.Names(); len(names) == 1 {
		fallback = names[0]
	}
	s, err := seed.Load(path, fallback)
	if err != nil {
		return nil, err
	}
	for _, name := range s.Accounts() {
		if accounts.Get(name) == nil {
			return nil, fmt.Errorf("seed %s: account %s is not served", path, name)
		}
	}
	return s, nil
}

func applySeed(ctx context.Context, s *seed.Seed, b Backend) error {
	return s.Apply(ctx, seed.Target{URL: b.InProcessURL, Transport: b.InProcess()})
}

// addFaults adds the seed's fault rules to the server's.
func addFaults(s *seed.Seed, b Backend) error {
	if len(s.Faults) == 0 {
		return nil
	}
	rules := b.Faults()
	if rules == nil {
		return console.Usagef("the seed has fault rules, which need --faults")
	}
	for _, r := range s.Faults {
		if _, err := rules.Add(r); err != nil {
			return console.Usagef("seed: %w", err)
		}
	}
	return nil
}

// handshakePause is the pause between two attempts to subscribe a webhook of the seed that does not answer yet.
const handshakePause = time.Second

// addEvents adds the seed's event subscriptions that do not exist. A webhook that does not answer the handshake, such
// as one that starts after the server, is tried again in the background until ctx ends.
func addEvents(ctx context.Context, s *seed.Seed, b Backend, log *slog.Logger) error {
	if len(s.Events) == 0 {
		return nil
	}
	m := b.Events()
	// In a cluster each node reads the seed and one delivers events: the others are not misconfigured.
	if err := b.EventsElsewhere(); m == nil && err != nil {
		log.Info("the event subscriptions of the seed are left to the node that delivers events", "reason", err)
		return nil
	}
	if m == nil {
		return console.Usagef("the seed has event subscriptions, which need --events")
	}
	for _, sub := range s.Events {
		_, err := m.Add(ctx, sub)
		switch {
		case err == nil, errors.Is(err, events.ErrExists):
		case errors.Is(err, events.ErrNotHere):
			log.Info("an event subscription of the seed is left to another node", "subscription", sub.Name, "reason", err)
		// The webhook may be started by the same script, after the server.
		case errors.Is(err, events.ErrHandshake):
			log.Warn("a webhook of the seed does not confirm its event subscription; trying again", "subscription", sub.Name,
				"err", err)
			go subscribeLater(ctx, b.Events, sub, log)
		default:
			return console.Usagef("seed: event subscription %s: %w", sub.Name, err)
		}
	}
	return nil
}

// subscribeLater adds a subscription once its endpoint confirms it.
func subscribeLater(ctx context.Context, manager func() *events.Manager, sub events.Subscription, log *slog.Logger) {
	ticker := time.NewTicker(handshakePause)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		m := manager()
		if m == nil {
			continue // the services are being opened again
		}
		switch _, err := m.Add(ctx, sub); {
		case err == nil:
			log.Info("a webhook of the seed has confirmed its event subscription", "subscription", sub.Name)
			return
		case errors.Is(err, events.ErrNotHere):
			return // another node has taken the log over, and reads the seed as well
		case !errors.Is(err, events.ErrHandshake):
			if !errors.Is(err, events.ErrExists) && ctx.Err() == nil {
				log.Error("an event subscription of the seed cannot be added", "subscription", sub.Name, "err", err)
			}
			return
		}
	}
}
