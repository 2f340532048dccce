package auth

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"hash"
	"sort"
	"sync"
	"sync/atomic"

	"github.com/lazuli-storage/lazuli/internal/azure/accountprops"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
)

// The development account of Azure's own emulators. Its name and key are public.
// https://learn.microsoft.com/azure/storage/common/storage-use-azurite#well-known-storage-account-and-key
const (
	DevelopmentAccount = "devstoreaccount1"
	DevelopmentKey     = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)

// maxKey is the maximum length of an account key in bytes. Azure's keys have 64.
const maxKey = 256

// Key is one account key. No format verb prints it.
type Key struct {
	secret []byte
	// macs caches HMAC states keyed with the secret, which are costly to create.
	macs *sync.Pool
}

// ParseKey reads a key from its base64 form.
func ParseKey(base64Key string) (Key, error) {
	secret, err := base64.StdEncoding.DecodeString(base64Key)
	if err != nil {
		return Key{}, errors.New("account key is not base64")
	}
	if len(secret) == 0 || len(secret) > maxKey {
		return Key{}, fmt.Errorf("account key has %d bytes; it must have 1 to %d", len(secret), maxKey)
	}
	return Key{secret, &sync.Pool{New: func() any { return hmac.New(sha256.New, secret) }}}, nil
}

// String implements fmt.Stringer so that no format verb prints the secret.
func (Key) String() string { return "**redacted**" }

// GoString is String, for %#v.
func (Key) GoString() string { return "**redacted**" }

// Equal reports whether two keys are the same.
func (k Key) Equal(other Key) bool { return hmac.Equal(k.secret, other.secret) }

// Sign appends the HMAC-SHA256 of message to dst.
func (k Key) Sign(dst, message []byte) []byte {
	mac := k.macs.Get().(hash.Hash)
	mac.Reset()
	mac.Write(message)
	dst = mac.Sum(dst)
	k.macs.Put(mac)
	return dst
}

// Matches reports in constant time whether signature, in base64, is k's for message.
func (k Key) Matches(message []byte, signature string) bool {
	var sum [sha256.Size]byte
	var text [44]byte // base64 of 32 bytes
	base64.StdEncoding.Encode(text[:], k.Sign(sum[:0], message))
	return hmac.Equal(text[:], []byte(signature))
}

// Account is a storage account: a name, its keys, any of which can sign, and the account's own settings.
type Account struct {
	Name      string
	Keys      []Key
	Overrides accountprops.Overrides

	blob accountprops.Blob // the process's settings with Overrides applied; set by Replace
}

// Accounts is the set of accounts that a process serves. It may be replaced while requests are served: each request
// sees one set throughout.
type Accounts struct {
	set      atomic.Pointer[map[string]*Account]
	defaults accountprops.Blob // immutable
}

// NewAccounts returns a set of accounts. Errors: invalid or duplicate names, accounts without keys, invalid settings.
func NewAccounts(list ...Account) (*Accounts, error) {
	return NewManagedAccounts(accountprops.Blob{}, list...)
}

// NewManagedAccounts is like NewAccounts and takes the default settings of accounts.
func NewManagedAccounts(defaults accountprops.Blob, list ...Account) (*Accounts, error) {
	a := &Accounts{defaults: defaults}
	return a, a.Replace(list...)
}

// Replace replaces the set atomically. After an error the old set remains.
func (a *Accounts) Replace(list ...Account) error {
	if err := CheckAccounts(list...); err != nil {
		return err
	}
	set := make(map[string]*Account, len(list))
	for _, account := range list {
		var err error
		if account.blob, err = account.Overrides.Apply(a.defaults); err != nil {
			return fmt.Errorf("account %s: %w", account.Name, err)
		}
		set[account.Name] = &account
	}
	a.set.Store(&set)
	return nil
}

// CheckAccounts returns an error if the accounts are invalid with any process settings.
func CheckAccounts(list ...Account) error {
	seen := make(map[string]bool, len(list))
	for _, account := range list {
		if !wire.AccountName(account.Name) {
			return fmt.Errorf("account name %q must have 3 to 24 lower-case letters and digits", account.Name)
		}
		if seen[account.Name] {
			return fmt.Errorf("account %s is given twice", account.Name)
		}
		if len(account.Keys) == 0 {
			return fmt.Errorf("account %s has no key", account.Name)
		}
		if err := account.Overrides.Possible(); err != nil {
			return fmt.Errorf("account %s: %w", account.Name, err)
		}
		seen[account.Name] = true
	}
	return nil
}

// Get returns the named account, or nil.
func (a *Accounts) Get(name string) *Account { return (*a.set.Load())[name] }

// Blob returns the Blob service's settings of an account, which are immutable. An account that is not in the set has
// the process's settings, so that its background work can complete.
func (a *Accounts) Blob(name string) *accountprops.Blob {
	if account := a.Get(name); account != nil {
		return &account.blob
	}
	return &a.defaults
}

// Several reports whether there is more than one account.
func (a *Accounts) Several() bool { return len(*a.set.Load()) > 1 }

// Names returns the names of all accounts in order.
func (a *Accounts) Names() []string {
	set := *a.set.Load()
	names := make([]string, 0, len(set))
	for name := range set {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}

// Development returns the set with only the development account.
func Development() *Accounts {
	key, err := ParseKey(DevelopmentKey)
	if err != nil {
		panic("auth: the development key does not parse: " + err.Error())
	}
	a, err := NewAccounts(Account{Name: DevelopmentAccount, Keys: []Key{key}})
	if err != nil {
		panic("auth: the development account is not valid: " + err.Error())
	}
	return a
}
