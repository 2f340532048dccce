package accounts

import (
	"context"
	"errors"
	"fmt"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/eventlog"
	"github.com/lazuli-storage/lazuli/internal/server/events"
	"github.com/lazuli-storage/lazuli/internal/state/blob"
)

// resetter is a service that deletes what an account has.
type resetter interface {
	Reset(account, prefix string) (deleted int, err error)
}

// Services are the data of accounts in the three services, each in the shard of the account.
type Services struct {
	// Part returns what has the data of an account in a service.
	Part func(svc wire.Service, account string) Part
}

// Part is the data of accounts in one service of one shard.
type Part interface {
	// Has reports whether an account has containers, queues or tables there.
	Has(account string) (bool, error)
	// Delete deletes what it has there.
	Delete(account string) error
}

// parts are the services in the order in which data is deleted, with what an account has there. The blobs are the
// first: the event subscriptions are with them, and the deletion of the others is no event for them.
var parts = []struct {
	svc  wire.Service
	what string
}{{wire.Blob, "containers"}, {wire.Queue, "queues"}, {wire.Table, "tables"}}

// Has implements Contents.
func (s *Services) Has(account string) (string, error) {
	for _, p := range parts {
		if has, err := s.Part(p.svc, account).Has(account); err != nil || has {
			return p.what, err
		}
	}
	return "", nil
}

// Delete implements Contents.
func (s *Services) Delete(_ context.Context, account string) error {
	for _, p := range parts {
		if err := s.Part(p.svc, account).Delete(account); err != nil {
			return err
		}
	}
	return nil
}

// RemovedPart is a Part that deletes nothing of an account in use. The order to delete may come long after it was
// given: from a process that was stopped, or over a connection on which it waited. Another process has ended the
// account by then, perhaps, and its name has been given to another one.
type RemovedPart struct {
	Part
	// Stored returns the record of an account as it is now; ok is false if it has none.
	Stored func(name string) (a blob.StoredAccount, ok bool, err error)
}

// Delete implements Part. Errors: ErrInUse.
func (s RemovedPart) Delete(account string) error {
	a, ok, err := s.Stored(account)
	switch {
	case err != nil:
		return err
	case !ok: // what it had was deleted before its record
		return nil
	case a.Err != nil || a.Removed == 0:
		return fmt.Errorf("%s: %w", account, ErrInUse)
	}
	return s.Part.Delete(account)
}

// BlobPart is the part with the blobs. All fields are required.
type BlobPart struct {
	// Records are those of the database with the containers of the account. That of the account itself is in shard 0.
	Records  blob.AccountTable
	Service  resetter
	EventLog *eventlog.Log
	// Events returns what delivers events, nil if nothing does in this process.
	Events func() *events.Manager
}

// Has implements Part.
func (s BlobPart) Has(account string) (bool, error) { return s.Records.HasContainers(account) }

// Delete implements Part. It removes the event subscriptions of the account as well.
func (s BlobPart) Delete(account string) error {
	if err := s.unsubscribe(account); err != nil {
		return err
	}
	// Only then the blobs: their deletion is no event for anyone.
	if _, err := s.Service.Reset(account, ""); err != nil {
		return err
	}
	return s.Records.Forget(account)
}

// QueuePart is the part with the queues.
type QueuePart struct {
	Service interface {
		resetter
		HasQueues(account string) (bool, error)
	}
}

// Has implements Part.
func (s QueuePart) Has(account string) (bool, error) { return s.Service.HasQueues(account) }

// Delete implements Part.
func (s QueuePart) Delete(account string) error {
	_, err := s.Service.Reset(account, "")
	return err
}

// TablePart is the part with the tables.
type TablePart struct {
	Service interface {
		resetter
		HasTables(account string) (bool, error)
	}
}

// Has implements Part.
func (s TablePart) Has(account string) (bool, error) { return s.Service.HasTables(account) }

// Delete implements Part.
func (s TablePart) Delete(account string) error {
	_, err := s.Service.Reset(account, "")
	return err
}

// unsubscribe removes the event subscriptions of an account, also if no events are delivered.
func (s BlobPart) unsubscribe(account string) error {
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
		if manager == nil || errors.Is(err, events.ErrNotFound) || errors.Is(err, events.ErrNotHere) {
			err = s.EventLog.Unsubscribe(sub.Account, sub.Name)
		}
		if err != nil && !errors.Is(err, eventlog.ErrSubscriptionNotFound) {
			return err
		}
	}
	return nil
}
