package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"

	"github.com/lazuli-storage/lazuli/internal/server"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/workers"
)

// transferAccounts moves the folder of a single server into the cluster, and that into another folder.
func transferAccounts(t *testing.T, cluster string, lazuli func(args ...string) (string, int)) {
	t.Helper()
	before, after := filepath.Join(t.TempDir(), "before"), filepath.Join(t.TempDir(), "after")
	alone(t, before, func(s *workers.Storage) { fillAccount(t, s) })
	for _, command := range [][]string{{"import", before}, {"export", after}} {
		text, code := lazuli("cluster", command[0], command[1], "--connection-string", cluster)
		if code != 0 || !strings.Contains(text, "copied") {
			t.Fatalf("lazuli cluster %s: %d, %s", command[0], code, text)
		}
		if left := check.Must(filepath.Glob(command[1] + ".transfer"))(t); left != nil {
			t.Errorf("lazuli cluster %s left %v", command[0], left)
		}
		if command[0] == "import" {
			wantAccount(t, "in the cluster", check.Must(workers.OpenStorage(cluster))(t))
		}
	}
	alone(t, after, func(s *workers.Storage) { wantAccount(t, "in the other folder", s) })
	alone(t, before, func(s *workers.Storage) { wantAccount(t, "where it came from", s) })

	// A second import would mix accounts, and a node's folder is no server's.
	if text, code := lazuli("cluster", "import", before, "--connection-string", cluster); code == 0 ||
		!strings.Contains(text, "it exists in the account") {
		t.Errorf("a second import: %d, %s", code, text)
	}
	if text, code := lazuli("cluster", "import", filepath.Join(before, "missing"), "--connection-string",
		cluster); code == 0 {
		t.Errorf("an import from a folder that does not exist: %s", text)
	}
	wrong, none := strings.Replace(cluster, "AccountKey=", "AccountKey=AAAA", 1), filepath.Join(before, "..", "none")
	if text, code := lazuli("cluster", "export", none, "--connection-string", wrong); code == 0 {
		t.Errorf("an export with another key: %s", text)
	}
	if _, err := os.Stat(none); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an export that fails at once leaves its folder: %v", err)
	}
}

// alone serves a folder without a cluster while fn runs.
func alone(t *testing.T, folder string, fn func(*workers.Storage)) {
	t.Helper()
	s := check.Must(server.Start(server.Config{Location: folder, Log: slog.New(slog.DiscardHandler)}))(t)
	defer func() { check.OK(t, s.Stop(context.Background())) }()
	fn(check.Must(workers.OpenStorage(s.ConnectionString()))(t))
}

// transferred is the number of messages: more than one answer of Peek Messages shows.
const transferred = 1100

func fillAccount(t *testing.T, s *workers.Storage) {
	t.Helper()
	ctx := t.Context()
	check.Must(s.Tables.CreateTable(ctx, "moved", nil))(t)
	check.Must(s.Tables.NewClient("moved").AddEntity(ctx,
		[]byte(`{"PartitionKey":"p","RowKey":"r","N":"7","N@odata.type":"Edm.Int64"}`), nil))(t)
	check.Must(s.Tables.SetProperties(ctx,
		aztables.ServiceProperties{Cors: []*aztables.CorsRule{{AllowedHeaders: to.Ptr("*"), AllowedMethods: to.Ptr("GET"),
			AllowedOrigins: to.Ptr("https://example.com"), ExposedHeaders: to.Ptr("*"), MaxAgeInSeconds: to.Ptr[int32](5)}}},
		nil))(t)
	q := s.Queues.NewQueueClient("moved")
	check.Must(q.Create(ctx, &azqueue.CreateOptions{Metadata: map[string]*string{"owner": to.Ptr("me")}}))(t)
	var puts sync.WaitGroup
	for first := range 20 { // together they wait for fewer syncs
		puts.Go(func() {
			for i := first; i < transferred; i += 20 {
				hidden := int32(3600 * (i % 2))
				if _, err := q.EnqueueMessage(ctx, fmt.Sprint("message ", i),
					&azqueue.EnqueueMessageOptions{VisibilityTimeout: &hidden}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	puts.Wait()
	check.Must(s.Blobs.CreateContainer(ctx, "moved", nil))(t)
	check.Must(s.Blobs.UploadBuffer(ctx, "moved", "a/b.txt", []byte("content"),
		&azblob.UploadBufferOptions{Metadata: map[string]*string{"k": to.Ptr("v")}}))(t)
}

func wantAccount(t *testing.T, where string, s *workers.Storage) {
	t.Helper()
	ctx := t.Context()
	e, err := s.Tables.NewClient("moved").GetEntity(ctx, "p", "r", nil)
	if err != nil || !strings.Contains(string(e.Value), `"N":"7"`) {
		t.Errorf("%s: the entity: %s, %v", where, e.Value, err)
	}
	if p, err := s.Tables.GetProperties(ctx, nil); err != nil || len(p.Cors) != 1 {
		t.Errorf("%s: the table service's properties: %+v, %v", where, p.ServiceProperties, err)
	}
	if p, err := s.Queues.NewQueueClient("moved").GetProperties(ctx, nil); err != nil ||
		*p.ApproximateMessagesCount != transferred || len(p.Metadata) != 1 {
		t.Errorf("%s: the queue: %v, %v", where, p, err)
	}
	b, err := s.Blobs.ServiceClient().NewContainerClient("moved").NewBlobClient("a/b.txt").GetProperties(ctx, nil)
	if err != nil || *b.ContentLength != int64(len("content")) || len(b.Metadata) != 1 {
		t.Errorf("%s: the blob: %v", where, err)
	}
	content := make([]byte, len("content"))
	if _, err := s.Blobs.DownloadBuffer(ctx, "moved", "a/b.txt", content, nil); err != nil ||
		string(content) != "content" {
		t.Errorf("%s: the blob's content: %q, %v", where, content, err)
	}
}
