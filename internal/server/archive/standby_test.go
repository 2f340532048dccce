package archive_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"

	"github.com/lazuli-storage/lazuli/internal/server"
	"github.com/lazuli-storage/lazuli/internal/server/archive"
	"github.com/lazuli-storage/lazuli/internal/server/backup"
	"github.com/lazuli-storage/lazuli/internal/server/fsck"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/workers"
)

// second is a standby.
type second struct {
	*server.Server
	storage *workers.Storage
	end     func()
}

// startStandby starts a standby on a data folder, whose promotion waits by sleep; nil does not wait.
func startStandby(t *testing.T, data string, p backup.Place, sleep func(time.Duration)) *second {
	t.Helper()
	s, err := server.Start(standbyConfig(data, p, sleep))
	check.OK(t, err)
	r := &second{Server: s, storage: check.Must(workers.OpenStorage(s.ConnectionString()))(t)}
	r.end = sync.OnceFunc(func() { check.OK(t, s.Stop(context.Background())) })
	t.Cleanup(r.end)
	return r
}

func standbyConfig(data string, p backup.Place, sleep func(time.Duration)) server.Config {
	log := slog.New(slog.DiscardHandler)
	return server.Config{Location: data, Log: log,
		Archive: archive.New(archive.Options{Place: p, Fence: true, Log: log}),
		Standby: archive.NewFollower(archive.FollowOptions{Place: p, Log: log,
			Sleep: func(_ context.Context, d time.Duration) error {
				if sleep != nil {
					sleep(d)
				}
				return nil
			}})}
}

// peek returns the texts of the messages of a server, sorted.
func peek(t *testing.T, s *workers.Storage) (texts []string) {
	t.Helper()
	n := int32(32)
	r, err := s.Queues.NewQueueClient("queue").PeekMessages(t.Context(),
		&azqueue.PeekMessagesOptions{NumberOfMessages: &n})
	if err != nil {
		return []string{err.Error()}
	}
	for _, m := range r.Messages {
		texts = append(texts, *m.MessageText)
	}
	slices.Sort(texts)
	return texts
}

// awaitMessages waits until a standby has messages.
func (r *second) awaitMessages(t *testing.T, want ...string) {
	t.Helper()
	check.Eventually(t, func() bool { return slices.Equal(peek(t, r.storage), want) }, "the standby has not %q", want)
}

func wantClean(t *testing.T, data string) {
	t.Helper()
	report := check.Must(fsck.Check(t.Context(), data, fsck.Options{}))(t)
	if !report.Clean {
		t.Errorf("%s: %v", data, report.Findings)
	}
}

// A standby serves what the archive has, refuses writes as Azure's secondary endpoint does, and says up to when it has
// everything. Promoted, it takes writes and sends its log to the same place; the other server acknowledges nothing by
// then, and is refused at its next start.
func TestStandby(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "place")
	p := check.Must(backup.Sealed(backup.Folder(folder), make([]byte, 32)))(t)
	var ahead atomic.Int64
	now := func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	first, data := filepath.Join(t.TempDir(), "first"), filepath.Join(t.TempDir(), "second")
	cut := &flaky{Place: backup.Folder(folder)}
	r := start(t, first, archive.Options{Place: check.Must(backup.Sealed(cut, make([]byte, 32)))(t), Fence: true,
		Now: now})
	awaitBases(t, p, 1)
	r.put(t, "one")
	r.Send(t.Context())
	s := startStandby(t, data, p, func(d time.Duration) {
		if d <= archive.Lease {
			t.Errorf("a wait of %s", d)
		}
		// The other server was cut off before the epoch was created. Its lease ends while the standby waits.
		ahead.Add(int64(d * 99 / 100))
		if putOnce(t, r.Server) == nil {
			t.Error("both servers would acknowledge writes")
		}
	})
	s.awaitMessages(t, "one")
	content := strings.Repeat("content of a blob\n", 5000)
	_, err := r.storage.Blobs.CreateContainer(t.Context(), "container", nil)
	check.OK(t, err)
	_, err = r.storage.Blobs.UploadBuffer(t.Context(), "container", "blob", []byte(content), nil)
	check.OK(t, err)
	_, err = r.storage.Tables.NewClient("Table").CreateTable(t.Context(), nil)
	check.OK(t, err)
	before := r.put(t, "two")
	r.Send(t.Context())
	s.awaitMessages(t, "one", "two")
	got, err := s.storage.Blobs.DownloadStream(t.Context(), "container", "blob", nil)
	check.OK(t, err)
	if text := check.Must(io.ReadAll(got.Body))(t); string(text) != content {
		t.Errorf("%d bytes of content", len(text))
	}
	status := check.Must(s.StandbyStatus())(t)
	if status.Problem != "" || status.Until.Before(before) {
		t.Errorf("status %+v, written before %s", status, before)
	}
	stats, err := s.storage.Blobs.ServiceClient().GetStatistics(t.Context(), nil)
	check.OK(t, err)
	if g := stats.GeoReplication; string(*g.Status) != "live" || g.LastSyncTime.After(status.Until.Add(time.Minute)) ||
		g.LastSyncTime.Before(before.Add(-time.Second)) {
		t.Errorf("statistics: %s, %s", *g.Status, g.LastSyncTime)
	}
	refused := map[string]error{"message": putMessage(t, s.storage, "refused")}
	_, refused["upload"] = s.storage.Blobs.UploadBuffer(t.Context(), "container", "blob", nil, nil)
	_, refused["receive"] = s.storage.Queues.NewQueueClient("queue").DequeueMessage(t.Context(), nil)
	_, refused["table"] = s.storage.Tables.NewClient("Other").CreateTable(t.Context(), nil)
	_, refused["entity"] = s.storage.Tables.NewClient("Table").AddEntity(t.Context(),
		[]byte(`{"PartitionKey":"a","RowKey":"b"}`), &aztables.AddEntityOptions{})
	for what, err := range refused {
		if err == nil || !strings.Contains(err.Error(), "403") || !strings.Contains(err.Error(),
			string(bloberror.InsufficientAccountPermissions)) {
			t.Errorf("%s on a standby: %v", what, err)
		}
	}
	cut.down.Store(true)
	began := time.Now()
	promotion := check.Must(s.Promote(t.Context(), false))(t)
	if promotion.Until.Before(before) || time.Since(began) > check.Patience { // of which the lease is 11 s
		t.Errorf("%+v", promotion)
	}
	check.OK(t, putMessage(t, s.storage, "three"))
	s.awaitMessages(t, "one", "three", "two")
	if _, err := s.Promote(t.Context(), false); !errors.Is(err, server.ErrNotStandby) {
		t.Errorf("promoted twice: %v", err)
	}
	cut.down.Store(false)
	r.Send(t.Context())
	if putOnce(t, r.Server) == nil {
		t.Error("the other server goes on")
	}
	r.stop(t)
	if err := startOwned(first, archive.Options{Place: p, Fence: true}); !errors.Is(err, archive.ErrOwned) {
		t.Errorf("the other server was started again: %v", err)
	}
	s.end()
	wantClean(t, data)
	if err := startOwned(data, archive.Options{Place: p, Fence: true}); err != nil {
		t.Errorf("the promoted server: %v", err)
	}
	if _, err := server.Start(standbyConfig(data, p, nil)); !errors.Is(err, archive.ErrPromoted) {
		t.Errorf("the promoted server as a standby: %v", err)
	}
}

// putOnce puts a message that the server may refuse. Other clients of the tests would repeat it for half a minute.
func putOnce(t *testing.T, s *server.Server) error {
	t.Helper()
	once := check.Must(workers.OpenStorage(s.ConnectionString(),
		workers.WithClientRetry(policy.RetryOptions{MaxRetries: -1})))(t)
	return putMessage(t, once, "refused")
}

func putMessage(t *testing.T, s *workers.Storage, text string) error {
	t.Helper()
	_, err := s.Queues.NewQueueClient("queue").EnqueueMessage(t.Context(), text, nil)
	return err
}

// A standby has no fence to rely on, no moment, or a data folder of something else: refused, with what to do.
func TestStandbyRefusals(t *testing.T) {
	t.Parallel()
	p := backup.Folder(filepath.Join(t.TempDir(), "place"))
	first, data := filepath.Join(t.TempDir(), "first"), filepath.Join(t.TempDir(), "second")
	r := start(t, first, archive.Options{Place: p})
	awaitBases(t, p, 1)
	r.put(t, "one")
	r.Send(t.Context())
	s := startStandby(t, data, p, nil)
	if _, err := s.Promote(t.Context(), false); !errors.Is(err, archive.ErrNoFence) {
		t.Errorf("without a fence: %v", err)
	}
	check.OK(t, putMessage(t, r.storage, "two")) // nothing was taken
	if err := s.Save(t.Context(), "snapshot", false); !errors.Is(err, server.ErrStandby) {
		t.Errorf("a snapshot of a standby: %v", err)
	}
	s.end()
	if err := startOwned(data, archive.Options{Place: p}); err == nil || !strings.Contains(err.Error(), "--standby-of") {
		t.Errorf("the folder of a standby as that of a server: %v", err)
	}
	s = startStandby(t, data, p, nil) // goes on
	s.awaitMessages(t, "one")
	r.stop(t)
	if _, err := server.Start(standbyConfig(first, p, nil)); !errors.Is(err, archive.ErrNotStandby) {
		t.Errorf("the folder of a server as that of a standby: %v", err)
	}
	check.Must(s.Promote(t.Context(), true))(t)
	s.awaitMessages(t, "one", "two")
}

// A segment that is damaged or missing stops a standby, which goes on once it is there; a gap makes it begin again.
func TestStandbyOfDamagedArchive(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "place")
	p := &flaky{Place: backup.Folder(folder)}
	r := start(t, filepath.Join(t.TempDir(), "first"), archive.Options{Place: p, Fence: true, Spool: 4 << 10})
	awaitBases(t, p, 1)
	r.put(t, "one")
	r.Send(t.Context())
	s := startStandby(t, filepath.Join(t.TempDir(), "second"), backup.Folder(folder), nil)
	s.awaitMessages(t, "one")
	p.hold.Store(true) // what is sent does not arrive in its place
	r.put(t, "two")
	r.Send(t.Context())
	name, whole := p.held()
	check.OK(t, os.WriteFile(filepath.Join(folder, name), whole[:len(whole)-1], 0o600))
	check.Eventually(t, func() bool {
		status, err := s.StandbyStatus()
		return err == nil && strings.Contains(status.Problem, "damaged")
	}, "the standby does not notice a damaged segment")
	if _, err := s.Promote(t.Context(), false); !errors.Is(err, archive.ErrDamaged) {
		t.Errorf("promoted in spite of it: %v", err)
	}
	s.awaitMessages(t, "one")
	check.OK(t, os.WriteFile(filepath.Join(folder, name), whole, 0o600))
	p.hold.Store(false)
	s.awaitMessages(t, "one", "two")
	p.sends.Store(true)
	r.put(t, strings.Repeat("x", 6000))
	p.sends.Store(false)
	r.Send(t.Context())
	awaitBases(t, p, 2)
	r.Send(t.Context())
	s.awaitMessages(t, "one", "two", strings.Repeat("x", 6000))
	check.Must(s.Promote(t.Context(), false))(t)
	check.OK(t, putMessage(t, s.storage, "three"))
}

// A place that does not answer in the last step of a promotion leaves a standby that serves reads. The next promotion
// goes on, without a restart.
func TestPromotionBesideAPlaceThatIsDown(t *testing.T) {
	t.Parallel()
	p := backup.Folder(filepath.Join(t.TempDir(), "place"))
	r := start(t, filepath.Join(t.TempDir(), "first"), archive.Options{Place: p, Fence: true})
	awaitBases(t, p, 1)
	r.put(t, "one")
	r.Send(t.Context())
	r.stop(t)
	down := &flaky{Place: p}
	c := standbyConfig(filepath.Join(t.TempDir(), "second"), p, nil)
	c.Archive = archive.New(archive.Options{Place: down, Fence: true, Log: c.Log})
	s := check.Must(server.Start(c))(t)
	defer func() { check.OK(t, s.Stop(context.Background())) }()
	x := &second{Server: s, storage: check.Must(workers.OpenStorage(s.ConnectionString()))(t)}
	x.awaitMessages(t, "one")
	down.down.Store(true)
	if _, err := s.Promote(t.Context(), false); !errors.Is(err, errDown) {
		t.Errorf("beside a place that is down: %v", err)
	}
	x.awaitMessages(t, "one")
	if putOnce(t, x.Server) == nil {
		t.Error("a standby whose promotion has failed takes writes")
	}
	down.down.Store(false)
	check.Must(s.Promote(t.Context(), false))(t)
	check.OK(t, putMessage(t, x.storage, "two"))
	x.awaitMessages(t, "one", "two")
}
