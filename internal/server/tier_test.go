package server_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/lazuli-storage/lazuli/internal/server"
	"github.com/lazuli-storage/lazuli/internal/server/backup"
	"github.com/lazuli-storage/lazuli/internal/server/fsck"
	"github.com/lazuli-storage/lazuli/internal/state/blob/maintain"
	"github.com/lazuli-storage/lazuli/internal/storage/datadir"
	"github.com/lazuli-storage/lazuli/internal/storage/extent"
	"github.com/lazuli-storage/lazuli/internal/storage/tier"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// faultyObjects is an object store that can be away, or change bytes.
type faultyObjects struct {
	tier.Objects
	down, flip atomic.Bool
}

var errStoreDown = errors.New("the store is down")

func (o *faultyObjects) Create(ctx context.Context, name string, content io.ReaderAt, size int64) error {
	if o.down.Load() {
		return errStoreDown
	}
	return o.Objects.Create(ctx, name, content, size)
}

func (o *faultyObjects) Range(ctx context.Context, name string, off int64, p []byte) error {
	if o.down.Load() {
		return errStoreDown
	}
	err := o.Objects.Range(ctx, name, off, p)
	if o.flip.Load() {
		for i := 500; i < len(p); i += 1000 {
			p[i] ^= 1
		}
	}
	return err
}

// A server with a tier and a small cache holds a part of its content on disk and serves all of it; without the store it
// writes, and answers 503 for what is there only; a bit that changed there is a 500. Checks, compaction, backups and
// metrics know the content; what would not is refused.
func TestContentTier(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	objects := &faultyObjects{Objects: check.Must(backup.OpenObjects(filepath.Join(t.TempDir(), "objects"), ""))(t)}
	folder := filepath.Join(t.TempDir(), "data")
	var s *server.Server
	var client *azblob.Client
	var registry *prometheus.Registry
	start := func() {
		t.Helper()
		registry = prometheus.NewRegistry()
		var err error
		s, err = server.Start(server.Config{Location: folder, Log: slog.New(slog.DiscardHandler), Metrics: registry,
			Tier: &tier.Options{Objects: objects, Cache: 4 << 20, Keep: -1, Least: 1}})
		check.OK(t, err)
		client = check.Must(azblob.NewClientFromConnectionString(s.ConnectionString(), &azblob.ClientOptions{
			ClientOptions: azcore.ClientOptions{Retry: policy.RetryOptions{MaxRetries: -1}}}))(t)
	}
	figure := func(where string) (value float64) {
		t.Helper()
		for _, f := range check.Must(registry.Gather())(t) {
			for _, m := range f.Metric {
				if strings.HasPrefix(f.GetName(), "lazuli_content_tier") && len(m.Label) > 0 &&
					m.Label[0].GetValue() == where {
					value = m.GetGauge().GetValue() + m.GetCounter().GetValue()
				}
			}
		}
		return value
	}
	start()
	defer func() { check.OK(t, s.Stop(context.Background())) }()
	check.Must(client.CreateContainer(ctx, "box", nil))(t)
	random := rand.NewChaCha8([32]byte{5})
	contents := map[string][]byte{}
	put := func(name string, size int) {
		t.Helper()
		p := make([]byte, size)
		_, _ = random.Read(p)
		check.Must(client.UploadBuffer(ctx, "box", name, p, nil))(t)
		contents[name] = p
	}
	get := func(name string) ([]byte, error) {
		r, err := client.DownloadStream(ctx, "box", name, nil)
		if err != nil {
			return nil, err
		}
		defer r.Body.Close()
		return io.ReadAll(r.Body)
	}
	readAll := func(when string) {
		t.Helper()
		for name, want := range contents {
			if got, err := get(name); err != nil || !bytes.Equal(got, want) {
				t.Fatalf("%s: %s: %v, equal: %v", when, name, err, bytes.Equal(got, want))
			}
		}
	}
	failsWith := func(when string, status int, code string) {
		t.Helper()
		failed := 0
		for name := range contents {
			got, err := get(name)
			var answer *azcore.ResponseError
			switch {
			case err == nil && bytes.Equal(got, contents[name]):
			case errors.As(err, &answer) && answer.StatusCode == status && answer.ErrorCode == code:
				failed++
			default:
				t.Fatalf("%s: %s: %d bytes, %v", when, name, len(got), err)
			}
		}
		if failed == 0 {
			t.Errorf("%s: every read was served: the test shows nothing", when)
		}
	}
	for i := range 30 {
		put(fmt.Sprint("blob", i), 1<<20)
	}
	check.Eventually(t, func() bool { return figure("remote") > 24<<20 }, "content has left the disk")
	readAll("from the store")
	if n := figure("local") + figure("chunks"); n > 4<<20 {
		t.Errorf("%.0f bytes are on disk", n)
	}

	objects.down.Store(true)
	put("while away", 1<<20)
	failsWith("without the store", http.StatusServiceUnavailable, "ServerBusy")
	objects.down.Store(false)
	// For a moment after a failure the store is not asked. A single blob would not show that, as the cache may have it.
	check.Eventually(t, func() bool {
		for name := range contents {
			if _, err := get(name); err != nil {
				return false
			}
		}
		return true
	}, "the store is asked again")
	readAll("after the store was away")
	check.OK(t, s.Stop(ctx))
	start()
	objects.flip.Store(true)
	failsWith("with changed bits", http.StatusInternalServerError, "InternalError")
	objects.flip.Store(false)
	readAll("after the bits were right again")
	if err := s.Save(ctx, "one", false); !errors.Is(err, server.ErrTiered) {
		t.Errorf("a snapshot: %v", err)
	}
	place := check.Must(backup.Open(filepath.Join(t.TempDir(), "backups"), ""))(t)
	made := check.Must(backup.Make(ctx, place, func(ctx context.Context, _ backup.Held) (backup.Source, error) {
		return s.Moment(ctx)
	}, backup.Options{}))(t)
	for i := range 20 {
		name := fmt.Sprint("blob", i)
		check.Must(client.DeleteBlob(ctx, "box", name, nil))(t)
		delete(contents, name)
	}
	check.OK(t, s.Stop(ctx))

	options := &tier.Options{Objects: objects, Keep: -1}
	for _, c := range []struct {
		o       fsck.Options
		clean   bool
		flip    bool
		message string
	}{
		{fsck.Options{}, true, false, "were not looked at"},
		{fsck.Options{Tier: options}, true, false, "and were not read"},
		{fsck.Options{Tier: options, Objects: true}, true, false, ""},
		{fsck.Options{Tier: options, Objects: true}, false, true, "another checksum"},
	} {
		objects.flip.Store(c.flip)
		r := check.Must(fsck.Check(ctx, folder, c.o))(t)
		if r.Clean != c.clean || !strings.Contains(fmt.Sprint(r.Findings), c.message) {
			t.Errorf("objects %v, flipped %v: clean %v, want %q in %v", c.o.Objects, c.flip, r.Clean, c.message, r.Findings)
		}
	}
	objects.flip.Store(false)
	d := check.Must(datadir.OpenExistingShards(folder))(t)
	options.Dir = d.Tier()
	before, after, err := maintain.CompactFolder(ctx, d.Shard(0).Blobs(), d.Shard(0).Extents(), options, 0, nil)
	if err != nil || after > before/2 {
		t.Errorf("compaction: %d bytes before, %d after, %v", before, after, err)
	}
	check.OK(t, d.Close())
	for name, c := range map[string]server.Config{
		"without the tier": {Location: folder},
		"in memory":        {InMemory: true, Tier: options},
	} {
		if other, err := server.Start(c); err == nil {
			t.Errorf("%s: it started", name)
			check.OK(t, other.Stop(ctx))
		} else if name == "without the tier" && !errors.Is(err, extent.ErrNoTier) {
			t.Errorf("%s: %v", name, err)
		}
	}
	then := filepath.Join(t.TempDir(), "then")
	check.OK(t, backup.Restore(ctx, place, made.Manifest, then,
		backup.RestoreOptions{Verify: func(context.Context, string) error { return nil }}))
	if r := check.Must(fsck.Check(ctx, then, fsck.Options{}))(t); !r.Clean || r.Blobs.Blobs != 31 {
		t.Errorf("the restored folder: %+v", r)
	}
	start()
	if n := s.ContentTier(); n == nil || n.Remote == 0 || n.Failing != "" {
		t.Errorf("the figures of the tier: %+v", n)
	}
	readAll("after compaction")
}
