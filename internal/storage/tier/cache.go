package tier

import (
	"container/list"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/lazuli-storage/lazuli/internal/storage/disk"
)

// chunksFolder is the folder of the cache. A file is called EXTENT-NUMBER, both in hexadecimal.
const chunksFolder = "chunks"

// cache has chunks in files, which are not synced: what a power failure left is found wrong and fetched again.
type cache struct {
	dir      string
	readOnly bool

	mu     sync.Mutex // guards what follows
	chunks map[chunk]*list.Element
	byID   map[uint64]map[chunk]bool
	lru    list.List // of *kept, the one that was used longest ago first
	bytes  int64
}

// kept is a chunk in the cache.
type kept struct {
	chunk
	size int64
	used time.Time
}

// openCache finds the chunks that an earlier process has kept.
func openCache(dir string, readOnly bool) (*cache, error) {
	c := &cache{dir: dir, readOnly: readOnly, chunks: map[chunk]*list.Element{}, byID: map[uint64]map[chunk]bool{}}
	if readOnly {
		return c, nil
	}
	err := disk.MkdirAll(dir, 0o700)
	if err != nil {
		return nil, err
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var found []kept
	for _, file := range files {
		extent, rest, _ := strings.Cut(file.Name(), "-")
		id, ok := parseID(extent)
		number, err := strconv.ParseInt(rest, 16, 64) // that of a part does not parse
		info, err2 := file.Info()
		if !ok || err != nil || err2 != nil {
			_ = os.Remove(filepath.Join(dir, file.Name()))
			continue
		}
		found = append(found, kept{chunk{id, number}, info.Size(), info.ModTime()})
	}
	slices.SortFunc(found, func(a, b kept) int { return a.used.Compare(b.used) })
	for _, k := range found {
		c.add(k)
	}
	return c, nil
}

func (c *cache) path(x chunk) string {
	return filepath.Join(c.dir, idText(x.id)+"-"+strconv.FormatInt(x.number, 16))
}

// add notes a chunk. The caller holds mu, or is alone.
func (c *cache) add(k kept) {
	c.remove(k.chunk)
	c.chunks[k.chunk] = c.lru.PushBack(&k)
	if c.byID[k.id] == nil {
		c.byID[k.id] = map[chunk]bool{}
	}
	c.byID[k.id][k.chunk] = true
	c.bytes += k.size
}

// remove takes a chunk from the list. The caller holds mu.
func (c *cache) remove(x chunk) {
	if e := c.chunks[x]; e != nil {
		c.bytes -= c.lru.Remove(e).(*kept).size
		delete(c.chunks, x)
		if delete(c.byID[x.id], x); len(c.byID[x.id]) == 0 {
			delete(c.byID, x.id)
		}
	}
}

// drop takes a chunk from the list and removes its file. The caller holds mu.
func (c *cache) drop(x chunk) {
	c.remove(x)
	_ = os.Remove(c.path(x)) // a file that stays is found by the next process
}

func (c *cache) size() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bytes
}

func (c *cache) has(x chunk) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.chunks[x] != nil
}

// read fills p from an offset of a chunk, whose length is known; ok is false if the chunk is not there.
func (c *cache) read(x chunk, length, from int64, p []byte, now time.Time) (ok bool) {
	c.mu.Lock()
	e := c.chunks[x]
	if e == nil || e.Value.(*kept).size != length {
		c.mu.Unlock()
		return false
	}
	e.Value.(*kept).used = now
	c.lru.MoveToBack(e)
	c.mu.Unlock()
	f, err := os.Open(c.path(x))
	if err != nil {
		return false
	}
	defer f.Close()
	n, _ := f.ReadAt(p, from)
	return n == len(p)
}

// write keeps a chunk. Without room on the disk it is not kept.
func (c *cache) write(x chunk, data []byte, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	// A part of a chunk never has its name: its length would be taken for that of the chunk.
	path := c.path(x)
	err := os.WriteFile(path+disk.PartSuffix, data, 0o600)
	if err == nil {
		err = os.Rename(path+disk.PartSuffix, path)
	}
	if err != nil {
		_ = os.Remove(path + disk.PartSuffix)
		return
	}
	c.add(kept{x, int64(len(data)), now})
}

// oldest returns when the chunk was used that was used longest ago.
func (c *cache) oldest() (used time.Time, found bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.lru.Front(); e != nil {
		return e.Value.(*kept).used, true
	}
	return used, false
}

func (c *cache) dropOldest() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.lru.Front(); e != nil {
		c.drop(e.Value.(*kept).chunk)
	}
}

// forget drops the chunks that have any of n bytes of an extent from an offset on.
func (c *cache) forget(id uint64, off, n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for x := range c.byID[id] {
		if x.number*ChunkSize < off+n && (x.number+1)*ChunkSize > off {
			c.drop(x)
		}
	}
}

// keep drops the chunks of extents of which want is false.
func (c *cache) keep(want func(id uint64) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, chunks := range c.byID {
		for x := range chunks {
			if !want(id) && !c.readOnly {
				c.drop(x)
			}
		}
	}
}
