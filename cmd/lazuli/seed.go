package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/cli/seed"
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

func applySeed(ctx context.Context, s *seed.Seed, b backend) error {
	return s.Apply(ctx, seed.Target{URL: b.URL, Transport: b.Transport()})
}

// addFaults adds the seed's fault rules to the server's.
func addFaults(s *seed.Seed, b backend) error {
	if len(s.Faults) == 0 {
		return nil
	}
	rules := b.Faults()
	if rules == nil {
		return usageError{errors.New("the seed has fault rules, which need --faults")}
	}
	for _, r := range s.Faults {
		if _, err := rules.Add(r); err != nil {
			return usageError{fmt.Errorf("seed: %w", err)}
		}
	}
	return nil
}
