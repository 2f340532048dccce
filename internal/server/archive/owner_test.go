package archive_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/server"
	"github.com/lazuli-storage/lazuli/internal/server/archive"
	"github.com/lazuli-storage/lazuli/internal/server/backup"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// startOwned starts a server with an archive, whose error it returns.
func startOwned(data string, o archive.Options) error {
	o.Log = slog.New(slog.DiscardHandler)
	s, err := server.Start(server.Config{Location: data, Archive: archive.New(o), Log: o.Log})
	if err != nil {
		return err
	}
	return s.Stop(context.Background())
}

// A place belongs to the first server that starts with it; another one is refused at its start, with the name of the
// owner, until the place is released. The former owner is refused then.
func TestPlaceBelongsToOneServer(t *testing.T) {
	t.Parallel()
	p := backup.Folder(filepath.Join(t.TempDir(), "place"))
	first, second := filepath.Join(t.TempDir(), "first"), filepath.Join(t.TempDir(), "second")
	r := start(t, first, archive.Options{Place: p})
	awaitBases(t, p, 1)
	before := r.put(t, "before")
	err := startOwned(second, archive.Options{Place: p})
	if !errors.Is(err, archive.ErrOwned) || !strings.Contains(err.Error(), first) ||
		!strings.Contains(err.Error(), "backup log release") {
		t.Fatalf("a second server: %v", err)
	}
	r.Send(t.Context())
	former := check.Must(archive.Release(t.Context(), p, time.Now()))(t)
	if !strings.Contains(former.Name, first) || former.Epoch != 1 {
		t.Errorf("released from %+v", former)
	}
	check.OK(t, startOwned(second, archive.Options{Place: p}))
	// The former owner notices, goes on without the archive, and cannot be started with it.
	r.put(t, "after")
	count := len(segments(t, p.String()))
	r.Send(t.Context())
	if n := len(segments(t, p.String())); n != count {
		t.Errorf("the former owner has sent %d segments", n-count)
	}
	r.stop(t)
	if err := startOwned(first, archive.Options{Place: p}); !errors.Is(err, archive.ErrOwned) {
		t.Errorf("the former owner: %v", err)
	}
	wantMessages(t, "what the first has sent", restored(t, p, before), "before")
}

// Of several servers that start at once with a new place, one gets it.
func TestOneOfSeveralGetsThePlace(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "place")
	results := make(chan error)
	for range 4 {
		go func() {
			a := archive.New(archive.Options{Place: backup.Folder(folder), Log: slog.New(slog.DiscardHandler)})
			err := a.Open(filepath.Join(t.TempDir(), "archive"), 1)
			results <- errors.Join(err, a.Close())
		}()
	}
	owners := 0
	for range 4 {
		switch err := <-results; {
		case err == nil:
			owners++
		case !errors.Is(err, archive.ErrOwned) && !errors.Is(err, backup.ErrLocked):
			t.Error(err)
		}
	}
	if owners != 1 {
		t.Errorf("%d owners", owners)
	}
}

// An empty folder in the place of the archive, such as the mount point of a share that is gone, is not the archive:
// nothing is written to it, a fence ends, and a server with one does not start. All goes on with the folder.
func TestPlaceIsGone(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "place")
	p, data := backup.Folder(folder), filepath.Join(t.TempDir(), "data")
	var ahead atomic.Int64
	o := archive.Options{Place: p, Fence: true,
		Now: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }}
	r := start(t, data, o)
	awaitBases(t, p, 1)
	put := func(text string) error {
		_, err := r.storage.Queues.NewQueueClient("queue").EnqueueMessage(t.Context(), text, nil)
		return err
	}
	check.OK(t, put("one"))
	check.OK(t, os.Rename(folder, folder+".away"))
	check.OK(t, os.Mkdir(folder, 0o700))
	ahead.Add(int64(archive.Lease))
	r.Send(t.Context())
	if err := putOnce(t, r.Server); err == nil || !strings.Contains(err.Error(), "503") {
		t.Errorf("a write without the place: %v", err)
	}
	r.stop(t)
	if err := startOwned(data, o); err == nil || !strings.Contains(err.Error(), "is it mounted?") {
		t.Errorf("a start without the place: %v", err)
	}
	if list := check.Must(os.ReadDir(folder))(t); len(list) > 0 {
		t.Errorf("the folder in the place has %v", list)
	}
	check.OK(t, os.Remove(folder))
	check.OK(t, os.Rename(folder+".away", folder))
	check.OK(t, startOwned(data, o))
}

// A fence ends writes when the place has not answered for the time of the lease, and when what it has is too old. They
// go on once it answers, and never again after it was taken.
func TestFence(t *testing.T) {
	t.Parallel()
	p := &flaky{Place: backup.Folder(filepath.Join(t.TempDir(), "place"))}
	data := filepath.Join(t.TempDir(), "data")
	var ahead atomic.Int64
	now := func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	o := archive.Options{Place: p, Fence: true, Now: now}
	r := start(t, data, o)
	awaitBases(t, p, 1)
	r.put(t, "one")
	r.Send(t.Context())
	put := func(text string) error {
		_, err := r.storage.Queues.NewQueueClient("queue").EnqueueMessage(t.Context(), text, nil)
		return err
	}
	p.down.Store(true)
	ahead.Add(int64(archive.Lease))
	refused := putOnce(t, r.Server)
	if refused == nil || !strings.Contains(refused.Error(), "503") || r.Ready() == nil {
		t.Errorf("beyond the lease: %v, ready %v", refused, r.Ready())
	}
	if _, err := r.storage.Queues.NewQueueClient("queue").GetProperties(t.Context(), nil); err != nil {
		t.Errorf("a read: %v", err)
	}
	p.down.Store(false)
	r.Send(t.Context())
	check.OK(t, put("two"))
	// Looks succeed, but nothing can be sent.
	p.sends.Store(true)
	ahead.Add(int64(16 * time.Second))
	r.Send(t.Context())
	if putOnce(t, r.Server) == nil {
		t.Error("a write was acknowledged that the place would lack for too long")
	}
	p.sends.Store(false)
	r.Send(t.Context())
	last := r.put(t, "three").Add(time.Duration(ahead.Load()))
	r.Send(t.Context())
	check.Must(archive.Release(t.Context(), p, time.Now()))(t)
	r.Send(t.Context())
	if putOnce(t, r.Server) == nil {
		t.Error("a write was acknowledged after the place was taken")
	}
	wantMessages(t, "acknowledged", restored(t, p, last), "one", "three", "two")
	r.stop(t)
	// Whether the place still belongs to it must be known at the start.
	p.down.Store(true)
	if err := startOwned(data, o); err == nil {
		t.Error("a server with a fence has started without its place")
	}
	o.Fence = false
	if err := startOwned(data, o); err == nil {
		t.Error("the fence was taken down without the place")
	}
}

// After the place of a server with a fence was released, the next one waits until that cannot acknowledge writes any
// more, before it takes the place: one that is killed meanwhile waits again.
func TestReleasedPlaceWaits(t *testing.T) {
	t.Parallel()
	p := backup.Folder(filepath.Join(t.TempDir(), "place"))
	first, second := filepath.Join(t.TempDir(), "first"), filepath.Join(t.TempDir(), "second")
	check.OK(t, startOwned(first, archive.Options{Place: p, Fence: true}))
	check.Must(archive.Release(t.Context(), p, time.Now()))(t)
	var waited time.Duration
	check.OK(t, startOwned(second, archive.Options{Place: p, Sleep: func(d time.Duration) {
		waited += d
		if o := check.Must(archive.OwnerOf(t.Context(), p))(t); o.Server != "" {
			t.Errorf("the place was taken before the wait: %+v", o)
		}
	}}))
	if waited <= archive.Lease {
		t.Errorf("the second server has waited for %s", waited)
	}
	if o := check.Must(archive.OwnerOf(t.Context(), p))(t); o.Epoch != 3 || o.Lease != 0 {
		t.Errorf("the owner is %+v", o)
	}
	// Without a fence there is nothing to wait for: such a server stops to write to the place, and to nothing else.
	check.Must(archive.Release(t.Context(), p, time.Now()))(t)
	third := filepath.Join(t.TempDir(), "third")
	check.OK(t, startOwned(third, archive.Options{Place: p, Sleep: func(d time.Duration) { t.Errorf("a wait of %s", d) }}))
}

// A server that had a fence is not started without its archive, which another one may have taken over.
func TestFencedFolderWithoutArchive(t *testing.T) {
	t.Parallel()
	p, data := backup.Folder(filepath.Join(t.TempDir(), "place")), filepath.Join(t.TempDir(), "data")
	alone := func() error {
		s, err := server.Start(server.Config{Location: data, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			return err
		}
		return s.Stop(context.Background())
	}
	check.OK(t, startOwned(data, archive.Options{Place: p}))
	check.OK(t, alone())
	check.OK(t, startOwned(data, archive.Options{Place: p, Fence: true}))
	if err := alone(); !errors.Is(err, archive.ErrFenced) || !strings.Contains(err.Error(), p.String()) {
		t.Errorf("without the archive: %v", err)
	}
	check.OK(t, os.RemoveAll(filepath.Join(data, "archive")))
	check.OK(t, alone())
}
