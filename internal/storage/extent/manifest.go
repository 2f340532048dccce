package extent

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/lazuli-storage/lazuli/internal/storage/crc32c"
	"github.com/lazuli-storage/lazuli/internal/storage/disk"
	"github.com/lazuli-storage/lazuli/internal/storage/sumfile"
)

// ManifestFile is the name of the file that lists the extents of a folder. The folder of a node of a cluster needs
// none: what it lacks is fetched from other nodes.
const ManifestFile = "MANIFEST"

// MarksFile has a slot for each extent that is being written: up to where it was synced. Slots are written without a
// sync, after the sync of the extent, so that they never say too much. Slot 0 has the number of the manifest. Slots are
// markSlot bytes apart, so that none is torn. Integers are little-endian.
//
//	 0  8  "LZMARKX1"
//	 8  8  id of the extent, or 0 in slot 0
//	16  8  bytes that are on disk, or the number of the manifest
//	24  4  CRC-32C of bytes 0 to 23
const (
	MarksFile = "MARKS"
	markMagic = "LZMARKX1"
	markSize  = 28
	markSlot  = 512

	manifestKind    = "lazuli extents, version"
	manifestVersion = 1
)

// listing is the content of the manifest. It is replaced when an extent is created, finished, or deleted.
type listing struct {
	ID     string `json:"id"`     // of the folder
	Number uint64 `json:"number"` // of this version
	// Marked means that there is the file MARKS.
	Marked bool `json:"marked"`
	// Extents are the extents by their ids in hexadecimal.
	Extents map[string]listed `json:"extents"`
}

// listed holds what the manifest says about an extent.
type listed struct {
	// Size is the size of a finished extent, and the least size of another one, in bytes.
	Size     int64 `json:"size"`
	Finished bool  `json:"finished"`
	// Unsynced means that the extent was created by a store that does not sync: a power failure may leave it without
	// content.
	Unsynced bool `json:"unsynced,omitempty"`
}

func idText(id uint64) string { return fmt.Sprintf("%016x", id) }

// manifest keeps the list of a store's extents. A nil manifest keeps none.
type manifest struct {
	fs      disk.FS
	dir     string
	durable bool

	mu      sync.Mutex // guards what follows
	list    listing
	marks   disk.File      // nil until an extent is created
	slots   map[uint64]int // of the extents that are being written
	unused  []int
	changed bool
	defers  bool // changes are written later, by flush
}

func (m *manifest) path() string { return filepath.Join(m.dir, ManifestFile) }

// change changes the list, durably unless flush follows.
func (m *manifest) change(fn func(map[string]listed)) error {
	if m == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	fn(m.list.Extents)
	if m.changed = true; m.defers {
		return nil
	}
	return m.write()
}

// write writes the list if it has changed. The caller holds mu.
func (m *manifest) write() error {
	if !m.changed {
		return nil
	}
	m.list.Number++
	if err := sumfile.Write(m.fs, m.path(), manifestKind, manifestVersion, &m.list); err != nil {
		return fmt.Errorf("extent: write the manifest: %w", err)
	}
	m.changed = false
	if m.marks != nil {
		// After the manifest: a mark that is ahead of it would make verify report an older copy.
		_, _ = m.marks.WriteAt(encodeMark(0, m.list.Number), 0)
	}
	return nil
}

// replace changes the list to one of finished extents, if it is another one, and removes the marks of a killed process.
func (m *manifest) replace(list map[string]listed) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	marked := m.list.Marked
	m.defers = false
	m.changed = m.list.Number == 0 || marked || !maps.Equal(list, m.list.Extents)
	m.list.Extents, m.list.Marked = list, false
	if err := m.write(); err != nil {
		return err
	}
	if marked {
		if err := m.fs.Remove(filepath.Join(m.dir, MarksFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// flush writes what was changed since hold.
func (m *manifest) flush() error {
	if m == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.defers = false
	return m.write()
}

// hold lets changes wait for flush.
func (m *manifest) hold() {
	if m != nil {
		m.mu.Lock()
		m.defers = true
		m.mu.Unlock()
	}
}

// created lists a new extent, whose file and name are durable.
func (m *manifest) created(id uint64, size int64) error {
	if m == nil {
		return nil
	}
	if err := m.openMarks(); err != nil {
		return err
	}
	err := m.change(func(extents map[string]listed) {
		extents[idText(id)] = listed{Size: size, Unsynced: !m.durable}
	})
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil {
		// The caller removes the file, so a later version must not list it.
		delete(m.list.Extents, idText(id))
		return err
	}
	// Slot 0 is that of the manifest's number. All others that exist are in use or unused.
	slot := len(m.slots) + len(m.unused) + 1
	if n := len(m.unused); n > 0 {
		slot, m.unused = m.unused[n-1], m.unused[:n-1]
	}
	m.slots[id] = slot
	return nil
}

// synced notes that the first n bytes of an extent are on disk. If that fails, the mark says less than it could, which
// does no harm.
func (m *manifest) synced(id uint64, n int64) {
	if m == nil {
		return
	}
	m.mu.Lock()
	slot, marks := m.slots[id], m.marks
	m.mu.Unlock()
	if slot > 0 && marks != nil {
		_, _ = marks.WriteAt(encodeMark(id, uint64(n)), int64(slot)*markSlot)
	}
}

// finished lists the final size of an extent.
func (m *manifest) finished(id uint64, size int64) error {
	if m == nil {
		return nil
	}
	err := m.change(func(extents map[string]listed) { extents[idText(id)] = listed{Size: size, Finished: true} })
	m.mu.Lock()
	defer m.mu.Unlock()
	// The slot is free only once the list on disk has the final size. Until then the mark alone says how long the extent
	// is.
	if slot := m.slots[id]; slot > 0 && err == nil && !m.changed {
		delete(m.slots, id)
		m.unused = append(m.unused, slot)
	}
	return err
}

// removed takes an extent from the list, before it is deleted.
func (m *manifest) removed(id uint64) error {
	return m.change(func(extents map[string]listed) { delete(extents, idText(id)) })
}

// openMarks opens or creates the file of marks, whose name is durable before the manifest refers to it.
func (m *manifest) openMarks() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.marks != nil {
		return nil
	}
	f, err := m.fs.OpenFile(filepath.Join(m.dir, MarksFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	if _, err = f.WriteAt(encodeMark(0, m.list.Number), 0); err == nil && m.durable {
		if err = f.Sync(); err == nil {
			err = m.fs.SyncDir(m.dir)
		}
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	m.marks, m.list.Marked, m.changed = f, true, true
	return nil
}

// close writes the list, and removes the marks if all extents are finished.
func (m *manifest) close() error {
	if m == nil {
		return nil
	}
	err := m.flush()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.marks == nil {
		return err
	}
	err = errors.Join(err, m.marks.Close())
	m.marks = nil
	// An extent that is not finished keeps the marks: the next Open needs them to see that it was cut.
	for _, x := range m.list.Extents {
		if !x.Finished {
			return err
		}
	}
	if err == nil {
		m.list.Marked, m.changed = false, true
		err = m.write()
	}
	if err == nil {
		err = m.fs.Remove(filepath.Join(m.dir, MarksFile))
	}
	return err
}

func encodeMark(id, n uint64) []byte {
	p := append(make([]byte, 0, markSize), markMagic...)
	p = binary.LittleEndian.AppendUint64(p, id)
	p = binary.LittleEndian.AppendUint64(p, n)
	return binary.LittleEndian.AppendUint32(p, crc32c.Checksum(p))
}

// readMarks returns the marks of a folder by the ids of the extents, and the number of its manifest at id 0.
func readMarks(dir string) (map[uint64]int64, error) {
	p, err := os.ReadFile(filepath.Join(dir, MarksFile))
	if err != nil {
		return nil, err
	}
	marks := map[uint64]int64{}
	for at := 0; at+markSize <= len(p); at += markSlot {
		m := p[at : at+markSize]
		if string(m[:8]) == markMagic && crc32c.Checksum(m[:24]) == binary.LittleEndian.Uint32(m[24:]) {
			id := binary.LittleEndian.Uint64(m[8:])
			marks[id] = max(marks[id], int64(binary.LittleEndian.Uint64(m[16:])))
		}
	}
	return marks, nil
}

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
			// An extent without any acknowledged record may be missing: nothing refers to it.
			if x.Finished || least > fileHeaderSize {
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

// openManifest compares the files with the manifest, and returns the manifest with all of them.
func (s *Store) openManifest() (*manifest, error) {
	list, problems, err := verify(s.dir)
	if err != nil {
		return nil, err
	}
	if len(problems) > 0 {
		return nil, &ProblemsError{problems}
	}
	m := &manifest{fs: s.opts.FS, dir: s.dir, durable: s.durable(), list: list, slots: map[uint64]int{}}
	if m.list.ID == "" {
		m.list = listing{ID: newFolderID(), Extents: map[string]listed{}}
	}
	return m, nil
}

func newFolderID() string {
	id := make([]byte, 16)
	_, _ = rand.Read(id) // never fails
	return hex.EncodeToString(id)
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
	list.Extents, list.Marked = map[string]listed{}, false
	for id, name := range found {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		list.Extents[idText(id)] = listed{Size: info.Size(), Finished: strings.HasSuffix(name, sealedSuffix), Unsynced: true}
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
