package server

import (
	managed "github.com/lazuli-storage/lazuli/internal/server/accounts"
)

// The errors of changes of accounts, for errors.Is. After each of them nothing has changed.
var (
	// ErrAccountInvalid means that a name, key or setting is not valid.
	ErrAccountInvalid = managed.ErrInvalid
	// ErrAccountExists means that there is an account of the name.
	ErrAccountExists = managed.ErrExists
	// ErrAccountNotFound means that there is no account of the name.
	ErrAccountNotFound = managed.ErrNotFound
	// ErrAccountConfigured means that the account is one of Config.Accounts, which do not change.
	ErrAccountConfigured = managed.ErrConfigured
	// ErrAccountRemoving means that the account was removed, and its name is not free yet.
	ErrAccountRemoving = managed.ErrRemoving
	// ErrAccountHasData means that the account has containers, queues or tables, whose deletion was not asked for.
	ErrAccountHasData = managed.ErrHasData
	// ErrTooManyAccounts means that there are 200,000 added managed.
	ErrTooManyAccounts = managed.ErrTooMany
)

// manager returns the accounts that can be changed.
func (s *Server) manager() (*managed.Manager, error) {
	if m := s.assembled.AccountManager(); m != nil {
		return m, nil
	}
	return nil, ErrNotAllowed
}

// AddAccount adds an account while the server runs, and returns it with its keys: without Keys it gets two random ones
// of 64 bytes. It is durable and served when AddAccount returns, and kept in the data folder; the other nodes of a
// cluster serve it once they have applied the log, within milliseconds.
//
// Errors: [ErrNotAllowed] without Config.ManagedAccounts, [ErrAccountInvalid], [ErrAccountConfigured],
// [ErrAccountExists], [ErrAccountRemoving], [ErrTooManyAccounts].
func (s *Server) AddAccount(a Account) (Account, error) {
	m, err := s.manager()
	if err != nil {
		return Account{}, err
	}
	a.Keys, err = m.Add(a.Name, a.Keys, a.Settings)
	return a, err
}

// SetAccount sets settings of an added account, and unsets those that are nil. They apply from the next request on.
// Errors: [ErrNotAllowed], [ErrAccountInvalid], [ErrAccountConfigured], [ErrAccountNotFound], [ErrAccountRemoving].
func (s *Server) SetAccount(name string, settings map[string]*string) error {
	m, err := s.manager()
	if err != nil {
		return err
	}
	return m.Set(name, settings)
}

// RotateKey replaces key 1 or 2 of an added account by a random one, which it returns. What the old key signed is
// invalid when RotateKey returns, and the other key stays valid. Errors: those of [Server.SetAccount].
func (s *Server) RotateKey(name string, key int) (string, error) {
	m, err := s.manager()
	if err != nil {
		return "", err
	}
	return m.Rotate(name, key)
}

// AccountKeys returns the keys of an added account. Errors: those of [Server.SetAccount] but ErrAccountInvalid.
func (s *Server) AccountKeys(name string) ([]string, error) {
	m, err := s.manager()
	if err != nil {
		return nil, err
	}
	return m.Keys(name)
}

// RemoveAccount removes an added account: its keys are invalid when it returns. With deleteData what the account has is
// deleted in the background, also after a restart; without it an account that has data is not removed. The name is free
// again once nothing of the account is left, at the earliest after a minute. Errors: those of [Server.SetAccount], and
// [ErrAccountHasData].
func (s *Server) RemoveAccount(name string, deleteData bool) error {
	m, err := s.manager()
	if err != nil {
		return err
	}
	return m.Remove(name, deleteData)
}

// ListedAccount is an account without its keys.
type ListedAccount struct {
	Name string
	// Settings are the settings of its own.
	Settings map[string]string
	// Configured is set for the accounts of Config.Accounts.
	Configured bool
	// Removing is set for an account that was removed and of which something is left.
	Removing bool
}

// ListAccounts returns up to n accounts, configured and added ones, whose names sort after after, by name; more is set
// if there are others. Errors: [ErrNotAllowed].
func (s *Server) ListAccounts(after string, n int) (list []ListedAccount, more bool, err error) {
	m, err := s.manager()
	if err != nil {
		return nil, false, err
	}
	found, more, err := m.List("", after, n)
	for _, a := range found {
		list = append(list, ListedAccount{Name: a.Name, Settings: a.Settings,
			Configured: a.Source == managed.FromConfiguration, Removing: a.State == managed.Removing})
	}
	return list, more, err
}
