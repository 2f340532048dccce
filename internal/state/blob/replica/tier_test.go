package replica

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/lazuli-storage/lazuli/internal/cluster/mirror"
	"github.com/lazuli-storage/lazuli/internal/state/blob/content"
	"github.com/lazuli-storage/lazuli/internal/state/blob/encryption"
	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
	"github.com/lazuli-storage/lazuli/internal/storage/extent"
	"github.com/lazuli-storage/lazuli/internal/storage/replog"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/tier"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/natscluster"
)

// sharedObjects is an object store in memory.
type sharedObjects struct {
	mu         sync.Mutex // guards what follows
	m          map[string][]byte
	created    map[string]int
	refused    map[string]int // while the store was down
	down, flip bool
}

func newSharedObjects() *sharedObjects {
	return &sharedObjects{m: map[string][]byte{}, created: map[string]int{}, refused: map[string]int{}}
}

var errAway = errors.New("the store is down")

func (o *sharedObjects) String() string { return "memory" }

func (o *sharedObjects) Create(_ context.Context, name string, content io.ReaderAt, size int64) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.down {
		o.refused[name]++
		return errAway
	}
	p := make([]byte, size)
	if n, err := content.ReadAt(p, 0); int64(n) < size {
		return err
	}
	switch {
	case o.m[name] != nil:
		return tier.ErrExists
	}
	o.m[name] = p
	o.created[name]++
	return nil
}

func (o *sharedObjects) Range(_ context.Context, name string, off int64, p []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	stored, ok := o.m[name]
	switch {
	case o.down:
		return errAway
	case !ok:
		return tier.ErrAbsent
	case off+int64(len(p)) > int64(len(stored)):
		return io.ErrUnexpectedEOF
	}
	copy(p, stored[off:])
	for i := 500; o.flip && i < len(p); i += 1000 {
		p[i] ^= 1
	}
	return nil
}

func (o *sharedObjects) List(_ context.Context, prefix string, fn func(string, int64) error) error {
	o.mu.Lock()
	down, m := o.down, maps.Clone(o.m)
	o.mu.Unlock()
	if down {
		return errAway
	}
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if strings.HasPrefix(name, prefix) {
			if err := fn(name, int64(len(m[name]))); err != nil {
				return err
			}
		}
	}
	return nil
}

func (o *sharedObjects) Remove(_ context.Context, name string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.down {
		return errAway
	}
	delete(o.m, name)
	return nil
}

func (o *sharedObjects) set(down, flip bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.down, o.flip = down, flip
}

// tries returns how often the object of an extent was refused.
func (o *sharedObjects) tries(id uint64) (n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for name, times := range o.refused {
		if strings.HasSuffix(name, fmt.Sprintf("/%016x", id)) {
			n += times
		}
	}
	return n
}

// extents returns the ids of the objects with content, and their size together.
func (o *sharedObjects) extents() (ids []string, size int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(o.m)) {
		if id := name[strings.IndexByte(name, '/')+1:]; len(id) == 16 {
			ids, size = append(ids, id), size+int64(len(o.m[name]))
		}
	}
	return ids, size
}

// tieredNodes are nodes of a cluster whose tier is one object store, and what they have stored.
type tieredNodes struct {
	t       *testing.T
	c       *natscluster.Cluster
	objects *sharedObjects
	key     []byte
	dirs    map[string]string
	nodes   map[string]*Node
	names   []string     // of those that belong to the cluster
	ahead   atomic.Int64 // by how much the clock of the tier is
	random  *rand.Rand

	mu sync.Mutex // guards m
	m  map[string]tieredContent
}

type tieredContent struct {
	slices []extent.Slice
	bytes  []byte
}

// tierBound is the bound of the content on the disk of a node.
const tierBound = 2 << 20

func newTieredNodes(t *testing.T) *tieredNodes {
	r := &tieredNodes{t: t, c: natscluster.Start(t, 1), objects: newSharedObjects(), dirs: map[string]string{},
		nodes: map[string]*Node{}, names: []string{"a", "b", "c"}, random: rand.New(rand.NewPCG(4, 2)),
		m: map[string]tieredContent{}}
	t.Cleanup(func() {
		for _, name := range slices.Collect(maps.Keys(r.nodes)) {
			r.close(name)
		}
	})
	r.open(r.names...)
	return r
}

func (r *tieredNodes) open(names ...string) {
	r.t.Helper()
	for _, name := range names {
		check.OK(r.t, r.tryOpen(name, r.objects, r.key))
	}
}

func (r *tieredNodes) tryOpen(name string, objects tier.Objects, key []byte) error {
	r.t.Helper()
	if r.dirs[name] == "" {
		r.dirs[name] = check.MemoryDir(r.t)
	}
	dir, quiet := r.dirs[name], slog.New(slog.DiscardHandler)
	log := check.Must(replog.Open(r.t.Context(),
		replog.Config{Conn: r.c.Conn(r.t, 0), Name: "blobs", Timeout: time.Minute, Log: quiet}))(r.t)
	scopes := check.Must(encryption.OpenScopes("", func(string) []string { return nil }))(r.t)
	members := slices.Clone(r.names)
	n, err := Open(Config{Path: filepath.Join(dir, "blobs.db"), Extents: filepath.Join(dir, "extents"), Scopes: scopes,
		Grace: -1, Tier: &tier.Options{Objects: objects, Dir: filepath.Join(dir, "tier"), Cache: tierBound, Least: 1,
			Key: key, Log: quiet, Now: func() time.Time { return time.Now().Add(time.Duration(r.ahead.Load())) }},
		Cluster: &Cluster{Log: log, Node: name, Members: func() []string { return members },
			Mirror: mirror.Config{Connect: func() (*nats.Conn, error) { return nats.Connect(r.c.URL()) }, Node: name,
				Nodes: members, CatchUpEvery: 50 * time.Millisecond, BytesPerSecond: -1, Log: quiet}}})
	if err == nil {
		r.nodes[name] = n
	}
	return err
}

func (r *tieredNodes) close(name string) {
	check.OK(r.t, r.nodes[name].Close())
	delete(r.nodes, name)
}

// any returns one of the nodes that run.
func (r *tieredNodes) any() *Node {
	running := slices.Sorted(maps.Keys(r.nodes))
	return r.nodes[running[r.random.IntN(len(running))]]
}

func (r *tieredNodes) put(n *Node, key string, size int) {
	r.t.Helper()
	p := make([]byte, size)
	for i := range p {
		p[i] = byte(r.random.Uint32())
	}
	w := n.Extents.NewWriter(int64(size))
	defer w.Close()
	_, err := w.Write(p)
	list, err2 := w.Commit()
	check.OK(r.t, errors.Join(err, err2))
	check.OK(r.t, n.DB.Update(func(tx *store.Tx) error {
		tx.Put(record.BlocksBucket, []byte(key), record.EncodeBlock(content.Piece{Length: int64(size), Slices: list}))
		return nil
	}))
	r.mu.Lock()
	defer r.mu.Unlock()
	r.m[key] = tieredContent{list, p}
}

func (r *tieredNodes) delete(key string) {
	r.t.Helper()
	check.OK(r.t, r.any().DB.Update(func(tx *store.Tx) error {
		tx.Delete(record.BlocksBucket, []byte(key))
		return nil
	}))
	delete(r.m, key)
}

func (r *tieredNodes) read(n *Node, key string) ([]byte, error) {
	var block content.Piece
	err := n.DB.View(func(tx *store.Tx) (err error) {
		block, err = record.DecodeBlock(tx.Get(record.BlocksBucket, []byte(key)))
		return err
	})
	if err != nil {
		return nil, err
	}
	in, err := n.Extents.NewReader(block.Slices, 0, block.Length)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	var out bytes.Buffer
	_, err = in.WriteTo(&out)
	return out.Bytes(), err
}

// check reads everything on each node.
func (r *tieredNodes) check(when string) {
	r.t.Helper()
	for name, n := range r.nodes {
		for key, want := range r.m {
			if got, err := r.read(n, key); err != nil || !bytes.Equal(got, want.bytes) {
				r.t.Fatalf("%s, node %s: %s: %v, equal: %v", when, name, key, err, bytes.Equal(got, want.bytes))
			}
		}
	}
}

// settle waits until all that is finished is in the store, and the nodes hold no more than they may.
func (r *tieredNodes) settle(when string) {
	r.t.Helper()
	for name, n := range r.nodes {
		check.Eventually(r.t, func() bool {
			s := n.Tier.Stats()
			missing, known := n.Behind()
			return s.Waiting == 0 && s.Local+s.Chunks <= tierBound && known && missing == 0 && s.Failing == ""
		}, "%s: node %s has %+v", when, name, n.Tier.Stats())
	}
}

func (r *tieredNodes) compact(n *Node) {
	r.t.Helper()
	_, err := n.Extents.Compact(r.t.Context(), extent.Owner{Refs: n.References, Move: func(_ context.Context,
		moves []extent.Move) error {
		return n.DB.Update(func(tx *store.Tx) error {
			for _, m := range moves {
				if err := record.MoveAt(tx, m.Key[0], m.Key[1:], m.From, m.To); err != nil {
					return err
				}
			}
			return nil
		})
	}}, extent.CompactOptions{BytesPerSecond: -1, MinSize: -1})
	check.OK(r.t, err)
}

// removeUnneeded compacts and sweeps on all nodes over a day, until the store has what the log says, and nothing else.
func (r *tieredNodes) removeUnneeded(when string) {
	r.t.Helper()
	var got, want []string
	check.Eventually(r.t, func() bool {
		for _, n := range r.nodes {
			r.compact(n)
			check.Must(n.Tier.Sweep(r.t.Context()))(r.t)
		}
		r.ahead.Add(int64(13 * time.Hour))
		got, _ = r.objects.extents()
		want = nil
		check.OK(r.t, r.any().DB.View(func(tx *store.Tx) error {
			return record.EachTiered(tx, func(id uint64, _ record.Tiered) error {
				want = append(want, fmt.Sprintf("%016x", id))
				return nil
			})
		}))
		live := map[uint64]bool{}
		for _, n := range r.nodes {
			for _, x := range n.Extents.Stats() {
				live[x.ID] = true
			}
		}
		return slices.Equal(got, want) && len(live) >= len(want)
	}, "%s: the store has %v, the log %v", when, got, want)
}

// Three nodes share one object for each extent. Content leaves all disks, comes back equal, also after a restart, on a
// node that was away, and on one that is new and copies none of it; the node before that is gone for good. Without the
// store, writes go on; a bit that changed in it is an error. In the end it has no object that nothing needs.
func TestNodesShareATier(t *testing.T) {
	t.Parallel()
	r := newTieredNodes(t)
	const blobs, size = 48, 300_000
	fill := func(what string, n int) {
		t.Helper()
		for i := range n {
			r.put(r.any(), fmt.Sprint(what, i), size)
		}
		r.settle(what)
	}
	fill("first", blobs)
	if _, stored := r.objects.extents(); stored < blobs*size*3/4 || stored > blobs*size*5/4 {
		t.Errorf("%d bytes are stored for %d", stored, blobs*size)
	}
	for name, n := range r.objects.created {
		if n != 1 {
			t.Errorf("%s was created %d times", name, n)
		}
	}
	r.check("all are there")

	r.close("b")
	fill("without b", blobs/4)
	r.check("b is away")
	r.open("b")
	r.settle("b is back")
	r.check("b is back")

	// The folder of c is lost: d takes its place.
	r.close("c")
	r.names = []string{"a", "b", "d"}
	for _, name := range []string{"a", "b"} {
		r.close(name)
	}
	r.open(r.names...)
	r.settle("d is new")
	var copied int64
	for _, x := range r.nodes["d"].Extents.Stats() {
		if !x.Remote {
			copied += x.Size
		}
	}
	if copied > blobs*size/4 {
		t.Errorf("a new node has copied %d bytes, which the store has", copied)
	}
	r.check("d is new")

	r.objects.set(true, false)
	for i := range 6 {
		r.put(r.any(), fmt.Sprint("while away", i), size)
	}
	failed := map[error]int{}
	each := func(want error) {
		t.Helper()
		clear(failed)
		for _, n := range r.nodes {
			for key, x := range r.m {
				switch got, err := r.read(n, key); {
				case err == nil && bytes.Equal(got, x.bytes):
				case err != nil && errors.Is(err, want) && bytes.HasPrefix(x.bytes, got):
					failed[want]++
				default:
					t.Errorf("%s: %d bytes, %v", key, len(got), err)
				}
			}
		}
		if failed[want] == 0 {
			t.Errorf("no read failed with %v: the test shows nothing", want)
		}
	}
	each(extent.ErrAway)
	r.objects.set(false, true)
	r.ahead.Add(int64(time.Minute)) // the store is asked again
	each(extent.ErrCorrupt)
	r.objects.set(false, false)
	r.settle("the store is back")
	r.check("the store is back")

	for key := range maps.Clone(r.m) {
		if r.random.IntN(3) > 0 {
			r.delete(key)
		}
	}
	r.removeUnneeded("after deletions")
	r.check("after deletions")
	for key := range maps.Clone(r.m) {
		r.delete(key)
	}
	r.removeUnneeded("after all was deleted")
	if ids, _ := r.objects.extents(); len(ids) > 0 {
		t.Errorf("%d objects are left of no content", len(ids))
	}
}

// A node with another store or key does not start, nor one without a tier whose content is only there.
func TestNodesAgreeOnTheTier(t *testing.T) {
	t.Parallel()
	r := newTieredNodes(t)
	for i := range 12 {
		r.put(r.nodes["a"], fmt.Sprint("x", i), 300_000)
	}
	r.settle("all are there")
	r.close("a")
	if err := r.tryOpen("a", newSharedObjects(), nil); !errors.Is(err, tier.ErrNotPlace) {
		t.Errorf("with another store: %v", err)
	}
	if err := r.tryOpen("a", r.objects, make([]byte, 32)); !errors.Is(err, tier.ErrKey) {
		t.Errorf("with a key: %v", err)
	}
	r.open("a")
	r.check("after all")
}

// What is damaged on the disk of the node that copies an extent is replaced by what others have before it becomes what
// all have.
func TestDamageIsRepairedBeforeTheCopy(t *testing.T) {
	t.Parallel()
	r := newTieredNodes(t)
	r.objects.set(true, false)
	r.put(r.nodes["a"], "x", 300_000)
	x := r.m["x"].slices[0]
	r.compact(r.nodes["a"]) // it finishes what is being written
	// The damage comes between two tries, which are seconds apart: one under way has looked at the file before it, and
	// would copy it after it.
	check.Eventually(t, func() bool { return r.objects.tries(x.Extent) >= 2 }, "the extent waits for the store")
	path := filepath.Join(r.dirs["a"], "extents", fmt.Sprintf("%016x.extent", x.Extent))
	f := check.Must(os.OpenFile(path, os.O_RDWR, 0))(t)
	one := make([]byte, 1)
	check.Must(f.ReadAt(one, x.Offset+1000))(t)
	one[0] ^= 4
	check.Must(f.WriteAt(one, x.Offset+1000))(t)
	check.OK(t, f.Close())
	r.objects.set(false, false)
	r.ahead.Add(int64(time.Hour))
	check.Eventually(t, func() bool {
		for _, s := range r.nodes["b"].Extents.Stats() {
			if s.ID == x.Extent && s.Sum != "" {
				return true
			}
		}
		return false
	}, "the extent is in the store")
	for _, n := range r.nodes {
		check.Eventually(t, func() bool { _, err := n.Extents.Drop(x.Extent); return err == nil }, "the file goes")
	}
	r.check("from the store")
}
