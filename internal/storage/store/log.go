package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/lazuli-storage/lazuli/internal/storage/crc32c"
	"github.com/lazuli-storage/lazuli/internal/storage/disk"
)

// The log consists of two files, <name>-log0 and <name>-log1, which are used alternately. The records written to one
// file until the next switch are a generation; generation g is in file g modulo 2. A generation is a sequence of
// records from the start of the file. Each record is the write set of a group:
//
//	0   4  length n of the payload
//	4   4  CRC-32C of bytes 8 to 24+n
//	8   8  generation
//	16  8  number of the group
//	24  n  payload: for each bucket the length of its name, the name, the number of writes, and for each write the
//	       length of the key, the key, the length of the value with its checksum plus one, the value with its checksum (see
//	       checksum.go); 0 stands for a deleted key. Attachments follow in the same form, as those of a bucket "\x00attached",
//	       their values without checksums
//
// Fixed integers are little-endian, those of the payload are uvarints. The bytes after the last record of a generation
// are zero, left from an earlier generation, or torn: in each case they are not a record of this generation. Files are
// used again without truncation, because a sync after overwriting is cheaper than after growing.
//
// Groups are numbered without gaps. The main file records up to which generation and group it is complete (format.go).
// The first generation after an Open is chosen at random, so that content which a client stored cannot be mistaken for
// a record.
const logHeaderSize = 24

// logStep is the size by which a log file grows, in bytes.
const logStep = 4 << 20

// zeros is what it grows by. No log writes to it, so that it takes no memory: each log would otherwise have 4 MiB of
// its own at its start.
var zeros [logStep]byte

// errLogSync means that a sync of the log failed, so that its content is unknown.
var errLogSync = errors.New("sync of the log failed")

// wal appends to the log.
type wal struct {
	sync bool
	mark *marker
	step int64 // size by which a file grows, in bytes; tests use a small one

	files     [2]disk.File
	allocated [2]int64 // bytes of the files
	gen       uint64
	complete  uint64 // generation up to which the main file is complete, or a lower one
	end       int64  // of the current generation
}

func logPath(path string, i uint64) string { return fmt.Sprintf("%s-log%d", path, i%2) }

// openWAL opens or creates the files, makes their names durable, and begins a generation.
func openWAL(fsys disk.FS, path string, gen uint64, sync bool, prior, first mark) (_ *wal, err error) {
	l := &wal{sync: sync, step: logStep, gen: gen, complete: first.gen}
	for i := range l.files {
		f, err := fsys.OpenFile(logPath(path, uint64(i)), os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, errors.Join(err, l.close())
		}
		l.files[i] = f
		if l.allocated[i], err = f.Size(); err != nil {
			return nil, errors.Join(err, l.close())
		}
	}
	if l.mark, err = openMarker(fsys, path, prior, first); err != nil {
		return nil, errors.Join(err, l.close())
	}
	// One sync makes the names of both files and of the mark durable, before the first record can be acknowledged.
	if err := fsys.SyncDir(filepath.Dir(path)); err != nil {
		return nil, errors.Join(err, l.close())
	}
	return l, nil
}

// append fills in the header of a record, writes the record, and syncs it. After an error other than errLogSync the log
// does not contain the record.
func (l *wal) append(record []byte, group uint64) error {
	putLogHeader(record, l.gen, group)
	// Most records go to bytes that the file already has: their sync need not write a new size.
	if err := l.grow(l.end + int64(len(record))); err != nil {
		return err
	}
	if _, err := l.files[l.gen%2].WriteAt(record, l.end); err != nil {
		return err
	}
	if l.sync {
		if err := l.flush(); err != nil {
			return err
		}
	}
	// Only after success: the next record overwrites what a failed write has left at the end.
	l.end += int64(len(record))
	// After the sync: a mark that claims more than the disk holds would turn a power failure into damage.
	l.mark.put(l.complete, group, l.allocated, !l.sync)
	return nil
}

func putLogHeader(record []byte, gen, group uint64) {
	binary.LittleEndian.PutUint32(record, uint32(len(record)-logHeaderSize))
	binary.LittleEndian.PutUint64(record[8:], gen)
	binary.LittleEndian.PutUint64(record[16:], group)
	binary.LittleEndian.PutUint32(record[4:], crc32c.Checksum(record[8:]))
}

// grow extends the file with zeros to size bytes and some more. If the disk has no space for more, it extends it to
// size bytes.
func (l *wal) grow(size int64) error {
	have := &l.allocated[l.gen%2]
	for *have < size {
		more := zeros[:l.step-*have%l.step]
		_, err := l.files[l.gen%2].WriteAt(more, *have)
		// A nearly full disk may still have room for the record alone.
		if errors.Is(err, syscall.ENOSPC) && int64(len(more)) > size-*have {
			more = more[:size-*have]
			_, err = l.files[l.gen%2].WriteAt(more, *have)
		}
		if err != nil {
			return err
		}
		*have += int64(len(more))
	}
	return nil
}

func (l *wal) flush() error {
	if err := l.files[l.gen%2].Sync(); err != nil {
		return fmt.Errorf("%w: %w", errLogSync, err)
	}
	return nil
}

// rotate begins the next generation, in the other file. The previous generation must be durable before that; otherwise
// a later record could survive an earlier one.
func (l *wal) rotate() error {
	if !l.sync {
		if err := l.flush(); err != nil {
			return err
		}
	}
	// The other file has generation gen-1, and the first record of the next generation overwrites it. That is safe:
	// freeze rotates only while no memtable is frozen, so the main file has that generation.
	l.complete = l.gen - 1
	l.gen++
	l.end = 0
	return nil
}

func (l *wal) close() error {
	var errs []error
	for _, f := range l.files {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	if l.mark != nil {
		errs = append(errs, l.mark.close())
	}
	return errors.Join(errs...)
}
