package jetstreamfiles

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// settled is the minimum age of a folder's modification time from which on a later change certainly gets another time: file systems use the
// kernel's tick as the time.
const settled = 50 * time.Millisecond

// blocks syncs the files of one stream. JetStream appends to the block with the highest number (<n>.blk) and starts the next when it is full. So
// usually one file is dirty. When the folder has changed, all blocks are checked for new files and for missing ones.
type blocks struct {
	mu     sync.Mutex // guards the rest
	dir    string
	stamp  time.Time           // the folder's modification time at the last check; zero forces a check
	last   *os.File            // the block that takes appends
	index  int                 // its number
	file   fs.FileInfo         // which file it is
	synced map[int]fs.FileInfo // by block number, the files that were synced completely
	used   time.Time           // when it was last synced
	known  LastBlock           // the last block at the last check
	shrunk int                 // a block that became shorter; 0 for none
}

// LastBlock is the last block of a stream, and its size; the zero value means that nothing is known. A file of a block never becomes shorter, unless
// JetStream reads a record of which the length is damaged: it then cuts off the rest of the block.
type LastBlock struct {
	file fs.FileInfo // nil if nothing is known
	size int64
}

// ReadLastBlock returns the last block of the stream with a folder. It returns the zero value if the stream has no blocks.
func ReadLastBlock(streamDir string) (LastBlock, error) {
	b := &blocks{dir: filepath.Join(streamDir, messagesFolder)}
	numbers, err := Blocks(streamDir)
	if err != nil || len(numbers) == 0 {
		return LastBlock{}, err
	}
	n := numbers[len(numbers)-1]
	info, err := os.Stat(b.path(n))
	if err != nil {
		return LastBlock{}, fmt.Errorf("jetstreamfiles: %w", err)
	}
	return LastBlock{info, info.Size()}, nil
}

// same reports whether a block is still the same file. A block that was written again under its name is not. The inode alone does not show that:
// it may have been freed and used again between two checks.
func same(a, b fs.FileInfo) bool {
	return a != nil && b != nil && os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}

func (b *blocks) sync() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used = time.Now()
	info, err := os.Stat(b.dir)
	if err != nil {
		return fmt.Errorf("jetstreamfiles: the stream's folder: %w", err)
	}
	if b.last == nil || !info.ModTime().Equal(b.stamp) {
		if err := b.syncChanged(info.ModTime()); err != nil {
			return fmt.Errorf("jetstreamfiles: %w", err)
		}
	}
	if err := fdatasync(b.last); err != nil {
		return fmt.Errorf("jetstreamfiles: %w", err)
	}
	if err := b.measure(); err != nil {
		return fmt.Errorf("jetstreamfiles: %w", err)
	}
	return nil
}

// measure compares the size of the open block with what is known.
func (b *blocks) measure() error {
	size, err := b.last.Seek(0, io.SeekEnd)
	if err == nil && b.known.is(b.file) {
		err = b.compare(b.index, b.known.size, size)
	}
	if err == nil {
		b.known = LastBlock{b.file, size}
	}
	return err
}

// is reports whether a file is the block. A block that was written again is another file.
func (l LastBlock) is(file fs.FileInfo) bool {
	return l.file != nil && file != nil && os.SameFile(l.file, file)
}

// compare returns an error if block n became shorter.
func (b *blocks) compare(n int, before, now int64) error {
	if now >= before {
		return nil
	}
	b.shrunk = n
	return fmt.Errorf("block %s became shorter, from %d to %d bytes: a record is damaged", b.path(n), before, now)
}

// syncChanged syncs every block that is new or was rewritten, and the folder, and opens the last block. A rewritten block is synced before the last
// one: otherwise the journal could make its new name durable first.
func (b *blocks) syncChanged(stamp time.Time) error {
	seen := time.Now()
	present, last, err := b.list()
	if err != nil {
		return err
	}
	if b.last != nil && b.index != last {
		// It took appends until it was full, and may still be dirty.
		if err := errors.Join(fdatasync(b.last), b.measure()); err != nil {
			return err
		}
		b.closeLast()
	}
	for n, info := range present {
		if before := b.synced[n]; before != nil && os.SameFile(before, info) { // otherwise it was written again
			if err := b.compare(n, before.Size(), info.Size()); err != nil {
				return err
			}
		}
		if b.synced == nil && b.known.is(info) {
			if err := b.compare(n, b.known.size, info.Size()); err != nil {
				return err
			}
		}
		if n == last || same(b.synced[n], info) {
			continue
		}
		if err := syncPath(b.path(n)); err != nil && !(errors.Is(err, fs.ErrNotExist) && b.cut(n)) {
			return err
		}
	}
	if b.last == nil || !os.SameFile(b.synced[last], present[last]) {
		f, err := os.Open(b.path(last))
		if err != nil {
			return err
		}
		b.closeLast()
		b.last, b.index, b.file = f, last, present[last]
		if err := f.Sync(); err != nil {
			return err
		}
	}
	if err := syncPath(b.dir); err != nil {
		return err
	}
	b.synced = present
	b.stamp = stamp
	if seen.Sub(stamp) < settled {
		b.stamp = time.Time{}
	}
	return nil
}

// list returns the blocks of the folder by number, and the highest number. Of the blocks that were present at the last check, only the oldest
// may be missing: they were cut off.
func (b *blocks) list() (present map[int]fs.FileInfo, last int, err error) {
	entries, err := os.ReadDir(b.dir)
	if err != nil {
		return nil, 0, err
	}
	present = make(map[int]fs.FileInfo, len(entries))
	first, last := math.MaxInt, -1
	for _, e := range entries {
		n, ok := blockNumber(e.Name())
		if !ok {
			continue
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed since the folder was read
		}
		if err != nil {
			return nil, 0, err
		}
		present[n] = info
		first, last = min(first, n), max(last, n)
	}
	if last < 0 {
		return nil, 0, fmt.Errorf("%s holds no block", b.dir)
	}
	for n := range b.synced {
		if _, ok := present[n]; !ok && n > first {
			return nil, 0, fmt.Errorf("block %s is missing", b.path(n))
		}
	}
	return present, last, nil
}

// lost returns a block that became shorter, or that was present at the last check and is not any more although it is not part of the old end that
// was cut off. If the folder cannot be read, none is missing.
func (b *blocks) lost() (n int, lost bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.shrunk != 0 {
		return b.shrunk, true
	}
	numbers, err := Blocks(filepath.Dir(b.dir))
	if err != nil {
		return 0, false
	}
	for _, n := range slices.Sorted(maps.Keys(b.synced)) {
		if !slices.Contains(numbers, n) && (len(numbers) == 0 || n > numbers[0]) {
			return n, true
		}
	}
	return 0, false
}

// cut reports whether block n is missing because the old end of the stream was cut off: a later block exists, and no earlier one.
func (b *blocks) cut(n int) bool {
	present, _, err := b.list()
	if err != nil {
		return false
	}
	for m := range present {
		if m <= n {
			return false
		}
	}
	return true
}

func (b *blocks) closeLast() {
	if b.last != nil {
		b.last.Close()
		b.last = nil
	}
}

// closeIdle closes the open file of a stream that is not being synced and was not synced since a time. It reports whether it closed the file.
func (b *blocks) closeIdle(since time.Time) bool {
	if !b.mu.TryLock() {
		return false
	}
	defer b.mu.Unlock()
	if !b.used.Before(since) {
		return false
	}
	b.closeLast()
	return true
}

func (b *blocks) path(n int) string { return filepath.Join(b.dir, fmt.Sprintf("%d.blk", n)) }

func (b *blocks) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closeLast()
}

// blockNumber parses "<n>.blk".
func blockNumber(name string) (int, bool) {
	digits, ok := strings.CutSuffix(name, ".blk")
	if !ok || digits == "" || len(digits) > 10 {
		return 0, false
	}
	n := 0
	for _, c := range []byte(digits) {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int(c-'0')
	}
	return n, true
}
