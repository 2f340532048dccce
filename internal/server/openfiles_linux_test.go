package server

import (
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/fulldisk"
)

// limitFiles limits the number of open files of the process, which must run only this test.
func limitFiles(t *testing.T, n uint64) {
	t.Helper()
	var old syscall.Rlimit
	check.OK(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &old))
	check.OK(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: n, Max: old.Max}))
	t.Cleanup(func() { check.OK(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &old)) })
}

// With few open files allowed, a process can have more queues in use than that, and serves everything else, also to new
// connections.
func TestManyQueuesLeaveFilesForListeners(t *testing.T) {
	t.Parallel()
	if !fulldisk.Alone(t) {
		return
	}
	limitFiles(t, 256)
	ctx := policy.WithRetryOptions(t.Context(), policy.RetryOptions{MaxRetries: -1})
	s, err := Start(quiet(t.TempDir()))
	check.OK(t, err)
	defer func() { check.OK(t, s.Stop(ctx)) }()
	x := newTenant(t, s.ConnectionString())
	taken := []string{}
	for i := range 300 {
		name := fmt.Sprint("queue-", i)
		q := x.queues.NewQueueClient(name)
		_, err := q.Create(ctx, nil)
		check.OK(t, err)
		_, err = q.EnqueueMessage(ctx, "x", nil)
		check.OK(t, err)
		taken = append(taken, name)
	}
	for _, svc := range []wire.Service{wire.Blob, wire.Queue, wire.Table} {
		for range 16 {
			c, err := net.Dial("tcp", s.Addr(svc))
			check.OK(t, err)
			defer c.Close()
			_, err = io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
			check.OK(t, err)
			if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
				t.Fatalf("%s: a new connection is not answered: %v", svc, err)
			}
		}
	}
	for _, name := range taken {
		_, err := x.queues.NewQueueClient(name).EnqueueMessage(ctx, "y", nil)
		check.OK(t, err)
	}
	_, err = x.blobs.CreateContainer(ctx, "box", nil)
	check.OK(t, err)
	_, err = x.blobs.UploadBuffer(ctx, "box", "blob", []byte("content"), nil)
	check.OK(t, err)
	_, err = x.tables.CreateTable(ctx, "table1", nil)
	check.OK(t, err)
	check.OK(t, s.Ready())
}

// A limit that is too low for anything is an error at the start that says so.
func TestTooFewOpenFiles(t *testing.T) {
	t.Parallel()
	if !fulldisk.Alone(t) {
		return
	}
	limitFiles(t, 100)
	s, err := Start(quiet(t.TempDir()))
	if err == nil {
		_ = s.Stop(t.Context())
	}
	if err == nil || !strings.Contains(err.Error(), "ulimit -n") {
		t.Errorf("start: %v, want an error that names the limit", err)
	}
}
