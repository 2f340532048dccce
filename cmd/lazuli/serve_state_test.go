package main

import (
	"context"
	"encoding/base64"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/microsoft/durabletask-go/api"
	tasklog "github.com/microsoft/durabletask-go/backend"
	"github.com/microsoft/durabletask-go/client"
	"github.com/microsoft/durabletask-go/task"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/workers"
	"github.com/lazuli-storage/lazuli/workers/roles/largeentity"
)

// The test clock moves the timers of workflows and the schedules of roles; after a reset both find what they need.
func TestRolesAndWorkflowsThroughResetAndClock(t *testing.T) {
	t.Parallel()
	r := start(t, Main{Args: []string{"--in-memory", "--blob-port", "0", "--queue-port", "0", "--table-port", "0",
		"--admin-port", "0", "--test-clock", "--admin-state",
		"--roles", "archive,large-entity", "--durable", "--durable-listen", "127.0.0.1:0"}})
	admin := r.wait(t, `Admin +(http://\S+)`)[1]
	tasks := r.wait(t, `Tasks +(\S+)`)[1]
	connection := r.wait(t, `(?m)^\s*(DefaultEndpointsProtocol=\S+)`)[1]
	r.wait(t, "Ready")
	storage, err := workers.OpenStorage(connection)
	check.OK(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	post := func(path string) {
		t.Helper()
		resp, err := http.Post(admin+path, "", nil)
		check.OK(t, err)
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Fatalf("%s: %s", path, resp.Status)
		}
	}
	until := func(what string, done func() bool) {
		t.Helper()
		check.Eventually(t, done, "%s", what)
	}
	exercise := func() {
		t.Helper()
		// A workflow waits for an hour.
		conn, err := grpc.NewClient(tasks, grpc.WithTransportCredentials(insecure.NewCredentials()))
		check.OK(t, err)
		defer conn.Close()
		c := client.NewTaskHubGrpcClient(conn, tasklog.DefaultLogger())
		registry := task.NewTaskRegistry()
		check.OK(t, registry.AddOrchestratorN("wait", func(ctx *task.OrchestrationContext) (any, error) {
			return "waited", ctx.CreateTimer(time.Hour).Await(nil)
		}))
		listening, stop := context.WithCancel(ctx)
		defer stop()
		check.OK(t, c.StartWorkItemListener(listening, registry))
		id, err := c.ScheduleNewOrchestration(ctx, "wait")
		check.OK(t, err)
		_, err = c.WaitForOrchestrationStart(ctx, id)
		check.OK(t, err)

		// A blob is left behind by a large entity whose row is gone.
		type page struct{ Text string }
		store, err := largeentity.New[page](storage, "LargeEntities", "large-entities")
		check.OK(t, err)
		_, err = store.Put(ctx, largeentity.Key{PartitionKey: "p", RowKey: "r"}, page{strings.Repeat("x", 100_000)})
		check.OK(t, err)
		_, err = storage.Tables.NewClient("LargeEntities").DeleteEntity(ctx, "p", "r", nil)
		check.OK(t, err)
		blobs := func() int {
			page, err := storage.Blobs.NewListBlobsFlatPager("large-entities", nil).NextPage(ctx)
			check.OK(t, err)
			return len(page.Segment.BlobItems)
		}
		if n := blobs(); n != 1 {
			t.Fatalf("%d blobs", n)
		}
		post("/admin/clock?forward=2h")
		m, err := c.WaitForOrchestrationCompletion(ctx, id, api.WithFetchPayloads(true))
		if err != nil || m.SerializedOutput != `"waited"` {
			t.Fatalf("the workflow: %+v, %v", m, err)
		}
		until("the blob is not swept", func() bool { return blobs() == 0 })

		// The archive role has its queue and tables.
		_, err = storage.Tables.NewClient("Current").AddEntity(ctx, []byte(`{"PartitionKey":"p","RowKey":"r"}`), nil)
		check.OK(t, err)
		_, err = storage.Queues.NewQueueClient("archive").EnqueueMessage(ctx,
			base64.StdEncoding.EncodeToString([]byte(`{"PartitionKey":"p","RowKey":"r"}`)), nil)
		check.OK(t, err)
		until("the entity is not archived", func() bool {
			_, err := storage.Tables.NewClient("Archive").GetEntity(ctx, "p", "r", nil)
			return err == nil
		})
	}
	exercise()
	post("/admin/reset")
	exercise()
	r.cancel()
	r.end(t)
}
