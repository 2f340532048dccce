package jetstreamfiles

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
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
			found, err = Verify(filepath.Dir(path))
			found = slices.DeleteFunc(found, func(d Damage) bool { return d.Torn && d.cut })
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
	sum := hashOf(group)
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
