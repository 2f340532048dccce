package store

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
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
//	replica   only in a view of a replicated log, see replicaKey
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

// A store with Options.Log is a view of a replicated log: each record is the write set of a group of some node. There
// is no log of its own. The file records how far it has applied the replicated log, in the transaction that ends a
// checkpoint:
//
//	replica  0   8  length n of the log's id
//	         8   n  id
//	         8+n 40 position up to which the file is complete (replog.Position)
//	             40 position up to which it may have writes: that of the checkpoint that was begun last
//
// After a restart the log is read from the first position on. It must reach the second one: otherwise the log has lost
// records that this node has applied.
var replicaKey = []byte("replica")

// privateKey is in files that were opened with Options.Private: their log alone cannot make them again.
var privateKey = []byte("private")

// encodeReplica encodes the value of replicaKey.
func encodeReplica(id string, from, ahead replog.Position) []byte {
	p := binary.BigEndian.AppendUint64(nil, uint64(len(id)))
	p = append(p, id...)
	p, _ = from.AppendBinary(p)
	p, _ = ahead.AppendBinary(p)
	return p
}

func (f *format) readReplica(p []byte) error {
	bad := fmt.Errorf("%w: the position in the replicated log does not parse", ErrFormat)
	if len(p) < 8 {
		return bad
	}
	n := binary.BigEndian.Uint64(p)
	if p = p[8:]; n > uint64(len(p)) {
		return bad
	}
	f.logID, p = string(p[:n]), p[n:]
	half := len(p) / 2
	if f.from.UnmarshalBinary(p[:half]) != nil || f.ahead.UnmarshalBinary(p[half:]) != nil {
		return bad
	}
	return nil
}
