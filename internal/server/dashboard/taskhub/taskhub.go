package taskhub

import (
	"context"
	"encoding/json"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/service"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
)

// Names by which a task hub is found; see package durable.
const (
	Suffix  = "-leases"
	hubInfo = "taskhub.json"
)

// Parts are what ends the names of a task hub's resources, by service; see package durable. DurableTask.AzureStorage
// has the same names, and leases of its own.
var Parts = map[string][]string{
	wire.Blob.String():  {"-leases", "-largemessages", "-applease"},
	wire.Queue.String(): {"-workitems", "-shared", "-poison"},
	wire.Table.String(): {"instances", "history", "entities", "partitions"},
}

// Hub is what a task hub says of itself.
type Hub struct {
	TaskHubName    string
	CreatedAt      time.Time
	PartitionCount int
}

// Read reads what a container says of its task hub. Other containers can have such a name, too.
func Read(ctx context.Context, client *service.Client, name string) (hub Hub, ok bool) {
	text := make([]byte, 4096)
	n, err := client.NewContainerClient(name).NewBlobClient(hubInfo).DownloadBuffer(ctx, text, nil)
	ok = err == nil && json.Unmarshal(text[:n], &hub) == nil && hub.PartitionCount >= 1
	return hub, ok
}
