package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"

	"github.com/lazuli-storage/lazuli/internal/killrig"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/workers"
)

// backupWriters is the number of clients that write while backups are made.
const backupWriters = 4

// Backups are made while clients write; then the server is killed. What is restored from the last one has everything
// that was acknowledged before it began, and nothing without what was acknowledged before: each client writes an
// entity, then a message, then a blob, of the same number.
func TestBackupUnderLoad(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	check.OK(t, err)
	lazuli := func(args ...string) *exec.Cmd { return lazuliCommand(self, args...) }
	server, err := killrig.StartServer(t.Context(), lazuli, filepath.Join(t.TempDir(), "data"))
	check.OK(t, err)
	t.Cleanup(server.Kill)
	load := startBackupLoad(t, server.Connection)

	place := filepath.Join(t.TempDir(), "backups")
	port := server.Admin[strings.LastIndex(server.Admin, ":")+1:]
	make := func() (row backupRow) {
		t.Helper()
		out, err := lazuli("backup", place, "--admin-port", port, "--keep", "2", "--json").Output()
		check.OK(t, err)
		check.OK(t, json.Unmarshal(out, &row))
		return row
	}
	load.await(t, 20)
	first := make()
	load.await(t, 40)
	make()
	load.await(t, 60)
	acknowledged := load.counts()
	last := make()
	if len(last.Removed) != 1 || last.Removed[0] != first.Name {
		t.Errorf("removed %v, want %s", last.Removed, first.Name)
	}
	if last.New >= last.Bytes {
		t.Errorf("of %d bytes %d are new: the backups share nothing", last.Bytes, last.New)
	}
	server.Kill()
	load.stop()
	written := load.counts()

	folder := filepath.Join(t.TempDir(), "restored")
	if out, err := lazuli("restore", place, folder).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	restored, err := killrig.StartServer(t.Context(), lazuli, folder)
	check.OK(t, err)
	t.Cleanup(restored.Kill)
	for i, n := range restoredCounts(t, restored.Connection) {
		if n.entities < acknowledged[i] || n.messages < acknowledged[i] || n.blobs < acknowledged[i] {
			t.Errorf("client %d: %+v, and %d of each were acknowledged before the backup", i, n, acknowledged[i])
		}
		if n.messages > n.entities || n.blobs > n.messages || n.entities > n.blobs+1 || n.blobs > written[i]+1 {
			t.Errorf("client %d: %+v: there is something without what was acknowledged before", i, n)
		}
	}
}

// backupLoad is clients that write.
type backupLoad struct {
	done   [backupWriters]atomic.Int64
	cancel context.CancelFunc
	ended  sync.WaitGroup
}

func startBackupLoad(t *testing.T, connection string) *backupLoad {
	t.Helper()
	storage, err := workers.OpenStorage(connection)
	check.OK(t, err)
	_, err = storage.Tables.CreateTable(t.Context(), "Numbers", nil)
	check.OK(t, err)
	_, err = storage.Blobs.CreateContainer(t.Context(), "numbers", nil)
	check.OK(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	load := &backupLoad{cancel: cancel}
	for i := range backupWriters {
		_, err = storage.Queues.CreateQueue(t.Context(), fmt.Sprintf("numbers-%d", i), nil)
		check.OK(t, err)
		load.ended.Go(func() {
			for n := int64(1); ctx.Err() == nil && writeNumber(ctx, storage, i, n) == nil; n++ {
				load.done[i].Store(n)
			}
		})
	}
	t.Cleanup(load.stop)
	return load
}

func writeNumber(ctx context.Context, s *workers.Storage, client int, n int64) error {
	entity := fmt.Sprintf(`{"PartitionKey":"%d","RowKey":"%08d"}`, client, n)
	if _, err := s.Tables.NewClient("Numbers").AddEntity(ctx, []byte(entity), nil); err != nil {
		return err
	}
	queue := s.Queues.NewQueueClient(fmt.Sprintf("numbers-%d", client))
	if _, err := queue.EnqueueMessage(ctx, fmt.Sprint(n), nil); err != nil {
		return err
	}
	content := bytes.Repeat([]byte(entity), int(n%50)*100+1) // small ones go through the log of the database
	_, err := s.Blobs.UploadBuffer(ctx, "numbers", fmt.Sprintf("%d/%08d", client, n), content, nil)
	return err
}

func (l *backupLoad) await(t *testing.T, n int64) {
	t.Helper()
	check.Eventually(t, func() bool {
		for i := range l.done {
			if l.done[i].Load() < n {
				return false
			}
		}
		return true
	}, "no client writes %d", n)
}

func (l *backupLoad) counts() (n [backupWriters]int) {
	for i := range l.done {
		n[i] = int(l.done[i].Load())
	}
	return n
}

func (l *backupLoad) stop() { l.cancel(); l.ended.Wait() }

// numbers are the numbers of what a client wrote.
type numbers struct{ entities, messages, blobs int }

func restoredCounts(t *testing.T, connection string) (n [backupWriters]numbers) {
	t.Helper()
	storage, err := workers.OpenStorage(connection)
	check.OK(t, err)
	for i := range n {
		filter := fmt.Sprintf("PartitionKey eq '%d'", i)
		entities := storage.Tables.NewClient("Numbers").NewListEntitiesPager(&aztables.ListEntitiesOptions{Filter: &filter})
		for entities.More() {
			page, err := entities.NextPage(t.Context())
			check.OK(t, err)
			n[i].entities += len(page.Entities)
		}
		queue := storage.Queues.NewQueueClient(fmt.Sprintf("numbers-%d", i))
		for many := int32(32); ; {
			page, err := queue.DequeueMessages(t.Context(), &azqueue.DequeueMessagesOptions{NumberOfMessages: &many})
			check.OK(t, err)
			if len(page.Messages) == 0 {
				break
			}
			n[i].messages += len(page.Messages)
		}
		prefix := fmt.Sprintf("%d/", i)
		blobs := storage.Blobs.NewListBlobsFlatPager("numbers", &azblob.ListBlobsFlatOptions{Prefix: &prefix})
		for blobs.More() {
			page, err := blobs.NextPage(t.Context())
			check.OK(t, err)
			for _, b := range page.Segment.BlobItems {
				content := make([]byte, *b.Properties.ContentLength)
				if _, err := storage.Blobs.DownloadBuffer(t.Context(), "numbers", *b.Name, content, nil); err != nil {
					t.Errorf("%s: %v", *b.Name, err)
				}
				n[i].blobs++
			}
		}
	}
	return n
}
