package archive_test

import (
	"bytes"
	"context"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/server/archive"
	"github.com/lazuli-storage/lazuli/internal/server/backup"
	"github.com/lazuli-storage/lazuli/internal/storage/extent"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// lagging is a node to which a group comes only when it asks for what is current.
type lagging struct {
	log   store.Archive
	mu    sync.Mutex // guards group
	group *store.Group
}

func (*lagging) Leads() bool   { return true }
func (*lagging) Fenced() error { return nil }

func (n *lagging) Current(context.Context) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.group != nil {
		n.log.Group(*n.group)
		n.group = nil
	}
	return nil
}

// emptyMoment is the state of a cluster without anything.
type emptyMoment struct{ position *backup.LogPosition }

func (m emptyMoment) Info() backup.Info { return backup.Info{Log: m.position} }

func (emptyMoment) Database(context.Context, string, func([]byte) error) error { return nil }
func (emptyMoment) Keys(context.Context) ([]byte, error)                       { return nil, nil }
func (emptyMoment) Contents(context.Context, func(extent.Window) []extent.Range, func(extent.Content) error) error {
	return nil
}
func (emptyMoment) Close() error { return nil }

// A segment of a cluster promises nothing that this node has not applied yet: what another node had acknowledged before
// the promise is in it, also if it comes late and with an earlier time than groups of other logs.
func TestPromiseOfALaggingNode(t *testing.T) {
	t.Parallel()
	p := backup.Folder(filepath.Join(t.TempDir(), "place"))
	a := archive.New(archive.Options{Place: p, Every: time.Hour, Log: slog.New(slog.DiscardHandler)})
	check.OK(t, a.OpenNode(filepath.Join(t.TempDir(), "archive"), "test", 1))
	defer func() { check.OK(t, a.Close()) }()
	n := &lagging{log: a.Shard(0).Log(0)}
	for i := range backup.Databases {
		a.Shard(0).Log(i).Opened(0)
	}
	a.Shard(0).Content(noContent{})
	a.Shard(0).AttachNode("keys", n)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		a.Run(ctx, func(context.Context, int, backup.Held) (backup.Source, error) {
			position := a.Shard(0).Next()
			if position != nil {
				a.Shard(0).Pinned(position, map[string]uint64{})
			}
			return emptyMoment{position}, nil
		})
	})
	defer func() { cancel(); running.Wait() }()
	a.Send(t.Context())
	awaitBases(t, p, 1)
	// The base of a cluster is the state of a millisecond later than it was made, and the archive has no moment before.
	written := time.Now()
	names := check.Must(backup.Names(t.Context(), p))(t)
	if base := check.Must(backup.Read(t.Context(), p, names[0]))(t); !written.After(base.Log.At) {
		written = base.Log.At.Add(1)
	}
	n.mu.Lock()
	n.group = &store.Group{Number: 7, At: written.UnixNano(), Payload: []byte("late")}
	n.mu.Unlock()
	var m *archive.Moment
	check.Eventually(t, func() bool { // a promise is a second older than its segment
		a.Send(t.Context())
		var err error
		m, err = archive.Open(t.Context(), p, written.Add(time.Microsecond), t.TempDir(), nil)
		return err == nil
	}, "the archive reaches the group")
	var got []byte
	check.OK(t, m.Database(t.Context(), "tables", func(part []byte) error { got = append(got, part...); return nil }))
	if !bytes.Equal(got, []byte("late")) {
		t.Errorf("the moment after the group has %q", got)
	}
	check.OK(t, m.Close())
}

// The place says that a cluster has a fence once a node has sent with it. Other nodes with a fence take part; one
// without is refused.
func TestFencesOfNodes(t *testing.T) {
	t.Parallel()
	p := backup.Folder(filepath.Join(t.TempDir(), "place"))
	log := slog.New(slog.DiscardHandler)
	began := time.Now()
	now := func() time.Time { return began } // a busy machine may take longer than a lease
	node := func(fence bool) (*archive.Archive, error) {
		a := archive.New(archive.Options{Place: p, Every: time.Hour, Fence: fence, Log: log, Now: now})
		err := a.OpenNode(filepath.Join(t.TempDir(), "archive"), "test", 1)
		if err == nil {
			t.Cleanup(func() { check.OK(t, a.Close()) })
		}
		return a, err
	}
	lease := func(want time.Duration) uint64 {
		t.Helper()
		o := check.Must(archive.OwnerOf(t.Context(), p))(t)
		if o.Lease != want {
			t.Errorf("the place says that the lease is %v, want %v", o.Lease, want)
		}
		return o.Epoch
	}
	a, err := node(true)
	check.OK(t, err)
	early, err := node(true)
	check.OK(t, err)
	_, err = node(false) // all of them may go on without a fence
	check.OK(t, err)
	lease(0)
	for i := range backup.Databases {
		a.Shard(0).Log(i).Opened(0)
	}
	a.Shard(0).Content(noContent{})
	a.Shard(0).AttachNode("keys", &lagging{log: a.Shard(0).Log(0)})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		a.Run(ctx, func(context.Context, int, backup.Held) (backup.Source, error) {
			position := a.Shard(0).Next()
			if position != nil {
				a.Shard(0).Pinned(position, map[string]uint64{})
			}
			return emptyMoment{position}, nil
		})
	})
	defer func() { cancel(); running.Wait() }()
	a.Send(t.Context())
	awaitBases(t, p, 1)
	check.Eventually(t, func() bool {
		a.Send(t.Context())
		return check.Must(archive.OwnerOf(t.Context(), p))(t).Lease > 0
	}, "the place says that there is a fence")
	epoch := lease(archive.Lease)
	late, err := node(true)
	check.OK(t, err)
	for name, a := range map[string]*archive.Archive{"sends": a, "began before": early, "began after": late} {
		if err := a.Allow(); err != nil {
			t.Errorf("the node that %s: %v", name, err)
		}
	}
	if _, err := node(false); err == nil || !strings.Contains(err.Error(), "start it with archive-fence") {
		t.Errorf("a node without a fence: %v", err)
	}
	if now := lease(archive.Lease); now != epoch {
		t.Errorf("epoch %d after %d", now, epoch)
	}
}
