package blob

import (
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/lazuli-storage/lazuli/internal/cluster/mirror"
	"github.com/lazuli-storage/lazuli/internal/state/blob/encryption"
	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
	"github.com/lazuli-storage/lazuli/internal/state/blob/replica"
	"github.com/lazuli-storage/lazuli/internal/storage/replog"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/natscluster"
)

// openNodes opens stores that share a log until the test ends, and creates the container "box".
func openNodes(t *testing.T, followers ...replica.Follower) (nodes []*rig) {
	t.Helper()
	c := natscluster.Start(t, 1)
	names := make([]string, len(followers))
	for i := range names {
		names[i] = string(rune('a' + i))
	}
	for i, f := range followers {
		log, err := replog.Open(t.Context(),
			replog.Config{Conn: c.Conn(t, 0), Name: "blobs", Timeout: time.Minute, Log: slog.New(slog.DiscardHandler)})
		check.OK(t, err)
		scopes, err := encryption.OpenScopes("", func(string) []string { return nil })
		check.OK(t, err)
		dir := t.TempDir()
		r := &rig{t: t, now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
		r.s, err = Open(Config{Path: filepath.Join(dir, "blobs.db"), Extents: filepath.Join(dir, "extents"), Scopes: scopes,
			Cluster: &replica.Cluster{
				Log: log, Node: names[i], Follower: f,
				Mirror: mirror.Config{Connect: func() (*nats.Conn, error) { return nats.Connect(c.URL()) },
					Node: names[i], Nodes: names, Log: slog.New(slog.DiscardHandler)}}})
		check.OK(t, err)
		t.Cleanup(func() { check.OK(t, r.s.Close()) })
		nodes = append(nodes, r)
	}
	_, err := nodes[0].s.Containers.Create(&ContainerWrite{Account: "a", Container: "box", Now: nodes[0].now},
		record.Container{})
	check.OK(t, err)
	return nodes
}

// A node whose clock is behind writes after one whose clock is ahead, and both read the blob that was written last.
func TestTimesOfChangesAscendAlthoughClocksDiffer(t *testing.T) {
	t.Parallel()
	nodes := openNodes(t, replica.Follower{}, replica.Follower{})
	nodes[0].now = nodes[0].now.Add(time.Hour)
	var last ticks.Ticks
	for i := range 6 {
		result := nodes[i%2].put("b", "")
		if result.Changed <= last {
			t.Errorf("a blob was changed at %d, and before at %d", result.Changed, last)
		}
		last = result.Changed
		for _, r := range nodes {
			var b record.Blob
			check.OK(t, r.s.Blobs.Get(&Read{Ref: Ref{Account: "a", Container: "box", Blob: "b"}, Now: r.now}, &b))
			if b.Changed != last {
				t.Errorf("a node has the blob of %d, want that of %d", b.Changed, last)
			}
		}
	}
}

// Writers on several nodes that all overwrite a blob on condition of its entity tag: one at a time succeeds.
func TestConditionalWritesOfNodesExcludeEachOther(t *testing.T) {
	t.Parallel()
	nodes := openNodes(t, replica.Follower{}, replica.Follower{})
	nodes[0].put("b", "")
	const writes = 20
	var mu sync.Mutex
	seen := map[ticks.Ticks]bool{}
	var writers sync.WaitGroup
	for i := range 4 {
		s := nodes[i%2].s
		writers.Go(func() {
			for done := 0; done < writes; {
				var b record.Blob
				ref, now := Ref{Account: "a", Container: "box", Blob: "b"}, nodes[0].now
				if err := s.Blobs.Get(&Read{Ref: ref, Now: now}, &b); err != nil {
					t.Error(err)
					return
				}
				w := &Write{Ref: ref, Now: now, Rights: Rights{Overwrite: true}}
				w.If.IfMatch = b.Changed.HexETag()
				result, err := s.Blobs.Put(w, &record.Blob{Kind: record.BlockBlob}, nil)
				if errors.Is(err, ErrConditionNotMet) {
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				done++
				mu.Lock()
				if seen[b.Changed] {
					t.Errorf("two writes replaced the blob of %d", b.Changed)
				}
				seen[b.Changed] = true
				mu.Unlock()
				_ = result
			}
		})
	}
	writers.Wait()
}

// A node learns of blobs that another one writes in a container that it watches, also after the container was created
// again.
func TestWatchedContainersOfOtherNodes(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var written []string
	nodes := openNodes(t, replica.Follower{}, replica.Follower{Written: func(account, container, blob string) {
		mu.Lock()
		defer mu.Unlock()
		written = append(written, account+"/"+container+"/"+blob)
	}})
	a, b := nodes[0], nodes[1]
	a.put("before", "")
	check.OK(t, current(b.s)) // What a node has not yet read when it calls Watch is reported.
	check.OK(t, b.s.Membership.Watch("a", "box"))
	a.put("x", "")
	check.OK(t, a.s.Containers.Delete(&ContainerWrite{Account: "a", Container: "box", Now: a.now}))
	check.Must(a.s.Containers.Create(&ContainerWrite{Account: "a", Container: "box", Now: a.now}, record.Container{}))(t)
	a.put("y", "")
	check.OK(t, current(b.s))
	mu.Lock()
	defer mu.Unlock()
	if want := []string{"a/box/x", "a/box/y"}; !slices.Equal(written, want) {
		t.Errorf("written: %q, want %q", written, want)
	}
}

// Two nodes that take themselves for the worker write a step of the change feed once.
func TestChangeFeedIsWrittenOnce(t *testing.T) {
	t.Parallel()
	nodes := openNodes(t, replica.Follower{}, replica.Follower{})
	now := ticks.Of(nodes[0].now)
	check.OK(t, nodes[0].s.Feed.Commit(&FeedCommit{Account: "a", State: []byte("1")}, now))
	err := nodes[1].s.Feed.Commit(&FeedCommit{Account: "a", State: []byte("1")}, now)
	if !errors.Is(err, ErrFeedMoved) {
		t.Errorf("a step that another node has done: %v, want ErrFeedMoved", err)
	}
	check.OK(t, nodes[1].s.Feed.Commit(&FeedCommit{Account: "a", Before: []byte("1"), State: []byte("2")}, now))
}

// current returns once changes that any node has made before the call are known to the node of s.
func current(s *Store) error { return s.db.View(func(*store.Tx) error { return nil }) }
