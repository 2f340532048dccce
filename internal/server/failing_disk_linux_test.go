package server

import (
	"context"
	"fmt"
	"net/http"
	"syscall"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/fusedisk"
)

// newImpatientTenant is newTenant with clients that do not retry.
func newImpatientTenant(t *testing.T, connection string) *tenant {
	t.Helper()
	once := azcore.ClientOptions{Retry: policy.RetryOptions{MaxRetries: -1}}
	var x tenant
	var err error
	x.blobs, err = azblob.NewClientFromConnectionString(connection, &azblob.ClientOptions{ClientOptions: once})
	check.OK(t, err)
	x.queues, err = azqueue.NewServiceClientFromConnectionString(connection, &azqueue.ClientOptions{ClientOptions: once})
	check.OK(t, err)
	x.tables, err = aztables.NewServiceClientFromConnectionString(connection, &aztables.ClientOptions{ClientOptions: once})
	check.OK(t, err)
	return &x
}

// TestFailingDisk makes all writes of a server fail: of the logs of tables and blobs, of bbolt, of content, and of
// JetStream. They are refused with the code for the error, reads are served, readiness says so, and when the disk works
// again so does the server, without a restart.
func TestFailingDisk(t *testing.T) {
	t.Parallel()
	disk := fusedisk.Mount(t)
	c := quiet(disk.Dir + "/data")
	s, err := Start(c)
	check.OK(t, err)
	t.Cleanup(func() { check.OK(t, s.Stop(context.WithoutCancel(t.Context()))) })
	x := newImpatientTenant(t, s.ConnectionStringOf(auth.DevelopmentAccount, auth.DevelopmentKey))
	x.fill(t, "before")
	for _, errno := range []syscall.Errno{syscall.EIO, syscall.EROFS, syscall.ENOSPC} {
		for _, service := range []string{"blob", "queue", "table"} { // each alone makes the server say that it is not ready
			name := fmt.Sprintf("%s%d", service, errno)
			disk.Fail(fusedisk.Failure{Err: errno,
				Kinds: []fusedisk.Kind{fusedisk.Write, fusedisk.Create, fusedisk.Truncate, fusedisk.Rename}})
			status, code := http.StatusInternalServerError, "InternalError"
			switch service {
			case "blob":
				_, err = x.blobs.UploadBuffer(t.Context(), "before", name, []byte("x"), nil)
			case "queue":
				_, err = x.queues.NewQueueClient("before").EnqueueMessage(t.Context(), name, nil)
				status, code = http.StatusServiceUnavailable, "ServerBusy"
			case "table":
				_, err = x.tables.NewClient("before").AddEntity(t.Context(), []byte(`{"PartitionKey":"p","RowKey":"`+name+`"}`),
					nil)
			}
			if errno == syscall.ENOSPC {
				status, code = http.StatusInsufficientStorage, "InsufficientStorage"
			}
			if gotStatus, gotCode := codeOf(err); gotStatus != status || gotCode != code {
				t.Errorf("%s: %d %s, want %d %s; %v", name, gotStatus, gotCode, status, code, err)
			}
			if s.Ready() == nil {
				t.Errorf("%s: the server says that it is ready", name)
			}
			if found := x.has(t, "before"); service != "queue" && found != "bqt" {
				t.Errorf("%s: %q can be read, want all", name, found)
			}
			if disk.Heal() == 0 {
				t.Errorf("%s: no call failed: the test shows nothing", name)
			}
			s.space.Look()
			wantEventually(t, "the server recovers", func() bool { return s.Ready() == nil })
			if found := x.has(t, "before"); found != "bqt" {
				t.Errorf("%s, afterwards: %q can be read, want all", name, found)
			}
			x.fill(t, "after"+name)
		}
	}
}
