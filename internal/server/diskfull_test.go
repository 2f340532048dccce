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
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
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
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); <-tick.C {
		if fn() {
			return
		}
	}
	t.Fatalf("waited 30 s in vain: %s", what)
}
