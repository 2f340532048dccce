package replica

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/state/blob/content"
	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
	"github.com/lazuli-storage/lazuli/internal/storage/extent"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// block lets a node refer to content, or to none any more.
func (h *hosting) block(name string, list []extent.Slice) {
	h.t.Helper()
	check.OK(h.t, h.nodes[name].DB.Update(func(tx *store.Tx) error {
		if key := record.BlockKey(1, "block"); list == nil {
			tx.Delete(record.BlocksBucket, key)
		} else {
			tx.Put(record.BlocksBucket, key, record.EncodeBlock(content.Piece{Length: list[0].Length, Slices: list[:1]}))
		}
		return nil
	}))
}

// A node is lost, and one of the other two lacks something that it wrote. Nothing waits for the lost one, both that one
// and the new node get everything, the new one says whether it has all that is referred to, and the lost one changes
// nothing any more, also while the move to the new one is cancelled.
func TestContentOfALostNode(t *testing.T) {
	t.Parallel()
	h := newHosting(t)
	h.close("c")
	w, list := h.hold("a")
	h.block("a", list)
	w.Close()
	number := check.Must(h.nodes["a"].numberNode())(t)
	h.close("a")
	check.OK(t, h.try("c", 20*time.Millisecond))
	check.OK(t, h.nodes["b"].JoinLost(1, hostNames, "a", "d"))
	check.OK(t, h.nodes["c"].JoinLost(1, hostNames, "a", "d")) // again, and another node
	check.OK(t, h.nodes["b"].Cancel(1, hostNames))
	if err := h.try("a", -1); !errors.Is(err, ErrLeft) {
		t.Fatalf("a node that is lost opens: %v", err)
	}
	check.OK(t, h.nodes["c"].JoinLost(2, hostNames, "a", "d"))
	if hosts := check.Must(h.nodes["b"].Hosts())(t); !slices.Equal(hosts.Lost, []string{"a"}) || hosts.Joining != "d" {
		t.Errorf("the nodes are %+v", hosts)
	}
	check.OK(t, h.try("d", 20*time.Millisecond))
	for _, name := range []string{"c", "d"} {
		check.Eventually(t, func() bool {
			lacking, err := h.nodes[name].Missing()
			return err == nil && lacking() == 0 && h.has(name, list)
		}, "%s has everything", name)
		if !h.nodes[name].nodeGone(number) {
			t.Errorf("%s takes the lost node for one of the nodes", name)
		}
	}
	check.OK(t, h.nodes["d"].Verify(t.Context()))
	nowhere := list[0]
	nowhere.Extent++
	h.block("b", []extent.Slice{nowhere})
	if err := h.nodes["d"].Verify(t.Context()); !errors.Is(err, ErrLacking) {
		t.Errorf("a reference to content that no node has: %v", err)
	}
	h.block("b", nil)
	check.OK(t, h.nodes["d"].Verify(t.Context()))
	check.OK(t, h.nodes["d"].Complete(2))
	check.OK(t, h.nodes["c"].Leave(2))
	hosts := check.Must(h.nodes["d"].Hosts())(t)
	if !slices.Equal(hosts.Nodes, []string{"b", "c", "d"}) || len(hosts.Lost) > 0 {
		t.Errorf("the nodes are %+v", hosts)
	}
	h.refers("d")
}

// A new node whose copy of some content is gone takes it from another one before it says that it has all.
func TestVerifyTakesWhatIsMissing(t *testing.T) {
	t.Parallel()
	h := newHosting(t)
	w, list := h.hold("a")
	h.block("a", list)
	w.Close()
	check.OK(t, h.nodes["b"].Join(1, hostNames, "a", "d"))
	h.open("d") // which copies nothing by itself
	if h.has("d", list) {
		t.Fatal("the new node has the content")
	}
	check.OK(t, h.nodes["d"].Verify(t.Context()))
	if !h.has("d", list[:1]) {
		t.Error("the new node has said that it has the content, and lacks it")
	}
}
