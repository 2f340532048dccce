package server_test

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/service"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"

	"github.com/lazuli-storage/lazuli/internal/server"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// TestAnalytics turns on logging and metrics, uses the services, and reads both back as a caller does.
func TestAnalytics(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	dir := t.TempDir()
	var now atomic.Int64
	now.Store(time.Date(2026, 5, 6, 7, 58, 0, 0, time.UTC).UnixNano())
	clock := func() time.Time { return time.Unix(0, now.Load()).UTC() }
	start := func() *server.Server {
		t.Helper()
		s, err := server.Start(server.Config{Location: dir, Relaxed: true, Log: slog.New(slog.DiscardHandler), Now: clock})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := start()
	queues := queueClient(t, s)
	on, days := true, int32(7)
	keep := &azqueue.RetentionPolicy{Enabled: &on, Days: &days}
	_, err := queues.SetProperties(ctx, &azqueue.SetPropertiesOptions{
		Logging: &azqueue.Logging{Version: to.Ptr("1.0"), Read: to.Ptr(false), Write: &on, Delete: &on,
			RetentionPolicy: keep},
		HourMetrics: &azqueue.Metrics{Version: to.Ptr("1.0"), Enabled: &on, IncludeAPIs: &on, RetentionPolicy: keep},
	})
	check.OK(t, err)
	_, err = queues.CreateQueue(ctx, "orders", nil)
	check.OK(t, err)
	_, err = queues.NewQueueClient("orders").EnqueueMessage(ctx, "hello; \"world\"", nil)
	check.OK(t, err)
	_, err = queues.NewQueueClient("orders").PeekMessage(ctx, nil) // a read, which is not logged
	check.OK(t, err)
	_, err = queues.NewQueueClient("nothing").EnqueueMessage(ctx, "x", nil)
	if err == nil {
		t.Fatal("a queue that does not exist takes a message")
	}
	check.OK(t, s.Stop(context.Background())) // which writes what is buffered
	now.Add(int64(3 * time.Minute))           // into the next hour

	s = start()
	blobs := blobClient(t, s)
	const name = "queue/2026/05/06/0700/000000.log"
	got, err := blobs.DownloadStream(ctx, "$logs", name, nil)
	check.OK(t, err)
	text, err := io.ReadAll(got.Body)
	check.OK(t, err)
	for key, want := range map[string]string{"Logtype": "write", "Logversion": "1.0", "Starttime": "2026-05-06T07:58:00Z",
		"Endtime": "2026-05-06T07:58:00Z"} {
		if v := got.Metadata[key]; v == nil || *v != want {
			t.Errorf("metadata %s is %v, want %s", key, v, want)
		}
	}
	var operations []string
	lines := bufio.NewScanner(strings.NewReader(string(text)))
	for lines.Scan() {
		f := strings.Split(lines.Text(), ";")
		if f[0] != "1.0" || f[1] != "2026-05-06T07:58:00.0000000Z" || f[7] != "sas" || f[8] != "" ||
			f[9] != "devstoreaccount1" || f[10] != "queue" {
			t.Errorf("line %q", lines.Text())
		}
		operations = append(operations, f[2]+" "+f[3]+" "+f[4])
	}
	if got, want := strings.Join(operations, ", "),
		"SetQueueServiceProperties SASSuccess 202, CreateQueue SASSuccess 201, PutMessage SASSuccess 201, PutMessage "+
			"QueueNotFound 404"; got != want {
		t.Errorf("logged %q, want %q", got, want)
	}
	if strings.Contains(string(text), "hello") || strings.Contains(string(text), "SharedKey") {
		t.Errorf("the log has content or credentials: %s", text)
	}

	tables := tableClient(t, s)
	metrics := tables.NewClient("$MetricsHourPrimaryTransactionsQueue")
	row, err := metrics.GetEntity(ctx, "20260506T0700", "user;PutMessage", nil)
	check.OK(t, err)
	var e aztables.EDMEntity
	check.OK(t, e.UnmarshalJSON(row.Value))
	for column, want := range map[string]any{"TotalRequests": aztables.EDMInt64(2), "SASSuccess": aztables.EDMInt64(1),
		"SASClientOtherError": aztables.EDMInt64(1), "PercentSuccess": int32(50), "Success": aztables.EDMInt64(0)} {
		if e.Properties[column] != want {
			t.Errorf("%s is %v (%T), want %v", column, e.Properties[column], e.Properties[column], want)
		}
	}
	_, err = metrics.GetEntity(ctx, "20260506T0700", "system;All", nil)
	check.OK(t, err)

	t.Run("callers may read and delete, not write", func(t *testing.T) {
		_, err := blobs.UploadBuffer(ctx, "$logs", "mine", []byte("x"), nil)
		if !bloberror.HasCode(err, bloberror.InsufficientAccountPermissions) {
			t.Errorf("upload: %v", err)
		}
		if _, err := blobs.DeleteContainer(ctx, "$logs", nil); !bloberror.HasCode(err,
			bloberror.InsufficientAccountPermissions) {
			t.Errorf("delete container: %v", err)
		}
		if _, err := blobs.DeleteBlob(ctx, "$logs", name, nil); err != nil {
			t.Errorf("delete blob: %v", err)
		}
		if _, err := metrics.AddEntity(ctx, []byte(`{"PartitionKey":"p","RowKey":"r"}`), nil); err == nil {
			t.Error("a metrics table takes an entity")
		}
		if _, err := metrics.SubmitTransaction(ctx, []aztables.TransactionAction{{ActionType: aztables.TransactionTypeAdd,
			Entity: []byte(`{"PartitionKey":"p","RowKey":"r"}`)}}, nil); err == nil {
			t.Error("a metrics table takes a transaction")
		}
		if _, err := metrics.Delete(ctx, nil); err == nil {
			t.Error("a metrics table can be deleted")
		}
		if _, err := tables.CreateTable(ctx, "$MetricsMine", nil); err == nil {
			t.Error("a caller makes a metrics table")
		}
	})
	t.Run("hidden from lists", func(t *testing.T) {
		page, err := blobs.ServiceClient().NewListContainersPager(&service.ListContainersOptions{}).NextPage(ctx)
		check.OK(t, err)
		if len(page.ContainerItems) != 0 {
			t.Errorf("containers %v", *page.ContainerItems[0].Name)
		}
		list, err := tables.NewListTablesPager(nil).NextPage(ctx)
		check.OK(t, err)
		if len(list.Tables) != 0 {
			t.Errorf("tables %v", *list.Tables[0].Name)
		}
	})
	check.OK(t, s.Stop(context.Background()))

	t.Run("retention", func(t *testing.T) {
		s := start()
		queues := queueClient(t, s)
		_, err := queues.DeleteQueue(ctx, "orders", nil)
		check.OK(t, err)
		check.OK(t, s.Stop(context.Background()))
		now.Add(int64(9 * 24 * time.Hour))
		s = start()
		check.OK(t, s.Stop(context.Background())) // a flush, which also expires
		s = start()
		defer func() { check.OK(t, s.Stop(context.Background())) }()
		blobs := blobClient(t, s)
		prefix := "queue/2026/05/06/"
		page, err := blobs.NewListBlobsFlatPager("$logs", &container.ListBlobsFlatOptions{Prefix: &prefix}).NextPage(ctx)
		check.OK(t, err)
		if n := len(page.Segment.BlobItems); n != 0 {
			t.Errorf("%d log blobs are older than the retention", n)
		}
		tables := tableClient(t, s)
		if _, err := tables.NewClient("$MetricsHourPrimaryTransactionsQueue").GetEntity(ctx, "20260506T0700",
			"user;PutMessage", nil); err == nil {
			t.Error("a row is older than the retention")
		}
	})
}
