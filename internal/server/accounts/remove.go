package accounts

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/lazuli-storage/lazuli/internal/fault"
	"github.com/lazuli-storage/lazuli/internal/state/blob"
	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// The steps of a removal at which tests stop the process.
var (
	pointRemoved = fault.Declare("accounts/removed")
	pointDeleted = fault.Declare("accounts/deleted")
)

// errHasData says what an account has.
func errHasData(name, what string) error {
	return fmt.Errorf("%s: %w (%s): ask for its deletion to remove them together", name, ErrHasData, what)
}

// Remove removes an account. When it returns, its keys and what they signed are invalid, at the other nodes of a
// cluster when they apply the log. With deleteData everything that the account has is deleted in the background;
// without it an account that has containers, queues or tables is not removed. An account whose removal has begun can
// be removed again with deleteData.
//
// Errors: ErrConfigured, ErrNotFound, ErrHasData, ErrRemoving.
func (m *Manager) Remove(name string, deleteData bool) error {
	if m.Served.Configured(name) {
		return fmt.Errorf("%s: %w", name, ErrConfigured)
	}
	if !deleteData {
		// Before the record is changed, so that the usual refusal does not make the keys invalid for a moment.
		if _, err := m.Keys(name); err != nil && !errors.Is(err, ErrUnreadable) {
			return err
		}
		if what, err := m.store.Contents.Has(name); err != nil || what != "" {
			return errors.Join(err, hasData(name, what))
		}
	}
	var removed record.Account
	err := m.change(name, func(old *blob.StoredAccount) (*record.Account, error) {
		if old == nil {
			return nil, known(name, nil)
		}
		if old.Removed != 0 && (!deleteData || old.DeleteData) {
			return nil, fmt.Errorf("%s: %w", name, ErrRemoving)
		}
		// Of a record that cannot be read nothing can be served again, so that its keys are not missed.
		removed = old.Account
		removed.Removed = ticks.Of(m.Now())
		if removed.DeleteData = deleteData || old.Err != nil; removed.DeleteData {
			removed.Keys = nil
		}
		return &removed, nil
	})
	if err != nil {
		return err
	}
	m.Log.Info("an account was removed", "account", name, "delete_data", removed.DeleteData)
	if err := fault.Point(pointRemoved); err != nil {
		return err
	}
	if removed.DeleteData {
		return nil
	}
	// A request may have created something since the first look. From now on only those that were authorized before can.
	what, err := m.store.Contents.Has(name)
	if err != nil || what == "" {
		return err
	}
	return errors.Join(m.restore(name, removed.Removed), hasData(name, what))
}

func hasData(name, what string) error {
	if what == "" {
		return nil
	}
	return errHasData(name, what)
}

// restore serves an account again that was removed at a time, and that has data.
func (m *Manager) restore(name string, removed ticks.Ticks) error {
	return m.change(name, func(old *blob.StoredAccount) (*record.Account, error) {
		if old == nil || old.Removed != removed || old.DeleteData {
			return nil, fmt.Errorf("%s: %w", name, ErrRemoving) // its removal was asked for again meanwhile
		}
		next := old.Account
		next.Removed = 0
		return &next, nil
	})
}

// removalPause is the time between two looks at removed accounts.
const removalPause = time.Second

// endRemoved ends removed accounts until ctx ends.
func (m *Manager) endRemoved(ctx context.Context) {
	timer := time.NewTimer(removalPause)
	defer timer.Stop()
	failing := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-m.wake:
		case <-timer.C:
		}
		err := m.End(ctx)
		if err != nil && !failing && ctx.Err() == nil {
			m.Log.Error("removed accounts cannot be deleted; trying again", "err", err)
		}
		failing = err != nil
		timer.Reset(removalPause)
	}
}

// End does what is to be done now for the removed accounts, as the background work does each second.
func (m *Manager) End(ctx context.Context) error {
	m.ending.Lock()
	defer m.ending.Unlock()
	m.mu.Lock()
	removing := maps.Clone(m.removing)
	m.mu.Unlock()
	maps.DeleteFunc(m.emptied, func(name string, at ticks.Ticks) bool { return removing[name].Removed != at })
	if len(removing) == 0 {
		return nil
	}
	var failed error
	for _, name := range slices.Sorted(maps.Keys(removing)) {
		if ctx.Err() != nil {
			return failed
		}
		// The data is that of a configured account now: it stays, and with it the record.
		if m.Served.Configured(name) {
			continue
		}
		// Two nodes may both take themselves for the one that does it: each step can be done twice.
		if mine, err := m.store.Claim(name, m.Now()); err != nil || !mine {
			failed = errors.Join(failed, err)
			continue
		}
		a := removing[name]
		due := m.due(a.Removed)
		if a.DeleteData && m.emptied[name] != a.Removed {
			if err := m.store.Contents.Delete(ctx, name); err != nil {
				failed = errors.Join(failed, fmt.Errorf("%s: %w", name, err))
				continue
			}
			m.emptied[name] = a.Removed
			failed = errors.Join(failed, fault.Point(pointDeleted))
		}
		if due {
			failed = errors.Join(failed, m.end(ctx, name, a))
		}
	}
	return failed
}

// due reports whether no request that was authorized before a removal is under way any more. A removal by a clock that
// was ahead counts as long ago.
func (m *Manager) due(removed ticks.Ticks) bool {
	since := m.Now().Sub(removed.Time())
	return since >= m.Grace || since < -m.Grace
}

// end removes the record of an account that has nothing any more. What requests have created during the removal is
// deleted with it if deletion was asked for; otherwise the account is served again.
func (m *Manager) end(ctx context.Context, name string, a record.Account) error {
	if !a.DeleteData {
		what, err := m.store.Contents.Has(name)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if what != "" {
			m.Log.Warn("an account got data while it was removed, and is served again", "account", name, "has", what)
			return m.restore(name, a.Removed)
		}
	}
	if err := m.store.Contents.Delete(ctx, name); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	err := m.change(name, func(old *blob.StoredAccount) (*record.Account, error) {
		if old == nil || old.Removed != a.Removed {
			return nil, errMoved
		}
		return nil, nil
	})
	if errors.Is(err, errMoved) {
		return nil
	}
	if err == nil {
		m.Log.Info("nothing is left of a removed account", "account", name)
	}
	return err
}

// errMoved: another node has changed the record.
var errMoved = errors.New("the record of the account has changed")
