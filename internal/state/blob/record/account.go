package record

import (
	"bytes"

	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// Account is a storage account that was added while the server runs.
type Account struct {
	// Keys are its keys in base64, at most two; none of an account whose data is being deleted.
	Keys []string
	// Settings are its own settings, as "name=value name=value".
	Settings string
	// Created is when it was added, and Rotated when one of its keys was last replaced, 0 if none was.
	Created, Rotated ticks.Ticks
	// Removed is when it was removed, 0 for an account that is served. The record stays until nothing of the account is
	// left.
	Removed ticks.Ticks
	// DeleteData is set if what a removed account has is to be deleted. Otherwise it is removed only if it has nothing.
	DeleteData bool
}

// The tags of the fields.
const (
	accountKey = iota + 1
	accountSettings
	accountCreated
	accountRotated
	accountRemoved
	accountDeleteData
)

// accountPrefix begins the keys of accounts in the meta bucket. An earlier release, which does not know these keys,
// keeps them: a folder, or a cluster with nodes of both releases, needs no new format.
var accountPrefix = []byte("account:")

// AccountKey is the key of an account in the meta bucket. With the name "" it is the prefix of all.
func AccountKey(name string) []byte { return append(bytes.Clone(accountPrefix), name...) }

// ParseAccountKey returns the name of an account, by its key in the meta bucket; ok is false for other keys.
func ParseAccountKey(k []byte) (name string, ok bool) {
	rest, ok := bytes.CutPrefix(k, accountPrefix)
	return string(rest), ok
}

// Encode returns the stored form.
func (a *Account) Encode() []byte {
	e := newEncoder(256)
	for _, key := range a.Keys {
		e.text(accountKey, key)
	}
	e.text(accountSettings, a.Settings)
	e.uint(accountCreated, uint64(a.Created))
	e.uint(accountRotated, uint64(a.Rotated))
	e.uint(accountRemoved, uint64(a.Removed))
	e.bool(accountDeleteData, a.DeleteData)
	return e.b
}

// DecodeAccount reads the stored form.
func DecodeAccount(v []byte) (a Account, err error) {
	d := newDecoder(v)
	for d.more() {
		switch d.byte() {
		case accountKey:
			a.Keys = append(a.Keys, d.string())
		case accountSettings:
			a.Settings = d.string()
		case accountCreated:
			a.Created = ticks.Ticks(d.uint())
		case accountRotated:
			a.Rotated = ticks.Ticks(d.uint())
		case accountRemoved:
			a.Removed = ticks.Ticks(d.uint())
		case accountDeleteData:
			a.DeleteData = d.bool()
		default:
			d.fail()
		}
	}
	// An account that is served can sign with one of its keys.
	if len(a.Keys) > 2 || len(a.Keys) == 0 && !a.DeleteData {
		d.fail()
	}
	return a, d.err()
}
