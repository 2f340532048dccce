package servertest

import (
	"context"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"

	"github.com/lazuli-storage/lazuli/internal/test/testaccount"
	"github.com/lazuli-storage/lazuli/tables"
	"github.com/lazuli-storage/lazuli/workers"
)

// A handler writes entities and blobs to a table and a container that do not exist yet.
func TestOutputsCreateTablesAndContainers(t *testing.T) {
	t.Parallel()
	a := testaccount.Open(t)
	queue := a.Queue("orders")
	stamp := strconv.FormatInt(time.Now().UnixNano(), 36)
	table, container := "Shipped"+stamp, "slips"+stamp
	app := newApp(a)
	app.Queue("ship", func(ctx context.Context, m workers.QueueMessage) error {
		id := string(m.Body)
		entity := aztables.EDMEntity{Entity: aztables.Entity{PartitionKey: "eu", RowKey: id},
			Properties: map[string]any{"Weight": aztables.EDMInt64(7)}}
		if err := workers.Upsert(ctx, table, entity); err != nil {
			return err
		}
		return workers.Upload(ctx, container, id+".txt", "slip "+id)
	}, workers.WithQueueName(queue), workers.WithMaxDequeueCount(1))
	send(t, a, queue, "1", "2", "3", "1")
	start(t, app)
	eventually(t, "all are handled", func() bool { s := app.Stats()[0]; return s.Succeeded+s.Failed == 4 })
	if s := app.Stats()[0]; s.LastError != nil {
		t.Fatal(s.LastError.Err)
	}
	if got, err := a.Tables.NewClient(table).GetEntity(t.Context(), "eu", "2", nil); err != nil ||
		!strings.Contains(string(got.Value), `"Weight@odata.type":"Edm.Int64"`) {
		t.Errorf("%s, %v", got.Value, err)
	}
	typed := tables.Entity{PartitionKey: "eu", RowKey: "typed",
		Properties: map[string]any{"Weight": int64(7), "Share": 2.0}}
	if err := a.Storage.Upsert(t.Context(), table, &typed); err != nil {
		t.Error(err)
	}
	written, err := tables.New[tables.Entity](a.Tables, table)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := written.Get(t.Context(), tables.Key{PartitionKey: "eu", RowKey: "typed"}); err != nil ||
		!reflect.DeepEqual(got.Properties, typed.Properties) {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := a.Blobs.DownloadStream(t.Context(), container, "3.txt", nil); err != nil {
		t.Error(err)
	}
	for what, err := range map[string]error{
		"not one of a handler": workers.Upsert(t.Context(), table, "{}"),
		"no table endpoint":    (&workers.Storage{}).Upsert(t.Context(), table, "{}"),
		"unsupported type":     a.Storage.Upsert(t.Context(), table, make(chan int)),
		"no blob endpoint":     (&workers.Storage{}).Upload(t.Context(), container, "x", "y"),
	} {
		if err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
