package accounts

import (
	"context"
	"fmt"
	"hash/maphash"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/lazuli-storage/lazuli/internal/azure/accountprops"
	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/state/blob"
	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// MaxAccounts bounds the accounts that are added while the server runs.
const MaxAccounts = 200_000

// Config configures a [Manager]. All fields but Grace are required.
type Config struct {
	// Served is the set that requests ask.
	Served *auth.Accounts
	// Now is the clock of the services.
	Now func() time.Time
	// Log is for messages that a person should see. No key is in them.
	Log *slog.Logger
	// Writable returns why changes are refused: a full disk. Nil is the usual case.
	Writable func() error
	// Grace is the time that a removed account's name is not free; 0 is a minute.
	Grace time.Duration
}

// Store is what a [Manager] needs of the services.
type Store struct {
	// Records has the records of the accounts.
	Records Records
	// Load returns the values of all records by their names; nil reads them page by page.
	Load func() (map[string][]byte, error)
	// Follows is set on a node of a cluster, which calls [Manager.Follow] for every change.
	Follows bool
	// Contents are the data of accounts.
	Contents Contents
	// Namespace reports whether an account has containers, and then whether they are trees.
	Namespace func(account string) (hierarchical, known bool, err error)
	// Claim reports whether this process ends an account that was removed; of a cluster one node does.
	Claim func(account string, now time.Time) (bool, error)
	// Declare creates the keys of an account's encryption scopes that have none.
	Declare func(account string) error
}

// Records are the records of the accounts that were added. See [blob.AccountTable].
type Records interface {
	// List returns up to n records whose names begin with prefix and sort after after, by name.
	List(prefix, after string, n int) ([]blob.StoredAccount, error)
	// Stored returns the record of an account; ok is false if it has none.
	Stored(name string) (a blob.StoredAccount, ok bool, err error)
	// ChangeStored replaces a record by what change returns for the current one, which is nil if it does not exist; nil
	// removes it. change may run twice; if it fails, nothing is replaced.
	ChangeStored(name string, change func(old *blob.StoredAccount) (*record.Account, error)) error
}

var _ Records = blob.AccountTable{}

// Contents are the data of accounts in all services.
type Contents interface {
	// Has returns what an account has, in a word such as "containers"; "" for nothing.
	Has(account string) (string, error)
	// Delete deletes everything that an account has, its service properties and event subscriptions included. It can be
	// called again after a failure.
	Delete(ctx context.Context, account string) error
}

// Manager adds, changes and removes accounts. Its methods are safe for concurrent use.
type Manager struct {
	Config
	store Store

	// changing has a lock for each of some groups of names, held while an account of the group is changed on a server
	// alone, so that the set is changed in the order of the records. Changes of different accounts share a sync.
	changing [64]sync.Mutex

	mu sync.Mutex // guards what follows
	// pending has what was changed while the records are read at the start; nil afterwards.
	pending  map[string][]byte
	removing map[string]record.Account // accounts that were removed and have a record

	ending  sync.Mutex             // held while removed accounts are ended
	emptied map[string]ticks.Ticks // the removals whose data this process has deleted once; guarded by ending

	wake chan struct{}
	stop context.CancelFunc
	done sync.WaitGroup
}

// New returns a Manager that takes note of changes. Start it.
func New(c Config) *Manager {
	if c.Grace == 0 {
		c.Grace = time.Minute
	}
	return &Manager{Config: c, pending: map[string][]byte{}, removing: map[string]record.Account{},
		emptied: map[string]ticks.Ticks{},
		wake:    make(chan struct{}, 1), stop: func() {}}
}

// pageOfRecords is the number of records that are read at once at the start.
const pageOfRecords = 1000

// Start reads the accounts and makes the set have them, and ends removed accounts from now on.
func (m *Manager) Start(s Store) error {
	m.store = s
	if s.Load == nil {
		s.Load = func() (map[string][]byte, error) { return AllRecords(s.Records) }
	}
	records, err := s.Load()
	if err != nil {
		return fmt.Errorf("reading the accounts: %w", err)
	}
	m.load(records)
	ctx, cancel := context.WithCancel(context.Background())
	m.stop = cancel
	m.done.Go(func() { m.endRemoved(ctx) })
	return nil
}

// AllRecords returns the values of all records by their names.
func AllRecords(from Records) (map[string][]byte, error) {
	records := map[string][]byte{}
	for after, more := "", true; more; {
		page, err := from.List("", after, pageOfRecords)
		if err != nil {
			return nil, err
		}
		for _, a := range page {
			records[a.Name], after = a.Value, a.Name
		}
		more = len(page) == pageOfRecords
	}
	return records, nil
}

// load makes the set have the accounts of the records. What was followed meanwhile is newer than what was read.
func (m *Manager) load(records map[string][]byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, value := range m.pending {
		if records[name] = value; value == nil {
			delete(records, name)
		}
	}
	m.pending = nil
	clear(m.removing)
	list := make([]auth.Account, 0, len(records))
	for name, value := range records {
		if account, served := m.read(blob.ReadStoredAccount(name, value)); served {
			list = append(list, account)
		}
	}
	for _, err := range m.Served.ReplaceAdded(list...) {
		m.Log.Error("an account that was added cannot be served", "err", err)
	}
	if len(list) > 0 {
		m.Log.Info("accounts are read from the data folder", "accounts", len(list))
	}
}

// Replace makes the set have the accounts of the records, which are all.
func (m *Manager) Replace(records map[string][]byte) {
	m.mu.Lock()
	m.pending = map[string][]byte{}
	m.mu.Unlock()
	m.load(records)
}

// read converts a record and notes whether its account is being removed. served is false if it cannot be served.
// m.mu is held.
func (m *Manager) read(a blob.StoredAccount) (account auth.Account, served bool) {
	delete(m.removing, a.Name)
	if a.Err == nil && a.Removed != 0 {
		m.removing[a.Name] = a.Account
		m.Wake()
		return account, false
	}
	account, err := accountOf(a)
	if err != nil {
		m.Log.Error("an account that was added cannot be served", "account", a.Name, "err", err)
	}
	return account, err == nil
}

// accountOf converts a record.
func accountOf(a blob.StoredAccount) (auth.Account, error) {
	if a.Err != nil {
		return auth.Account{}, fmt.Errorf("%w: %w", ErrUnreadable, a.Err)
	}
	overrides, err := accountprops.ParseOverrides(strings.Fields(a.Settings))
	if err != nil {
		return auth.Account{}, fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	return auth.StoredAccount{Name: a.Name, Keys: a.Keys, Overrides: overrides}.Account()
}

// Follow takes note of a change of a record; value is nil if it was removed. A node of a cluster calls it in the order
// of the log. It does not block.
func (m *Manager) Follow(name string, value []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.pending != nil {
		m.pending[name] = value
		return
	}
	if value == nil {
		delete(m.removing, name)
		m.Served.Remove(name)
		return
	}
	account, served := m.read(blob.ReadStoredAccount(name, value))
	if served {
		err := m.Served.Add(account)
		if err == nil {
			return
		}
		m.Log.Error("an account that was added cannot be served", "account", name, "err", err)
	}
	// What cannot be served must not be served as it was before: its keys may have been replaced.
	m.Served.Remove(name)
}

// Wake asks for a look at the removed accounts.
func (m *Manager) Wake() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// Stop ends the background work. The set stays as it is.
func (m *Manager) Stop() {
	m.stop()
	m.done.Wait()
}

var nameSeed = maphash.MakeSeed()

// change replaces the record of an account, see [blob.AccountTable.ChangeStored], and makes the set follow.
func (m *Manager) change(name string,
	change func(old *blob.StoredAccount) (*record.Account, error)) error {
	if m.store.Follows {
		return m.store.Records.ChangeStored(name, change)
	}
	lock := &m.changing[maphash.String(nameSeed, name)%uint64(len(m.changing))]
	lock.Lock()
	defer lock.Unlock()
	var value []byte
	err := m.store.Records.ChangeStored(name, func(old *blob.StoredAccount) (*record.Account, error) {
		value = nil
		next, err := change(old)
		if next != nil {
			value = next.Encode()
		}
		return next, err
	})
	if err == nil {
		m.Follow(name, value)
	}
	return err
}
