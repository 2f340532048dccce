package state

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/storage/natsserver"
)

// blockFiles returns the paths of the blocks of a queue's stream, in order.
func blockFiles(t *testing.T, dir string, q *Queue) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "jetstream", "*", "streams", q.stream, "msgs", "*.blk"))
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(paths, func(a, b string) int { return cmp.Or(len(a)-len(b), strings.Compare(a, b)) }) // 2.blk is before 10.blk
	return paths
}

// twoOldBlocks gives a queue two blocks that nothing needs, and a third one with the messages whose bodies it returns. The first block has messages whose
// deletions are in the second one, so that it says something else without the second one.
func twoOldBlocks(t *testing.T, dir string, q *Queue) (live []string) {
	t.Helper()
	body := strings.Repeat("x", 60<<10)
	remove := func(list ...Message) {
		t.Helper()
		for _, m := range list {
			if err := q.Delete(ctx, m.ID, m.Receipt, epoch); err != nil {
				t.Fatal(err)
			}
		}
	}
	var first, second []Message
	for i := range 60 { // not quite a block of 4 MiB
		first = append(first, putOne(t, q, fmt.Sprint("first", i, " ", body), epoch))
	}
	for extra := 0; extra < 20; { // they use one slot
		remove(putOne(t, q, body, epoch))
		switch n := len(blockFiles(t, dir, q)); {
		case n == 2:
			extra++
		case n > 2:
			t.Fatalf("%d blocks after %d messages of the second one", n, extra)
		}
	}
	remove(first...)
	for len(blockFiles(t, dir, q)) == 2 {
		second = append(second, putOne(t, q, "second "+body, epoch))
	}
	if len(second) >= len(first) {
		t.Fatalf("%d new messages have used the slots of all %d deleted ones", len(second), len(first))
	}
	for i := range 5 {
		live = append(live, fmt.Sprint("live", i))
		putOne(t, q, live[i], epoch)
	}
	remove(second...)
	return live
}

// bodies returns what Get hands out.
func bodies(t *testing.T, q *Queue) (list []string) {
	t.Helper()
	for {
		got, err := q.Get(ctx, 32, time.Hour, epoch.Add(time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		if len(got) == 0 {
			slices.Sort(list)
			return list
		}
		for _, m := range got {
			name, _, _ := strings.Cut(string(m.Body), " ")
			list = append(list, name)
		}
	}
}

// After a power failure a removed block may be there again while one that was removed after it is not: file systems do not promise an order. The floor,
// which is durable before the first removal, makes all of them void.
func TestRemovedBlocksMayReappear(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, startNATS(t, natsserver.Config{Dir: dir, Relaxed: true}))
	s.slack = 1 << 40 // nothing is cut off but by the test
	q := create(t, s, "orders")
	live := twoOldBlocks(t, dir, q)
	before := map[string][]byte{}
	for _, path := range blockFiles(t, dir, q) {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		before[path] = content
	}
	if err := q.cutOldEnd(ctx); err != nil {
		t.Fatal(err)
	}
	for _, path := range blockFiles(t, dir, q) {
		delete(before, path)
	}
	removed := slices.Sorted(maps.Keys(before))
	if len(removed) != 2 {
		t.Fatalf("the cut has removed %v, want two blocks", removed)
	}
	for _, reappear := range [][]string{removed[:1], removed[1:], removed} {
		for _, index := range []bool{true, false} {
			image := t.TempDir()
			if err := os.CopyFS(image, os.DirFS(dir)); err != nil {
				t.Fatal(err)
			}
			for _, path := range reappear {
				name, err := filepath.Rel(dir, path)
				if err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(image, name), before[path], 0o600); err != nil {
					t.Fatal(err)
				}
				if !index { // it may be older than the blocks as well
					_ = os.Remove(filepath.Join(image, filepath.Dir(name), "index.db"))
				}
			}
			again := find(t, open(t, startNATS(t, natsserver.Config{Dir: image, Relaxed: true})), "orders")
			if got := bodies(t, again); !slices.Equal(got, live) {
				t.Errorf("with %d of %d removed blocks, index %v: %d messages: %.200v, want %v", len(reappear), len(removed), index, len(got), got, live)
			}
		}
	}
}

// No block is removed before the floor is durable.
func TestTheFloorIsRaisedBeforeTheCut(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, startNATS(t, natsserver.Config{Dir: dir, Relaxed: true}))
	s.slack = 1 << 40
	q := create(t, s, "orders")
	twoOldBlocks(t, dir, q)
	blocks := blockFiles(t, dir, q)
	s.client.timeout = 100 * time.Millisecond
	if err := s.js.DeleteStream(ctx, catalogStream); err != nil { // so that no floor can be stored
		t.Fatal(err)
	}
	if err := q.cutOldEnd(ctx); err == nil {
		t.Error("the old end is cut off although the floor could not be stored")
	}
	if left := blockFiles(t, dir, q); !slices.Equal(left, blocks) {
		t.Errorf("blocks %v are left of %v", left, blocks)
	}
}
