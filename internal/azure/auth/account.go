package auth

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"hash/maphash"
	"maps"
	"slices"
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

// Fingerprint identifies the key without showing it, see [Fingerprint].
func (k Key) Fingerprint() string { return Fingerprint(base64.StdEncoding.EncodeToString(k.secret)) }

// Fingerprint identifies a key in base64 without showing it, in lists and messages.
func Fingerprint(base64Key string) string {
	sum := sha256.Sum256([]byte(base64Key))
	return hex.EncodeToString(sum[:4])
}

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

	blob *accountprops.Blob // the process's settings with Overrides applied; set by complete
}

// Accounts is the set of accounts that a process serves. It may be changed while requests are served. It has two parts:
// the configured accounts, which are few and are replaced together, and those that are added and removed one by one,
// of which there may be thousands. A configured account hides an added one of its name.
type Accounts struct {
	set      atomic.Pointer[map[string]*Account]
	added    shards[Account]
	names    atomic.Pointer[[]string] // of all accounts in order; nil after a change
	defaults accountprops.Blob        // immutable
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

// Replace replaces the configured accounts atomically. After an error the old ones remain.
func (a *Accounts) Replace(list ...Account) error {
	if err := CheckAccounts(list...); err != nil {
		return err
	}
	set := make(map[string]*Account, len(list))
	for _, account := range list {
		if err := a.complete(&account); err != nil {
			return err
		}
		set[account.Name] = &account
	}
	a.change(func() { a.set.Store(&set) })
	return nil
}

// complete sets what an account has of the process's settings.
func (a *Accounts) complete(account *Account) error {
	// Of thousands of accounts most have no settings of their own: those share one value.
	if account.blob = &a.defaults; len(account.Overrides) == 0 {
		return nil
	}
	blob, err := account.Overrides.Apply(a.defaults)
	if err != nil {
		return fmt.Errorf("account %s: %w", account.Name, err)
	}
	account.blob = &blob
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
func (a *Accounts) Get(name string) *Account {
	if account := (*a.set.Load())[name]; account != nil {
		return account
	}
	return a.added.get(name)
}

// Configured reports whether the named account is one of Replace.
func (a *Accounts) Configured(name string) bool { return (*a.set.Load())[name] != nil }

// ConfiguredNames returns the names of the accounts of Replace, in order.
func (a *Accounts) ConfiguredNames() []string { return slices.Sorted(maps.Keys(*a.set.Load())) }

// Blob returns the Blob service's settings of an account, which are immutable. An account that is not in the set has
// the process's settings, so that its background work can complete.
func (a *Accounts) Blob(name string) *accountprops.Blob {
	if account := a.Get(name); account != nil {
		return account.blob
	}
	return &a.defaults
}

// Several reports whether there is more than one account.
func (a *Accounts) Several() bool { return len(*a.set.Load())+int(a.added.n.Load()) > 1 }

// Names returns the names of all accounts in order. The caller must not change the slice.
func (a *Accounts) Names() []string {
	if names := a.names.Load(); names != nil {
		return *names
	}
	a.added.mu.Lock()
	defer a.added.mu.Unlock()
	names := make([]string, 0, len(*a.set.Load())+int(a.added.n.Load()))
	for name := range *a.set.Load() {
		names = append(names, name)
	}
	a.added.each(func(name string) { names = append(names, name) })
	slices.Sort(names)
	names = slices.Compact(names)
	a.names.Store(&names)
	return names
}

// Check returns the Blob service's settings that an account would have, or an error if it is invalid with the settings
// of the process. Errors name no keys.
func (a *Accounts) Check(account Account) (*accountprops.Blob, error) {
	if err := CheckAccounts(account); err != nil {
		return nil, err
	}
	err := a.complete(&account)
	return account.blob, err
}

// Add adds an account beside the configured ones, or replaces an added one. After an error nothing has changed.
func (a *Accounts) Add(account Account) (err error) {
	if account.blob, err = a.Check(account); err != nil {
		return err
	}
	a.change(func() { a.added.put(account.Name, &account) })
	return nil
}

// Remove removes an added account, which need not exist.
func (a *Accounts) Remove(name string) {
	a.change(func() {
		if a.added.get(name) != nil {
			a.added.put(name, nil)
		}
	})
}

// ReplaceAdded replaces all added accounts, at the cost of one change. Accounts that are not valid are left out, with
// an error for each.
func (a *Accounts) ReplaceAdded(list ...Account) (refused []error) {
	all := make(map[string]*Account, len(list))
	for _, account := range list {
		var err error
		if account.blob, err = a.Check(account); err != nil {
			refused = append(refused, err)
			continue
		}
		all[account.Name] = &account
	}
	a.change(func() { a.added.replace(all) })
	return refused
}

// change makes a change of the added accounts.
func (a *Accounts) change(do func()) {
	a.added.mu.Lock()
	defer a.added.mu.Unlock()
	do()
	// After the change: Names takes the lock too, so it cannot store the names of before.
	a.names.Store(nil)
}

// AddedCount returns the number of added accounts.
func (a *Accounts) AddedCount() int { return int(a.added.n.Load()) }

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

// addedShards is the number of maps of added accounts. A change copies one of them, so that adding 100,000 accounts one
// by one copies some hundred entries each time.
const addedShards = 256

// shards are values by name that are added and removed one by one. Reading takes no lock.
type shards[V any] struct {
	n    atomic.Int64 // how many there are
	maps [addedShards]atomic.Pointer[map[string]*V]

	mu sync.Mutex // held during changes
}

var shardSeed = maphash.MakeSeed()

func shardOf(name string) int { return int(maphash.String(shardSeed, name) % addedShards) }

// get returns the named value, or nil.
func (s *shards[V]) get(name string) *V {
	if s.n.Load() == 0 {
		return nil // no process that has only configured accounts pays for the hash
	}
	if values := s.maps[shardOf(name)].Load(); values != nil {
		return (*values)[name]
	}
	return nil
}

// put adds or replaces a value; nil removes it. mu is held.
func (s *shards[V]) put(name string, value *V) {
	shard := &s.maps[shardOf(name)]
	next := map[string]*V{}
	if old := shard.Load(); old != nil {
		next = maps.Clone(*old)
	}
	before := len(next)
	if value != nil {
		next[name] = value
	} else {
		delete(next, name)
	}
	shard.Store(&next)
	s.n.Add(int64(len(next) - before))
}

// replace replaces all values. mu is held.
func (s *shards[V]) replace(all map[string]*V) {
	var parts [addedShards]map[string]*V
	for i := range parts {
		parts[i] = map[string]*V{}
	}
	for name, value := range all {
		parts[shardOf(name)][name] = value
	}
	for i, part := range parts {
		s.maps[i].Store(&part)
	}
	s.n.Store(int64(len(all)))
}

// each calls fn with the names. mu is held.
func (s *shards[V]) each(fn func(name string)) {
	for i := range s.maps {
		if values := s.maps[i].Load(); values != nil {
			for name := range *values {
				fn(name)
			}
		}
	}
}
