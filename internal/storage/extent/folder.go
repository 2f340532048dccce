package extent

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/lazuli-storage/lazuli/internal/storage/crc32c"
	"github.com/lazuli-storage/lazuli/internal/storage/disk"
	"github.com/lazuli-storage/lazuli/internal/storage/sumfile"
)

// Problem is an extent that is missing, foreign, or shorter than it was; or the manifest itself.
type Problem struct {
	// File is the name in the folder.
	File string
	// What describes the difference.
	What string
	// Is is the name of the extent that the file is in truth, "" if that is not known.
	Is string
}

// Error implements error.
func (p Problem) Error() string { return p.File + " " + p.What }

// ProblemsError is the error of Open for extents that are missing, foreign or shorter. It is an ErrCorrupt.
type ProblemsError struct{ Problems []Problem }

// Error names the files and the next step.
func (e *ProblemsError) Error() string {
	texts := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		texts[i] = p.Error()
	}
	return strings.Join(texts, "; ") +
		": content of blobs is lost; put back the files or a backup of the whole folder, or run lazuli fsck to see " +
		"what is affected and lazuli fsck --repair to accept the loss"
}

// Is makes errors.Is find ErrCorrupt.
func (e *ProblemsError) Is(target error) bool { return target == ErrCorrupt }

// Verify compares the files of a folder with its manifest, and returns what is missing, foreign or shorter. It reads
// the first bytes of each extent. A folder that does not exist holds nothing.
func Verify(dir string) ([]Problem, error) {
	_, problems, err := verify(dir)
	return problems, err
}

// files returns the extents in a folder by their ids, without copies of other nodes' extents.
func files(dir string) (map[uint64]string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	found := map[uint64]string{}
	for _, entry := range entries {
		if id, suffix, ok := parseName(entry.Name()); ok && suffix != copySuffix {
			found[id] = entry.Name()
		}
	}
	return found, err
}

func verify(dir string) (list listing, problems []Problem, err error) {
	found, err := files(dir)
	if err != nil {
		return list, nil, err
	}
	problem := func(file, text string, args ...any) {
		problems = append(problems, Problem{File: file, What: fmt.Sprintf(text, args...)})
	}
	err = sumfile.Read(filepath.Join(dir, ManifestFile), manifestKind, manifestVersion, &list)
	switch {
	case errors.Is(err, fs.ErrNotExist) && len(found) == 0:
		return list, nil, nil
	case errors.Is(err, fs.ErrNotExist):
		problem(ManifestFile, "is missing, and there are %d extents", len(found))
		return list, problems, nil
	case errors.Is(err, sumfile.ErrDamaged):
		problem(ManifestFile, "is damaged: %v", err)
		return list, problems, nil
	case err != nil:
		return list, nil, err
	}
	marks, err := readMarks(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		// Close removes the marks only when all extents are finished.
		for _, x := range list.Extents {
			if list.Marked && !x.Finished {
				problem(MarksFile, "is missing, and extents were being written")
				break
			}
		}
	case err != nil:
		return list, nil, err
	case list.Number < uint64(marks[0]):
		problem(ManifestFile, "is an older copy: it has number %d, and had %d", list.Number, marks[0])
	}
	for _, text := range slices.Sorted(maps.Keys(list.Extents)) {
		id, _, ok := parseName(text + sealedSuffix)
		if !ok {
			problem(ManifestFile, "lists %q, which is no extent", text)
			continue
		}
		x := list.Extents[text]
		// The manifest has the size at the creation of an extent, and the mark the one at its last sync. What lies beyond
		// was not acknowledged, so its loss is no damage.
		least := max(x.Size, marks[id])
		name := found[id]
		if name == "" {
			// An extent without any acknowledged record may be missing: nothing refers to it. One in the tier needs no file.
			if x.Sum == "" && (x.Finished || least > fileHeaderSize) {
				problem(text+sealedSuffix, "is missing")
			}
			continue
		}
		size, is, err := identify(filepath.Join(dir, name))
		switch {
		case err != nil:
			return list, nil, err
		case is != id && is != 0: // a damaged header does no harm
			problem(name, "is in truth the extent %016x", is)
			problems[len(problems)-1].Is = idText(is)
		case size < least:
			problem(name, "is shorter than it was: it has %d bytes, and had %d", size, least)
		}
	}
	return list, problems, nil
}

// identify returns the size of an extent's file, and the id in its header; 0 if that is damaged.
func identify(path string) (size int64, id uint64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return 0, 0, err
	}
	head := make([]byte, fileHeaderSize)
	if _, err := io.ReadFull(f, head); err != nil {
		return info.Size(), 0, nil
	}
	if id = binary.LittleEndian.Uint64(head[8:]); string(head) != string(fileHeader(id)) {
		id = 0
	}
	return info.Size(), id, nil
}

// State identifies the manifest of a folder of extents.
type State struct {
	ID     string
	Number uint64
	Size   int64
	Sum    uint32
}

// ReadState reads the state of a folder's manifest. Errors: fs.ErrNotExist for a folder without one, ErrCorrupt.
func ReadState(dir string) (State, error) {
	p, err := os.ReadFile(filepath.Join(dir, ManifestFile))
	if err != nil {
		return State{}, err
	}
	var list listing
	if err := sumfile.Decode(p, manifestKind, manifestVersion, &list); err != nil {
		return State{Size: int64(len(p))}, fmt.Errorf("%w: %s: %w", ErrCorrupt, ManifestFile, err)
	}
	return State{list.ID, list.Number, int64(len(p)), crc32c.Checksum(p)}, nil
}

// Accept makes the files that are there those that the folder must hold: it puts extents that were swapped in their
// places, moves what is no extent of this folder to the folder aside, which it creates, and writes a new manifest.
// report is called for each change, lost for each extent that is missing or shorter. No process may have the folder
// open.
func Accept(dir, aside string, report, lost func(string)) error {
	problems, err := Verify(dir)
	if err != nil || len(problems) == 0 {
		return err
	}
	before, err := files(dir)
	if err != nil {
		return err
	}
	// The header of a file says what it is in truth, and its name only where it was put.
	moves := map[string]string{} // by name, the place of an extent that has the name of another
	for _, p := range problems {
		if p.Is == "" {
			lost(p.Error())
			continue
		}
		id, _, _ := parseName(p.Is + sealedSuffix)
		if moves[p.File] = before[id]; before[id] == "" && listedIn(dir, id) {
			moves[p.File] = p.Is + sealedSuffix
		}
	}
	// All of them leave their places first.
	const between = ".moving"
	for from := range moves {
		// Two extents that were swapped have each other's names: a direct rename would overwrite one of them.
		if err := os.Rename(filepath.Join(dir, from), filepath.Join(dir, from+between)); err != nil {
			return err
		}
	}
	found, err := files(dir)
	if err != nil {
		return err
	}
	for from, to := range moves {
		id, _, _ := parseName(to)
		target := filepath.Join(dir, to)
		// No place in this folder, or a place that another file of that id has: it is kept outside, and nothing is deleted.
		if to == "" || found[id] != "" {
			if err := disk.MkdirAll(aside, 0o700); err != nil {
				return err
			}
			target = filepath.Join(aside, from)
		}
		if err := os.Rename(filepath.Join(dir, from+between), target); err != nil {
			return err
		}
		found[id] = to
		report(from + " is another extent, and is now " + target)
	}
	if found, err = files(dir); err != nil {
		return err
	}
	for from := range moves {
		if id, _, _ := parseName(from); found[id] == "" {
			lost(from + " is missing")
		}
	}
	return writeList(disk.OS, dir)
}

// writeList writes a manifest that lists the extents that are there.
func writeList(fsys disk.FS, dir string) error {
	found, err := files(dir)
	if err != nil {
		return err
	}
	list := listing{ID: newFolderID(), Extents: map[string]listed{}}
	_ = sumfile.Read(filepath.Join(dir, ManifestFile), manifestKind, manifestVersion, &list) // the id and the number go on
	before := list.Extents
	list.Extents, list.Marked = map[string]listed{}, false
	for id, name := range found {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		list.Extents[idText(id)] = listed{Size: info.Size(), Finished: strings.HasSuffix(name, sealedSuffix), Unsynced: true}
	}
	// What is only in the tier stays listed. Of what is here, the object may differ by now: it is compared again.
	for text, x := range before {
		if _, here := list.Extents[text]; !here && x.Sum != "" {
			list.Extents[text] = x
		}
	}
	if marks, err := readMarks(dir); err == nil {
		list.Number = max(list.Number, uint64(marks[0]))
	}
	// The number must exceed that in the marks: otherwise verify would take the new manifest for an older copy.
	list.Number++
	if err := sumfile.Write(fsys, filepath.Join(dir, ManifestFile), manifestKind, manifestVersion, &list); err != nil {
		return err
	}
	if err := fsys.Remove(filepath.Join(dir, MarksFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return fsys.SyncDir(dir)
}

// listedIn reports whether the manifest of a folder lists an extent.
func listedIn(dir string, id uint64) bool {
	var list listing
	err := sumfile.Read(filepath.Join(dir, ManifestFile), manifestKind, manifestVersion, &list)
	_, ok := list.Extents[idText(id)]
	return err == nil && ok
}
