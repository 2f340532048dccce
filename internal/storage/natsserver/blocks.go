package natsserver

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// settled is how old a folder's modification time must be to prove that a later change will differ from it: file
// systems stamp with the kernel's tick.
const settled = 50 * time.Millisecond

// blocks syncs the files of one stream. JetStream appends to the block with the highest number (<n>.blk) and starts
// the next when it is full; a block that lost most of its messages is written anew and renamed into place. So usually
// one file is dirty; whenever the folder has changed, all blocks are looked at for files that were not seen before.
// It is used by one goroutine at a time.
type blocks struct {
	dir    string
	stamp  time.Time           // the folder's modification time at the last look; zero forces a look
	last   *os.File            // the block that is appended to
	index  int                 // its number
	synced map[int]fs.FileInfo // by block number, the files that were synced whole
}

// same tells a full block from one that was written anew under its name. The inode alone does not: it may have been
// freed and used again between two looks.
func same(a, b fs.FileInfo) bool {
	return a != nil && b != nil && os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}

func (b *blocks) sync() error {
	info, err := os.Stat(b.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the stream was deleted, and what was in it
	}
	if err != nil {
		return fmt.Errorf("natsd: %w", err)
	}
	if b.last == nil || !info.ModTime().Equal(b.stamp) {
		if err := b.look(info.ModTime()); err != nil {
			return fmt.Errorf("natsd: %w", err)
		}
	}
	if b.last == nil {
		return nil
	}
	if err := fdatasync(b.last); err != nil {
		return fmt.Errorf("natsd: %w", err)
	}
	return nil
}

// look syncs every block that is new or was rewritten, the folder itself, and opens the last block. A rewritten block
// is synced before the last one: were it the other way round, the journal could make its new name durable first.
func (b *blocks) look(stamp time.Time) error {
	seen := time.Now()
	entries, err := os.ReadDir(b.dir)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	if b.synced == nil {
		b.synced = make(map[int]fs.FileInfo)
	}
	present := make(map[int]fs.FileInfo, len(entries))
	last := -1
	for _, e := range entries {
		n, ok := blockNumber(e.Name())
		if !ok {
			continue
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed meanwhile: all of its messages are gone
		}
		if err != nil {
			return err
		}
		present[n] = info
		last = max(last, n)
	}
	if b.last != nil && b.index != last {
		// It was appended to until it was full, and may be dirty still. If it was removed this does no harm.
		if err := fdatasync(b.last); err != nil {
			return err
		}
		b.last.Close()
		b.last = nil
	}
	for n, info := range present {
		if n == last || same(b.synced[n], info) {
			continue
		}
		if err := syncPath(b.path(n)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if last >= 0 && (b.last == nil || !os.SameFile(b.synced[last], present[last])) {
		f, err := os.Open(b.path(last))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if b.last != nil {
			b.last.Close()
		}
		b.last, b.index = f, last
		if err != nil { // vanished between the two looks: look again next time
			b.last, stamp = nil, time.Time{}
		} else if err := f.Sync(); err != nil {
			return err
		}
	}
	if err := syncPath(b.dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	b.synced = present
	b.stamp = stamp
	if seen.Sub(stamp) < settled {
		b.stamp = time.Time{}
	}
	return nil
}

func (b *blocks) path(n int) string { return filepath.Join(b.dir, fmt.Sprintf("%d.blk", n)) }

func (b *blocks) close() {
	if b.last != nil {
		b.last.Close()
		b.last = nil
	}
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
