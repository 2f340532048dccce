package accounts

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/lazuli-storage/lazuli/internal/azure/accountprops"
	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/state/blob"
	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// Settings are settings of an account by their names, see [accountprops.BlobSettings].
type Settings map[string]string

// overrides checks the settings.
func (s Settings) overrides() (o accountprops.Overrides, err error) {
	for _, name := range slices.Sorted(maps.Keys(s)) {
		if o, err = o.With(name, s[name]); err != nil {
			return nil, invalid(err)
		}
	}
	return o, nil
}

func invalid(err error) error { return fmt.Errorf("%w: %w", ErrInvalid, err) }

// checkName returns an error for a name that an account cannot have, and for one of the configuration.
func (m *Manager) checkName(name string) error {
	if !wire.AccountName(name) {
		return fmt.Errorf("%w: an account name must have 3 to 24 lower-case letters and digits", ErrInvalid)
	}
	if m.Served.Configured(name) {
		return fmt.Errorf("%s: %w", name, ErrConfigured)
	}
	return nil
}

// Add adds an account and returns its keys. Without keys, which are base64, it gets two random ones. When Add returns,
// the account is durable and this process serves it; the other nodes of a cluster do so when they apply the log.
//
// Errors: ErrInvalid, ErrConfigured, ErrExists, ErrRemoving, ErrTooMany.
func (m *Manager) Add(name string, keys []string, settings Settings) ([]string, error) {
	overrides, err := settings.overrides()
	if err != nil {
		return nil, err
	}
	if err := m.checkName(name); err != nil {
		return nil, err
	}
	if len(keys) > 2 {
		return nil, fmt.Errorf("%w: an account has one or two keys", ErrInvalid)
	}
	if len(keys) == 0 {
		for range 2 {
			key, _, err := auth.GenerateKey()
			if err != nil {
				return nil, err
			}
			keys = append(keys, key)
		}
	}
	blobs, err := m.check(auth.StoredAccount{Name: name, Keys: keys, Overrides: overrides})
	if err == nil {
		err = m.checkNamespace(name, blobs.Hierarchical)
	}
	if err != nil {
		return nil, err
	}
	// Callers at the same time may each pass: the limit is about memory, and some more do not matter.
	if m.Served.AddedCount() >= MaxAccounts {
		return nil, ErrTooMany
	}
	if err := m.Writable(); err != nil {
		return nil, err
	}
	err = m.change(name, func(old *blob.StoredAccount) (*record.Account, error) {
		switch {
		case old == nil:
			return &record.Account{Keys: keys, Settings: overrides.String(), Created: ticks.Of(m.Now())}, nil
		case old.Removed != 0:
			return nil, fmt.Errorf("%s: %w", name, ErrRemoving)
		}
		return nil, fmt.Errorf("%s: %w", name, ErrExists)
	})
	if err != nil {
		return nil, err
	}
	m.Log.Info("an account was added", "account", name)
	return keys, m.declare(name)
}

// declare creates the keys of the account's encryption scopes. If that fails, the account can be used without them, and
// the next start tries again.
func (m *Manager) declare(name string) error {
	if err := m.store.Declare(name); err != nil {
		return fmt.Errorf("keys of encryption scopes of %s: %w", name, err)
	}
	return nil
}

// check returns the settings of an account, or an error if it cannot be served.
func (m *Manager) check(stored auth.StoredAccount) (*accountprops.Blob, error) {
	account, err := stored.Account()
	if err != nil {
		return nil, invalid(err)
	}
	blobs, err := m.Served.Check(account)
	if err != nil {
		return nil, invalid(err)
	}
	return blobs, nil
}

// checkNamespace returns an error if an account has containers of the other kind: of a configured account that is
// added now with its keys, for example.
func (m *Manager) checkNamespace(name string, hierarchical bool) error {
	is, known, err := m.store.Namespace(name)
	if err == nil && known && is != hierarchical {
		err = fmt.Errorf("%w: hierarchical-namespace would be %v, and the containers of the account were created with %v: "+
			"it is fixed once an account has a container", ErrInvalid, hierarchical, is)
	}
	return err
}

// update changes an account that is served.
func (m *Manager) update(name string, change func(a *record.Account) error) error {
	if err := m.checkName(name); err != nil {
		return err
	}
	if err := m.Writable(); err != nil {
		return err
	}
	return m.change(name, func(old *blob.StoredAccount) (*record.Account, error) {
		if err := known(name, old); err != nil {
			return nil, err
		}
		if old.Removed != 0 {
			return nil, fmt.Errorf("%s: %w", name, ErrRemoving)
		}
		next := old.Account
		next.Keys = slices.Clone(next.Keys)
		return &next, change(&next)
	})
}

// known returns an error unless there is a record that can be read.
func known(name string, a *blob.StoredAccount) error {
	switch {
	case a == nil:
		return fmt.Errorf("%s: %w", name, ErrNotFound)
	case a.Err != nil:
		return fmt.Errorf("%s: %w: %w", name, ErrUnreadable, a.Err)
	}
	return nil
}

// Rotate replaces key 1 or 2 of an account by a random one, which it returns. What the old key signed is invalid when
// Rotate returns, and at the other nodes of a cluster when they apply the log; the other key stays valid. An account
// with one key gets a second one.
//
// Errors: ErrInvalid, ErrConfigured, ErrNotFound, ErrRemoving.
func (m *Manager) Rotate(name string, key int) (string, error) {
	if key != 1 && key != 2 {
		return "", fmt.Errorf("%w: the key to replace is 1 or 2", ErrInvalid)
	}
	fresh, _, err := auth.GenerateKey()
	if err != nil {
		return "", err
	}
	err = m.update(name, func(a *record.Account) error {
		if key > len(a.Keys) {
			a.Keys = append(a.Keys, fresh)
		} else {
			a.Keys[key-1] = fresh
		}
		a.Rotated = ticks.Of(m.Now())
		return nil
	})
	if err != nil {
		return "", err
	}
	m.Log.Info("a key was replaced", "account", name, "key", key)
	return fresh, nil
}

// Set sets settings of an account, and unsets those that are nil, for which the process's apply again. They apply from
// the next request on.
//
// Errors: ErrInvalid, ErrConfigured, ErrNotFound, ErrRemoving.
func (m *Manager) Set(name string, settings map[string]*string) error {
	if value, changes := settings["hierarchical-namespace"]; changes {
		// Asked here and not in the transaction, which cannot begin another one. A container that is created meanwhile with
		// the old setting makes those with the new one fail, as its own error says.
		is := "false"
		if value != nil {
			is = *value
		}
		o, err := Settings{"hierarchical-namespace": is}.overrides()
		if err != nil {
			return err
		}
		if err := m.checkNamespace(name, o[0].Value == "true"); err != nil {
			return err
		}
	}
	err := m.update(name, func(a *record.Account) error {
		stored := auth.StoredAccount{Name: name, Keys: a.Keys}
		var err error
		if stored.Overrides, err = accountprops.ParseOverrides(strings.Fields(a.Settings)); err != nil {
			return fmt.Errorf("%s: %w: %w", name, ErrUnreadable, err)
		}
		for _, s := range slices.Sorted(maps.Keys(settings)) {
			if value := settings[s]; value == nil {
				stored.Overrides, err = stored.Overrides.Without(s)
			} else {
				stored.Overrides, err = stored.Overrides.With(s, *value)
			}
			if err != nil {
				return invalid(err)
			}
		}
		a.Settings = stored.Overrides.String()
		_, err = m.check(stored)
		return err
	})
	if err != nil {
		return err
	}
	return m.declare(name)
}

// Account is what is known of an account, without its keys.
type Account struct {
	Name string `json:"name"`
	// Source is "configuration", or "server" for an account that was added while the server ran.
	Source string `json:"source"`
	// State is "active", or "removing" for one that was removed and of which something is left.
	State string `json:"state"`
	// Fingerprints identify its keys.
	Fingerprints []string `json:"keyFingerprints"`
	Settings     Settings `json:"settings,omitempty"`
	// Created is when it was added, and Rotated when a key was last replaced. They are zero for accounts of the
	// configuration.
	Created time.Time `json:"created,omitzero"`
	Rotated time.Time `json:"rotated,omitzero"`
	// Problem is why it is not served.
	Problem string `json:"problem,omitempty"`
}

// The values of Account.Source and Account.State.
const (
	FromConfiguration = "configuration"
	FromServer        = "server"
	Active            = "active"
	Removing          = "removing"
)

func settingsOf(o accountprops.Overrides) Settings {
	if len(o) == 0 {
		return nil
	}
	s := Settings{}
	for _, one := range o {
		s[one.Name] = one.Value
	}
	return s
}

// configured describes an account of the configuration, which may be gone.
func (m *Manager) configured(name string) (a Account, ok bool) {
	served := m.Served.Get(name)
	if served == nil {
		return a, false
	}
	a = Account{Name: name, Source: FromConfiguration, State: Active, Settings: settingsOf(served.Overrides)}
	for _, k := range served.Keys {
		a.Fingerprints = append(a.Fingerprints, k.Fingerprint())
	}
	return a, true
}

// describe describes an account that was added.
func describe(s blob.StoredAccount) Account {
	a := Account{Name: s.Name, Source: FromServer, State: Active, Fingerprints: []string{}} // no null in JSON
	if s.Created != 0 {
		a.Created = s.Created.Time()
	}
	if s.Rotated != 0 {
		a.Rotated = s.Rotated.Time()
	}
	for _, key := range s.Keys {
		a.Fingerprints = append(a.Fingerprints, auth.Fingerprint(key))
	}
	if s.Removed != 0 {
		a.State = Removing
		return a
	}
	account, err := accountOf(s)
	if err != nil {
		a.Problem = err.Error()
	}
	a.Settings = settingsOf(account.Overrides)
	return a
}

// List returns up to n accounts whose names begin with prefix and sort after after, by name. more is set if there are
// others.
func (m *Manager) List(prefix, after string, n int) (list []Account, more bool, err error) {
	records, err := m.store.Records.List(prefix, after, n+1)
	if err != nil {
		return nil, false, err
	}
	for _, name := range m.Served.ConfiguredNames() {
		if !strings.HasPrefix(name, prefix) || name <= after {
			continue
		}
		if a, ok := m.configured(name); ok {
			list = append(list, a)
		}
	}
	for _, s := range records {
		// A configured account hides an added one.
		if !m.Served.Configured(s.Name) {
			list = append(list, describe(s))
		}
	}
	slices.SortFunc(list, func(a, b Account) int { return strings.Compare(a.Name, b.Name) })
	if more = len(list) > n; more {
		list = list[:n]
	}
	return list, more, nil
}

// Get returns one account. It fails with ErrNotFound.
func (m *Manager) Get(name string) (Account, error) {
	if m.Served.Configured(name) {
		if a, ok := m.configured(name); ok {
			return a, nil
		}
	}
	s, ok, err := m.store.Records.Stored(name)
	if err != nil {
		return Account{}, err
	}
	if !ok {
		return Account{}, fmt.Errorf("%s: %w", name, ErrNotFound)
	}
	return describe(s), nil
}

// Keys returns the keys of an account in base64: secrets. Errors: ErrConfigured, ErrNotFound, ErrRemoving.
func (m *Manager) Keys(name string) ([]string, error) {
	if err := m.checkName(name); err != nil {
		if errors.Is(err, ErrInvalid) {
			err = fmt.Errorf("%s: %w", name, ErrNotFound)
		}
		return nil, err
	}
	s, ok, err := m.store.Records.Stored(name)
	switch {
	case err != nil:
		return nil, err
	case !ok:
		return nil, known(name, nil)
	case s.Removed != 0:
		return nil, fmt.Errorf("%s: %w", name, ErrRemoving)
	}
	return s.Keys, known(name, &s)
}
