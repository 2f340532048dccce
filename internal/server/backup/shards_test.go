package backup_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/server"
	"github.com/lazuli-storage/lazuli/internal/server/backup"
	"github.com/lazuli-storage/lazuli/internal/server/fsck"
	"github.com/lazuli-storage/lazuli/internal/storage/datadir"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/shops"
	"github.com/lazuli-storage/lazuli/workers"
)

// shopNames are the accounts of a server with shards, and shopKey is the key of each.
var shopNames = shops.Names(8)

const shopKey = "b3RoZXIga2V5IG9mIGEgdGVzdA=="

// startShops starts a server with four shards, or with those of its folder.
func startShops(t *testing.T, location string, shards int) *server.Server {
	t.Helper()
	s := check.Must(server.Start(server.Config{Location: location, Shards: shards, Relaxed: true,
		Accounts: check.Must(shops.Accounts(shopNames, shopKey))(t), Log: slog.New(slog.DiscardHandler)}))(t)
	t.Cleanup(func() { check.OK(t, s.Stop(context.Background())) })
	return s
}

// stock gives each account an entity, a message and a blob of 100 KB, whose names have a word.
func stock(t *testing.T, s *server.Server, word string) {
	t.Helper()
	ctx := t.Context()
	for _, name := range shopNames {
		x := check.Must(workers.OpenStorage(s.ConnectionStringOf(name, shopKey)))(t)
		check.Must(x.Tables.CreateTable(ctx, word, nil))(t)
		check.Must(x.Tables.NewClient(word).AddEntity(ctx, []byte(`{"PartitionKey":"a","RowKey":"b"}`), nil))(t)
		check.Must(x.Queues.CreateQueue(ctx, word, nil))(t)
		check.Must(x.Queues.NewQueueClient(word).EnqueueMessage(ctx, "of"+name, nil))(t)
		check.Must(x.Blobs.CreateContainer(ctx, word, nil))(t)
		check.Must(x.Blobs.UploadBuffer(ctx, word, "blob", content(name, word), nil))(t)
	}
}

func content(name, word string) []byte { return bytes.Repeat([]byte(name+word), 10_000) }

// missing lists what accounts do not have of a word: "shop00 tables".
func missing(t *testing.T, s *server.Server, word string) (list []string) {
	t.Helper()
	ctx := t.Context()
	for _, name := range shopNames {
		x := check.Must(workers.OpenStorage(s.ConnectionStringOf(name, shopKey)))(t)
		if _, err := x.Tables.NewClient(word).GetEntity(ctx, "a", "b", nil); err != nil {
			list = append(list, name+" tables")
		}
		if r, err := x.Queues.NewQueueClient(word).PeekMessage(ctx, nil); err != nil || len(r.Messages) != 1 ||
			*r.Messages[0].MessageText != "of"+name {
			list = append(list, name+" queues")
		}
		r, err := x.Blobs.DownloadStream(ctx, word, "blob", nil)
		if err != nil {
			list = append(list, name+" blobs")
			continue
		}
		if text := check.Must(io.ReadAll(r.Body))(t); !bytes.Equal(text, content(name, word)) {
			t.Errorf("%s: the blob has other content", name)
		}
	}
	return list
}

// A backup has all shards, as of one moment; the next one writes only what is new; and a restore has the same shards.
func TestBackupOfShards(t *testing.T) {
	t.Parallel()
	ctx, place := t.Context(), backup.Folder(filepath.Join(t.TempDir(), "backups"))
	s := startShops(t, filepath.Join(t.TempDir(), "data"), 4)
	stock(t, s, "first")
	first := check.Must(backup.Make(ctx, place, source(s), backup.Options{}))(t)
	if len(first.Shards) != 3 || first.Map.Shards() != 4 {
		t.Fatalf("parts of %d other shards, map %v", len(first.Shards), first.Map)
	}
	for n, part := range first.Shards {
		if len(part.Databases["tables"]) == 0 || len(part.Databases["queues"]) == 0 || len(part.Contents) == 0 {
			t.Errorf("the backup has nothing of shard %d", n+1)
		}
	}
	again := check.Must(backup.Make(ctx, place, source(s), backup.Options{}))(t)
	for n, part := range again.Shards {
		if fmt.Sprint(part.Contents) != fmt.Sprint(first.Shards[n].Contents) {
			t.Errorf("the content of shard %d was written again", n+1)
		}
	}
	stock(t, s, "second")
	third := check.Must(backup.Make(ctx, place, source(s), backup.Options{}))(t)
	for _, tc := range []struct {
		of   *backup.Manifest
		lack int // of what was stored second
	}{{first.Manifest, 3 * len(shopNames)}, {third.Manifest, 0}} {
		folder := filepath.Join(t.TempDir(), "restored")
		check.OK(t, backup.Restore(ctx, place, check.Must(backup.Read(ctx, place, tc.of.Name))(t), folder,
			backup.RestoreOptions{Verify: verify}))
		restored := startShops(t, folder, 0)
		if n := restored.Shards(); n != 4 {
			t.Errorf("%d shards are restored", n)
		}
		if list := missing(t, restored, "first"); list != nil {
			t.Errorf("%s lacks what was stored first: %v", tc.of.Name, list)
		}
		if list := missing(t, restored, "second"); len(list) != tc.lack {
			t.Errorf("%s lacks of what was stored second: %v", tc.of.Name, list)
		}
		stock(t, restored, "third") // its numbers go on
		check.OK(t, restored.Stop(ctx))
		if r := check.Must(fsck.Check(ctx, folder, fsck.Options{}))(t); !r.Clean || r.Shards != 4 {
			t.Errorf("fsck of what was restored: %d shards, %v", r.Shards, r.Findings)
		}
	}
}

// Damage of a file of one shard is reported with its path, and a repair loses nothing of other shards.
func TestFsckOfShards(t *testing.T) {
	t.Parallel()
	origin := filepath.Join(t.TempDir(), "data")
	s := startShops(t, origin, 4)
	stock(t, s, "first")
	check.OK(t, s.Stop(t.Context()))
	r := check.Must(fsck.Check(t.Context(), origin, fsck.Options{}))(t)
	if !r.Clean || r.Warnings > 0 || r.Tables.Entities != len(shopNames) || r.Queues.Messages != len(shopNames) ||
		r.Blobs.Blobs != int64(len(shopNames)) {
		t.Errorf("%+v", r)
	}
	stream := "queues/jetstream/$G/streams/LAZULI_LOG_queues-s02"
	for name, damage := range map[string]func(path string) error{
		"shards/02/tables.db": os.Remove,
		"shards/02/queues.db": os.Remove,
		"shards/02/blobs.db": func(path string) error {
			return os.WriteFile(path, []byte("no database"), 0o600)
		},
		"tables.db":    os.Remove,
		stream:         os.RemoveAll,
		"MANIFEST":     os.Remove,
		"shards/02/x1": func(path string) error { return os.WriteFile(path, nil, 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder := filepath.Join(t.TempDir(), "data")
			check.OK(t, os.CopyFS(folder, os.DirFS(origin)))
			check.OK(t, damage(filepath.Join(folder, filepath.FromSlash(name))))
			r := check.Must(fsck.Check(t.Context(), folder, fsck.Options{}))(t)
			stray := strings.HasSuffix(name, "x1")
			if !strings.Contains(fmt.Sprint(r.Findings), name) || r.Clean != stray {
				t.Errorf("clean: %v, findings: %v", r.Clean, r.Findings)
			}
			if stray {
				return
			}
			s, err := server.Start(server.Config{Location: folder, Log: slog.New(slog.DiscardHandler)})
			if err == nil {
				check.OK(t, s.Stop(t.Context()))
			}
			if !errors.As(err, new(*datadir.ContentError)) && !errors.Is(err, datadir.ErrManifest) && err == nil {
				t.Errorf("a start: %v", err)
			}
			r = check.Must(fsck.Check(t.Context(), folder, fsck.Options{Repair: true}))(t)
			if !r.Clean {
				t.Fatalf("after a repair: %v", r.Findings)
			}
			s = startShops(t, folder, 4)
			list := missing(t, s, "first")
			lost := map[string]int{}
			for _, what := range list {
				_, service, _ := strings.Cut(what, " ")
				lost[service]++
			}
			// Eight accounts in four shards: the other shards have some of them.
			if len(lost) > 1 || len(list) > 6 || name == "MANIFEST" && len(list) > 0 || name == stream && len(list) > 0 {
				t.Errorf("lost: %v; the repair says %v", list, r.Lost)
			}
		})
	}
}
