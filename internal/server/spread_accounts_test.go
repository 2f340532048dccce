package server

import (
	"errors"
	"fmt"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/server/accounts"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// repeatCall repeats a change that a node refuses while a log has no leader, until it succeeds. done are errors that
// say that an earlier attempt had an effect.
func repeatCall(t *testing.T, change func() error, done ...error) {
	t.Helper()
	var err error
	check.Eventually(t, func() bool {
		err = change()
		return !errors.Is(err, store.ErrUnavailable) && !errors.Is(err, store.ErrUnknown)
	}, "the log takes the change")
	for _, d := range done {
		if errors.Is(err, d) {
			return
		}
	}
	check.OK(t, err)
}

// testSpreadAccounts adds accounts at nodes that do not have their records, uses them at all nodes, and removes them
// with data that no node has alone.
func (c *spreadNodes) testSpreadAccounts(t *testing.T) {
	var without, with []int // nodes without shard 0, where the records are
	for i, n := range c.nodes {
		if n.services.Load().numbered(0) == nil {
			without = append(without, i)
		} else {
			with = append(with, i)
		}
	}
	manager := func(i int) *accounts.Manager { return c.nodes[i].AccountManager() }
	at := func(name, key, want string) {
		t.Helper()
		for i, n := range c.nodes {
			check.Eventually(t, func() bool { return allowed(t, n, name, key) == want },
				"%s is %s at node %d", name, want, i)
		}
	}
	var added []string
	for i := range 4 { // by chance in different shards
		name := fmt.Sprintf("new%02d", i)
		added = append(added, name)
		node := without[i%2]
		repeatCall(t, func() error {
			_, err := manager(node).Add(name, []string{otherKey}, nil)
			return err
		}, accounts.ErrExists)
		at(name, otherKey, "ok")
		c.of(with[i%3], name).fill(t, "things")
	}
	// A late call to delete what the account has: see [accounts.RemovedPart].
	open := c.nodes[without[0]].services.Load()
	for _, svc := range []wire.Service{wire.Blob, wire.Queue, wire.Table} {
		part := remotePart{open, open.placed.Of(named[svc], added[0]), svc}
		if err := part.Delete(added[0]); err == nil {
			t.Errorf("the %s of an account in use can be deleted", svc)
		}
	}
	if got := c.of(without[0], added[0]).has(t, "things"); got != "bqt" {
		t.Errorf("an account has %q after a late call", got)
	}
	if _, err := manager(with[0]).Add(added[0], nil, nil); !errors.Is(err, accounts.ErrExists) {
		t.Errorf("an account is added again: %v", err)
	}
	if err := manager(without[1]).Set(added[1], map[string]*string{"hierarchical-namespace": new("true")}); !errors.Is(err,
		accounts.ErrInvalid) {
		t.Errorf("the namespace of an account with containers changes: %v", err)
	}
	for i, name := range added {
		for node := range c.nodes {
			if err := manager(node).Remove(name, false); !errors.Is(err, accounts.ErrHasData) {
				t.Errorf("node %d removes an account with data: %v", node, err)
			}
		}
		var fresh string
		repeatCall(t, func() (err error) { fresh, err = manager(without[1-i%2]).Rotate(name, 1); return err })
		at(name, fresh, "ok")
		at(name, otherKey, "no")
	}
	for i, name := range added {
		repeatCall(t, func() error { return manager(i).Remove(name, true) }, accounts.ErrNotFound, accounts.ErrRemoving)
		at(name, otherKey, "no")
	}
	for _, name := range added {
		for _, n := range c.nodes {
			gone(t, n, name)
		}
		repeatCall(t, func() error {
			_, err := manager(without[0]).Add(name, []string{otherKey}, nil)
			return err
		}, accounts.ErrExists)
		at(name, otherKey, "ok")
		if found := c.of(without[1], name).has(t, "things"); found != "" {
			t.Errorf("the next account %s has %q", name, found)
		}
		repeatCall(t, func() error { return manager(with[1]).Remove(name, false) }, accounts.ErrNotFound,
			accounts.ErrRemoving)
	}
}
