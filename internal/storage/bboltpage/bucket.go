package bboltpage

import "io"

// BucketPairs returns the pairs of a top-level bucket of a file of the given size, for a bucket of a few pairs. It
// reads only the pages on the way to them. ok is false if the file has no such bucket.
//
// Errors: ErrFormat, ErrTruncated, a *DamageError, or the error of f.
func BucketPairs(f io.ReaderAt, size int64, bucket string) (pairs map[string][]byte, m Meta, ok bool, err error) {
	m, err = ReadMeta(f, size)
	if err != nil {
		return nil, m, false, err
	}
	// No page is claimed, so that nothing is allocated for a file of any size.
	c := &structure{f: f, m: m, use: make([]use, 0)}
	var header []byte
	// The root bucket maps the names of buckets to their headers: the root page, a sequence, and for a small bucket
	// its only page.
	err = c.walk(m.Root, 0, func(id uint64, p Page) error {
		for i := range p.count() {
			name, value, _, ok := p.pair(i)
			if !ok {
				return damaged(id, "element %d reaches past the end", i)
			}
			if string(name) == bucket {
				header = value
			}
		}
		return nil
	})
	if err != nil || header == nil {
		return nil, m, false, err
	}
	if len(header) < 16 {
		return nil, m, false, damaged(m.Root, "the bucket %q has no root", bucket)
	}
	pairs = map[string][]byte{}
	add := func(id uint64, p Page) error {
		for i := range p.count() {
			k, v, _, ok := p.pair(i)
			if !ok {
				return damaged(id, "element %d reaches past the end", i)
			}
			pairs[string(k)] = v
		}
		return nil
	}
	if root := Page(header).u64(0); root != 0 {
		err = c.walk(root, 0, add)
	} else if inline := Page(header[16:]); inlineProblem(inline) != "" {
		err = damaged(m.Root, "the inline bucket %q: %s", bucket, inlineProblem(inline))
	} else {
		err = add(m.Root, inline)
	}
	return pairs, m, err == nil, err
}

// walk reads the leaves of a tree.
func (c *structure) walk(id uint64, depth int, leaf func(id uint64, p Page) error) error {
	p, err := c.page(id)
	if err != nil {
		return err
	}
	if depth > maxDepth {
		return damaged(id, "lies too deep")
	}
	switch p.kind() {
	case kindLeaf:
		if problem := p.check(c.m.PageSize); problem != "" {
			return damaged(id, "%s", problem)
		}
		return leaf(id, p)
	case kindBranch:
		for i := range p.count() {
			_, child, ok := p.child(i)
			if !ok {
				return damaged(id, "element %d reaches past the end", i)
			}
			if err := c.walk(child, depth+1, leaf); err != nil {
				return err
			}
		}
		return nil
	default:
		return notA(p, id)
	}
}
