package server

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/nats/natsserver"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// codeOf returns the status and the code of an error response.
func codeOf(err error) (status int, code string) {
	var r *azcore.ResponseError
	if errors.As(err, &r) {
		return r.StatusCode, r.ErrorCode
	}
	return 0, ""
}

// wantFull fails the test unless err is the answer of a full disk.
func wantFull(t *testing.T, what string, err error) {
	t.Helper()
	if status, code := codeOf(err); status != http.StatusInsufficientStorage || code != "InsufficientStorage" {
		t.Errorf("%s: %d %s, want 507 InsufficientStorage; %v", what, status, code, err)
	}
}

// wantSpaceRules asks for something of every kind: writes are refused if the disk is full, reads and deletes are not.
func wantSpaceRules(t *testing.T, x *tenant, name string) {
	t.Helper()
	ctx := t.Context()
	_, err := x.blobs.UploadBuffer(ctx, name, "new", []byte("x"), nil)
	wantFull(t, "Put Blob", err)
	_, err = x.blobs.CreateContainer(ctx, name+"new", nil)
	wantFull(t, "Create Container", err)
	_, err = x.queues.NewQueueClient(name).EnqueueMessage(ctx, "x", nil)
	wantFull(t, "Put Message", err)
	_, err = x.tables.NewClient(name).AddEntity(ctx, []byte(`{"PartitionKey":"p","RowKey":"new"}`), nil)
	wantFull(t, "Insert Entity", err)

	r, err := x.blobs.DownloadStream(ctx, name, "blob", nil)
	check.OK(t, err)
	content, err := io.ReadAll(r.Body)
	check.OK(t, errors.Join(err, r.Body.Close()))
	if string(content) != name {
		t.Errorf("the blob is %q", content)
	}
	_, err = x.tables.NewClient(name).GetEntity(ctx, "p", "r", nil)
	check.OK(t, err)
	_, err = x.queues.NewQueueClient(name).PeekMessage(ctx, nil)
	check.OK(t, err)

	_, err = x.blobs.DeleteBlob(ctx, name, "blob", nil)
	check.OK(t, err)
	_, err = x.tables.NewClient(name).DeleteEntity(ctx, "p", "r", nil)
	check.OK(t, err)
	_, err = x.queues.NewQueueClient(name).ClearMessages(ctx, nil)
	check.OK(t, err)
}

func quiet(location string) Config {
	return Config{Location: location, Log: slog.New(slog.DiscardHandler)}
}

// TestFullDisk takes the room away from a server, and gives it back.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	var free atomic.Int64
	free.Store(1 << 40)
	c := quiet(t.TempDir())
	c.FreeSpace = func(string) (int64, error) { return free.Load(), nil }
	s, err := Start(c)
	check.OK(t, err)
	defer s.Stop(context.WithoutCancel(t.Context()))
	x := newTenant(t, s.ConnectionStringOf(auth.DevelopmentAccount, auth.DevelopmentKey))
	x.fill(t, "before")
	check.OK(t, s.Ready())

	free.Store(0)
	s.space.Look()
	if err := s.Ready(); err == nil || !strings.Contains(err.Error(), "full") {
		t.Errorf("ready: %v", err)
	}
	wantSpaceRules(t, x, "before")

	free.Store(1 << 40)
	s.space.Look()
	check.OK(t, s.Ready())
	x.fill(t, "after")
}

// lineCount is a log that counts its lines of warnings and errors, by their text.
type lineCount struct {
	slog.Handler
	mu    sync.Mutex
	lines map[string]int
}

// Enabled implements slog.Handler.
func (*lineCount) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }

// WithAttrs implements slog.Handler.
func (c *lineCount) WithAttrs([]slog.Attr) slog.Handler { return c }

// Handle implements slog.Handler.
func (c *lineCount) Handle(_ context.Context, r slog.Record) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lines[r.Message]++
	return nil
}

// TestNodeWithoutRoom takes the last room away from a node of a cluster. It stops its copies, which would fill the disk
// by what others write, says so in one line of its log, and answers at once, with the reason; it goes on by itself when
// there is room, with what it has missed.
func TestNodeWithoutRoom(t *testing.T) {
	if testing.Short() {
		t.Skip("starts three nodes")
	}
	t.Parallel()
	var free atomic.Int64
	free.Store(1 << 40)
	c := newTestCluster(t, 3)
	const full = 2
	c.configs[full].FreeSpace = func(string) (int64, error) { return free.Load(), nil }
	log := &lineCount{Handler: slog.DiscardHandler, lines: map[string]int{}}
	c.configs[full].Log = slog.New(log)
	c.start(0, 1, 2)
	at := func(node int) *tenant { return newTenant(t, c.nodes[node].ConnectionString()) }
	at(0).fill(t, "before")
	wantEventually(t, "the node has what was written", func() bool { return at(full).has(t, "before") == "bqt" })

	log.mu.Lock()
	clear(log.lines) // of a start
	log.mu.Unlock()
	free.Store(10 << 20)
	wantEventually(t, "the node stops its copies", func() bool {
		return errors.Is(c.nodes[full].Ready(), natsserver.ErrNoRoom)
	})
	at(0).fill(t, "meanwhile")
	once := policy.WithRetryOptions(t.Context(), policy.RetryOptions{MaxRetries: -1})
	best := time.Hour // a busy machine makes some slow
	for range 20 {
		began := time.Now()
		_, blobErr := at(full).blobs.DownloadStream(once, "before", "blob", nil)
		_, tableErr := at(full).tables.NewClient("before").GetEntity(once, "p", "r", nil)
		_, queueErr := at(full).queues.NewQueueClient("before").PeekMessage(once, nil)
		for _, err := range []error{blobErr, tableErr, queueErr} {
			if status, code := codeOf(err); status != http.StatusServiceUnavailable {
				t.Fatalf("a read is answered %d %s, want 503; %v", status, code, err)
			}
			if !strings.Contains(err.Error(), "The disk of this server is full") {
				t.Fatalf("the answer does not say that the disk is full: %v", err)
			}
		}
		best = min(best, time.Since(began))
	}
	if best > 6*time.Second {
		t.Errorf("three reads took %v at least", best)
	}
	// Longer than any background work waits before it tries again: one line for each change of the state, not one a try.
	log.mu.Lock()
	for line, n := range log.lines {
		if n > 1 {
			t.Errorf("the log has %d lines %q", n, line)
		}
	}
	if log.lines[natsserver.ErrNoRoom.Error()] != 1 {
		t.Errorf("the log does not say once that the node has no room: %v", log.lines)
	}
	log.mu.Unlock()

	free.Store(1 << 40)
	wantEventually(t, "the node is ready again", func() bool { return c.nodes[full].Ready() == nil })
	wantEventually(t, "the node has what it has missed", func() bool { return at(full).has(t, "meanwhile") == "bqt" })
}

// TestRealFullDisk fills a disk until the system refuses, stops the server, and starts it again with some MiB of what
// the reserve gave left. It needs to mount a file system, which only root may.
func TestRealFullDisk(t *testing.T) {
	t.Parallel()
	dir := smallDisk(t, 160<<20)
	location := dir + "/data"
	s, err := Start(quiet(location))
	check.OK(t, err)
	connection := func() *tenant {
		return newTenant(t, s.ConnectionStringOf(auth.DevelopmentAccount, auth.DevelopmentKey))
	}
	x := connection()
	x.fill(t, "before")
	filler := dir + "/filler"
	fillDisk(t, filler)
	wantEventually(t, "the server notices", func() bool { return s.Ready() != nil })
	check.OK(t, s.Stop(context.WithoutCancel(t.Context())))
	fillDisk(t, filler)
	info, err := os.Stat(filler)
	check.OK(t, err)
	check.OK(t, os.Truncate(filler, info.Size()-6<<20))

	if s, err = Start(quiet(location)); err != nil {
		t.Fatalf("start on a full disk: %v", err)
	}
	defer func() { _ = s.Stop(context.WithoutCancel(t.Context())) }()
	x = connection()
	if s.Ready() == nil {
		t.Error("the server is ready for everything on a full disk")
	}
	wantSpaceRules(t, x, "before")
	check.OK(t, os.Remove(filler))
	wantEventually(t, "the server recovers", func() bool { return s.Ready() == nil })
	x.fill(t, "after")
}

// fillDisk writes to a file until there is no room.
func fillDisk(t *testing.T, path string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	check.OK(t, err)
	defer f.Close()
	for p := bytes.Repeat([]byte{1}, 1<<20); len(p) > 0; {
		if _, err := f.Write(p); err != nil {
			p = p[:len(p)/2]
		}
	}
}

func wantEventually(t *testing.T, what string, fn func() bool) {
	t.Helper()
	check.Eventually(t, fn, "%s", what)
}
