package extent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"
)

// catalogue is an owner: a map of names to contents.
type catalogue struct {
	mu sync.Mutex
	m  map[string]content
}

func (c *catalogue) owner() Owner { return Owner{Refs: c.refs, Move: c.move} }

func (c *catalogue) refs(_ context.Context, yield func(Ref) bool) error {
	c.mu.Lock()
	var refs []Ref
	for key, x := range c.m {
		for _, s := range x.slices {
			refs = append(refs, Ref{s, []byte(key)})
		}
	}
	c.mu.Unlock()
	for _, r := range refs {
		if !yield(r) {
			break
		}
	}
	return nil
}

func (c *catalogue) move(_ context.Context, moves []Move) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range moves {
		x, ok := c.m[string(m.Key)]
		if !ok {
			continue
		}
		x.slices = slices.Clone(x.slices) // readers may hold the old list
		for i, s := range x.slices {
			if s == m.From {
				x.slices[i] = m.To
			}
		}
		c.m[string(m.Key)] = x
	}
	return nil
}

func (c *catalogue) put(t testing.TB, s *Store, key string, p []byte) {
	w := s.NewWriter(int64(len(p)))
	defer w.Close()
	w.Write(p)
	slices, err := w.Commit()
	if err != nil {
		t.Error(err)
		return
	}
	c.mu.Lock()
	c.m[key] = content{slices, p}
	c.mu.Unlock()
}

// compact runs Compact until it has nothing left to do.
func compact(t *testing.T, s *Store, c *catalogue) (sum Compacted) {
	t.Helper()
	for range 10 {
		s.sealing.Wait()
		got, err := s.Compact(t.Context(), c.owner(), CompactOptions{BytesPerSecond: -1})
		if err != nil {
			t.Fatal(err)
		}
		sum.Deleted += got.Deleted
		sum.Rewritten += got.Rewritten
		sum.Moved += got.Moved
		if got.Deleted == 0 && got.Rewritten == 0 {
			return sum
		}
	}
	t.Fatal("Compact finds no end")
	return sum
}

func (c *catalogue) check(t *testing.T, s *Store) {
	t.Helper()
	for _, x := range c.m {
		wantContent(t, s, x.slices, x.bytes)
	}
}

func TestCompactReclaims(t *testing.T) {
	t.Parallel()
	for _, o := range []Options{{}, {Ephemeral: true}} {
		t.Run(fmt.Sprintf("%+v", o), func(t *testing.T) {
			o.SealSize, o.Grace = 4<<20, -1
			dir := t.TempDir()
			s := open(t, dir, o)
			c := &catalogue{m: map[string]content{}}
			for i := range 600 {
				c.put(t, s, fmt.Sprint(i), random(uint64(i), 50_000))
			}
			// A copy shares the slices, and takes a part of one.
			c.m["copy"] = c.m["7"]
			part := c.m["8"]
			c.m["part"] = content{[]Slice{part.slices[0].Sub(100, 200)}, part.bytes[100:300]}
			before := s.Size()
			for i := range 600 {
				if i%10 != 0 {
					delete(c.m, fmt.Sprint(i))
				}
			}
			got := compact(t, s, c)
			c.check(t, s)
			if after := s.Size(); after > before/4 {
				t.Errorf("%d bytes before, %d after, with a tenth alive; %+v", before, after, got)
			}
			if got.Moved == 0 || got.Deleted == 0 {
				t.Errorf("did nothing: %+v", got)
			}
			if a, b := c.m["copy"].slices[0], part.slices[0]; a.Extent == b.Extent {
				t.Error("what is shared was not moved: the test shows nothing")
			}
			clear(c.m)
			for range 2 {
				for _, l := range s.lanes() {
					l.mu.Lock()
					l.seal()
					l.mu.Unlock()
				}
				compact(t, s, c)
			}
			if n := len(s.Stats()); n != 0 {
				t.Errorf("%d extents are left with nothing alive", n)
			}
			if left := names(t, dir); len(left) != 0 {
				t.Errorf("files are left: %v", left)
			}
		})
	}
}

func TestCompactLeavesWhatIsHeld(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), Options{SealSize: 1, Grace: -1})
	c := &catalogue{m: map[string]content{}}
	p := random(1, 5000)

	w := s.NewWriter(5000) // committed, not closed
	w.Write(p)
	slices, err := w.Commit()
	if err != nil {
		t.Fatal(err)
	}
	store(t, s, p) // seals the extent before it
	compact(t, s, c)
	c.m["late"] = content{slices, p}
	w.Close()
	compact(t, s, c)
	c.check(t, s)

	r, err := s.NewReader(slices, 0, 5000)
	if err != nil {
		t.Fatal(err)
	}
	delete(c.m, "late")
	compact(t, s, c)
	if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, p) {
		t.Errorf("an open reader lost its extent: %v", err)
	}
	r.Close()
	compact(t, s, c)
	if _, err := s.NewReader(slices, 0, 5000); !errors.Is(err, ErrNotFound) {
		t.Errorf("a dead extent is still there: %v", err)
	}
}

func TestCompactWaitsForGrace(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), Options{SealSize: 1, Grace: time.Hour})
	slices := store(t, s, []byte("dead"))
	store(t, s, []byte("seals the one before"))
	compact(t, s, &catalogue{})
	compact(t, s, &catalogue{})
	wantContent(t, s, slices, []byte("dead"))
}

func TestCompactDoesNotLaunderDamage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir, Options{})
	c := &catalogue{m: map[string]content{}}
	c.put(t, s, "good", random(1, 1000))
	c.put(t, s, "bad", random(2, 1000))
	c.put(t, s, "dead", random(3, 5000))
	delete(c.m, "dead")
	bad := c.m["bad"].slices[0]
	closeChecked(t, s)

	path := filepath.Join(dir, names(t, dir)[0])
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("damage"), bad.Offset+500); err != nil {
		t.Fatal(err)
	}
	f.Close()

	s, err = Open(dir, Options{Grace: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	_, err = s.Compact(t.Context(), c.owner(), CompactOptions{BytesPerSecond: -1})
	if !errors.Is(err, ErrCorrupt) {
		t.Errorf("damage was not reported: %v", err)
	}
	if c.m["bad"].slices[0] != bad {
		t.Error("damaged content was moved")
	}
	if c.m["good"].slices[0].Extent == bad.Extent {
		t.Error("good content beside it was not moved")
	}
	if err := s.Verify(bad); !errors.Is(err, ErrCorrupt) {
		t.Errorf("the damaged slice: %v", err)
	}
}

// TestCompactUnderLoad runs Compact all the time while contents come, go, are copied and read.
func TestCompactUnderLoad(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), Options{SealSize: 256 << 10, Grace: -1, Relaxed: true})
	c := &catalogue{m: map[string]content{}}
	stop := make(chan struct{})
	var load, background sync.WaitGroup
	background.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			if _, err := s.Compact(t.Context(), c.owner(), CompactOptions{BytesPerSecond: -1, MinLive: 0.9}); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for g := range 4 {
		load.Go(func() {
			rnd := rand.New(rand.NewPCG(7, uint64(g)))
			for i := range 300 {
				key := fmt.Sprint(rnd.IntN(50))
				switch rnd.IntN(4) {
				case 0:
					c.put(t, s, key, random(uint64(g*1000+i), rnd.IntN(20_000)))
				case 1:
					c.mu.Lock()
					delete(c.m, key)
					c.mu.Unlock()
				case 2:
					c.mu.Lock()
					if x, ok := c.m[key]; ok {
						c.m["copy"+key] = x
					}
					c.mu.Unlock()
				case 3:
					c.read(t, s, key)
				}
			}
		})
	}
	load.Wait()
	close(stop)
	background.Wait()
	c.check(t, s)
}

// read reads as a request does: again from the metadata if the extent went away in between.
func (c *catalogue) read(t *testing.T, s *Store, key string) {
	for {
		c.mu.Lock()
		x, ok := c.m[key]
		c.mu.Unlock()
		if !ok {
			return
		}
		r, err := s.NewReader(x.slices, 0, int64(len(x.bytes)))
		if errors.Is(err, ErrNotFound) {
			c.mu.Lock()
			same := slices.Equal(c.m[key].slices, x.slices)
			c.mu.Unlock()
			if same && len(x.slices) > 0 {
				t.Errorf("%s is in the catalogue and gone: %v", key, err)
				return
			}
			continue
		}
		if err != nil {
			t.Error(err)
			return
		}
		got, err := io.ReadAll(r)
		r.Close()
		if err != nil || !bytes.Equal(got, x.bytes) {
			t.Errorf("%s reads wrong: %v", key, err)
		}
		return
	}
}

// A reader that is set back reads on, though what it reads was given up meanwhile: the extents are kept for it. For one
// that is opened again they are not.
func TestResetAfterCompaction(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), Options{Grace: -1})
	defer closeChecked(t, s)
	p := random(1, 3<<20)
	c := &catalogue{m: map[string]content{}}
	c.put(t, s, "x", p)
	list := c.m["x"].slices
	r, err := s.NewReader(list, 0, int64(len(p)))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := io.Copy(io.Discard, r); err != nil {
		t.Fatal(err)
	}
	collect := func() {
		clear(c.m)
		for range 3 {
			for _, l := range s.lanes() {
				l.mu.Lock()
				l.seal()
				l.mu.Unlock()
			}
			compact(t, s, c)
		}
	}
	collect()
	if err := r.Reset(list, 100, int64(len(p))-100); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(r)
	if err != nil || !bytes.Equal(got, p[100:]) {
		t.Errorf("read %d bytes, %v; want the content again", len(got), err)
	}
	if err := r.Reset(list, int64(len(p)), 1); !errors.Is(err, ErrRange) {
		t.Errorf("past the end: %v", err)
	}
	r.Close()
	if err := r.Reset(list, 0, 1); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	collect()
	if _, err := s.NewReader(list, 0, 1); !errors.Is(err, ErrNotFound) {
		t.Errorf("opened again: %v; the test shows nothing", err)
	}
}
