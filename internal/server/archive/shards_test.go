package archive_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/lazuli-storage/lazuli/internal/server"
	"github.com/lazuli-storage/lazuli/internal/server/archive"
	"github.com/lazuli-storage/lazuli/internal/server/backup"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/shops"
	"github.com/lazuli-storage/lazuli/workers"
)

// shopNames are accounts whose queues are in all of four shards, and shopKey is the key of each.
var shopNames = shops.Names(8)

const shopKey = "b3RoZXIga2V5IG9mIGEgdGVzdA=="

// shopConfig is the configuration of a server with the accounts, without its archive.
func shopConfig(t *testing.T, data string, shards int) server.Config {
	t.Helper()
	return server.Config{Location: data, Shards: shards, Accounts: check.Must(shops.Accounts(shopNames, shopKey))(t),
		Log: slog.New(slog.DiscardHandler)}
}

// shop returns the services of an account.
func shop(t *testing.T, s *server.Server, name string) *workers.Storage {
	t.Helper()
	return check.Must(workers.OpenStorage(s.ConnectionStringOf(name, shopKey)))(t)
}

// sell puts a message into the queue of an account, and a blob, which names both. It returns a moment after that.
func sell(t *testing.T, s *server.Server, name, what string) time.Time {
	t.Helper()
	x := shop(t, s, name)
	check.Must(x.Queues.NewQueueClient("queue").EnqueueMessage(t.Context(), what, nil))(t)
	check.Must(x.Blobs.UploadBuffer(t.Context(), "box", what, goods(what), nil))(t)
	return time.Now()
}

func goods(what string) []byte { return bytes.Repeat([]byte(what), 10_000) }

// openShops makes the queue and the container of each account.
func openShops(t *testing.T, s *server.Server) {
	t.Helper()
	for _, name := range shopNames {
		x := shop(t, s, name)
		check.Must(x.Queues.CreateQueue(t.Context(), "queue", nil))(t)
		check.Must(x.Blobs.CreateContainer(t.Context(), "box", nil))(t)
	}
}

// sold returns what the accounts of a data folder have in their queues. The blobs must be the same.
func sold(t *testing.T, data string) (list []string) {
	t.Helper()
	s := check.Must(server.Start(shopConfig(t, data, 0)))(t)
	defer func() { check.OK(t, s.Stop(context.Background())) }()
	for _, name := range shopNames {
		x := shop(t, s, name)
		var texts, blobs []string
		n := int32(32)
		r := check.Must(x.Queues.NewQueueClient("queue").PeekMessages(t.Context(),
			&azqueue.PeekMessagesOptions{NumberOfMessages: &n}))(t)
		for _, m := range r.Messages {
			texts = append(texts, *m.MessageText)
		}
		for pager := x.Blobs.NewListBlobsFlatPager("box", nil); pager.More(); {
			page := check.Must(pager.NextPage(t.Context()))(t)
			for _, b := range page.Segment.BlobItems {
				blobs = append(blobs, *b.Name)
				r := check.Must(x.Blobs.DownloadStream(t.Context(), "box", *b.Name, nil))(t)
				if got := check.Must(io.ReadAll(r.Body))(t); !bytes.Equal(got, goods(*b.Name)) {
					t.Errorf("%s: blob %s has other content", name, *b.Name)
				}
			}
		}
		slices.Sort(texts)
		if !slices.Equal(texts, blobs) {
			t.Errorf("%s has the messages %q and the blobs %q", name, texts, blobs)
		}
		list = append(list, texts...)
	}
	slices.Sort(list)
	return list
}

// Writes to accounts in all shards, one after the other: each moment has those before it and no later one, in all
// shards, also over a stop.
func TestRestoresMomentsOfShards(t *testing.T) {
	t.Parallel()
	p := check.Must(backup.Sealed(backup.Folder(filepath.Join(t.TempDir(), "place")), make([]byte, 32)))(t)
	data := filepath.Join(t.TempDir(), "data")
	metrics := prometheus.NewRegistry()
	r := startConfig(t, shopConfig(t, data, 4), archive.Options{Place: p, Metrics: metrics})
	openShops(t, r.Server)
	r.awaitReach(t, p)
	var moments []time.Time
	var want []string
	for i := range 2 * len(shopNames) {
		want = append(want, fmt.Sprintf("%02d", i))
		moments = append(moments, sell(t, r.Server, shopNames[i*5%len(shopNames)], want[i]))
		switch i {
		case 3, 9:
			r.Send(t.Context())
		case 12: // a stop sends what there is
			r.stop(t)
			r = startConfig(t, shopConfig(t, data, 0), archive.Options{Place: p})
		}
	}
	if _, err := restore(t, p, time.Now().Add(time.Hour)); !errors.Is(err, archive.ErrUnreachable) {
		t.Errorf("after the end: %v", err)
	}
	r.Send(t.Context())
	for _, i := range []int{0, 6, 12, 15} {
		folder := check.Must(restore(t, p, moments[i]))(t)
		if got := sold(t, folder); !slices.Equal(got, want[:i+1]) {
			t.Errorf("moment %d has %q, want %q", i, got, want[:i+1])
		}
	}
	if _, err := restore(t, p, moments[0].Add(-time.Hour)); !errors.Is(err, archive.ErrUnreachable) {
		t.Errorf("before the first base: %v", err)
	}
	lags := 0
	for _, f := range check.Must(metrics.Gather())(t) {
		if f.GetName() == "lazuli_archive_shard_lag_seconds" {
			lags = len(f.GetMetric())
		}
	}
	if lags != 4 {
		t.Errorf("%d shards show how far they are behind", lags)
	}
}

// A place is for one number of shards: a server with another one is refused, and a command that takes a part of the
// place for the whole.
func TestPlaceOfShards(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "place")
	p := backup.Folder(folder)
	r := startConfig(t, shopConfig(t, filepath.Join(t.TempDir(), "data"), 4), archive.Options{Place: p})
	r.awaitReach(t, p)
	r.stop(t)
	check.Must(archive.Release(t.Context(), p, time.Now()))(t)
	part := backup.Folder(filepath.Join(folder, "shards", "01"))
	open := func(context.Context, backup.Held) (backup.Source, error) { return emptyMoment{}, nil }
	for name, try := range map[string]func() error{
		"backups":           func() error { _, err := backup.Names(t.Context(), p); return err },
		"a backup":          func() error { _, err := backup.Make(t.Context(), p, open, backup.Options{}); return err },
		"backups of a part": func() error { _, err := backup.Read(t.Context(), part, ""); return err },
		"moments of a part": func() error { _, err := archive.Reachable(t.Context(), part); return err },
		"restore of a part": func() error { _, err := restore(t, part, time.Now()); return err },
		"a server with one shard": func() error {
			return startOwned(filepath.Join(t.TempDir(), "data"), archive.Options{Place: p})
		},
		"a server with two": func() error {
			c := shopConfig(t, filepath.Join(t.TempDir(), "data"), 2)
			c.Archive = archive.New(archive.Options{Place: p, Log: c.Log})
			_, err := server.Start(c)
			return err
		},
		"four shards in the place of one": func() error {
			one := backup.Folder(filepath.Join(t.TempDir(), "one"))
			check.OK(t, startOwned(filepath.Join(t.TempDir(), "data"), archive.Options{Place: one}))
			c := shopConfig(t, filepath.Join(t.TempDir(), "data"), 4)
			c.Archive = archive.New(archive.Options{Place: one, Log: c.Log})
			_, err := server.Start(c)
			return err
		},
	} {
		if err := try(); !errors.Is(err, backup.ErrShards) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Damage in the part of one shard ends what can be restored of all, and the error names the shard.
func TestDamagedPart(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "place")
	p := backup.Folder(folder)
	r := startConfig(t, shopConfig(t, filepath.Join(t.TempDir(), "data"), 4), archive.Options{Place: p})
	openShops(t, r.Server)
	r.awaitReach(t, p)
	r.Send(t.Context())
	var moments []time.Time
	for i := range 3 {
		for _, name := range shopNames {
			sell(t, r.Server, name, fmt.Sprint(i))
		}
		moments = append(moments, time.Now())
		r.Send(t.Context())
	}
	part := filepath.Join(folder, "shards", "02")
	list := segments(t, part)
	path := list[len(list)-2] // of the second moment
	whole := check.Must(os.ReadFile(path))(t)
	flipped := slices.Clone(whole)
	flipped[len(flipped)/2] ^= 1
	check.OK(t, os.WriteFile(path, flipped, 0o600))
	for _, name := range []string{"flipped", "missing"} {
		if name == "missing" {
			check.OK(t, os.Remove(path))
		}
		for i, at := range moments {
			m, err := archive.Open(t.Context(), p, at, t.TempDir(), nil)
			if i == 0 && err != nil || i > 0 && (!errors.Is(err, archive.ErrDamaged) ||
				!strings.Contains(err.Error(), "shard 2") || !strings.Contains(err.Error(), "it can be used up to")) {
				t.Errorf("%s, moment %d: %v", name, i, err)
			}
			if err == nil {
				check.OK(t, m.Close())
			}
		}
	}
	reach := check.Must(archive.Reachable(t.Context(), p))(t)
	if len(reach) != 1 || reach[0].Until.After(moments[1]) || !strings.HasPrefix(reach[0].Missing, "shards/02/log/") {
		t.Errorf("reachable: %+v", reach)
	}
	check.OK(t, os.WriteFile(path, whole, 0o600))
	check.OK(t, os.Rename(part, part+"away"))
	if _, err := archive.Open(t.Context(), p, moments[2], t.TempDir(), nil); !errors.Is(err, archive.ErrUnreachable) ||
		!strings.Contains(err.Error(), "shard 2") {
		t.Errorf("without the folder of a shard: %v", err)
	}
	if reach := check.Must(archive.Reachable(t.Context(), p))(t); len(reach) > 0 {
		t.Errorf("without the folder of a shard: %+v", reach)
	}
	check.OK(t, os.Rename(filepath.Join(folder, "shards", "03"), part)) // of another shard
	if _, err := archive.Open(t.Context(), p, moments[2], t.TempDir(), nil); !errors.Is(err, backup.ErrShards) {
		t.Errorf("with the folder of another shard: %v", err)
	}
}

// The bound is one of the spools of all shards together: beyond it the archive has a gap, which the next bases end.
func TestGapOfShards(t *testing.T) {
	t.Parallel()
	p, data := &flaky{Place: backup.Folder(filepath.Join(t.TempDir(), "place"))}, filepath.Join(t.TempDir(), "data")
	r := startConfig(t, shopConfig(t, data, 4), archive.Options{Place: p, Spool: 64 << 10})
	openShops(t, r.Server)
	r.awaitReach(t, p)
	r.Send(t.Context())
	p.down.Store(true)
	for _, name := range shopNames { // 12 KiB each: none of the shards alone has more than the bound
		x := shop(t, r.Server, name)
		check.Must(x.Queues.NewQueueClient("queue").EnqueueMessage(t.Context(), strings.Repeat("x", 12<<10), nil))(t)
	}
	lost := time.Now()
	r.Send(t.Context())
	p.down.Store(false)
	check.Eventually(t, func() bool { // shards with a gap make another base, and all go on
		r.Send(t.Context())
		reach, err := archive.Reachable(t.Context(), p)
		return err == nil && len(reach) > 0 && reach[len(reach)-1].From.After(lost)
	}, "no base after the gap")
	if _, err := restore(t, p, lost); !errors.Is(err, archive.ErrUnreachable) && !errors.Is(err, archive.ErrDamaged) {
		t.Errorf("a moment of the gap: %v", err)
	}
	after := sell(t, r.Server, shopNames[0], "after")
	r.Send(t.Context())
	if _, err := restore(t, p, after); err != nil {
		t.Errorf("after the gap: %v", err)
	}
}
