package accounts

import (
	"context"
	"errors"

	"github.com/lazuli-storage/lazuli/internal/eventlog"
	"github.com/lazuli-storage/lazuli/internal/server/events"
	"github.com/lazuli-storage/lazuli/internal/state/blob"
)

// resetter is a service that deletes what an account has.
type resetter interface {
	Reset(account, prefix string) (deleted int, err error)
}

// Services are the data of accounts in the three services. All fields are required.
type Services struct {
	// Of returns what has the data of an account: the services of its shards.
	Of func(account string) Data
	// Events returns what delivers events, nil if nothing does in this process.
	Events func() *events.Manager
}

// Data are the services that store the data of an account.
type Data struct {
	// Records are those of the database with the containers of the account. That of the account itself is in shard 0.
	Records blob.AccountTable
	Blobs   resetter
	Queues  interface {
		resetter
		HasQueues(account string) (bool, error)
	}
	Tables interface {
		resetter
		HasTables(account string) (bool, error)
	}
	EventLog *eventlog.Log
}

// Has implements Contents.
func (s *Services) Has(account string) (string, error) {
	of := s.Of(account)
	if has, err := of.Records.HasContainers(account); err != nil || has {
		return "containers", err
	}
	if has, err := of.Queues.HasQueues(account); err != nil || has {
		return "queues", err
	}
	if has, err := of.Tables.HasTables(account); err != nil || has {
		return "tables", err
	}
	return "", nil
}

// Delete implements Contents.
func (s *Services) Delete(_ context.Context, account string) error {
	// The subscriptions first: the deletions below are no events for them.
	if err := s.unsubscribe(account); err != nil {
		return err
	}
	of := s.Of(account)
	_, blobs := of.Blobs.Reset(account, "")
	_, queues := of.Queues.Reset(account, "")
	_, tables := of.Tables.Reset(account, "")
	if err := errors.Join(blobs, queues, tables); err != nil {
		return err
	}
	return of.Records.Forget(account)
}

// unsubscribe removes the event subscriptions of an account, also if no events are delivered.
func (s *Services) unsubscribe(account string) error {
	log := s.Of(account).EventLog
	list, err := log.List()
	if err != nil {
		return err
	}
	manager := s.Events()
	for _, sub := range list {
		if sub.Account != account {
			continue
		}
		if manager != nil {
			err = manager.Remove(sub.Account, sub.Name)
		}
		// The manager of another node may have it, or there may be none.
		if manager == nil || errors.Is(err, events.ErrNotFound) || errors.Is(err, events.ErrNotHere) {
			err = log.Unsubscribe(sub.Account, sub.Name)
		}
		if err != nil && !errors.Is(err, eventlog.ErrSubscriptionNotFound) {
			return err
		}
	}
	return nil
}
