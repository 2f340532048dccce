package archive

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/lazuli-storage/lazuli/internal/storage/disk"
)

// The spool is a sequence of files in the folder of the archive, spool-<number>. Each is a sequence of frames: the
// length of an item, its CRC-32C, 4 bytes each, little-endian, and the item. The end of a file may be torn after a
// crash: what it lacks is in the log of its database then.
const (
	spoolPrefix = "spool-"
	frameHeader = 8
	// spoolBuffer is the size of what waits in memory for the next write, in bytes. A killed process loses it, and finds
	// it in the logs.
	spoolBuffer = 256 << 10
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// spool keeps items until they are in the place.
type spool struct {
	dir string

	syncing sync.Mutex // held by sync and rotate; before mu
	mu      sync.Mutex // guards what follows
	number  uint64     // of the current file
	file    *os.File   // nil after an error, until reset
	buf     []byte
	unsaved bool  // something was added since the last sync
	size    int64 // of all files, with buf
	// all is the size of the spools of all shards, to which this one belongs.
	all *atomic.Int64
}

// openSpool opens the spool of a folder and begins a file. each is called with the items that are found, in order.
func openSpool(dir string, all *atomic.Int64, each func(*item) error) (*spool, error) {
	s := &spool{dir: dir, all: all}
	numbers, err := s.files()
	if err != nil {
		return nil, err
	}
	for _, n := range numbers {
		s.number = max(s.number, n)
		if err := s.read(n, each); err != nil {
			return nil, err
		}
		if info, err := os.Stat(s.path(n)); err == nil {
			s.grow(info.Size())
		}
	}
	s.number++
	s.file, err = s.create(s.number)
	return s, err
}

// grow notes that the files have grown. The caller holds mu, or is alone.
func (s *spool) grow(n int64) {
	s.size += n
	s.all.Add(n)
}

func (s *spool) path(n uint64) string {
	return filepath.Join(s.dir, fmt.Sprintf("%s%016x", spoolPrefix, n))
}

// create creates a file whose name is durable.
func (s *spool) create(n uint64) (*os.File, error) {
	f, err := os.OpenFile(s.path(n), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	if err := disk.SyncDir(s.dir); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// files returns the numbers of the files, in order.
func (s *spool) files() (numbers []uint64, err error) {
	entries, err := os.ReadDir(s.dir)
	for _, e := range entries {
		text, ok := strings.CutPrefix(e.Name(), spoolPrefix)
		if n, err := strconv.ParseUint(text, 16, 64); ok && err == nil {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	return numbers, err
}

// read calls each with the items of a file up to its torn end.
func (s *spool) read(n uint64, each func(*item) error) error {
	f, err := os.Open(s.path(n))
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	left := info.Size()
	in := io.NewSectionReader(f, 0, left)
	var h [frameHeader]byte
	for {
		if _, err := io.ReadFull(in, h[:]); err != nil {
			return unlessTorn(err)
		}
		left -= frameHeader
		size := int64(binary.LittleEndian.Uint32(h[:]))
		if size > left { // torn, and no reason to allocate
			return nil
		}
		p := make([]byte, size)
		if _, err := io.ReadFull(in, p); err != nil {
			return unlessTorn(err)
		}
		left -= size
		if crc32.Checksum(p, castagnoli) != binary.LittleEndian.Uint32(h[4:]) {
			return nil
		}
		if err := eachItem(p, each); err != nil {
			return err
		}
	}
}

func unlessTorn(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return err
}

// add appends an item.
func (s *spool) add(i *item) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file == nil {
		return os.ErrClosed
	}
	at := len(s.buf)
	s.buf = append(s.buf, make([]byte, frameHeader)...)
	s.buf = i.appendTo(s.buf)
	frame := s.buf[at+frameHeader:]
	binary.LittleEndian.PutUint32(s.buf[at:], uint32(len(frame)))
	binary.LittleEndian.PutUint32(s.buf[at+4:], crc32.Checksum(frame, castagnoli))
	s.grow(int64(frameHeader + len(frame)))
	s.unsaved = true
	if len(s.buf) < spoolBuffer {
		return nil
	}
	return s.flushLocked()
}

// flushLocked writes what waits. The caller holds mu.
func (s *spool) flushLocked() error {
	if s.file == nil {
		return os.ErrClosed
	}
	_, err := s.file.Write(s.buf)
	if s.buf = s.buf[:0]; cap(s.buf) > 4*spoolBuffer {
		s.buf = nil
	}
	return err
}

// sync makes everything durable that was added before the call.
func (s *spool) sync() error {
	s.syncing.Lock()
	defer s.syncing.Unlock()
	s.mu.Lock()
	if !s.unsaved {
		s.mu.Unlock()
		return nil
	}
	s.unsaved = false
	err, f := s.flushLocked(), s.file
	s.mu.Unlock()
	if err != nil {
		return err
	}
	return save(f)
}

// save makes what was written to a file of the spool durable.
func save(f *os.File) error { return f.Sync() }

// rotate begins another file. It returns the numbers of those before it, which are durable and change no more. If the
// current file is empty, it stays.
func (s *spool) rotate() (numbers []uint64, err error) {
	s.syncing.Lock()
	defer s.syncing.Unlock()
	numbers, err = s.files()
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	current := s.number
	err = s.flushLocked()
	empty := false
	if err == nil {
		info, failed := s.file.Stat()
		err, empty = failed, failed == nil && info.Size() == 0
	}
	s.mu.Unlock()
	if err != nil || empty {
		return slices.DeleteFunc(numbers, func(n uint64) bool { return n == current }), err
	}
	// The next file exists, durably, before the first item goes to it.
	next, err := s.create(current + 1)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	err = s.flushLocked()
	old := s.file
	s.file, s.number = next, current+1
	s.unsaved = false
	s.mu.Unlock()
	return numbers, errors.Join(err, save(old), old.Close())
}

// remove removes files that rotate has returned.
func (s *spool) remove(numbers []uint64) error {
	for _, n := range numbers {
		info, err := os.Stat(s.path(n))
		if err == nil {
			err = os.Remove(s.path(n))
		}
		if err != nil {
			return err
		}
		s.mu.Lock()
		s.grow(-info.Size())
		s.mu.Unlock()
	}
	return nil
}

// reset drops everything, and begins another file.
func (s *spool) reset() error {
	s.syncing.Lock()
	defer s.syncing.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	var err error
	if s.file != nil {
		err = s.file.Close()
	}
	s.grow(-s.size)
	s.file, s.buf, s.unsaved = nil, nil, false
	numbers, failed := s.files()
	err = errors.Join(err, failed)
	for _, n := range numbers {
		err = errors.Join(err, os.Remove(s.path(n)))
	}
	if err != nil {
		return err
	}
	s.number++
	s.file, err = s.create(s.number)
	return err
}

// bytes returns the size of all files.
func (s *spool) bytes() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.size
}

func (s *spool) close() error {
	s.syncing.Lock()
	defer s.syncing.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file == nil {
		return nil
	}
	err := errors.Join(s.flushLocked(), save(s.file), s.file.Close())
	s.file = nil
	s.grow(-s.size)
	return err
}
