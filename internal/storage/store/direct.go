package store

import (
	"bytes"
	"os"
	"sync"
	"sync/atomic"
	"unsafe"

	bolt "go.etcd.io/bbolt"
)

// Reading a file that is larger than the memory it may have mapped (Options.MaxMapped) by page faults costs more than
// reading it by system calls: the kernel maps 64 KiB around each fault, so that random reads fill any bound, and with
// every trim the upper levels of the tree are lost as well. Measured with a million entities of 1 KiB, faults and trims
// took a quarter of the processor time of a Get.
//
// So the two lowest levels of such a file, its leaves and the branches above them, are read with pread(2) into buffers
// that are used again. The levels above are some thousandths of the file and stay mapped. What does not look as it should
// is left to bbolt.
//
// This is about Get and Scan. A Cursor, whose slices live as long as its transaction, reads through the mapping, and so do
// checkpoints, which are bbolt's own.
type direct struct {
	file     *os.File // a descriptor of our own
	pageSize int
	above    int64 // size of the file from which it is read directly, in bytes

	// depth is the level of the leaves for each bucket, as the last descent found it, or 0. It is a hint.
	depth []atomic.Int32
	pages sync.Pool // of *[]byte, one page each
	runs  sync.Pool // of *[]byte, maxRead each
}

const (
	// maxRead is how much is read at once, in bytes. Leaves that are larger are read through the mapping.
	maxRead = 64 << 10
	// maxKept bounds the buffers that the values of one View keep. Later ones are read through the mapping.
	maxKept = 32
)

// newDirect needs the file's name. It returns nil if there is nothing to gain.
func newDirect(path string, db *bolt.DB, buckets int, limit int64) (*direct, error) {
	if !canTrim || limit < 0 {
		return nil, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	d := &direct{file: f, pageSize: db.Info().PageSize, above: limit, depth: make([]atomic.Int32, buckets)}
	d.pages.New = func() any { b := make([]byte, d.pageSize); return &b }
	d.runs.New = func() any { b := make([]byte, maxRead); return &b }
	return d, nil
}

func (d *direct) close() error {
	if d == nil {
		return nil
	}
	return d.file.Close()
}

// serves says whether the transaction reads a file that is worth it.
func (d *direct) serves(tx *bolt.Tx) bool { return d != nil && tx.Size() > d.above }

// mapped returns n pages of the mapping. The caller's transaction is open, so that the mapping cannot move.
func (d *direct) mapped(tx *bolt.Tx, id uint64, n int) (p page, ok bool) {
	at, size := id*uint64(d.pageSize), uint64(n*d.pageSize)
	if end := uint64(tx.Size()); at > end || size > end-at {
		return nil, false
	}
	// The address is none of Go's, which is why it may be a number; vet cannot know.
	data := tx.DB().Info().Data
	base := *(*unsafe.Pointer)(unsafe.Pointer(&data))
	return unsafe.Slice((*byte)(unsafe.Add(base, at)), size), true
}

// read reads pages from id on into buf, as many as fit into it or are there.
func (d *direct) read(tx *bolt.Tx, id uint64, buf []byte) (p page, ok bool) {
	at, end := id*uint64(d.pageSize), uint64(tx.Size())
	if at >= end {
		return nil, false
	}
	buf = buf[:min(uint64(len(buf)), end-at)]
	if _, err := d.file.ReadAt(buf, int64(at)); err != nil {
		return nil, false
	}
	return buf, true
}

// node returns the first page of a branch or leaf at the given level: those above the two lowest from the mapping, the
// others read into buf. depth is the level of the leaves, 0 if that is not known.
func (d *direct) node(tx *Tx, depth int, id uint64, level int, buf []byte) (p page, ok bool) {
	if depth == 0 || level < depth-1 {
		tx.touch(1)
		p, ok = d.mapped(tx.bolt, id, 1)
	} else {
		p, ok = d.read(tx.bolt, id, buf)
	}
	return p, ok && p.is(id)
}

func (d *direct) depthOf(bucket int) int { return int(d.depth[bucket].Load()) }

// found notes at which level a leaf was; 0 stands for not known.
func (d *direct) found(bucket, level int) {
	if depth := &d.depth[bucket]; depth.Load() != int32(level) {
		depth.Store(int32(level))
	}
}

// get returns the value of key, nil if there is none. If not ok, bbolt has to say.
func (d *direct) get(tx *Tx, bucket int, root uint64, key []byte) (value []byte, ok bool) {
	if root == 0 || len(tx.kept) >= maxKept { // 0: the bucket is inline, in its parent's page
		return nil, false
	}
	l := tx.last
	if l == nil {
		l = &lastLeaf{direct: d, branch: d.pages.Get().(*[]byte)}
		tx.last = l
	}
	if l.bucket != bucket || !l.covers(key) {
		if l.shared {
			tx.kept = append(tx.kept, l.leaf)
			l.leaf, l.shared = kept{}, false
		}
		if !l.descend(tx, bucket, root, key) {
			l.page = nil
			return nil, false
		}
	}
	i, ok := l.page.search(key)
	if !ok || i == l.page.count() {
		return nil, ok
	}
	k, value, ok := l.page.pair(i)
	if !ok || !bytes.Equal(k, key) {
		return nil, ok
	}
	if tx.writes != nil {
		// It may become part of the write set.
		return bytes.Clone(value), true
	}
	l.shared = true
	return value, true
}

// lastLeaf is the leaf that a transaction has read last: its next key is often there as well.
type lastLeaf struct {
	*direct
	bucket int
	page   page   // nil if there is none
	lo, hi []byte // what is in the bucket from lo to before hi is in the page; nil for no bound
	branch *[]byte
	leaf   kept
	shared bool // values in leaf have been handed out
}

func (l *lastLeaf) covers(key []byte) bool {
	return l.page != nil && (l.lo == nil || bytes.Compare(l.lo, key) <= 0) && (l.hi == nil || bytes.Compare(key, l.hi) < 0)
}

// descend finds and reads the leaf of key.
func (l *lastLeaf) descend(tx *Tx, bucket int, root uint64, key []byte) (ok bool) {
	l.bucket, l.page, l.lo, l.hi = bucket, nil, nil, nil
	id, depth := root, l.depthOf(bucket)
	for level := 0; depth == 0 || level < depth; level++ {
		p, ok := l.node(tx, depth, id, level, *l.branch)
		if !ok {
			return false
		}
		if p.leaf() {
			l.found(bucket, level)
			break
		}
		i, ok := p.search(key)
		if !ok {
			return false
		}
		if i > 0 {
			l.lo, _, _ = p.child(i)
		}
		if i+1 < p.count() {
			if l.hi, _, ok = p.child(i + 1); !ok {
				return false
			}
		}
		if _, id, ok = p.child(i); !ok {
			return false
		}
	}
	if !l.load(tx, id, 1) || l.page.pages() > 1 && !l.load(tx, id, l.page.pages()) || !l.page.leaf() {
		l.found(bucket, 0)
		return false
	}
	return true
}

// load reads a page that takes n.
func (l *lastLeaf) load(tx *Tx, id uint64, n int) (ok bool) {
	pool := &l.pages
	if n*l.pageSize > maxRead {
		return false
	}
	if n > 1 {
		pool = &l.runs
	}
	if l.leaf.pool != pool {
		l.leaf.release()
		l.leaf = kept{pool, pool.Get().(*[]byte)}
	}
	l.page, ok = l.read(tx.bolt, id, (*l.leaf.buf)[:n*l.pageSize])
	return ok && l.page.is(id)
}

// kept is a buffer that values lie in.
type kept struct {
	pool *sync.Pool
	buf  *[]byte
}

func (k kept) release() {
	if k.buf != nil {
		k.pool.Put(k.buf)
	}
}

// release returns the buffers of a transaction that ends.
func (tx *Tx) release() {
	for _, k := range tx.kept {
		k.release()
	}
	for _, s := range tx.scans {
		s.release()
	}
	if l := tx.last; l != nil {
		l.leaf.release()
		l.pages.Put(l.branch)
	}
	tx.kept, tx.scans, tx.last = nil, nil, nil
}
