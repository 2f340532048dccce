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
	// Events returns what delivers events, nil if nothing does in this process.
	Events func() *events.Manager
}

// Has implements Contents.
func (s *Services) Has(account string) (string, error) {
	if has, err := s.Records.HasContainers(account); err != nil || has {
		return "containers", err
	}
	if has, err := s.Queues.HasQueues(account); err != nil || has {
		return "queues", err
	}
	if has, err := s.Tables.HasTables(account); err != nil || has {
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
	_, blobs := s.Blobs.Reset(account, "")
	_, queues := s.Queues.Reset(account, "")
	_, tables := s.Tables.Reset(account, "")
	if err := errors.Join(blobs, queues, tables); err != nil {
		return err
	}
	return s.Records.Forget(account)
}

// unsubscribe removes the event subscriptions of an account, also if no events are delivered.
func (s *Services) unsubscribe(account string) error {
	list, err := s.EventLog.List()
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
		if manager == nil || errors.Is(err, events.ErrNotFound) {
			err = s.EventLog.Unsubscribe(sub.Account, sub.Name)
		}
		if err != nil && !errors.Is(err, eventlog.ErrSubscriptionNotFound) {
			return err
		}
	}
	return nil
}
