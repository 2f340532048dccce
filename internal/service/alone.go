package service

import (
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/lazuli-storage/lazuli/internal/azure/accountprops"
	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/frontend"
	"github.com/lazuli-storage/lazuli/internal/storage/datadir"
	"github.com/lazuli-storage/lazuli/internal/storage/diskspace"
)

// Alone is the public configuration that all services have: that of a service without a server around it.
type Alone struct {
	// Folder is the data folder, which is locked; InMemory has none. One of them is set.
	Folder            string
	InMemory, Relaxed bool
	// Accounts are the keys in base64 by the names of accounts; nil is the development account.
	Accounts map[string]string
	// Settings are the settings of all accounts.
	Settings accountprops.Blob
	// Now and Log may be nil.
	Now func() time.Time
	Log *slog.Logger
}

// Folder is the data folder of a service without a server around it. A nil *Folder is that of a service in a server,
// which has a folder of its own: its methods do nothing.
type Folder struct {
	*datadir.Dir
	space *diskspace.Guard // nil for a folder that is not kept
	once  sync.Once
	err   error // of the first Close
}

// Open opens the data folder, and returns it with the configuration of the front-end. Errors name no keys.
func (a Alone) Open() (*Folder, frontend.Common, error) {
	c := frontend.Common{Now: a.Now, Log: a.Log}
	if (a.Folder != "") == a.InMemory {
		return nil, c, errors.New("either Config.Folder or Config.InMemory is required")
	}
	var err error
	if c.Accounts, err = a.accounts(); err != nil {
		return nil, c, err
	}
	f := new(Folder)
	if a.InMemory {
		f.Dir, err = datadir.OpenTemp("")
		return f, c, err
	}
	if f.Dir, err = datadir.Open(a.Folder); err != nil {
		return nil, c, err
	}
	f.space = diskspace.Open(f.Path(), diskspace.Options{Log: a.Log})
	c.Space = f.space
	return f, c, nil
}

func (a Alone) accounts() (*auth.Accounts, error) {
	if a.Accounts == nil {
		return auth.NewManagedAccounts(a.Settings, *auth.Development().Get(auth.DevelopmentAccount))
	}
	var list []auth.Account
	for name, key := range a.Accounts {
		account, err := auth.StoredAccount{Name: name, Keys: []string{key}}.Account()
		if err != nil {
			return nil, err
		}
		list = append(list, account)
	}
	return auth.NewManagedAccounts(a.Settings, list...)
}

// Record notes the files that the service has created in the folder. It is called before the first request: from then
// on, a file that is missing is a loss.
func (f *Folder) Record() error {
	if f == nil {
		return nil
	}
	return f.Dir.Record()
}

// Close closes the folder after the files of the service. Another call returns the first one's error.
func (f *Folder) Close() error {
	if f == nil {
		return nil
	}
	f.once.Do(func() {
		f.space.Close()
		f.err = f.Dir.Close()
	})
	return f.err
}
