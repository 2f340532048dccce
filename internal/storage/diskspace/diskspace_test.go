package diskspace

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
)

func guard(t *testing.T, free *atomic.Int64) (*Guard, string) {
	t.Helper()
	dir := t.TempDir()
	g := Open(dir, Options{Log: slog.New(slog.DiscardHandler),
		Free: func(string) (int64, error) { return free.Load(), nil }})
	t.Cleanup(g.Close)
	return g, dir
}

func reserved(t *testing.T, dir string) int64 {
	t.Helper()
	info, err := os.Stat(filepath.Join(dir, ReserveFile))
	if errors.Is(err, fs.ErrNotExist) {
		return 0
	}
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// The free space falls and rises again; the reserve is given up first and taken again last.
func TestGuardFollowsTheFreeSpace(t *testing.T) {
	t.Parallel()
	var free atomic.Int64
	free.Store(1 << 30)
	g, dir := guard(t, &free)
	for i, step := range []struct {
		free     int64
		full     bool
		reserved int64
	}{
		{1 << 30, false, Reserve},
		{low, false, Reserve},
		{low - 1, true, 0},
		{low - 1 + Reserve, true, 0}, // what the reserve gave
		{plenty + Reserve - 1, true, 0},
		{plenty + Reserve, false, Reserve},
		{0, true, 0},
	} {
		free.Store(step.free)
		g.Look()
		if g.Full() != step.full || reserved(t, dir) != step.reserved {
			t.Errorf("step %d, %d bytes free: full %v, %d bytes reserved; want %v, %d", i, step.free, g.Full(), reserved(t, dir),
				step.full, step.reserved)
		}
	}
}

// On a small disk that was full once, writes are accepted again when it is nearly empty, without a restart; and the
// state does not alternate because the reserve is given up.
func TestGuardOfASmallDisk(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	for _, size := range []int64{50, 60, 90, 120, 160, 1000} {
		t.Run(fmt.Sprint(size, " MiB"), func(t *testing.T) {
			t.Parallel()
			var used atomic.Int64
			dir := t.TempDir()
			o := Options{Log: slog.New(slog.DiscardHandler), Capacity: func(string) (int64, error) { return size * mib, nil },
				Free: func(string) (int64, error) { return (size-used.Load())*mib - reserved(t, dir), nil }}
			g := Open(dir, o)
			t.Cleanup(g.Close)
			changes, was := 0, g.Full()
			look := func(n int64) {
				used.Store(n)
				for range 2 {
					if g.Look(); g.Full() != was {
						changes++
						was = g.Full()
					}
				}
			}
			for range 3 {
				for n := range size - 9 {
					look(n)
				}
				if !g.Full() {
					t.Fatal("with 10 MiB free it is not full")
				}
				for n := size - 10; n >= 5; n-- {
					look(n)
				}
				if g.Full() {
					t.Fatalf("with %d MiB free it stays full", size-5)
				}
			}
			if changes != 6 {
				t.Errorf("the state changed %d times in three rounds, want 6", changes)
			}
		})
	}
}

// A write that fails for lack of space counts at once.
func TestGuardHearsOfFailures(t *testing.T) {
	t.Parallel()
	var free atomic.Int64
	free.Store(1 << 30)
	g, dir := guard(t, &free)
	if g.Failed(syscall.EIO) || g.Full() {
		t.Error("an I/O error is taken for a full disk")
	}
	if !g.Failed(fmt.Errorf("write: %w", &os.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC})) || !g.Full() ||
		reserved(t, dir) != 0 {
		t.Errorf("after ENOSPC: full %v, %d bytes reserved", g.Full(), reserved(t, dir))
	}
	g.Look()
	if g.Full() {
		t.Error("with room it stays full")
	}
}

// A server that starts on a full disk gets the space of the reserve.
func TestGuardAtStart(t *testing.T) {
	t.Parallel()
	var free atomic.Int64
	free.Store(1 << 30)
	g, dir := guard(t, &free)
	g.Look()
	if n := reserved(t, dir); n != Reserve {
		t.Fatalf("%d bytes reserved", n)
	}
	g.stop <- struct{}{} // as killed
	free.Store(0)
	again := Open(dir, Options{Log: slog.New(slog.DiscardHandler), Free: g.o.Free})
	defer again.Close()
	if !again.Full() || reserved(t, dir) != 0 {
		t.Errorf("full %v, %d bytes reserved", again.Full(), reserved(t, dir))
	}
	var none *Guard
	if none.Full() || none.Failed(nil) {
		t.Error("the nil Guard is full")
	}
	none.Close()
}
