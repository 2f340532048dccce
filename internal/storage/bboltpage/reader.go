package bboltpage

import (
	"io"
	"sync"
	"sync/atomic"
	"unsafe"

	bolt "go.etcd.io/bbolt"
)

const (
	// maxRead is the largest read of one system call, in bytes. Larger leaves are read through the mapping.
	maxRead = 64 << 10
	// maxGap is the largest distance between two leaves, in pages, up to which one system call reads both: to copy three
	// pages more takes about as long as a further call.
	maxGap = 4
	// maxKept bounds the buffers that a Snapshot keeps for values. Later values are read through the mapping.
	maxKept = 32
)

// Reader reads one file. It is safe for concurrent use.
type Reader struct {
	file     io.ReaderAt
	pageSize int
	pages    sync.Pool // of *[]byte, one page each
	runs     sync.Pool // of *[]byte, maxRead each
}

// NewReader returns a Reader for files of that page size. If file is nil, everything is read through the mapping.
func NewReader(file io.ReaderAt, pageSize int) *Reader {
	r := &Reader{file: file, pageSize: pageSize}
	r.pages.New = func() any { b := make([]byte, r.pageSize); return &b }
	r.runs.New = func() any { b := make([]byte, maxRead); return &b }
	return r
}

// Snapshot is the file as an open transaction of bbolt sees it. It must be used by one goroutine only, and released
// before the transaction ends.
//
// Reading through the mapping causes page faults in files that are larger than the memory that the process may have
// mapped. The kernel maps 64 KiB around each fault, so random reads exceed any bound, and each trim discards the upper
// levels of the tree. Measured with a million values of 1 KiB, faults and trims took a quarter of the processor time of
// a Get. A direct Snapshot reads the two lowest levels of trees, the leaves and the branches above them, with pread(2)
// into buffers; the upper levels are some thousandths of the file and stay mapped.
type Snapshot struct {
	File
	direct  bool
	copies  bool
	touched func(pages int)

	leaves  int // see Leaves
	kept    []kept
	cursors []*Cursor
	last    [2]*lastLeaf // the last one used comes first: transactions often read two buckets in turns
}

// SnapshotOptions configure a Snapshot. The zero value reads through the mapping.
type SnapshotOptions struct {
	// Direct reads the two lowest levels of trees by system calls, if the Reader has a file.
	Direct bool
	// Copies makes Get return values that stay valid after Release.
	Copies bool
	// Touched, if it is not nil, is called with the number of pages that a read may have made resident in the mapping.
	Touched func(pages int)
}

// File is a file as an open transaction of bbolt sees it. It is valid until the transaction ends, and safe for
// concurrent use.
type File struct {
	r    *Reader
	base unsafe.Pointer
	size int64
	root uint64
}

// File returns the file as tx sees it.
func (r *Reader) File(tx *bolt.Tx) File {
	f := File{r: r, size: tx.Size(), root: uint64(tx.Cursor().Bucket().Root())}
	// The address does not point into Go's heap, so converting it to a number is safe; vet cannot know that.
	data := tx.DB().Info().Data
	f.base = *(*unsafe.Pointer)(unsafe.Pointer(&data))
	return f
}

// Size returns the size of the file in bytes.
func (f *File) Size() int64 { return f.size }

// Snapshot returns a snapshot for one goroutine.
func (f *File) Snapshot(o SnapshotOptions) Snapshot {
	return Snapshot{File: *f, direct: o.Direct && f.r.file != nil, copies: o.Copies, touched: o.Touched}
}

// Snapshot returns the file as tx sees it.
func (r *Reader) Snapshot(tx *bolt.Tx, o SnapshotOptions) Snapshot {
	f := r.File(tx)
	return f.Snapshot(o)
}

// Leaves returns how often Get and CheckLeaf have read another leaf: for ascending keys of one bucket, the number of
// the leaves that they belong in.
func (s *Snapshot) Leaves() int { return s.leaves }

// Release returns the buffers. Keys and values that were read directly become invalid.
func (s *Snapshot) Release() {
	for _, k := range s.kept {
		k.release()
	}
	for _, c := range s.cursors {
		c.release()
	}
	for _, l := range s.last {
		if l == nil {
			continue
		}
		l.leaf.release()
		if l.branch != nil {
			s.r.pages.Put(l.branch)
		}
	}
	s.kept, s.cursors, s.last = nil, nil, [2]*lastLeaf{}
}

// Tree is one bucket.
type Tree struct {
	root   uint64
	inline Page // set instead of root if the bucket is stored in its parent's page
	name   string
	depth  *atomic.Int32
}

// Bucket returns the bucket of that name; ok is false if it does not exist. depth, which may be nil, keeps the level of
// the bucket's leaves between calls; it is a hint.
func (s *Snapshot) Bucket(name []byte, depth *atomic.Int32) (t Tree, ok bool, err error) {
	if depth == nil {
		depth = new(atomic.Int32)
	}
	p, err := s.page(s.root)
	if err != nil {
		return Tree{}, false, err
	}
	if !p.leaf() { // more buckets than fit in a page
		c := s.mappedCursor(Tree{root: s.root})
		c.buckets = true
		if err := c.Seek(name); err != nil {
			return Tree{}, false, err
		}
		return bucketOf(c.key, c.value, name, depth, c.leafID)
	}
	i, ok := p.search(name)
	if !ok {
		return Tree{}, false, damaged(s.root, "an element reaches past the end")
	}
	if i == p.count() {
		return Tree{}, false, nil
	}
	k, v, _, ok := p.pair(i)
	if !ok {
		return Tree{}, false, damaged(s.root, "an element reaches past the end")
	}
	return bucketOf(k, v, name, depth, s.root)
}

// bucketOf parses the value that stands for a bucket: its root, its sequence, and, if the root is 0, the bucket's only
// page.
func bucketOf(key, value, name []byte, depth *atomic.Int32, page uint64) (Tree, bool, error) {
	if key == nil || string(key) != string(name) {
		return Tree{}, false, nil
	}
	if len(value) < 16 {
		return Tree{}, false, damaged(page, "the bucket %q has no header", name)
	}
	t := Tree{root: Page(value).u64(0), name: string(name), depth: depth}
	if t.root != 0 {
		return t, true, nil
	}
	if t.inline = Page(value[16:]); len(t.inline) < headerSize || !t.inline.leaf() {
		return Tree{}, false, damaged(page, "the bucket %q is not a leaf", name)
	}
	return t, true, nil
}

// mapped returns n pages of the mapping.
func (s *Snapshot) mapped(id uint64, n int) (Page, bool) {
	at, size := id*uint64(s.r.pageSize), uint64(n)*uint64(s.r.pageSize)
	if end := uint64(s.size); id > end || at > end || size > end-at {
		return nil, false
	}
	if s.touched != nil {
		s.touched(n)
	}
	return unsafe.Slice((*byte)(unsafe.Add(s.base, at)), size), true
}

// page returns a whole branch or leaf from the mapping.
func (s *Snapshot) page(id uint64) (Page, error) {
	p, ok := s.mapped(id, 1)
	if !ok {
		return nil, damaged(id, "is past the end of the file")
	}
	if !p.is(id) {
		return nil, notA(p, id)
	}
	if n := p.pages(); n > 1 {
		if p, ok = s.mapped(id, n); !ok {
			return nil, damaged(id, "reaches past the end of the file")
		}
	}
	return p, nil
}

func notA(p Page, id uint64) error {
	return damaged(id, "says that it is page %d, of kind %#x", p.id(), p.kind())
}

// read reads pages from id on into buf, as many as fit and exist.
func (s *Snapshot) read(id uint64, buf []byte) (Page, error) {
	at, end := id*uint64(s.r.pageSize), uint64(s.size)
	if id > end || at >= end {
		return nil, damaged(id, "is past the end of the file")
	}
	buf = buf[:min(uint64(len(buf)), end-at)]
	if _, err := s.r.file.ReadAt(buf, int64(at)); err != nil {
		return nil, err
	}
	return buf, nil
}

// node returns a branch or leaf at a level. Levels above the two lowest are read from the mapping; the others are read
// into buf if the snapshot is direct. depth is the level of the leaves, 0 if unknown.
func (s *Snapshot) node(direct bool, depth int, id uint64, level int, buf []byte) (Page, error) {
	if !direct || depth == 0 || level < depth-1 {
		return s.page(id)
	}
	p, err := s.read(id, buf)
	if err != nil {
		return nil, err
	}
	if !p.is(id) {
		return nil, notA(p, id)
	}
	if p.pages() > 1 {
		return s.page(id) // a page with very long keys
	}
	return p, nil
}

// found records the level of a tree's leaves.
func (t *Tree) found(level int) {
	if t.depth != nil && t.depth.Load() != int32(level) {
		t.depth.Store(int32(level))
	}
}

func (t *Tree) hint() int {
	if t.depth == nil {
		return 0
	}
	return int(t.depth.Load())
}

// kept is a buffer that holds returned values.
type kept struct {
	pool *sync.Pool
	buf  *[]byte
}

func (k kept) release() {
	if k.buf != nil {
		k.pool.Put(k.buf)
	}
}
