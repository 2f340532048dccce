package bboltpage

import (
	"bytes"

	bolt "go.etcd.io/bbolt"
)

// CheckLeaf verifies the leaf that contains key, or would contain it, before key is put or deleted, and reports whether
// key exists. If it exists and is to be deleted, it also verifies the leaves on both sides: bbolt merges them with a
// leaf from which keys are deleted. verify, which may be nil, is called with the pair of key if it exists: it may be
// another pair whose damaged key now equals key, and which would be overwritten.
func (s *Snapshot) CheckLeaf(t Tree, key []byte, deleted bool, verify Verify) (exists bool, err error) {
	l, err := s.leafOf(t, key)
	if err != nil {
		return false, err
	}
	if problem := l.check(); problem != "" {
		return false, l.damaged(problem)
	}
	if i, ok := l.page.search(key); ok && i < l.page.count() {
		if k, v, bucket, _ := l.page.pair(i); bytes.Equal(k, key) { // checked
			exists = true
			switch {
			case verify == nil:
			case bucket:
				return true, l.damaged("an element is not a pair")
			default:
				if err := verify(k, v); err != nil {
					return true, err
				}
			}
		}
	}
	if !deleted || !exists || l.around {
		return exists, nil
	}
	// Set before the check: a caller does not go on after damage, and the next key of a healthy leaf need not check
	// again.
	l.around = true
	for _, step := range []int{1, -1} {
		c := s.mappedCursor(t)
		if err := c.Seek(key); err != nil {
			return true, err
		}
		if err := c.adjacentLeaf(step); err != nil {
			return true, err
		}
	}
	return true, nil
}

// adjacentLeaf enters the leaf after that of the last Seek, or the one before it, if it exists.
func (c *Cursor) adjacentLeaf(step int) error {
	for n := len(c.levels) - 1; n >= 0; n-- {
		c.levels = c.levels[:n+1]
		l := &c.levels[n]
		if l.i += step; l.i < 0 || l.i >= l.p.count() {
			continue
		}
		id, bound, err := l.follow()
		if err != nil {
			return err
		}
		// Of the leaf before, the last leaf below the branch is meant; of the one after, the first.
		var end []byte
		if step < 0 {
			end = afterAll
		}
		return c.descend(id, end, bound)
	}
	return nil
}

// afterAll is higher than any key, because bbolt's keys are shorter.
var afterAll = bytes.Repeat([]byte{0xff}, bolt.MaxKeySize+1)
