package store

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/lazuli-storage/lazuli/internal/storage/bboltpage"
	"github.com/lazuli-storage/lazuli/internal/storage/crc32c"
)

// State identifies a file and its content, for a list of the files that a folder must have.
type State struct {
	// ID is the identity of the database, in hexadecimal, from its creation on.
	ID string
	// Generation rises with each checkpoint, start and stop.
	Generation uint64
	// Closed means that the file was closed in order: it needs no log, and changes only when it is opened again.
	Closed bool
	// Replicated means that the file is a view of a replicated log, which can make it again. It is not set with
	// Options.Private.
	Replicated bool
	// Size is the size in bytes, and Sum the CRC-32C of the two pages that refer to all others.
	Size int64
	Sum  uint32
}

// ReadState reads the state of a file that is not open. It reads a few pages and does not verify the others.
//
// Errors: ErrFormat, ErrDamaged, fs.ErrNotExist, or an error of the operating system.
func ReadState(path string) (s State, err error) {
	f, err := os.Open(path)
	if err != nil {
		return s, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return s, err
	}
	s.Size = info.Size()
	if s.Size == 0 {
		return s, &DamageError{File: filepath.Base(path), Problem: "the file is empty"}
	}
	// The own page reader and not bbolt: opening the file would lock it, and read its list of free pages.
	pairs, m, ok, err := bboltpage.BucketPairs(f, s.Size, string(formatBucket))
	if err != nil {
		return s, openError(path, err)
	}
	if !ok {
		return s, fmt.Errorf("%w: %s has no version", ErrFormat, path)
	}
	value := func(key []byte) []byte {
		v, ok := unseal(formatSeed, key, pairs[string(key)])
		// The first error counts; value goes on so that the calls can stand in one line.
		if !ok && err == nil {
			err = &DamageError{File: filepath.Base(path), Bucket: Bucket(formatBucket), Key: key,
				Problem: "the checksum does not match"}
		}
		return v
	}
	id, progress := value(idKey), value(logKey)
	if err == nil && (len(id) != idSize || len(progress) != 17) {
		err = fmt.Errorf("%w: %s has an id of %d bytes", ErrFormat, path, len(id))
	}
	if err != nil {
		return s, err
	}
	s.ID, s.Generation, s.Closed = hex.EncodeToString(id), binary.BigEndian.Uint64(progress), progress[16] == 1
	_, s.Replicated = pairs[string(replicaKey)]
	// A private log is only this node's, so the file is not one of those that copies agree on.
	if _, private := pairs[string(privateKey)]; private {
		s.Replicated = false
	}
	// The two meta pages change with each transaction: their sum tells whether the file is the one that the manifest
	// describes, without reading it.
	metas := make([]byte, 2*m.PageSize)
	if _, err := f.ReadAt(metas, 0); err != nil && !errors.Is(err, io.EOF) {
		return s, err
	}
	s.Sum = crc32c.Checksum(metas)
	return s, nil
}
