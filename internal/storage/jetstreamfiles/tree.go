package jetstreamfiles

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/minio/highwayhash"
)

// VerifyTree reads the streams, the logs of Raft groups and their snapshots below a folder of a server that is part of
// a cluster and is not running, and returns the damage. An incomplete record at the end of a log is no damage: a crash
// leaves it, and the server cuts it off. A whole record there with a wrong checksum is: the server would cut it off as
// well, though it may have acknowledged it.
//
// The files with a group's term, vote and peers have no checksum.
func VerifyTree(dir string) ([]Damage, error) {
	var all []Damage
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		var found []Damage
		switch d.Name() {
		case MessagesFolder:
			found, err = verifyMember(filepath.Dir(path))
		case snapshotsFolder:
			found, err = verifySnapshots(path)
		}
		all = append(all, found...)
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return all, err
}

// verifyMember verifies the files of a stream, or of the log of a Raft group.
func verifyMember(dir string) (found []Damage, err error) {
	name := filepath.Base(dir)
	wrong, err := verifyMeta(dir)
	if err != nil {
		return nil, err
	}
	if wrong != "" {
		found = append(found, Damage{Stream: name, Meta: wrong})
	}
	numbers, err := Blocks(dir)
	if err != nil {
		return found, err
	}
	var buf []byte
	for i, n := range numbers {
		if buf, err = readBlock(blockPath(dir, n), buf); err != nil {
			return found, fmt.Errorf("jetstreamfiles: %w", err)
		}
		if at, size := firstDamage(buf, name, n, i == len(numbers)-1); size > 0 {
			found = append(found, Damage{Stream: name, Block: n, Offset: int64(at), Size: int64(size)})
		}
	}
	return found, nil
}

// firstDamage returns the first damage of a block; size is 0 if it has none. last is set for the last block of a log.
func firstDamage(buf []byte, name string, block int, last bool) (at, size int) {
	sum := blockHash(name, block)
	for at < len(buf) {
		r, ok := parseRecord(buf[at:], sum)
		switch {
		case ok && r.valid:
			at += r.size
			continue
		case last && !ok && tornAt(buf[at:]), last && len(bytes.TrimLeft(buf[at:], "\x00")) == 0:
			return 0, 0
		}
		return at, len(buf) - at
	}
	return 0, 0
}

// tornAt reports whether buf can be the beginning of a record.
func tornAt(buf []byte) bool {
	if len(buf) < recordHead+recordSum {
		return true
	}
	size := int(uint32le(buf) &^ headersBit)
	return size > len(buf) && size <= maxRecord
}

// snapshotsFolder is the folder of a Raft group that holds its snapshots.
const snapshotsFolder = "snapshots"

// verifySnapshots verifies the snapshots of a Raft group. A snapshot ends with a HighwayHash of what precedes it; the
// key is the SHA-256 of the group's name.
func verifySnapshots(dir string) (found []Damage, err error) {
	group := filepath.Base(filepath.Dir(dir))
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	key := sha256.Sum256([]byte(group))
	sum, err := highwayhash.New64(key[:])
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if ok, _ := filepath.Match("snap.*.*", e.Name()); !ok || filepath.Ext(e.Name()) == ".tmp" {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return found, err
		}
		body := text[:max(0, len(text)-sum.Size())]
		sum.Reset()
		sum.Write(body)
		if !bytes.Equal(sum.Sum(nil), text[len(body):]) {
			found = append(found, Damage{Stream: group, Meta: "snapshot " + e.Name() + " does not match its checksum"})
		}
	}
	return found, nil
}
