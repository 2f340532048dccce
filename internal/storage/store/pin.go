package store

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"runtime/debug"

	bolt "go.etcd.io/bbolt"

	"github.com/lazuli-storage/lazuli/internal/storage/crc32c"
	"github.com/lazuli-storage/lazuli/internal/storage/disk"
)

const (
	// minPart, meanPart and maxPart are the sizes of the parts of [Pin.Parts], in bytes.
	minPart  = 128 << 10
	meanPart = 512 << 10
	maxPart  = 4 << 20
)

// Pin is a DB as it was at one moment. Reads and writes of the DB go on meanwhile; the file keeps the pages of that
// moment until Close.
type Pin struct {
	db *DB
	tx Tx
}

// PinAll pins stores at the same moment: if a write to one of them was acknowledged before another began, the pins have
// the first if they have the second. With Options.Log the moments may differ by what other nodes commit meanwhile; each
// pin has at least what any node had committed to that store before the call. Close each pin.
func PinAll(dbs ...*DB) (pins []*Pin, err error) {
	for _, db := range dbs {
		if err := db.waitCurrent(); err != nil {
			return nil, err
		}
	}
	closeAll := func() {
		for _, p := range pins {
			p.Close()
		}
		pins = nil
	}
	begin := func() error {
		closeAll() // an Update may run its closure again
		for _, db := range dbs {
			p := &Pin{db: db}
			if err := db.beginRead(&p.tx); err != nil {
				return err
			}
			pins = append(pins, p)
		}
		return nil
	}
	// While the closure of an Update runs, its store commits nothing.
	for i := len(dbs) - 1; i >= 0; i-- {
		if db, inner := dbs[i], begin; !db.readOnly && (db.replica == nil || db.replica.local) {
			begin = func() error { return db.Update(func(*Tx) error { return inner() }) }
		}
	}
	if err = begin(); err != nil {
		closeAll()
	}
	return pins, err
}

// Close ends the pin. Closing twice is allowed.
func (p *Pin) Close() {
	if p.tx.db != nil {
		p.tx.endRead()
	}
}

// Group returns the number of the last group of the pinned state.
func (p *Pin) Group() uint64 { return p.tx.snapshot[0] }

// View runs fn on the pinned state, as [DB.View] does.
func (p *Pin) View(fn func(*Tx) error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if v := recover(); v != nil {
			var failed bool
			if err, failed = p.db.failureOf(v); !failed {
				panic(v)
			}
		}
	}()
	return fn(&p.tx)
}

// SyncAttached makes the attachments of the store's log durable in their places.
func (p *Pin) SyncAttached() error { return p.db.syncAttached() }

// Parts calls emit with all entries in parts of about half a MiB, from which [Create] makes a file. Where a part ends
// depends on the entries near its end alone, so that entries that did not change give the same parts in the next call.
// Every checksum is verified.
func (p *Pin) Parts(emit func(part []byte) error) error {
	return p.View(func(tx *Tx) error {
		for _, name := range p.db.buckets {
			s := &WriteSet{}
			c := tx.Scan(name)
			for k, v := c.Seek(nil); k != nil; k, v = c.Next() {
				s.put(name, append([]byte(nil), k...), append([]byte{}, v...))
				ends := crc32c.Checksum(k)%meanPart < uint32(len(k)+len(v))
				if s.bytes >= maxPart || s.bytes >= minPart && ends {
					if err := emit(s.appendPayload(nil)); err != nil {
						return err
					}
					s = &WriteSet{}
				}
			}
			if s.bytes > 0 {
				if err := emit(s.appendPayload(nil)); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// Extract writes the pinned state to a new file, that of a single server.
func (p *Pin) Extract(path string) error {
	if err := p.SyncAttached(); err != nil {
		return err
	}
	return Create(path, p.db.buckets, p.Parts)
}

// Create writes a new file, that of a single server, from the parts with which parts calls emit, in their order. Their
// checksums are verified.
func Create(path string, buckets []Bucket, parts func(emit func([]byte) error) error) error {
	r, w := io.Pipe()
	written := make(chan error, 1)
	go func() {
		err := parts(func(part []byte) error {
			_, err := w.Write(binary.AppendUvarint(nil, uint64(len(part))))
			if err == nil {
				_, err = w.Write(part)
			}
			return err
		})
		written <- errors.Join(err, w.CloseWithError(err))
	}()
	err := createFile(path, buckets, bufio.NewReader(r),
		func(tx *bolt.Tx) error { return putProgress(tx, 0, 0, true) })
	r.CloseWithError(err)
	if err = errors.Join(err, <-written); err != nil {
		return fmt.Errorf("store: create %s: %w", filepath.Base(path), err)
	}
	return disk.SyncDir(filepath.Dir(path))
}
