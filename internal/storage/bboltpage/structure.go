package bboltpage

import (
	"bytes"
	"fmt"
	"io"
	"slices"
)

// Structure is the result of CheckStructure.
type Structure struct {
	Meta
	// Buckets are the names of the top-level buckets, in order.
	Buckets []string
	// Free is the number of free pages.
	Free int
}

// CheckStructure verifies the pages above the leaves of a file of the given size: its meta pages, the free list, the
// root bucket, and the branches of each tree. It accounts for every page, so that no page is reachable twice, reachable
// and free, or lost. It does not read leaves; readers check them.
//
// The file must not change meanwhile. Errors: ErrFormat, ErrTruncated, a *DamageError, or the error of f.
func CheckStructure(f io.ReaderAt, size int64) (Structure, error) {
	m, err := ReadMeta(f, size)
	if err != nil {
		return Structure{}, err
	}
	c := &structure{f: f, m: m, use: make([]use, m.Pages)}
	if err := c.run(); err != nil {
		return Structure{}, err
	}
	return Structure{Meta: m, Buckets: c.names, Free: c.free}, nil
}

// use is the purpose of a page, as far as it is known without reading leaves.
type use byte

const (
	unknown use = iota // an overflow page, if it follows one that is used
	used               // the first page of a branch, leaf, or the freelist; or a meta page
	free
)

type structure struct {
	f     io.ReaderAt
	m     Meta
	use   []use
	names []string
	free  int
}

func (c *structure) run() error {
	if c.m.Pages < 4 {
		return damaged(0, "the file has %d pages", c.m.Pages)
	}
	c.use[0], c.use[1] = used, used
	if err := c.freelist(); err != nil {
		return err
	}
	if err := c.buckets(); err != nil {
		return err
	}
	for id := 1; id < len(c.use); id++ {
		// Leaves were not read, so that their overflow pages are not claimed. An unknown page is one of them if it
		// follows a used page or another such page; after a free page nothing can own it.
		if c.use[id] == unknown && c.use[id-1] == free {
			return damaged(uint64(id), "belongs to no tree and is not free")
		}
		if c.use[id] == unknown {
			c.use[id] = used
		}
	}
	return nil
}

// maxNode is more than the bytes of any branch or leaf: the pairs of package store are smaller.
const maxNode = 128 << 20

// page reads a page with its overflow pages. The length in the page's header is trusted only up to the end of the file.
func (c *structure) page(id uint64) (Page, error) {
	if id < 2 || id >= c.m.Pages {
		return nil, damaged(id, "is not in the file, which has %d pages", c.m.Pages)
	}
	p := make(Page, c.m.PageSize)
	if _, err := c.f.ReadAt(p, int64(id)*int64(c.m.PageSize)); err != nil {
		return nil, err
	}
	n := uint64(p.pages())
	if p.id() != id || n > c.m.Pages-id {
		return nil, notA(p, id)
	}
	// One flipped bit of the number could make a check of a large file need as much memory as the file has bytes. The
	// free list alone grows with the file.
	if n > maxNode/uint64(c.m.PageSize) && p.kind() != kindFreelist {
		return nil, damaged(id, "has %d overflow pages", n-1)
	}
	if n > 1 {
		p = make(Page, int(n)*c.m.PageSize)
		if _, err := c.f.ReadAt(p, int64(id)*int64(c.m.PageSize)); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// claim marks a page and its overflow pages as used.
func (c *structure) claim(id uint64, n int) error {
	if id < 2 || id+uint64(n) > c.m.Pages {
		return damaged(id, "is not in the file, which has %d pages", c.m.Pages)
	}
	for i := id; i < id+uint64(n); i++ {
		switch c.use[i] {
		case used:
			return damaged(i, "is used twice")
		case free:
			return damaged(i, "is used although it is free")
		}
		c.use[i] = used
	}
	return nil
}

// freelist reads the ids of the free pages in ascending order. If there are more than 65534, their number precedes
// them.
func (c *structure) freelist() error {
	p, err := c.page(c.m.Freelist)
	if err != nil {
		return fmt.Errorf("the free list: %w", err)
	}
	if p.kind() != kindFreelist {
		return fmt.Errorf("the free list: %w", notA(p, c.m.Freelist))
	}
	n, at := uint64(p.count()), headerSize
	if n == 0xFFFF {
		n, at = p.u64(at), at+8
	}
	if n > uint64(len(p)-at)/8 {
		return damaged(c.m.Freelist, "the free list is longer than its page")
	}
	last := uint64(1)
	for i := range int(n) {
		id := p.u64(at + 8*i)
		// Ascending order also excludes a page that is listed twice, which bbolt would give to two owners.
		if id <= last || id >= c.m.Pages {
			return damaged(c.m.Freelist, "the free list is not in order")
		}
		c.use[id], last = free, id
	}
	c.free = int(n)
	return c.claim(c.m.Freelist, p.pages())
}

// buckets walks the root bucket, whose leaves are read, and each tree below it.
func (c *structure) buckets() error {
	return c.tree(c.m.Root, func(id uint64, p Page) error {
		if problem := p.check(c.m.PageSize); problem != "" {
			return damaged(id, "%s", problem)
		}
		for i := range p.count() {
			name, value, bucket, ok := p.pair(i)
			if !ok || !bucket || len(value) < 16 {
				return damaged(id, "element %d is not a bucket", i)
			}
			header := Page(value)
			if header.u64(8) != 0 { // Lazuli uses no sequences
				return damaged(id, "the bucket %q has a sequence", name)
			}
			if root := header.u64(0); root != 0 {
				if len(value) != 16 {
					return damaged(id, "the bucket %q is inline and has a root", name)
				}
				if err := c.tree(root, nil); err != nil {
					return fmt.Errorf("bucket %q: %w", name, err)
				}
			} else if problem := inlineProblem(value[16:]); problem != "" {
				return damaged(id, "the inline bucket %q: %s", name, problem)
			}
			c.names = append(c.names, string(name))
		}
		return nil
	})
}

func inlineProblem(p Page) string {
	if len(p) < headerSize || !p.leaf() || p.id() != 0 || p.pages() != 1 {
		return "is not a leaf"
	}
	return p.check(0)
}

// tree walks the branches of one tree level by level and claims its leaves. If leaf is not nil, leaves are read and
// passed to it.
func (c *structure) tree(root uint64, leaf func(id uint64, p Page) error) error {
	depth, err := c.depth(root)
	if err != nil {
		return err
	}
	type node struct {
		id    uint64
		bound []byte // the key of the branch element that points to the page
	}
	// nodes are the pages of level at, and the leaves after the loop. Each level is claimed before the next one is
	// read: a page to which two branches lead is found at its second claim, so that a circle of damaged pages ends.
	nodes := []node{{root, nil}}
	for at := range depth {
		var next []node
		for _, n := range nodes {
			p, err := c.page(n.id)
			if err != nil {
				return err
			}
			if p.kind() != kindBranch {
				return damaged(n.id, "is of kind %#x, and should be a branch", p.kind())
			}
			if err := c.claim(n.id, p.pages()); err != nil {
				return err
			}
			if problem := p.check(c.m.PageSize); problem != "" {
				return damaged(n.id, "%s", problem)
			}
			if first, _, _ := p.child(0); n.bound != nil && !bytes.Equal(first, n.bound) {
				return damaged(n.id, "does not begin with the key by which it is reached")
			}
			for i := range p.count() {
				key, id, _ := p.child(i)
				// Of the leaves themselves only the number is known: their overflow pages are counted by run.
				if at < depth-1 || leaf != nil {
					next = append(next, node{id, slices.Clone(key)})
				} else if err := c.claim(id, 1); err != nil {
					return err
				}
			}
		}
		nodes = next
	}
	if leaf == nil {
		if depth == 0 {
			return c.claim(root, 1)
		}
		return nil
	}
	for _, n := range nodes {
		p, err := c.page(n.id)
		if err != nil {
			return err
		}
		if !p.leaf() {
			return damaged(n.id, "is of kind %#x, and should be a leaf", p.kind())
		}
		if err := c.claim(n.id, p.pages()); err != nil {
			return err
		}
		if err := leaf(n.id, p); err != nil {
			return err
		}
	}
	return nil
}

// depth returns the level of a tree's leaves.
func (c *structure) depth(root uint64) (int, error) {
	for depth, id := 0, root; ; depth++ {
		if depth > maxDepth {
			return 0, damaged(id, "lies too deep")
		}
		p, err := c.page(id)
		if err != nil {
			return 0, err
		}
		switch p.kind() {
		case kindLeaf:
			return depth, nil
		case kindBranch:
			_, next, ok := p.child(0)
			if !ok {
				return 0, damaged(id, "a branch without elements")
			}
			id = next
		default:
			return 0, notA(p, id)
		}
	}
}
