package maintain

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/lazuli-storage/lazuli/internal/cluster/mirror"
	"github.com/lazuli-storage/lazuli/internal/state/blob/content"
	"github.com/lazuli-storage/lazuli/internal/state/blob/encryption"
	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
	"github.com/lazuli-storage/lazuli/internal/state/blob/replica"
	"github.com/lazuli-storage/lazuli/internal/storage/extent"
	"github.com/lazuli-storage/lazuli/internal/storage/replog"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/natscluster"
)

// hosts are nodes that have a shard or may get it, with their maintenance.
type hosts struct {
	t     *testing.T
	c     *natscluster.Cluster
	nodes map[string]*replica.Node
	work  map[string]*Maintenance
	now   time.Time
}

// open opens a node that copies from the others what it lacks. Extents without references are deleted at once.
func (h *hosts) open(name string) {
	h.t.Helper()
	dir, quiet := h.t.TempDir(), slog.New(slog.DiscardHandler)
	log := check.Must(replog.Open(h.t.Context(),
		replog.Config{Conn: h.c.Conn(h.t, 0), Name: "blobs", Timeout: time.Minute, Log: quiet}))(h.t)
	scopes := check.Must(encryption.OpenScopes("", func(string) []string { return nil }))(h.t)
	n := check.Must(replica.Open(replica.Config{Path: filepath.Join(dir, "blobs.db"),
		Extents: filepath.Join(dir, "extents"), Grace: -1, Scopes: scopes,
		Cluster: &replica.Cluster{Log: log, Node: name + ".1", Spread: true,
			Mirror: mirror.Config{Connect: func() (*nats.Conn, error) { return nats.Connect(h.c.URL()) }, Node: name,
				Nodes: []string{"a", "b", "c"}, CatchUpEvery: 20 * time.Millisecond, Timeout: time.Minute, Log: quiet}}}))(h.t)
	h.nodes[name], h.work[name] = n, New(n, nil)
	h.t.Cleanup(func() { check.OK(h.t, n.Close()) })
}

// write stores content at a node, to which a block refers.
func (h *hosts) write(node, name string, p []byte) {
	h.t.Helper()
	w := h.nodes[node].Extents.NewWriter(int64(len(p)))
	defer w.Close()
	check.Must(w.Write(p))(h.t)
	h.block(node, name, check.Must(w.Commit())(h.t))
}

// block makes a block refer to content, or deletes it.
func (h *hosts) block(node, name string, list []extent.Slice) {
	h.t.Helper()
	check.OK(h.t, h.nodes[node].DB.Update(func(tx *store.Tx) error {
		if key := record.BlockKey(1, name); list == nil {
			tx.Delete(record.BlocksBucket, key)
		} else {
			piece := content.Piece{Slices: list}
			for _, x := range list {
				piece.Length += x.Length
			}
			tx.Put(record.BlocksBucket, key, record.EncodeBlock(piece))
		}
		return nil
	}))
}

// due calls CompactDue at a node, at a time when it is due if there is anything to do.
func (h *hosts) due(node string, worker bool) {
	h.t.Helper()
	h.now = h.now.Add(compactEvery + time.Second)
	check.OK(h.t, h.work[node].CompactDue(h.t.Context(), h.now, false, worker))
}

// references returns what the records refer to, as a node sees it.
func (h *hosts) references(node string) (list []extent.Slice) {
	h.t.Helper()
	check.OK(h.t, h.nodes[node].References(h.t.Context(), func(r extent.Ref) bool {
		list = append(list, r.Slice)
		return true
	}))
	return list
}

// The writer of an extent leaves the shard. What is deleted from the extent afterwards comes back on each of the
// others: one of them, the worker, rewrites what is left, and all delete the extent.
func TestExtentsOfANodeThatHasLeftAreCompacted(t *testing.T) {
	t.Parallel()
	h := &hosts{t: t, c: natscluster.Start(t, 1), nodes: map[string]*replica.Node{}, work: map[string]*Maintenance{},
		now: now}
	for _, name := range []string{"a", "b", "c"} {
		h.open(name)
	}
	kept, deleted := bytes.Repeat([]byte("kept"), 20_000), bytes.Repeat([]byte("deleted"), 10_000)
	h.write("a", "kept", kept)
	for i := range 10 { // small enough for one extent
		h.write("a", fmt.Sprint("deleted", i), deleted)
	}

	check.OK(t, h.nodes["b"].Join(1, []string{"a", "b", "c"}, "a", "d"))
	h.open("d")
	check.Eventually(t, func() bool {
		lacking, err := h.nodes["d"].Missing()
		return err == nil && lacking() == 0
	}, "the new node has everything")
	check.OK(t, h.nodes["d"].Complete(1))
	check.OK(t, h.nodes["b"].Leave(1))
	h.nodes["a"].Interrupt() // as a node that has ended

	names := []string{"b", "c", "d"}
	for i := range 10 {
		h.block("b", fmt.Sprint("deleted", i), nil)
	}
	for _, name := range names {
		check.Eventually(t, func() bool {
			h.due(name, false)
			return h.work[name].compactions.Load() > 0 && h.nodes[name].Extents.Releases() > 0
		}, "node %s compacts", name)
		h.due(name, false)
		if h.nodes[name].Extents.Size() < int64(10*len(deleted)) {
			t.Fatalf("node %s, which is not the worker, has given the space back", name)
		}
	}
	// The worker moves what is left, and the others see by its list that nothing refers to the extent any more.
	check.Eventually(t, func() bool {
		h.due("d", true)
		for _, name := range names {
			h.due(name, name == "d")
		}
		for _, name := range names {
			if h.nodes[name].Extents.Size() > int64(10*len(deleted)) {
				return false
			}
		}
		return true
	}, "the space comes back on all nodes")
	if moved := h.work["d"].moved.Load(); moved != int64(len(kept)) {
		t.Errorf("the worker has moved %d bytes, want %d", moved, len(kept))
	}
	for _, name := range names {
		x := h.references(name)
		r := check.Must(h.nodes[name].Extents.NewReader(x, 0, int64(len(kept))))(t)
		if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, kept) {
			t.Errorf("node %s reads %d bytes, error %v", name, len(got), err)
		}
		r.Close()
	}
}

// A node that becomes the worker looks for extents of nodes that are gone, though nothing was deleted since.
func TestANewWorkerCompacts(t *testing.T) {
	t.Parallel()
	h := &hosts{t: t, c: natscluster.Start(t, 1), nodes: map[string]*replica.Node{}, work: map[string]*Maintenance{},
		now: now}
	h.open("a")
	h.due("a", false)
	h.due("a", false)
	for i, worker := range []bool{false, true, true, false, true} {
		before := h.work["a"].compactions.Load()
		h.nodes["a"].Freed.Store(0)
		became := worker && !h.work["a"].compaction.worker
		h.due("a", worker)
		if now := h.work["a"].compactions.Load(); now > before != became {
			t.Errorf("%d: %d compactions, %d before", i, now, before)
		}
	}
}
