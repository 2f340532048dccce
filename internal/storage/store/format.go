package store

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	bolt "go.etcd.io/bbolt"

	"github.com/lazuli-storage/lazuli/internal/storage/replog"
)

// The bucket whose keys hold the layout version of a file, and its progress. The leading zero byte separates it from
// the buckets of the services.
//
//	version   "1"
//	id        16 random bytes, the identity of the database
//	buckets   names of all other buckets, sorted, each with a line feed
//	log       0  8  generation of the log up to which the file is complete
//	          8  8  number of the group up to which it is complete
//	          16 1  1 if the store was closed and needs no log
//	replica   only in a view of a replicated log, see replica.go
//	private   only in the only view of one
//
// Integers are big-endian. Each value has its checksum, as all values.
//
// Version 1: one bucket of bbolt for each Bucket, no nested buckets, values with checksums, a log as in log.go and a
// mark as in mark.go.
var (
	formatBucket = []byte("\x00store")
	versionKey   = []byte("version")
	idKey        = []byte("id")
	bucketsKey   = []byte("buckets")
	logKey       = []byte("log")
)

const currentVersion = 1

// idSize is the size of a database's id, in bytes.
const idSize = 16

// format is the content of the format bucket.
type format struct {
	version    int // 0 for a new file
	id         string
	buckets    []string
	gen, group uint64
	closed     bool

	logID       string // of the replicated log, "" for none
	from, ahead replog.Position
	hasData     bool // set by peek
}

var formatSeed = bucketSeed(Bucket(formatBucket))

// putFormat writes one of the keys.
func putFormat(tx *bolt.Tx, key, value []byte) error {
	b, err := tx.CreateBucketIfNotExists(formatBucket)
	if err != nil {
		return err
	}
	return b.Put(key, appendSealed(nil, formatSeed, key, value))
}

// newID returns a random id.
func newID() string {
	id := make([]byte, idSize)
	_, _ = rand.Read(id) // never fails
	return string(id)
}

// putVersion records the version and the id of a file; a new id if id is empty.
func putVersion(tx *bolt.Tx, id string) error {
	if id == "" {
		id = newID()
	}
	return errors.Join(putFormat(tx, idKey, []byte(id)), putFormat(tx, versionKey, []byte(strconv.Itoa(currentVersion))))
}

// putProgress records the progress of the file.
func putProgress(tx *bolt.Tx, gen, group uint64, closed bool) error {
	p := binary.BigEndian.AppendUint64(nil, gen)
	p = binary.BigEndian.AppendUint64(p, group)
	if closed {
		p = append(p, 1)
	} else {
		p = append(p, 0)
	}
	return putFormat(tx, logKey, p)
}

// readFormat reads the format bucket, and compares its list of buckets with the existing ones.
func (db *DB) readFormat() (f format, err error) {
	err = db.bolt.View(func(tx *bolt.Tx) error {
		b := tx.Bucket(formatBucket)
		if b == nil {
			if k, _ := tx.Cursor().First(); k != nil {
				return fmt.Errorf("%w: no version", ErrFormat)
			}
			return nil
		}
		if v := b.Get(versionKey); string(v) == "1" || b.Get(idKey) == nil && bytes.HasPrefix(v, []byte("2")) {
			return fmt.Errorf("%w: a development build before version 1 wrote it", ErrFormat)
		}
		return f.read(tx, b, filepath.Base(db.path))
	})
	return f, err
}

func (f *format) read(tx *bolt.Tx, b *bolt.Bucket, file string) error {
	values := map[string][]byte{}
	// The version first, as the meaning of the others depends on it.
	for _, key := range [][]byte{versionKey, idKey, bucketsKey, logKey} {
		value, ok := unseal(formatSeed, key, b.Get(key))
		if !ok {
			return &DamageError{File: file, Bucket: Bucket(formatBucket), Key: key, Problem: "the checksum does not match"}
		}
		if string(key) == string(versionKey) && string(value) != strconv.Itoa(currentVersion) {
			return fmt.Errorf("%w: version %q, this release supports version %d", ErrFormat, value, currentVersion)
		}
		values[string(key)] = value
	}
	// Absent in files that never had a log.
	if v := b.Get(replicaKey); v != nil {
		value, ok := unseal(formatSeed, replicaKey, v)
		if !ok {
			return &DamageError{File: file, Bucket: Bucket(formatBucket), Key: replicaKey,
				Problem: "the checksum does not match"}
		}
		if err := f.readReplica(value); err != nil {
			return err
		}
	}
	progress := values["log"]
	if len(progress) != 17 {
		return fmt.Errorf("%w: progress of %d bytes", ErrFormat, len(progress))
	}
	if f.id = string(values["id"]); len(f.id) != idSize {
		return fmt.Errorf("%w: an id of %d bytes", ErrFormat, len(f.id))
	}
	f.version = currentVersion
	f.gen, f.group = binary.BigEndian.Uint64(progress), binary.BigEndian.Uint64(progress[8:])
	f.closed = progress[16] == 1
	f.buckets = bucketNames(values["buckets"])
	var have []string
	err := tx.ForEach(func(name []byte, _ *bolt.Bucket) error {
		// The list of buckets is in this record. A bucket that is missing was lost with its page; one that is not listed is
		// of no release.
		if string(name) != string(formatBucket) {
			have = append(have, string(name))
		}
		return nil
	})
	if err != nil {
		return err
	}
	if problem := bucketProblem(have, f.buckets); problem != "" {
		return &DamageError{File: file, Problem: problem}
	}
	return nil
}

// bucketNames parses the value of bucketsKey.
func bucketNames(value []byte) []string {
	return strings.Split(strings.TrimSuffix(string(value), "\n"), "\n")
}

// bucketProblem compares the buckets of a file with those that it should have. It returns "" if they are the same.
func bucketProblem(have, want []string) string {
	if slices.Equal(have, want) || len(have) == 0 && want[0] == "" {
		return ""
	}
	return fmt.Sprintf("the file has buckets %q and should have %q", have, want)
}

// prepare creates what a file lacks: its version and the buckets.
func (db *DB) prepare(f *format) error {
	missing := f.version == 0
	for _, name := range db.buckets {
		missing = missing || !slices.Contains(f.buckets, string(name))
	}
	if !missing || db.readOnly {
		return nil
	}
	return db.bolt.Update(func(tx *bolt.Tx) error {
		for _, name := range db.buckets {
			if _, err := tx.CreateBucketIfNotExists([]byte(name)); err != nil {
				return err
			}
		}
		if err := putBuckets(tx); err != nil {
			return err
		}
		if f.version != 0 {
			return nil
		}
		f.version, f.closed = currentVersion, true
		if err := putProgress(tx, f.gen, f.group, f.closed); err != nil {
			return err
		}
		if !db.reproducible {
			f.id = newID()
		} else {
			f.id = strings.Repeat("\x00", idSize)
		}
		return putVersion(tx, f.id)
	})
}

// putBuckets records the names of the file's buckets.
func putBuckets(tx *bolt.Tx) error {
	var names []byte
	err := tx.ForEach(func(name []byte, _ *bolt.Bucket) error {
		if string(name) != string(formatBucket) {
			names = append(append(names, name...), '\n')
		}
		return nil
	})
	if err != nil {
		return err
	}
	return putFormat(tx, bucketsKey, names)
}
