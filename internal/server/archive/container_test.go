package archive_test

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/server"
	"github.com/lazuli-storage/lazuli/internal/server/archive"
	"github.com/lazuli-storage/lazuli/internal/server/backup"
	"github.com/lazuli-storage/lazuli/internal/test/buckets"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// container returns a place that is a container of another server, which does not exist yet.
func container(t *testing.T) backup.Place {
	t.Helper()
	s, err := server.Start(server.Config{Location: filepath.Join(t.TempDir(), "elsewhere"),
		Log: slog.New(slog.DiscardHandler)})
	check.OK(t, err)
	t.Cleanup(func() { check.OK(t, s.Stop(context.Background())) })
	p, err := backup.Container(s.URL(wire.Blob, auth.DevelopmentAccount)+"/archive", s.ConnectionString())
	check.OK(t, err)
	return check.Must(backup.Sealed(p, make([]byte, 32)))(t)
}

// inBucket returns a place that is a prefix of a bucket of S3.
func inBucket(t *testing.T) backup.Place {
	t.Helper()
	p := check.Must(backup.Bucket(buckets.Start(t).Place("archive")))(t)
	return check.Must(backup.Sealed(p, make([]byte, 32)))(t)
}

// A container of another Lazuli is a place as a folder is: moments, a gap, answers that are lost, one owner,
// encryption.
func TestContainer(t *testing.T) {
	t.Parallel()
	tryRemote(t, container(t))
}

// So is a bucket of S3.
func TestBucket(t *testing.T) {
	t.Parallel()
	tryRemote(t, inBucket(t))
}

func tryRemote(t *testing.T, place backup.Place) {
	t.Helper()
	p := &flaky{Place: place}
	first := filepath.Join(t.TempDir(), "first")
	r := start(t, first, archive.Options{Place: p, Spool: 4 << 10})
	awaitBases(t, p, 1)
	one := r.put(t, "one")
	p.loses.Store(true) // the segment is there, and created once more
	r.Send(t.Context())
	p.loses.Store(false)
	r.Send(t.Context())
	if err := startOwned(filepath.Join(t.TempDir(), "second"), archive.Options{Place: p}); !errors.Is(err,
		archive.ErrOwned) {
		t.Errorf("a second server: %v", err)
	}
	wantMessages(t, "one", restored(t, p, one), "one")
	p.down.Store(true)
	lost := r.put(t, strings.Repeat("x", 6000))
	p.down.Store(false)
	r.Send(t.Context())
	awaitBases(t, p, 2)
	last := r.put(t, "last")
	r.Send(t.Context())
	if _, err := restore(t, p, lost); !errors.Is(err, archive.ErrUnreachable) {
		t.Errorf("in the gap: %v", err)
	}
	wantMessages(t, "after the gap", restored(t, p, last), "last", "one", strings.Repeat("x", 6000))
	if err := p.Create(t.Context(), "owner/0000000000000001", nil); !errors.Is(err, backup.ErrExists) {
		t.Errorf("a file was created twice: %v", err)
	}
}

// A standby follows a container, and takes over from it.
func TestStandbyOfContainer(t *testing.T) {
	t.Parallel()
	tryStandby(t, container(t))
}

// A standby follows a bucket of S3, and takes over from it.
func TestStandbyOfBucket(t *testing.T) {
	t.Parallel()
	tryStandby(t, inBucket(t))
}

func tryStandby(t *testing.T, p backup.Place) {
	t.Helper()
	r := start(t, filepath.Join(t.TempDir(), "first"), archive.Options{Place: p, Fence: true})
	awaitBases(t, p, 1)
	r.put(t, "one")
	r.Send(t.Context())
	s := startStandby(t, filepath.Join(t.TempDir(), "second"), p, nil)
	s.awaitMessages(t, "one")
	r.put(t, "two")
	r.Send(t.Context())
	s.awaitMessages(t, "one", "two")
	r.put(t, "three")
	r.Send(t.Context())
	check.Must(s.Promote(t.Context(), false))(t)
	s.awaitMessages(t, "one", "three", "two")
	check.OK(t, putMessage(t, s.storage, "four"))
	if _, err := r.storage.Queues.NewQueueClient("queue").GetProperties(t.Context(), nil); err != nil {
		t.Errorf("a read of the other server: %v", err)
	}
}
