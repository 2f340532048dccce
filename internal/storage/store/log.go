package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
)

// The log is two files beside the main one, <name>-log0 and <name>-log1, which take turns. What is written to one
// between two turns is a generation; generation g is in file g modulo 2. A generation is a sequence of records from
// the start of the file, each the write set of a group:
//
//	0   4  length n of the payload
//	4   4  CRC-32C of bytes 8 to 24+n
//	8   8  generation
//	16  8  number of the group
//	24  n  payload: for each bucket the length of its name, the name, the number of writes, and for each write the
//	       length of the key, the key, the length of the value plus one, the value; 0 stands for a deleted key
//
// Fixed integers are little-endian, those of the payload are uvarints. What follows the last record of a generation is
// zero, or left from an earlier generation, or torn: in each case no record of this generation. Files are used again
// as they are, because overwriting is cheaper to sync than growing.
//
// The main file says, under logKey, up to which generation it has everything.
const logHeaderSize = 24

// logStep is by how much a log file grows, in bytes.
const logStep = 4 << 20

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// errLogSync means that a sync of the log failed, so that what it holds is unknown.
var errLogSync = errors.New("sync of the log failed")

// wal appends to the log.
type wal struct {
	sync  bool
	step  int64        // by how much a file grows, in bytes; tests make it small
	fault func() error // tests only: runs before a sync and may fail it

	files     [2]*os.File
	allocated [2]int64 // bytes of the files
	gen       uint64
	end       int64 // of the current generation
}

func logPath(path string, i uint64) string { return fmt.Sprintf("%s-log%d", path, i%2) }

// openWAL opens or creates the files and begins a generation.
func openWAL(path string, gen uint64, sync bool) (*wal, error) {
	l := &wal{sync: sync, step: logStep, gen: gen}
	for i := range l.files {
		f, err := os.OpenFile(logPath(path, uint64(i)), os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, errors.Join(err, l.close())
		}
		l.files[i] = f
		if l.allocated[i], err = f.Seek(0, io.SeekEnd); err != nil {
			return nil, errors.Join(err, l.close())
		}
	}
	return l, nil
}

// append writes a record, whose header it fills, and syncs it. After an error other than errLogSync the record is not
// there.
func (l *wal) append(record []byte, group uint64) error {
	binary.LittleEndian.PutUint32(record, uint32(len(record)-logHeaderSize))
	binary.LittleEndian.PutUint64(record[8:], l.gen)
	binary.LittleEndian.PutUint64(record[16:], group)
	binary.LittleEndian.PutUint32(record[4:], crc32.Checksum(record[8:], castagnoli))
	f := l.files[l.gen%2]
	if err := l.grow(l.end + int64(len(record))); err != nil {
		return err
	}
	if _, err := f.WriteAt(record, l.end); err != nil {
		return err
	}
	if l.sync {
		if err := l.flush(); err != nil {
			return err
		}
	}
	l.end += int64(len(record))
	return nil
}

// grow makes the file hold size bytes and some more, as zeros.
func (l *wal) grow(size int64) error {
	have := &l.allocated[l.gen%2]
	for zeros := make([]byte, 0); *have < size; *have += int64(len(zeros)) {
		if len(zeros) == 0 {
			zeros = make([]byte, l.step-*have%l.step)
		}
		if _, err := l.files[l.gen%2].WriteAt(zeros, *have); err != nil {
			return err
		}
	}
	return nil
}

func (l *wal) flush() error {
	if l.fault != nil {
		if err := l.fault(); err != nil {
			return fmt.Errorf("%w: %w", errLogSync, err)
		}
	}
	if err := dataSync(l.files[l.gen%2]); err != nil {
		return fmt.Errorf("%w: %w", errLogSync, err)
	}
	return nil
}

// turn begins the next generation, in the other file. The one before must be durable by then, lest a later record
// survives an earlier one.
func (l *wal) turn() error {
	if !l.sync {
		if err := l.flush(); err != nil {
			return err
		}
	}
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
	return errors.Join(errs...)
}

// readLog calls fn for every record of a generation, in order. A file that does not exist is empty.
func readLog(path string, gen uint64, fn func(group uint64, payload []byte) error) error {
	f, err := os.Open(logPath(path, gen))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	var header [logHeaderSize]byte
	for at := int64(0); at+logHeaderSize <= info.Size(); {
		if _, err := f.ReadAt(header[:], at); err != nil {
			return err
		}
		n := int64(binary.LittleEndian.Uint32(header[:]))
		if binary.LittleEndian.Uint64(header[8:]) != gen || n > info.Size()-at-logHeaderSize {
			return nil
		}
		record := make([]byte, logHeaderSize+n)
		if _, err := f.ReadAt(record, at); err != nil {
			return err
		}
		if crc32.Checksum(record[8:], castagnoli) != binary.LittleEndian.Uint32(record[4:]) {
			return nil
		}
		if err := fn(binary.LittleEndian.Uint64(record[16:]), record[logHeaderSize:]); err != nil {
			return err
		}
		at += int64(len(record))
	}
	return nil
}

// appendPayload encodes the write set.
func (s *WriteSet) appendPayload(p []byte) []byte {
	for _, b := range s.buckets {
		n := 0
		for _, run := range b.runs {
			n += len(run)
		}
		if n == 0 {
			continue
		}
		p = binary.AppendUvarint(p, uint64(len(b.bucket)))
		p = append(p, b.bucket...)
		p = binary.AppendUvarint(p, uint64(n))
		for _, run := range b.runs {
			for _, w := range run {
				p = binary.AppendUvarint(p, uint64(len(w.Key)))
				p = append(p, w.Key...)
				if w.Deleted() {
					p = append(p, 0)
					continue
				}
				p = binary.AppendUvarint(p, uint64(len(w.Value))+1)
				p = append(p, w.Value...)
			}
		}
	}
	return p
}

// errPayload means that a payload with the right checksum does not parse: it was written by something else.
var errPayload = fmt.Errorf("%w: log record does not parse", ErrFormat)

// readPayload calls fn for every write. Keys and values are parts of p.
func readPayload(p []byte, fn func(b Bucket, w Write) error) error {
	d := decoder{p: p}
	for len(d.p) > 0 {
		b := Bucket(d.bytes(d.uvarint()))
		for n := d.uvarint(); n > 0 && !d.bad; n-- {
			w := Write{Key: d.bytes(d.uvarint())}
			if n := d.uvarint(); n > 0 {
				w.Value = d.bytes(n - 1)
			}
			if d.bad {
				break
			}
			if err := fn(b, w); err != nil {
				return err
			}
		}
		if d.bad {
			return errPayload
		}
	}
	return nil
}

type decoder struct {
	p   []byte
	bad bool
}

func (d *decoder) uvarint() uint64 {
	x, n := binary.Uvarint(d.p)
	if n <= 0 {
		d.p, d.bad = nil, true
		return 0
	}
	d.p = d.p[n:]
	return x
}

// bytes is never nil, and cannot be appended to without a copy.
func (d *decoder) bytes(n uint64) []byte {
	if d.bad || n > uint64(len(d.p)) {
		d.p, d.bad = nil, true
		return nil
	}
	b := d.p[:n:n]
	d.p = d.p[n:]
	return b
}
