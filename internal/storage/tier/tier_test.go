package tier

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/fault"
	"github.com/lazuli-storage/lazuli/internal/storage/extent"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/faultdisk"
)

// Content of several times the bound is copied, leaves the disk, and comes back equal; also after a restart.
func TestContentGoesAndComesBack(t *testing.T) {
	t.Parallel()
	for _, key := range [][]byte{nil, bytes.Repeat([]byte{7}, 32)} {
		store := newObjects()
		r := newRig(t, store, func(r *rig) { r.o.Key = key })
		r.fill(40, 300<<10)
		r.copy()
		for range 2 {
			if s := r.tier.Stats(); s.Remote < 8<<20 || s.Local+s.Chunks > r.o.Cache {
				t.Errorf("%d bytes are only in the store, %d and %d here: want less than %d", s.Remote, s.Local, s.Chunks, r.o.Cache)
			}
			r.check()
			var disk int64
			_ = filepath.WalkDir(r.dir, func(path string, e os.DirEntry, err error) error {
				if info, err := e.Info(); err == nil && !e.IsDir() {
					disk += info.Size()
				}
				return err
			})
			if limit := r.o.Cache + 64<<10; disk > limit {
				t.Errorf("the folder has %d bytes, want at most %d", disk, limit)
			}
			r.reopen()
		}
		for name := range store.m {
			if bytes.Contains(store.m[name], r.m["fill0"].bytes[:100]) != (key == nil) && strings.HasSuffix(name,
				idText(r.m["fill0"].slices[0].Extent)) {
				t.Error("content with a key can be read in the store, or cannot without one")
			}
		}
		r.noStrays(store)
	}
}

// Parts of contents are read without the rest of their extents, also if no checksum is known of them.
func TestARangeFetchesLittle(t *testing.T) {
	t.Parallel()
	store := newObjects()
	r := newRig(t, store, func(r *rig) { r.eo.SealSize, r.o.Cache = 32<<20, 1<<30 })
	r.fill(20, 1<<20)
	r.copy()
	r.dropAll()
	x := r.m["fill13"]
	part := x.slices[0].Sub(1000, 5000)
	got, err := r.readSlices([]extent.Slice{part}, 10, 4000)
	if err != nil || !bytes.Equal(got, x.bytes[1010:5010]) {
		t.Fatalf("%v, equal: %v", err, bytes.Equal(got, x.bytes[1010:5010]))
	}
	if s := r.tier.Stats(); s.FetchedBytes > 5<<20 {
		t.Errorf("%d bytes were fetched for 4000", s.FetchedBytes)
	}
	before := r.tier.Stats().Fetched
	if got, err = r.readSlices([]extent.Slice{part}, 0, 5000); err != nil || !bytes.Equal(got, x.bytes[1000:6000]) {
		t.Fatal(err)
	}
	if n := r.tier.Stats().Fetched - before; n > 0 {
		t.Errorf("what was read a moment ago was fetched again, with %d calls", n)
	}
}

// Without the store, content is written, what is on this machine is read, and the rest is unavailable at once. Then all
// goes on.
func TestTheStoreIsGone(t *testing.T) {
	t.Parallel()
	store := newObjects()
	r := newRig(t, store)
	r.fill(40, 300<<10)
	r.copy()
	var remote, local []string
	for key, x := range r.m {
		gone := false
		for _, s := range r.store.Stats() {
			for _, slice := range x.slices {
				gone = gone || s.ID == slice.Extent && s.Remote
			}
		}
		if gone {
			remote = append(remote, key)
		} else {
			local = append(local, key)
		}
	}
	if len(remote) == 0 || len(local) == 0 {
		t.Fatalf("%d contents are only in the store, %d here", len(remote), len(local))
	}
	store.set(errDown)
	for i := range 10 {
		r.put(fmt.Sprint("new", i), random(uint64(100+i), 300<<10))
	}
	for _, key := range append(local, "new3") {
		if got, err := r.read(key); err != nil || !bytes.Equal(got, r.m[key].bytes) {
			t.Errorf("%s is here: %v", key, err)
		}
	}
	before := store.ranges
	for _, key := range remote {
		if _, err := r.read(key); !errors.Is(err, extent.ErrAway) || errors.Is(err, extent.ErrCorrupt) {
			t.Errorf("%s: %v", key, err)
		}
	}
	if n := store.ranges - before; n > 3 {
		t.Errorf("a store that does not answer was asked %d times at once", n)
	}
	if err := r.tier.Copy(t.Context()); !errors.Is(err, errDown) {
		t.Errorf("copy: %v", err)
	}
	if n := r.store.Damages(); n > 0 {
		t.Errorf("%d damages were counted", n)
	}
	r.reopen() // a start does not need the store
	if s := r.tier.Stats(); s.Failing == "" || s.Waiting == 0 {
		t.Errorf("the figures say that all is well: %+v", s)
	}
	store.set(nil)
	r.copy()
	r.check()
	r.noStrays(store)
}

// A store that never answers lets readers wait for the time of the options alone.
func TestTheWaitIsBounded(t *testing.T) {
	t.Parallel()
	store := newObjects()
	r := newRig(t, store)
	r.fill(10, 300<<10)
	r.copy()
	r.dropAll()
	r.tier.o.Timeout = time.Millisecond
	for range fetches {
		r.tier.room <- struct{}{}
	}
	if _, err := r.read("fill1"); !errors.Is(err, extent.ErrAway) {
		t.Errorf("%v", err)
	}
}

// A bit that changed in the store is an error and no wrong byte; in a chunk on this machine it does no harm.
func TestABitIsFlipped(t *testing.T) {
	t.Parallel()
	for _, key := range [][]byte{nil, bytes.Repeat([]byte{7}, 32)} {
		store := newObjects()
		r := newRig(t, store, func(r *rig) { r.o.Key = key })
		r.fill(20, 300<<10)
		r.copy()
		r.dropAll()
		x := r.m["fill4"].slices[0]
		if _, err := r.read("fill4"); err != nil {
			t.Fatal(err)
		}
		chunks, err := filepath.Glob(filepath.Join(r.dir, "tier", chunksFolder, idText(x.Extent)+"-*"))
		if err != nil || len(chunks) == 0 {
			t.Fatalf("there are no chunks: %v", err)
		}
		for _, path := range chunks {
			p, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for i := range p {
				p[i] ^= 0x10
			}
			if err := os.WriteFile(path, p, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		r.check()
		if n := r.store.Damages(); n != 0 {
			t.Errorf("%d damages, and the store is right", n)
		}
		store.m[r.store.FolderID()+"/"+idText(x.Extent)][x.Offset+x.Length/2] ^= 1
		r.tier.Removed(x.Extent)
		if got, err := r.read("fill4"); !errors.Is(err, extent.ErrCorrupt) || len(got) > 0 {
			t.Errorf("%d bytes, %v", len(got), err)
		}
		if r.store.Damages() == 0 {
			t.Error("the damage was not counted")
		}
		if err := r.store.Verify(x); !errors.Is(err, extent.ErrCorrupt) {
			t.Errorf("verify: %v", err)
		}
		// An object that is gone is damage too, and no reason to try again.
		delete(store.m, r.store.FolderID()+"/"+idText(x.Extent))
		if _, err := r.read("fill4"); !errors.Is(err, extent.ErrCorrupt) || errors.Is(err, extent.ErrAway) {
			t.Errorf("%v", err)
		}
	}
}

// What arrived in the store is compared before the file may go.
func TestAWrongObjectIsNotTrusted(t *testing.T) {
	t.Parallel()
	store := newObjects()
	r := newRig(t, store)
	r.fill(4, 300<<10)
	x := r.m["fill1"].slices[0].Extent
	store.m[r.store.FolderID()+"/"+idText(x)] = random(1, 600<<10)
	if err := r.tier.Copy(t.Context()); err == nil {
		t.Error("an object with other content was accepted")
	}
	for _, s := range r.store.Stats() {
		if s.ID == x && s.Sum != "" {
			t.Error("it is noted as the extent")
		}
	}
	r.check()
}

// Extents that are dead, or nearly, leave the store; what lives is fetched and written again.
func TestCompaction(t *testing.T) {
	t.Parallel()
	store := newObjects()
	r := newRig(t, store)
	r.fill(60, 60<<10)
	r.copy()
	r.dropAll()
	before := len(store.extents())
	for key := range r.m {
		if key != "fill7" && key != "fill33" {
			delete(r.m, key)
		}
	}
	r.compact()
	r.check()
	if n := len(store.extents()); n >= before || n > 3 {
		t.Errorf("%d objects of %d are left for two contents", n, before)
	}
	r.noStrays(store)
}

// Objects stay for a while after nothing refers to them.
func TestObjectsStay(t *testing.T) {
	t.Parallel()
	store := newObjects()
	now := time.Now()
	r := newRig(t, store, func(r *rig) { r.o.Keep, r.o.Now = time.Hour, func() time.Time { return now } })
	r.fill(20, 60<<10)
	r.copy()
	before := len(store.extents())
	clear(r.m)
	for range 3 {
		r.compact()
		if n := len(store.extents()); n != before {
			t.Fatalf("%d objects of %d", n, before)
		}
		now = now.Add(20 * time.Minute)
		r.reopen()
	}
	r.compact()
	if n := len(store.extents()); n != 0 {
		t.Errorf("%d objects of %d", n, before)
	}
}

// A process that is killed at any step goes on where it was, and leaves no object that nothing needs.
func TestKilledAtEachStep(t *testing.T) {
	for _, point := range fault.Points() {
		if !strings.HasPrefix(string(point), "tier/") {
			continue
		}
		for nth := 1; nth <= 2; nth++ {
			t.Run(fmt.Sprint(point, nth), func(t *testing.T) {
				store := newObjects()
				r := newRig(t, store)
				r.fill(16, 300<<10)
				r.copy()
				for i := range 16 {
					r.put(fmt.Sprint("more", i), random(uint64(50+i), 300<<10))
				}
				for i := range 12 {
					delete(r.m, fmt.Sprint("fill", i))
				}
				plan := fault.NewPlan(fault.Rule{Point: point, On: nth, Do: fault.Fail(fault.ErrInjected)})
				off := fault.Activate(plan)
				// What follows the point is not done in this process; its folder is copied as it is.
				r.close()
				err := r.tryOpen()
				if err == nil {
					err = r.tier.Copy(t.Context())
				}
				if err == nil {
					_, err = r.store.Compact(t.Context(), extent.Owner{Refs: r.refs, Move: r.move},
						extent.CompactOptions{BytesPerSecond: -1, MinSize: -1})
				}
				if err == nil {
					_, err = r.tier.Sweep(t.Context())
				}
				off()
				if plan.Hits(point) == 0 {
					t.Fatalf("the point was not reached: %v", err)
				}
				killed := filepath.Join(check.MemoryDir(t), "killed")
				if err := os.CopyFS(killed, os.DirFS(r.dir)); err != nil {
					t.Fatal(err)
				}
				if r.store.Close() != nil {
					t.Log("the failed process could not close")
				}
				r.dir = killed
				r.open()
				r.check()
				r.copy()
				r.compact()
				r.compact()
				r.check()
				r.noStrays(store)
				for name, n := range store.created {
					if n > 1 {
						t.Errorf("%s was written %d times", name, n)
					}
				}
			})
		}
	}
}

// Before each write, sync and rename of a run, a power failure may lose what was not synced. Nothing that was committed
// is missing then, also if the file of its extent is gone.
func TestCrashImages(t *testing.T) {
	t.Parallel()
	store := newObjects()
	r := newRig(t, store)
	r.close()
	fsys := &faultdisk.FS{}
	recorder, err := fsys.Record(filepath.Join(r.dir, "extents"))
	if err != nil {
		t.Fatal(err)
	}
	r.eo.FS = fsys
	r.open()
	scratch, rng, images := check.MemoryDir(t), rand.New(rand.NewPCG(1, 2)), 0
	look := func(what string) {
		for _, loss := range faultdisk.LossesAt(images) {
			images++
			to := filepath.Join(scratch, fmt.Sprint(images))
			if err := recorder.Image(filepath.Join(to, "extents"), loss, rng); err != nil {
				t.Fatal(err)
			}
			after := &rig{t: t, dir: to, m: r.m, o: r.o, eo: r.eo}
			after.eo.FS = nil
			there := newObjects()
			for _, name := range store.extents() {
				there.m[name] = store.m[name]
			}
			after.o.Objects = there
			if err := after.tryOpen(); err != nil {
				t.Fatalf("%s, loss %d: %v", what, loss, err)
			}
			after.check()
			after.close()
			if err := os.RemoveAll(to); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i := range check.Size(6, 12) {
		r.put(fmt.Sprint(i), random(uint64(i), 300<<10))
		r.reopen()
		fsys.SetHook(func(op faultdisk.Op) error {
			look(fmt.Sprint("before ", op.Kind, " of ", filepath.Base(op.Name)))
			return nil
		})
		r.copy()
		for _, x := range r.store.Stats() {
			if _, err := r.store.Drop(x.ID); err != nil {
				t.Fatal(err)
			}
		}
		fsys.SetHook(nil)
		look("between")
	}
	if images < 40 {
		t.Errorf("%d images: the test shows nothing", images)
	}
	t.Logf("%d images", images)
}

// Two folders with one identity do not both write, another store or key is refused, and a start that died before its
// object was created goes on.
func TestClaims(t *testing.T) {
	t.Parallel()
	store := newObjects()
	r := newRig(t, store)
	r.fill(4, 300<<10)
	r.copy()
	r.close()
	second := &rig{t: t, dir: filepath.Join(check.MemoryDir(t), "second"), m: r.m, o: r.o, eo: r.eo}
	if err := os.CopyFS(second.dir, os.DirFS(r.dir)); err != nil {
		t.Fatal(err)
	}
	r.open()
	if err := second.tryOpen(); !errors.Is(err, ErrOwned) {
		t.Errorf("the copy of a folder that was started again: %v", err)
	}
	r.close()
	for name, change := range map[string]func(*Options){
		"another store": func(o *Options) { o.Objects = newObjects() },
		"a key":         func(o *Options) { o.Key = make([]byte, 32) },
	} {
		o := r.o
		change(&r.o)
		if err := r.tryOpen(); !errors.Is(err, ErrNotPlace) && !errors.Is(err, ErrKey) {
			t.Errorf("%s: %v", name, err)
		}
		r.o = o
	}
	// A copy that is started while the first one runs ends what that one does.
	r.open()
	r.tier.state.Nonce = "that of another one"
	if _, err := r.tier.Sweep(t.Context()); !errors.Is(err, ErrOwned) {
		t.Errorf("a sweep beside a copy: %v", err)
	}
	r.put("late", random(9, 300<<10))
	if _, err := r.store.Compact(t.Context(), extent.Owner{Refs: r.refs, Move: r.move},
		extent.CompactOptions{}); err != nil { // it finishes what is being written
		t.Fatal(err)
	}
	if err := r.tier.Copy(t.Context()); !errors.Is(err, ErrOwned) {
		t.Errorf("a copy beside a copy: %v", err)
	}
}

// A folder of which extents are only in the store does not open without it.
func TestTheTierIsNeeded(t *testing.T) {
	t.Parallel()
	store := newObjects()
	r := newRig(t, store)
	r.fill(4, 300<<10)
	r.copy()
	r.dropAll()
	r.close()
	if s, err := extent.Open(filepath.Join(r.dir, "extents"), extent.Options{}); !errors.Is(err, extent.ErrNoTier) {
		if err == nil {
			_ = s.Close()
		}
		t.Errorf("%v", err)
	}
	// A node of a cluster has other objects.
	s, err := extent.Open(filepath.Join(r.dir, "extents"), extent.Options{Tier: r.tier, Mirrored: true})
	if !errors.Is(err, extent.ErrAloneTier) {
		if err == nil {
			_ = s.Close()
		}
		t.Errorf("as that of a node: %v", err)
	}
	if problems, err := extent.Verify(filepath.Join(r.dir, "extents")); err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
	r.open()
	r.check()
}

// A long random run is equal to a map: contents are put and deleted, extents are copied, dropped and compacted, the
// store goes and comes back, and the process starts again.
func TestModel(t *testing.T) {
	t.Parallel()
	store := newObjects()
	r := newRig(t, store)
	rng := rand.New(rand.NewPCG(11, 5))
	down := false
	for i := range check.Size(400, 3000) {
		key := fmt.Sprint("k", rng.IntN(60))
		switch rng.IntN(12) {
		case 0, 1, 2, 3:
			r.put(key, random(uint64(i), 1+rng.IntN(200<<10)))
		case 4, 5:
			delete(r.m, key)
		case 6:
			if err := r.tier.Copy(t.Context()); (err != nil) != down && err != nil {
				t.Fatal(err)
			}
		case 7:
			for _, x := range r.store.Stats() {
				if _, err := r.store.Drop(x.ID); err != nil {
					t.Fatal(err)
				}
			}
		case 8:
			if down = rng.IntN(3) == 0; down {
				store.set(errDown)
			} else {
				store.set(nil)
				r.tier.down.Store(0)
			}
		case 9:
			r.reopen()
		case 10:
			_, err := r.store.Compact(t.Context(), extent.Owner{Refs: r.refs, Move: r.move},
				extent.CompactOptions{BytesPerSecond: -1, MinSize: 10_000})
			if err != nil && !(down && errors.Is(err, extent.ErrAway)) {
				t.Fatal(err)
			}
			if _, err := r.tier.Sweep(t.Context()); err != nil && !down {
				t.Fatal(err)
			}
		default:
			got, err := r.read(key)
			switch {
			case down && errors.Is(err, extent.ErrAway):
			case err != nil || !bytes.Equal(got, r.m[key].bytes):
				t.Fatalf("step %d: %s: %v, equal: %v", i, key, err, bytes.Equal(got, r.m[key].bytes))
			}
		}
	}
	store.set(nil)
	r.tier.down.Store(0)
	r.reopen()
	r.copy()
	r.dropAll()
	r.check()
	r.compact()
	r.noStrays(store)
}
