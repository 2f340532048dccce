package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/lazuli-storage/lazuli/internal/storage/crc32c"
	"github.com/lazuli-storage/lazuli/internal/storage/disk"
)

// While a database is open, the file <name>-mark has the least that the file and its log must hold. The mark is written
// after each sync of the log, and is not synced: what it says was durable before, and a killed process leaves the
// newest one. After a power failure the mark may be an older one. Close removes it with the log.
//
// The only view of a replicated log (Options.Private) has a mark as well: its group is the newest record that was
// applied. The log has no files of the store then, and their sizes are 0. A file that was not closed is refused without
// its mark, whichever log it has.
//
// The file mark-<name> has the same and is written right after it. It is apart from the others by its name: a copy of
// the database with its log and its mark, <name>*, that is older and complete in itself, does not have it. The file
// MARKS, which all databases of the folder share, has the mark a third time: an older copy of a database is seen by
// that where mark-<name> is older too, is missing or damaged. Of the three, the one that was written last counts. The
// second and the third may be missing, or have the mark of another database. No store removes MARKS, since others use
// it.
//
// Each of the first two has two slots, at 0 and markSlot, which are written in turn; the valid one with the higher
// number counts. MARKS has places of two slots, of which a database has one by its name (see markPlace).
// Integers are little-endian.
//
//	0   8  "LZMARK1\n"
//	8   16 id of the database
//	24  8  number of this write
//	32  8  generation up to which the file is complete
//	40  8  number of the last group in the log
//	48  16 sizes of the two log files
//	64  1  1 if the group was not synced (Options.Relaxed)
//	65  3  zero
//	68  4  CRC-32C of bytes 0 to 67
const (
	markMagic = "LZMARK1\n"
	markSize  = 72
	markSlot  = 4096

	// markPlaces is the number of places in MARKS. With it the databases of a data folder have different places. Two
	// databases with the same place would do no harm, but have no third copy: a mark of another database does not count.
	markPlaces = 5
)

// MarksFile is the name of the file with the third copy of the marks of all databases in a folder.
const MarksFile = "MARKS"

// mark is the content of a slot.
type mark struct {
	id        string
	number    uint64
	gen       uint64
	group     uint64
	allocated [2]int64
	relaxed   bool
}

func markPath(path string) string { return path + "-mark" }

// Witness returns the path of the second copy of the mark that the database at path has while it is open.
func Witness(path string) string {
	return filepath.Join(filepath.Dir(path), "mark-"+filepath.Base(path))
}

func marksPath(path string) string { return filepath.Join(filepath.Dir(path), MarksFile) }

// markPlace returns where in MARKS the slots of the database at path are.
func markPlace(path string) int64 {
	return int64(crc32c.Checksum([]byte(filepath.Base(path)))%markPlaces) * 2 * markSlot
}

func (m mark) encode() []byte {
	p := append(make([]byte, 0, markSize), markMagic...)
	p = append(p, m.id...)
	for _, n := range []uint64{m.number, m.gen, m.group, uint64(m.allocated[0]), uint64(m.allocated[1])} {
		p = binary.LittleEndian.AppendUint64(p, n)
	}
	p = append(p, 0, 0, 0, 0)
	if m.relaxed {
		p[64] = 1
	}
	return binary.LittleEndian.AppendUint32(p, crc32c.Checksum(p))
}

func parseMark(p []byte) (m mark, ok bool) {
	if len(p) < markSize || !bytes.HasPrefix(p, []byte(markMagic)) ||
		crc32c.Checksum(p[:68]) != binary.LittleEndian.Uint32(p[68:]) {
		return m, false
	}
	at := func(i int) uint64 { return binary.LittleEndian.Uint64(p[i:]) }
	return mark{string(p[8:24]), at(24), at(32), at(40), [2]int64{int64(at(48)), int64(at(56))}, p[64] == 1}, true
}

// readMark reads the mark of a database; ok is false if none was written.
func readMark(path string) (m mark, ok bool, err error) {
	m, ok, err = readMarkFile(markPath(path), 0)
	if err != nil || !ok {
		return m, ok, err
	}
	// All are written without a sync, and none before what it says was durable. So the highest one is true.
	for _, copied := range []struct {
		name string
		from int64
	}{{Witness(path), 0}, {marksPath(path), markPlace(path)}} {
		other, found, err := readMarkFile(copied.name, copied.from)
		if err != nil {
			return m, ok, err
		}
		if found && other.id == m.id && other.number > m.number {
			m = other
		}
	}
	return m, ok, nil
}

// readMarkFile reads the two slots of a file that begin at from.
func readMarkFile(name string, from int64) (m mark, ok bool, err error) {
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return m, false, nil
	}
	if err != nil {
		return m, false, err
	}
	defer f.Close()
	for i := range int64(2) {
		p := make([]byte, markSize)
		if _, err := f.ReadAt(p, from+i*markSlot); err != nil && !errors.Is(err, io.EOF) {
			return m, false, err
		}
		if x, valid := parseMark(p); valid && (!ok || x.number > m.number) {
			m, ok = x, true
		}
	}
	return m, ok, nil
}

// check compares a database with its mark: f is the format of its file, and newest the last group of the file and its
// log.
func (m mark) check(path string, f format, newest uint64) error {
	name := filepath.Base(path)
	problem := func(file, text string, args ...any) error {
		return &DamageError{File: filepath.Base(file), Problem: fmt.Sprintf(text, args...)}
	}
	if m.id != f.id {
		return problem(markPath(path), "belongs to another database than %s", name)
	}
	if f.gen < m.gen {
		return problem(path, "is older than its log: it is complete up to generation %d, and was up to %d", f.gen, m.gen)
	}
	for i, want := range m.allocated {
		info, err := os.Stat(logPath(path, uint64(i)))
		if errors.Is(err, fs.ErrNotExist) && f.closed {
			continue // Close was removing the files
		}
		if err != nil {
			return problem(logPath(path, uint64(i)), "%v", err)
		}
		if info.Size() < want {
			return problem(logPath(path, uint64(i)), "has %d bytes, and had %d", info.Size(), want)
		}
	}
	if newest < m.group && !m.relaxed {
		return problem(logPath(path, 0)+" and -log1", "end with group %d, and %d groups after it were acknowledged", newest,
			m.group-newest)
	}
	return nil
}

// checkEnd compares the end of a replicated log with the mark of the store that follows it. last is the last record.
func (m mark) checkEnd(f format, path string, last uint64) error {
	if m.id == "" || m.relaxed || m.id == f.id && last >= m.group {
		return nil
	}
	d := &DamageError{File: filepath.Base(markPath(path)),
		Problem: "belongs to another database than " + filepath.Base(path)}
	if m.id == f.id {
		d = &DamageError{File: "the log of " + filepath.Base(path),
			Problem: fmt.Sprintf("ends at message %d, and message %d "+
				"was acknowledged: its newest file is missing, cut or older", last, m.group)}
	}
	return &endError{d}
}

// endError is an ErrOtherLog that says what is damaged, and no more.
type endError struct{ *DamageError }

func (e *endError) Is(target error) bool { return target == ErrOtherLog }
func (e *endError) Unwrap() error        { return e.DamageError }

// lost returns the number of groups that were acknowledged without a sync, and that a power failure has removed from
// the log.
func (m mark) lost(newest uint64) uint64 {
	if m.relaxed && m.group > newest {
		return m.group - newest
	}
	return 0
}

// missingMark is the damage of a database that was not closed and has no mark.
func missingMark(path string) error {
	return &DamageError{File: filepath.Base(markPath(path)),
		Problem: "the file is missing or unreadable, and " + filepath.Base(path) + " was not closed"}
}

// lostFile returns the damage of a file that is missing or empty although its mark exists.
func lostFile(path string) error {
	info, err := os.Stat(path)
	if err == nil && info.Size() > 0 || err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if _, ok, err := readMark(path); err != nil || !ok {
		return err
	}
	problem := "the file is empty, and its log exists"
	if info == nil {
		problem = "the file is missing, and its log exists"
	}
	return &DamageError{File: filepath.Base(path), Problem: problem}
}

// marker writes marks.
type marker struct {
	files [3]markFile // db-mark, the witness, and MARKS
	last  mark
}

// markFile is a file with the two slots of a mark, which begin at from.
type markFile struct {
	file disk.File
	from int64
}

// openMarker opens or creates the files of a mark, the first one durably except for its name, and writes the first
// state. prior is what the files have.
func openMarker(fsys disk.FS, path string, prior, first mark) (*marker, error) {
	m := &marker{last: first}
	// MARKS stays when a database is closed, so it may have a mark of a former opening. One with a higher number than the
	// new ones would hide them.
	former, _, err := readMarkFile(marksPath(path), markPlace(path))
	m.last.number = max(prior.number, former.number)
	for i, copied := range []struct {
		name string
		from int64
	}{{markPath(path), 0}, {Witness(path), 0}, {marksPath(path), markPlace(path)}} {
		if err == nil {
			m.files[i].from = copied.from
			m.files[i].file, err = openMarkFile(fsys, copied.name, copied.from)
		}
	}
	if err == nil {
		err = m.write()
	}
	// The other copies are not synced: after a power failure the first one is enough.
	if err == nil {
		err = m.files[0].file.Sync()
	}
	if err != nil {
		return nil, errors.Join(err, m.close())
	}
	return m, nil
}

// openMarkFile opens or creates a file with room for both slots, which begin at from.
func openMarkFile(fsys disk.FS, name string, from int64) (disk.File, error) {
	f, err := fsys.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	end := from + markSlot + markSize
	size, err := f.Size()
	if err == nil && size < end {
		// Another database may write to its place in MARKS at the same time: what is written here is in the own place.
		size = max(size, from)
		_, err = f.WriteAt(make([]byte, end-size), size)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// put writes a mark. If that fails, the mark says less than it could, which does no harm.
func (m *marker) put(gen, group uint64, allocated [2]int64, relaxed bool) {
	m.last.gen, m.last.group, m.last.allocated, m.last.relaxed = gen, group, allocated, relaxed
	_ = m.write()
}

func (m *marker) write() (err error) {
	m.last.number++
	p, at := m.last.encode(), int64(m.last.number%2)*markSlot
	for _, f := range m.files {
		_, failed := f.file.WriteAt(p, f.from+at)
		err = errors.Join(err, failed)
	}
	return err
}

func (m *marker) close() (err error) {
	for _, f := range m.files {
		if f.file != nil {
			err = errors.Join(err, f.file.Close())
		}
	}
	return err
}
