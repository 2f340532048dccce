package server

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/lazuli-storage/lazuli/blobsvc"
	"github.com/lazuli-storage/lazuli/internal/eventlog"
	"github.com/lazuli-storage/lazuli/internal/server/events"
	state "github.com/lazuli-storage/lazuli/internal/state/blob"
	"github.com/lazuli-storage/lazuli/queuesvc"
	"github.com/lazuli-storage/lazuli/tablesvc"
)

// contents are the data of accounts in the three services.
type contents struct {
	accounts state.AccountTable
	blobs    *blobsvc.Service
	queues   *queuesvc.Service
	tables   *tablesvc.Service
	log      *eventlog.Log
	events   *atomic.Pointer[events.Manager]
}

// Has implements accounts.Contents.
func (c contents) Has(account string) (string, error) {
	if has, err := c.accounts.HasContainers(account); err != nil || has {
		return "containers", err
	}
	if has, err := c.queues.HasQueues(account); err != nil || has {
		return "queues", err
	}
	if has, err := c.tables.HasTables(account); err != nil || has {
		return "tables", err
	}
	return "", nil
}

// Delete implements accounts.Contents.
func (c contents) Delete(_ context.Context, account string) error {
	// The subscriptions first: the deletions below are no events for them.
	if err := c.unsubscribe(account); err != nil {
		return err
	}
	_, blobs := c.blobs.Reset(account, "")
	_, queues := c.queues.Reset(account, "")
	_, tables := c.tables.Reset(account, "")
	if err := errors.Join(blobs, queues, tables); err != nil {
		return err
	}
	return c.accounts.Forget(account)
}

// unsubscribe removes the event subscriptions of an account, also if no events are delivered.
func (c contents) unsubscribe(account string) error {
	list, err := c.log.List()
	if err != nil {
		return err
	}
	manager := c.events.Load()
	for _, s := range list {
		if s.Account != account {
			continue
		}
		if manager != nil {
			err = manager.Remove(s.Account, s.Name)
		}
		// The manager of another node may have it, or there may be none.
		if manager == nil || errors.Is(err, events.ErrNotFound) {
			err = c.log.Unsubscribe(s.Account, s.Name)
		}
		if err != nil && !errors.Is(err, eventlog.ErrSubscriptionNotFound) {
			return err
		}
	}
	return nil
}
