package replica

import (
	"bytes"
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/lazuli-storage/lazuli/internal/cluster/mirror"
	"github.com/lazuli-storage/lazuli/internal/state/blob/encryption"
	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
	"github.com/lazuli-storage/lazuli/internal/storage/extent"
	"github.com/lazuli-storage/lazuli/internal/storage/replog"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/natscluster"
)

// hosting are the nodes a, b, c and d, of which three have a shard.
type hosting struct {
	t     *testing.T
	c     *natscluster.Cluster
	dirs  map[string]string
	nodes map[string]*Node
	// replaced is a node that was removed, and has joined with a new folder; "" for none.
	replaced string
	grace    time.Duration // of the nodes that are opened from now on
}

var hostNames = []string{"a", "b", "c"}

func newHosting(t *testing.T) *hosting {
	h := &hosting{t: t, c: natscluster.Start(t, 1), dirs: map[string]string{}, nodes: map[string]*Node{}}
	t.Cleanup(func() {
		for name := range h.nodes {
			h.close(name)
		}
	})
	h.open("a", "b", "c")
	return h
}

// folder is the name of a node's folder in the cluster.
func (h *hosting) folder(name string) string {
	if name == h.replaced {
		return name + ".2"
	}
	return name + ".1"
}

// folders are those of all nodes.
func (h *hosting) folders() (names []string) {
	for _, name := range []string{"a", "b", "c", "d"} {
		names = append(names, h.folder(name))
	}
	return names
}

// try opens a node that copies content by itself only if every is positive.
func (h *hosting) try(name string, every time.Duration) error {
	if h.dirs[name] == "" {
		h.dirs[name] = h.t.TempDir()
	}
	quiet := slog.New(slog.DiscardHandler)
	log := check.Must(replog.Open(h.t.Context(),
		replog.Config{Conn: h.c.Conn(h.t, 0), Name: "blobs", Timeout: time.Minute, Log: quiet}))(h.t)
	scopes := check.Must(encryption.OpenScopes("", func(string) []string { return nil }))(h.t)
	n, err := Open(Config{Path: filepath.Join(h.dirs[name], "blobs.db"), Extents: filepath.Join(h.dirs[name], "extents"),
		Grace: h.grace, Scopes: scopes, Cluster: &Cluster{Log: log, Node: h.folder(name), Members: h.folders, Spread: true,
			Mirror: mirror.Config{Connect: func() (*nats.Conn, error) { return nats.Connect(h.c.URL()) }, Node: name,
				Nodes: hostNames, CatchUpEvery: every, Timeout: 10 * time.Second, Log: quiet}}})
	if err == nil {
		h.nodes[name] = n
	}
	return err
}

func (h *hosting) open(names ...string) {
	h.t.Helper()
	for _, name := range names {
		check.OK(h.t, h.try(name, -1))
	}
}

func (h *hosting) close(names ...string) {
	h.t.Helper()
	for _, name := range names {
		check.OK(h.t, h.nodes[name].Close())
		delete(h.nodes, name)
	}
}

// hold writes content at a node, and leaves the writer open, as before a reference to it.
func (h *hosting) hold(name string) (*extent.Writer, []extent.Slice) {
	h.t.Helper()
	w := h.nodes[name].Extents.NewWriter(100_000)
	check.Must(w.Write(bytes.Repeat([]byte("content"), 10_000)))(h.t)
	return w, check.Must(w.Commit())(h.t)
}

// has reports whether a node has content of its own.
func (h *hosting) has(name string, list []extent.Slice) bool {
	for _, x := range list {
		if _, _, err := h.nodes[name].Extents.Record(x); err != nil {
			return false
		}
	}
	return true
}

// refer changes the metadata, as a record that refers to content does.
func (h *hosting) refer(name string) error {
	return h.nodes[name].DB.Update(func(tx *store.Tx) error {
		tx.Put(record.MetaBucket, []byte("reference"), []byte(name))
		return nil
	})
}

// refers waits until a node can refer to content: on a busy machine the others may not acknowledge it in time.
func (h *hosting) refers(name string) {
	h.t.Helper()
	check.Eventually(h.t, func() bool {
		err := h.refer(name)
		if err != nil && !errors.Is(err, store.ErrUnavailable) {
			h.t.Fatal(err)
		}
		return err == nil
	}, "node %s refers to content", name)
}

// Content that a majority of the old nodes has, and no majority of the new ones, is written again before a record
// refers to it behind the one that says that the old node has left; and the record is refused while that cannot be.
func TestContentWhileHostsChange(t *testing.T) {
	t.Parallel()
	h := newHosting(t)
	check.OK(t, h.nodes["b"].Join(1, hostNames, "a", "d"))
	check.OK(t, h.nodes["c"].Join(1, hostNames, "a", "d")) // again, and another node
	h.refers("b")                                          // learns of it
	h.close("c")
	w, list := h.hold("b")
	defer w.Close()
	if !h.has("a", list) {
		t.Fatal("no majority of the old nodes has the content")
	}
	h.open("c", "d")
	check.OK(t, h.nodes["d"].Complete(1))
	h.close("d", "c")
	err := h.refer("b")
	h.open("c", "d")
	// What was sent to c while it was closed is sent again for a while, and may have arrived before c was closed again.
	if arrived := h.has("c", list) || h.has("d", list); !arrived && !errors.Is(err, store.ErrUnavailable) {
		t.Fatalf("a reference to content that no majority of the new nodes has: %v", err)
	}
	h.refers("b")
	if !h.has("c", list) && !h.has("d", list) {
		t.Error("a record refers to content that one of the new nodes has")
	}
	check.OK(t, h.nodes["c"].Leave(1))
	check.OK(t, h.nodes["b"].Leave(1))
	if err := h.refer("a"); !errors.Is(err, ErrLeft) {
		t.Errorf("a change of a node that has left: %v", err)
	}
	hosts := check.Must(h.nodes["b"].Hosts())(t)
	if !slices.Equal(hosts.Nodes, []string{"b", "c", "d"}) || hosts.Joining != "" || hosts.Complete {
		t.Errorf("the nodes are %+v", hosts)
	}
	h.close("a")
	if err := h.try("a", -1); !errors.Is(err, ErrLeft) {
		t.Errorf("a node that has left opens: %v", err)
	}
	// With a and d, whose loss the old nodes would not notice, no majority is left.
	w2, list2 := h.hold("d")
	defer w2.Close()
	if !h.has("b", list2) && !h.has("c", list2) {
		t.Error("content is on one node")
	}
}

// A node that comes back has another number: what it wrote before belongs to no node. A node that opens its folder
// without catching up gets everything, that of the node that has left as well.
func TestNumberOfANodeThatComesBack(t *testing.T) {
	t.Parallel()
	h := newHosting(t)
	w, list := h.hold("a")
	w.Close()
	before := check.Must(h.nodes["a"].numberNode())(t)
	check.OK(t, h.nodes["a"].Join(1, hostNames, "a", "d"))
	check.OK(t, h.try("d", 20*time.Millisecond))
	check.Eventually(t, func() bool {
		lacking, err := h.nodes["d"].Missing()
		return err == nil && lacking() == 0
	}, "the new node has everything")
	if !h.has("d", list) {
		t.Error("the new node lacks content")
	}
	check.OK(t, h.nodes["d"].Complete(1))
	check.OK(t, h.nodes["b"].Leave(1))
	h.close("a")
	delete(h.dirs, "a")
	check.OK(t, h.nodes["c"].Join(2, nil, "b", "a"))
	check.OK(t, h.try("a", 20*time.Millisecond))
	if after := check.Must(h.nodes["a"].numberNode())(t); after == before {
		t.Errorf("the node has number %d again", after)
	}
	for _, name := range []string{"a", "c", "d"} {
		if !h.nodes[name].nodeGone(before) {
			t.Errorf("%s takes the number that the node had for one of a node", name)
		}
	}
	check.Eventually(t, func() bool { return h.has("a", list) }, "it gets what it wrote before")
}

// What a node has begun to write before it left, and no other node has, does not stay missing.
func TestHolesOfANodeThatHasLeft(t *testing.T) {
	t.Parallel()
	h := newHosting(t)
	check.OK(t, h.nodes["a"].Join(1, hostNames, "a", "d"))
	h.open("d")
	check.OK(t, h.nodes["d"].Complete(1))
	h.refers("a")
	h.close("b", "c", "d")
	w := h.nodes["a"].Extents.NewWriter(100_000)
	check.Must(w.Write(bytes.Repeat([]byte("nowhere"), 10_000)))(t)
	if _, err := w.Commit(); !errors.Is(err, extent.ErrUnavailable) {
		t.Fatalf("content without other nodes: %v", err)
	}
	w.Close()
	h.open("b", "c", "d")
	w, list := h.hold("a")
	w.Close()
	check.OK(t, h.nodes["b"].Leave(1))
	h.close("a", "b", "c", "d")
	for _, name := range []string{"b", "c", "d"} {
		check.OK(t, h.try(name, 20*time.Millisecond))
	}
	for _, name := range []string{"b", "c", "d"} {
		check.Eventually(t, func() bool {
			missing, known := h.nodes[name].Behind()
			return known && missing == 0
		}, "%s lacks nothing", name)
		if !h.has(name, list) {
			t.Errorf("%s lacks what comes after the hole", name)
		}
	}
}

// A node is removed, and joins with a new folder. What its old one alone had does not stay missing at the others.
func TestHolesOfARemovedNode(t *testing.T) {
	t.Parallel()
	h := newHosting(t)
	h.refers("a")
	h.close("b", "c")
	w := h.nodes["a"].Extents.NewWriter(100_000)
	check.Must(w.Write(bytes.Repeat([]byte("nowhere"), 10_000)))(t)
	if _, err := w.Commit(); !errors.Is(err, extent.ErrUnavailable) {
		t.Fatalf("content without other nodes: %v", err)
	}
	w.Close()
	h.open("b", "c")
	w, list := h.hold("a")
	w.Close()
	h.close("a", "b", "c")
	h.replaced = "a"
	delete(h.dirs, "a")
	for _, name := range hostNames {
		check.OK(t, h.try(name, 20*time.Millisecond))
	}
	for _, name := range hostNames {
		check.Eventually(t, func() bool {
			missing, known := h.nodes[name].Behind()
			return known && missing == 0
		}, "%s lacks nothing", name)
		if !h.has(name, list) {
			t.Errorf("%s lacks what comes after the hole", name)
		}
	}
}

// What the other nodes delete while a new one copies does not hold it up.
func TestContentIsDeletedWhileANodeJoins(t *testing.T) {
	t.Parallel()
	h := newHosting(t)
	w, list := h.hold("a")
	w.Close()
	h.close("a")
	h.grace = -1
	h.open("a") // which finishes the extent
	check.OK(t, h.nodes["b"].Join(1, hostNames, "c", "d"))
	h.open("d") // which copies nothing by itself
	lacking := check.Must(h.nodes["d"].Missing())(t)
	if lacking() == 0 {
		t.Fatal("the new node lacks nothing")
	}
	done := check.Must(h.nodes["a"].Extents.Compact(t.Context(), extent.Owner{Refs: h.nodes["a"].References},
		extent.CompactOptions{}))(t)
	if done.Deleted == 0 || h.has("a", list) {
		t.Fatalf("the content is not deleted: %+v", done)
	}
	check.Eventually(t, func() bool { return lacking() == 0 }, "the new node waits for nothing")
}

// A move that was cancelled cannot join any more, and calls of an earlier or another one change nothing.
func TestHostsOfACancelledMove(t *testing.T) {
	t.Parallel()
	h := newHosting(t)
	b := h.nodes["b"]
	want := func(what string, err, want error) {
		t.Helper()
		if !errors.Is(err, want) {
			t.Errorf("%s: error %v, want %v", what, err, want)
		}
	}
	check.OK(t, b.Cancel(3, hostNames)) // before it has joined
	check.OK(t, b.Join(3, hostNames, "a", "d"))
	if hosts := check.Must(b.Hosts())(t); hosts.Joining != "" {
		t.Errorf("a cancelled move has joined: %+v", hosts)
	}
	want("an earlier move joins", b.Join(2, hostNames, "a", "d"), ErrOtherMove)
	want("complete of a cancelled move", b.Complete(3), ErrOtherMove)
	check.OK(t, b.Join(4, nil, "a", "d"))
	want("a node leaves before the other one is complete", b.Leave(4), ErrOtherMove)
	h.open("d")
	check.OK(t, h.nodes["d"].Complete(4))
	check.OK(t, b.Cancel(4, nil))
	check.OK(t, h.nodes["c"].Cancel(4, nil))
	want("an earlier move is cancelled", b.Cancel(3, nil), ErrOtherMove)
	want("a change of the node that does not join", h.refer("d"), ErrLeft)
	h.refers("a")
	want("a node joins that has the shard", b.Join(5, nil, "a", "c"), ErrOtherMove)
	want("a node leaves that does not have it", b.Join(5, nil, "d", "e"), ErrOtherMove)
	if hosts := check.Must(b.Hosts())(t); !slices.Equal(hosts.Nodes, hostNames) || hosts.Move != 4 {
		t.Errorf("the nodes are %+v", hosts)
	}
}
