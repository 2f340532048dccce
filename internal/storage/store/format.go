package store

import (
	"encoding/binary"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	bolt "go.etcd.io/bbolt"

	"github.com/lazuli-storage/lazuli/internal/storage/replog"
)

// The bucket whose keys hold the layout version of a file, and its progress. The leading zero byte separates it from the buckets of the
// services.
//
//	version   "2"
//	buckets   names of all other buckets, sorted, each with a line feed
//	log       0  8  generation of the log up to which the file is complete
//	          8  8  number of the group up to which it is complete
//	          16 1  1 if the store was closed and needs no log
//	replica   only in a view of a replicated log, see replica.go
//
// Integers are big-endian. Each value has its checksum, as all values.
//
// Version 2: one bucket of bbolt for each Bucket, no nested buckets, values with checksums, and a log as in log.go. Version 1 had no checksums,
// no "buckets", and only the generation in "log". Open converts such a file (upgrade.go); with Options.ReadOnly it is read without conversion.
var (
	formatBucket = []byte("\x00store")
	versionKey   = []byte("version")
	bucketsKey   = []byte("buckets")
	logKey       = []byte("log")
)

const currentVersion = 2

// format is the content of the format bucket.
type format struct {
	version    int // 0 for a new file
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
		if v := b.Get(versionKey); string(v) == "1" {
			f.version = 1
			if v := b.Get(logKey); len(v) == 8 {
				f.gen = binary.BigEndian.Uint64(v)
			}
			return nil
		}
		return f.read(tx, b, filepath.Base(db.path))
	})
	return f, err
}

func (f *format) read(tx *bolt.Tx, b *bolt.Bucket, file string) error {
	values := map[string][]byte{}
	for _, key := range [][]byte{versionKey, bucketsKey, logKey} {
		value, ok := unseal(formatSeed, key, b.Get(key))
		if !ok {
			return &DamageError{File: file, Bucket: Bucket(formatBucket), Key: key, Problem: "the checksum does not match"}
		}
		if string(key) == string(versionKey) && string(value) != strconv.Itoa(currentVersion) {
			return fmt.Errorf("%w: version %q, this release supports versions 1 and %d", ErrFormat, value, currentVersion)
		}
		values[string(key)] = value
	}
	if v := b.Get(replicaKey); v != nil {
		value, ok := unseal(formatSeed, replicaKey, v)
		if !ok {
			return &DamageError{File: file, Bucket: Bucket(formatBucket), Key: replicaKey, Problem: "the checksum does not match"}
		}
		if err := f.readReplica(value); err != nil {
			return err
		}
	}
	progress := values["log"]
	if len(progress) != 17 {
		return fmt.Errorf("%w: progress of %d bytes", ErrFormat, len(progress))
	}
	f.version = currentVersion
	f.gen, f.group = binary.BigEndian.Uint64(progress), binary.BigEndian.Uint64(progress[8:])
	f.closed = progress[16] == 1
	f.buckets = bucketNames(values["buckets"])
	var have []string
	err := tx.ForEach(func(name []byte, _ *bolt.Bucket) error {
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
		return putFormat(tx, versionKey, []byte(strconv.Itoa(currentVersion)))
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
