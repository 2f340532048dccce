package extent

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
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
	// Sum is set for an extent that is in the tier: that of its object, see Store.SetRemote. It needs no file.
	Sum string `json:"sum,omitempty"`
}

// manifest keeps the list of a store's extents. A nil manifest keeps none.
type manifest struct {
	fs      disk.FS
	dir     string
	durable bool

	mu      sync.Mutex // guards what follows; held while the list is written
	list    listing
	changed bool
	defers  bool // changes are written later, by flush

	// marking guards what follows, and is taken after mu: a sync that is to be marked does not wait until a list was
	// written, which has some MiB for 10 TB.
	marking sync.Mutex
	marks   disk.File      // nil until an extent is created
	slots   map[uint64]int // of the extents that are being written
	unused  []int
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
	text, err := m.list.text()
	if err == nil {
		err = sumfile.WriteText(m.fs, m.path(), manifestKind, manifestVersion, text)
	}
	if err != nil {
		return fmt.Errorf("extent: write the manifest: %w", err)
	}
	m.changed = false
	m.marking.Lock()
	defer m.marking.Unlock()
	if m.marks != nil {
		// After the manifest: a mark that is ahead of it would make verify report an older copy.
		_, _ = m.marks.WriteAt(encodeMark(0, m.list.Number), 0)
	}
	return nil
}

// text is a JSON document of the list. It is made without encoding/json, which takes some times as long: the list is
// written whole for each change.
func (l *listing) text() ([]byte, error) {
	for id, x := range l.Extents {
		if !isPlain(id) || !isPlain(x.Sum) { // of a file that another program has written
			return json.Marshal(l)
		}
	}
	head, err := json.Marshal(listing{ID: l.ID, Number: l.Number, Marked: l.Marked, Extents: map[string]listed{}})
	if err != nil {
		return nil, err
	}
	p := make([]byte, 0, len(head)+len(l.Extents)*160)
	p = append(p, head[:len(head)-2]...) // without the braces at its end
	for i, id := range slices.Sorted(maps.Keys(l.Extents)) {
		if i > 0 {
			p = append(p, ',')
		}
		x := l.Extents[id]
		p = append(p, "\n\""...)
		p = append(append(p, id...), "\":{\"size\":"...)
		p = strconv.AppendInt(p, x.Size, 10)
		p = strconv.AppendBool(append(p, ",\"finished\":"...), x.Finished)
		if x.Unsynced {
			p = append(p, ",\"unsynced\":true"...)
		}
		if x.Sum != "" {
			p = append(append(append(p, ",\"sum\":\""...), x.Sum...), '"')
		}
		p = append(p, '}')
	}
	return append(p, "}}"...), nil
}

// isPlain reports whether a text needs no escapes in JSON, as numbers in hexadecimal do not.
func isPlain(text string) bool {
	for _, c := range []byte(text) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'z') {
			return false
		}
	}
	return true
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
	if err != nil {
		// The caller removes the file, so a later version must not list it.
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.list.Extents, idText(id))
		return err
	}
	m.marking.Lock()
	defer m.marking.Unlock()
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
	m.marking.Lock()
	slot, marks := m.slots[id], m.marks
	m.marking.Unlock()
	if slot > 0 && marks != nil {
		_, _ = marks.WriteAt(encodeMark(id, uint64(n)), int64(slot)*markSlot)
	}
}

// finished lists the final size of an extent.
func (m *manifest) finished(id uint64, x listed) error {
	if m == nil {
		return nil
	}
	x.Finished = true
	err := m.change(func(extents map[string]listed) { extents[idText(id)] = x })
	m.mu.Lock()
	defer m.mu.Unlock()
	m.marking.Lock()
	defer m.marking.Unlock()
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
	m.marking.Lock()
	defer m.marking.Unlock()
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
	m.marking.Lock()
	marks := m.marks
	m.marks = nil
	m.marking.Unlock()
	if marks == nil {
		return err
	}
	err = errors.Join(err, marks.Close())
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

func newFolderID() string {
	id := make([]byte, 16)
	_, _ = rand.Read(id) // never fails
	return hex.EncodeToString(id)
}
