package store

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/lazuli-storage/lazuli/internal/storage/bboltpage"
)

// ErrDamaged means that bytes on disk differ from those that were written. Every error of that kind is a *DamageError.
var ErrDamaged = errors.New("store: damaged")

// DamageError describes damaged data.
type DamageError struct {
	// File is the name of the file, without its folder.
	File string
	// Bucket and Key name the damaged value, if the damage is in a value.
	Bucket Bucket
	Key    []byte
	// Problem describes the damage.
	Problem string
}

// Error names the file, and the bucket and key, or the position, of the damage.
func (e *DamageError) Error() string {
	if e.Key == nil {
		return fmt.Sprintf("%v: %s: %s", ErrDamaged, e.File, e.Problem)
	}
	return fmt.Sprintf("%v: %s: bucket %q, key %s: %s", ErrDamaged, e.File, string(e.Bucket), quoteKey(e.Key), e.Problem)
}

// Is makes errors.Is find ErrDamaged.
func (e *DamageError) Is(target error) bool { return target == ErrDamaged }

// maxQuoted limits the part of a key in an error's text, in bytes.
const maxQuoted = 256

func quoteKey(key []byte) string {
	if len(key) > maxQuoted {
		return fmt.Sprintf("%q... (%d bytes)", key[:maxQuoted], len(key))
	}
	return fmt.Sprintf("%q", key)
}

func (db *DB) damagedValue(bucket int, key []byte) error {
	return &DamageError{File: filepath.Base(db.path), Bucket: db.buckets[bucket], Key: append([]byte{}, key...),
		Problem: "the checksum does not match"}
}

// asDamage converts the damage that the page reader reports to a *DamageError. It returns other errors unchanged.
func asDamage(path string, err error) error {
	var page *bboltpage.DamageError
	if errors.As(err, &page) || errors.Is(err, bboltpage.ErrTruncated) {
		return &DamageError{File: filepath.Base(path), Problem: err.Error()}
	}
	return err
}

// readFailure is the panic value of a transaction whose read fails: neither Get nor a Cursor has an error to return,
// and the closure must not continue as if the key did not exist. View and Update return the error.
type readFailure struct{ err error }

// failRead ends the closure.
func (tx *Tx) failRead(err error) {
	err = asDamage(tx.db.path, err)
	if errors.Is(err, ErrDamaged) {
		tx.db.damages.Add(1)
	}
	panic(readFailure{err})
}

// failureOf returns the error of a readFailure; ok is false for other panics of the closure.
func (db *DB) failureOf(v any) (err error, ok bool) {
	if f, ok := v.(readFailure); ok {
		return f.err, true
	}
	if addressed, ok := v.(interface {
		error
		Addr() uintptr
	}); ok && db.inMapping(addressed.Addr()) {
		// The kernel could not read a page of the mapping: see debug.SetPanicOnFault.
		db.damages.Add(1)
		return &DamageError{File: filepath.Base(db.path), Problem: "a page cannot be read"}, true
	}
	return nil, false
}

func (db *DB) inMapping(addr uintptr) bool {
	info := db.bolt.Info()
	return info != nil && addr >= info.Data && addr-info.Data < mapSize
}

// Failed returns an ErrFailed with its cause if writes are refused until the file is opened again, and nil otherwise.
func (db *DB) Failed() error {
	if cause := db.failed.Load(); cause != nil {
		return fmt.Errorf("%w: %w", ErrFailed, *cause)
	}
	return nil
}

// Damages returns the number of reads since Open that failed because of damage.
func (db *DB) Damages() int64 { return db.damages.Load() }
