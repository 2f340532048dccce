package jetstreamfiles

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// gate is a target whose syncs the test lets through one by one.
type gate struct {
	entered chan struct{}
	leave   chan error
}

func (g *gate) sync() error { g.entered <- struct{}{}; return <-g.leave }
func (g *gate) close()      {}

func TestSyncerSharesTheNextSync(t *testing.T) {
	g := &gate{make(chan struct{}), make(chan error)}
	y := newSyncer(g)
	var wg sync.WaitGroup
	call := func(n int, errs chan<- error) {
		for range n {
			wg.Add(1)
			go func() { defer wg.Done(); errs <- y.wait() }()
		}
	}
	first, later := make(chan error, 1), make(chan error, 10)
	call(1, first)
	<-g.entered
	call(10, later) // they come while the first sync runs: it does not cover them
	for {
		y.mu.Lock()
		n := y.next.waiters
		y.mu.Unlock()
		if n == 10 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	g.leave <- nil
	if err := <-first; err != nil {
		t.Error(err)
	}
	<-g.entered
	select {
	case <-later:
		t.Error("a caller returned before the sync that covers it")
	default:
	}
	g.leave <- nil // one sync for all ten
	wg.Wait()
	for range 10 {
		if err := <-later; err != nil {
			t.Error(err)
		}
	}
}

// A sync waits for the callers that the last one has answered.
func TestCallersThatWereAnsweredShareTheNextSync(t *testing.T) {
	const callers = 8
	g := &gate{make(chan struct{}, callers), make(chan error, callers)}
	y := newSyncer(g)
	now := time.Now()
	y.gather.Limit = time.Hour
	y.gather.Committed(callers, 0, now.Add(-time.Hour), now)
	var wg sync.WaitGroup
	for range callers {
		g.leave <- nil
		wg.Go(func() {
			if err := y.wait(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if len(g.entered) != 1 {
		t.Errorf("%d syncs for %d calls, want 1", len(g.entered), callers)
	}
}

func TestSyncerFailsForGood(t *testing.T) {
	g := &gate{make(chan struct{}, 9), make(chan error, 9)}
	y := newSyncer(g)
	broken := errors.New("broken disk")
	g.leave <- broken
	g.leave <- nil
	for i := range 2 {
		if err := y.wait(); !errors.Is(err, broken) {
			t.Errorf("call %d: %v, want the first error again", i, err)
		}
	}
	if len(g.entered) != 1 {
		t.Errorf("%d syncs, want no second one after an error", len(g.entered))
	}
}

// A syncer that failed is not idle: what it lost has to be noted.
func TestAFailedSyncerIsNotClosed(t *testing.T) {
	stream := t.TempDir()
	folder := filepath.Join(stream, messagesFolder)
	if err := errors.Join(os.Mkdir(folder, 0o700), os.WriteFile(filepath.Join(folder, "1.blk"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	y := NewSyncer(stream, LastBlock{})
	defer y.Close()
	later := time.Now().Add(time.Hour)
	if err := y.Sync(); err != nil {
		t.Fatal(err)
	}
	if !y.CloseIdle(later) {
		t.Error("an idle syncer was not closed")
	}
	if err := os.RemoveAll(stream); err != nil {
		t.Fatal(err)
	}
	if err := y.Sync(); err == nil {
		t.Fatal("no error without the folder")
	}
	if y.CloseIdle(later) {
		t.Error("a failed syncer was closed")
	}
}

func TestBlocksFollowTheFolder(t *testing.T) {
	dir := t.TempDir()
	b := &blocks{dir: dir}
	defer b.close()
	write := func(n int, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%d.blk", n)), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	check := func(step string, last, known int) {
		t.Helper()
		if err := b.sync(); err != nil {
			t.Fatalf("%s: %v", step, err)
		}
		if b.index != last || b.last == nil || len(b.synced) != known {
			t.Errorf("%s: last block %d of %d, want %d of %d", step, b.index, len(b.synced), last, known)
		}
	}
	fails := func(step string) {
		t.Helper()
		if err := b.sync(); err == nil {
			t.Errorf("%s: no error", step)
		}
	}
	fails("a folder without blocks")
	write(1, "a")
	check("first block", 1, 1)
	write(2, "b")
	write(3, "c")
	os.WriteFile(filepath.Join(dir, "index.db"), nil, 0o600)
	check("two more blocks", 3, 3)
	before := b.synced[2]
	write(200, "rewritten")
	if err := os.Rename(filepath.Join(dir, "200.blk"), filepath.Join(dir, "2.blk")); err != nil {
		t.Fatal(err)
	}
	check("a rewritten block", 3, 3)
	if same(before, b.synced[2]) {
		t.Error("the rewritten block was not noticed")
	}
	os.Remove(filepath.Join(dir, "1.blk"))
	check("a block was cut off", 3, 2)
	write(4, "d")
	check("one more block", 4, 3)
	os.Remove(filepath.Join(dir, "3.blk"))
	fails("a block in the middle is missing")
	write(3, "c")
	check("it is back", 4, 3)
	os.Remove(filepath.Join(dir, "4.blk"))
	fails("the last block is missing")
	os.RemoveAll(dir)
	fails("the folder is missing")
}

func TestBlockNumber(t *testing.T) {
	for name, want := range map[string]int{"1.blk": 1, "0042.blk": 42, "x.blk": -1, ".blk": -1, "1.blk.tmp": -1,
		"1.key": -1, "99999999999.blk": -1, "index.db": -1} {
		got, ok := blockNumber(name)
		if !ok {
			got = -1
		}
		if got != want {
			t.Errorf("%q: %d, want %d", name, got, want)
		}
	}
}
