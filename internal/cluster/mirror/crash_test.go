package mirror

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/storage/extent"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/faultdisk"
	"github.com/lazuli-storage/lazuli/internal/test/natscluster"
)

// crashLongVariable makes TestNodeDiesAtEachStep take every operation with every loss, instead of a sample.
const crashLongVariable = "LAZULI_TEST_CRASH_LONG"

// TestNodeDiesAtEachStep runs content through all of its steps on three nodes: written, copied, acknowledged, sealed,
// fetched because a node has missed it or its copy is damaged, part of the log of the metadata, moved by compaction,
// deleted. In each run, one node dies before one of its operations on the disk or after one of the steps: as by
// SIGKILL, or by a power failure that drops all unsynced writes and names, or some of them, or the later ones of each
// file. It starts again from what its disk has then. Everything acknowledged must be on two nodes and readable from
// all, and when the metadata refers to nothing any more, no node keeps a file.
func TestNodeDiesAtEachStep(t *testing.T) {
	t.Parallel()
	url := natscluster.Start(t, 1).URL()
	long := os.Getenv(crashLongVariable) != ""
	for victim, role := range []string{"writer", "follower"} {
		stride := check.Size(23, 11)
		if long {
			stride = 1
		}
		for step := 1; step <= crashSteps; step++ {
			t.Run(fmt.Sprintf("%s, after step %d", role, step), func(t *testing.T) {
				r := newCrashRun(t, url, victim, math.MaxInt, faultdisk.LoseAll)
				r.dieAfter = step
				if !r.run() {
					t.Error("no node died")
				}
			})
		}
		runs := 0
		for n, more := 1+victim*5, true; more; n += stride {
			for loss := range faultdisk.LosesCount {
				if !long && int(loss) != n%int(faultdisk.LosesCount) {
					continue
				}
				t.Run(fmt.Sprintf("%s, operation %d, loss %d", role, n, loss), func(t *testing.T) {
					more = newCrashRun(t, url, victim, n, loss).run()
				})
				runs++
			}
		}
		t.Logf("%s: %d runs", role, runs)
		if runs < 4 {
			t.Errorf("%s: %d runs show nothing", role, runs)
		}
	}
}

// errDied is the error of the operations of a node that has died.
var errDied = errors.New("the node has died")

// crashRun is one run of TestNodeDiesAtEachStep.
type crashRun struct {
	*site
	victim   int
	loss     faultdisk.Loss
	fs       *faultdisk.FS
	disk     *faultdisk.Recorder
	died     atomic.Bool
	steps    int // that have begun
	dieAfter int // a step; 0 means none
	restarts int
	down     atomic.Int32 // nodes that are down

	mu       sync.Mutex // guards the rest
	metadata map[string]stored
	log      []extent.Logged // content that is part of the log of the metadata
	applied  [3]int          // how much of log each node has durably
}

// stored is content that the metadata refers to.
type stored struct {
	list  []extent.Slice
	bytes []byte
}

var crashRuns atomic.Int64

// newCrashRun starts nodes of which one dies before its n-th operation.
func newCrashRun(t *testing.T, url string, victim, n int, loss faultdisk.Loss) *crashRun {
	t.Helper()
	id := crashRuns.Add(1)
	r := &crashRun{victim: victim, loss: loss, fs: &faultdisk.FS{}, metadata: map[string]stored{}}
	r.site = &site{t: t, url: url, sealSize: 16 << 10, majority: func() bool { return r.down.Load() < 2 }}
	for i := range r.nodes {
		r.names = append(r.names, fmt.Sprintf("run%d-n%d", id, i))
		r.nodes[i] = &node{dir: check.MemoryDir(t)}
	}
	r.disk = check.Must(r.fs.Record(r.nodes[victim].dir))(t)
	r.nodes[victim].fs = r.fs
	for i := range r.nodes {
		r.start(i)
	}
	t.Cleanup(func() {
		for i := range r.nodes {
			r.stop(i)
		}
	})
	var count atomic.Int64
	r.fs.SetHook(func(faultdisk.Op) error {
		if count.Add(1) >= int64(n) {
			r.die()
			return errDied
		}
		return nil
	})
	return r
}

// die cuts the victim off. It is called by one of its operations, all of which fail from now on.
func (r *crashRun) die() {
	if r.died.Swap(true) {
		return
	}
	r.down.Add(1)
	m := r.nodes[r.victim].mirror
	m.end()
	m.puts.Close()
	m.asks.Close()
	for i, n := range r.nodes {
		if i == r.victim || n.mirror == nil {
			continue
		}
		// Its answers will not come: do not wait for them as long as for those of a node that is cut off.
		n.mirror.mu.Lock()
		var lost []uint64
		for token, s := range n.mirror.tokens {
			if n.mirror.peers[s.peer].name == r.names[r.victim] {
				lost = append(lost, token)
			}
		}
		n.mirror.mu.Unlock()
		for _, token := range lost {
			n.mirror.settle(token, 0, errDied, false)
		}
	}
}

// step runs one step, and starts the victim again if it has died in it.
func (r *crashRun) step(do func()) {
	r.t.Helper()
	do()
	if r.steps++; r.steps == r.dieAfter {
		r.die()
	}
	if !r.died.Load() {
		return
	}
	v := r.nodes[r.victim]
	v.mirror.Close()
	_ = v.extents.Close() // its operations fail
	v.mirror, v.fs = nil, nil
	dir := check.MemoryDir(r.t)
	check.OK(r.t, r.disk.Image(dir, r.loss, rand.New(rand.NewPCG(uint64(r.loss), 7))))
	v.dir = dir
	r.start(r.victim)
	r.died.Store(false)
	r.restarts++
	r.down.Add(-1)
	r.mu.Lock()
	missed := r.log[r.applied[r.victim]:]
	r.mu.Unlock()
	for _, l := range missed {
		check.OK(r.t, v.extents.PutLogged(l.Key, l.Value))
	}
	for name, c := range r.contents() {
		copies := 0
		for i := range r.nodes {
			if r.nodes[i].mirror == nil && !strings.HasPrefix(name, "missed") || r.nodes[i].mirror != nil && r.has(i, c.list) {
				copies++ // a node that was stopped later may be one of the two
			}
		}
		if copies < 2 {
			r.t.Errorf("%s was acknowledged and is on %d nodes", name, copies)
		}
	}
}

func (r *crashRun) contents() map[string]stored {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.metadata)
}

// try reports whether something succeeded, which may fail only if the victim has died.
func (r *crashRun) try(what string, err error) bool {
	r.t.Helper()
	if err != nil && !r.died.Load() {
		r.t.Errorf("%s: %v", what, err)
	}
	return err == nil
}

// put stores content through a node and adds it to the metadata.
func (r *crashRun) put(i int, name string, size int) {
	r.t.Helper()
	p := random(uint64(len(name))<<8|uint64(name[0]), size)
	list, err := r.write(i, p)
	if r.try("write "+name, err) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.metadata[name] = stored{slices.Clone(list), p}
	}
}

// putLogged is put for content that is part of the log of the metadata, which all nodes apply.
func (r *crashRun) putLogged(i int, name string, size int) {
	r.t.Helper()
	p := random(uint64(name[0]), size)
	w := r.nodes[i].extents.NewWriter(int64(len(p)))
	defer w.Close()
	_, err := w.Write(p)
	var l extent.Logged
	var list []extent.Slice
	if err == nil {
		var ok bool
		if list, l, ok, err = w.CommitLogged(); err == nil && !ok {
			r.t.Errorf("%s is not part of the log", name)
		}
	}
	if !r.try("write "+name, err) {
		return
	}
	l = extent.Logged{Key: slices.Clone(l.Key), Value: slices.Clone(l.Value)}
	r.mu.Lock()
	r.metadata[name] = stored{slices.Clone(list), p}
	r.log = append(r.log, l)
	r.mu.Unlock()
	for _, n := range r.nodes {
		r.try("apply "+name, n.extents.PutLogged(l.Key, l.Value))
	}
}

// checkpoint does what a checkpoint of the metadata does with content of its log.
func (r *crashRun) checkpoint(i int) {
	r.t.Helper()
	e := r.nodes[i].extents
	if r.try("checkpoint", errors.Join(e.SyncLogged(), e.SyncAllPuts())) {
		r.applied[i] = len(r.log)
	}
}

// follow copies what a node lacks.
func (r *crashRun) follow(i int) {
	r.t.Helper()
	n := r.nodes[i]
	for _, p := range n.mirror.peers {
		var seen map[uint64]int64
		for range 2 {
			_, err := n.mirror.catchUp(p, &seen, nil)
			r.try("catch up", err)
		}
	}
	r.try("catch up", n.extents.SyncAllPuts())
}

// compact moves and deletes what no metadata refers to.
func (r *crashRun) compact(i int) {
	r.t.Helper()
	_, err := r.nodes[i].extents.Compact(r.t.Context(), extent.Owner{Refs: r.refs, Move: r.move},
		extent.CompactOptions{MinLive: 0.9, MinSize: -1, BytesPerSecond: -1})
	r.try("compact", err)
}

func (r *crashRun) refs(_ context.Context, yield func(extent.Ref) bool) error {
	for name, c := range r.contents() {
		for _, x := range c.list {
			if !yield(extent.Ref{Slice: x, Key: []byte(name)}) {
				return nil
			}
		}
	}
	return nil
}

func (r *crashRun) move(_ context.Context, moves []extent.Move) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range moves {
		c := r.metadata[string(m.Key)]
		for i, x := range c.list {
			if x == m.From {
				c.list[i] = m.To
			}
		}
	}
	return nil
}

func (r *crashRun) delete(names ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, name := range names {
		delete(r.metadata, name)
	}
}

// readAll reads all content through a node.
func (r *crashRun) readAll(i int) {
	r.t.Helper()
	for name, c := range r.contents() {
		got, err := r.read(i, c.list, len(c.bytes))
		if r.try(fmt.Sprintf("read %s through node %d", name, i), err) && string(got) != string(c.bytes) {
			r.t.Errorf("node %d reads other content of %s", i, name)
		}
	}
}

// damage changes a byte in the middle of the copies of a node.
func (r *crashRun) damage(i int) {
	r.t.Helper()
	for _, path := range check.Must(filepath.Glob(filepath.Join(r.nodes[i].dir, "*")))(r.t) {
		f := check.Must(os.OpenFile(path, os.O_RDWR, 0))(r.t)
		if info, err := f.Stat(); err == nil && info.Size() > 2000 {
			b := make([]byte, 1)
			check.Must(f.ReadAt(b, 1000))(r.t)
			check.Must(f.WriteAt([]byte{b[0] ^ 1}, 1000))(r.t)
		}
		check.OK(r.t, f.Close())
	}
}

// crashSteps is the number of steps of run.
const crashSteps = 14

// run runs all steps. It reports whether the victim died.
func (r *crashRun) run() bool {
	r.step(func() { r.put(0, "large", 40_000); r.put(0, "small", 3000); r.put(1, "other", 5000) })
	r.stop(2)
	r.down.Add(1)
	r.step(func() { r.put(0, "missed", 20_000); r.put(0, "missed too", 2000) })
	r.start(2)
	r.down.Add(-1)
	r.step(func() { r.readAll(2) }) // fetches
	r.step(func() { r.putLogged(0, "logged", 1000); r.putLogged(1, "logged too", 2000) })
	r.step(func() { r.checkpoint(0); r.checkpoint(1) })
	r.checkpoint(2)
	r.damage(1 - r.victim) // a power failure does not undo damage that the recorder has not seen
	r.step(func() { r.readAll(1 - r.victim) })
	r.step(func() {
		for i := range r.nodes {
			r.follow(i)
		}
	})
	r.step(func() { // content that no metadata refers to, since the writer ended before that
		_, err := r.write(0, random(9, 9000))
		r.try("write", err)
	})
	r.delete("small", "other", "missed too")
	for range 2 {
		r.step(func() { r.put(0, "during", 6000); r.compact(0); r.compact(1) })
	}
	for i := range r.nodes {
		r.step(func() { r.follow(i); r.compact(i); r.compact(i) })
	}
	r.step(func() { r.put(1, "late", 2500); r.put(0, "last", 2500) })
	if r.steps != crashSteps {
		r.t.Errorf("%d steps, want %d", r.steps, crashSteps)
	}
	r.fs.SetHook(nil)
	for i := range r.nodes {
		r.readAll(i)
	}
	r.converge()
	for i := range r.nodes {
		for name, c := range r.contents() {
			if !r.has(i, c.list) {
				r.t.Errorf("node %d does not have %s at the end", i, name)
			}
		}
	}
	clear(r.metadata)
	for range 2 {
		r.converge()
		for i := range r.nodes {
			r.compact(i)
			r.compact(i)
		}
	}
	r.converge()
	for i, n := range r.nodes {
		r.compact(i)
		r.compact(i)
		if left := check.Must(filepath.Glob(filepath.Join(n.dir, "*")))(r.t); len(left) > 0 {
			r.t.Errorf("node %d keeps %d files although nothing refers to content: %q", i, len(left), left)
		}
	}
	return r.restarts > 0
}

// converge starts all nodes again, which finishes their extents, and lets them copy what they lack.
func (r *crashRun) converge() {
	r.t.Helper()
	for i := range r.nodes {
		r.stop(i)
		r.start(i)
	}
	for i := range r.nodes {
		r.follow(i)
	}
}
