package server_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/lease"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"

	"github.com/lazuli-storage/lazuli/internal/server"
	"github.com/lazuli-storage/lazuli/internal/server/fsck"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/workers"
)

// storeFormat is the variable with which TestFormat010 writes the stored folders again. Until 0.1.0 is made, a change
// of formats does that; after it nothing does, since each later release opens what 0.1.0 wrote.
const storeFormat = "LAZULI_STORE_FORMAT"

// The data folders that release 0.1.0 wrote, of a server that was stopped and of one that was killed, are opened, are
// clean, and have what was written.
func TestFormat010(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"stopped", "killed"} {
		path := filepath.Join("testdata", "format-0.1.0-"+name+".tar.gz")
		if os.Getenv(storeFormat) != "" {
			writeFormat(t, path, name == "killed")
		}
		folder := filepath.Join(t.TempDir(), name)
		unpack(t, path, folder)
		report, err := fsck.Check(t.Context(), folder, fsck.Options{})
		check.OK(t, err)
		if !report.Clean {
			t.Errorf("%s: %v", name, report.Findings)
		}
		s := start(t, server.Config{Location: folder})
		readFormat(t, s)
		check.OK(t, s.Stop(t.Context()))
	}
}

const formatEntity = `{"PartitionKey":"p","RowKey":"r","Text":"text","Big@odata.type":"Edm.Int64",` +
	`"Big":"12345678901","At@odata.type":"Edm.DateTime","At":"2026-01-02T03:04:05Z","Ok":true,"Rate":1.5}`

// writeFormat stores a folder with a table, a queue and a container.
func writeFormat(t *testing.T, path string, killed bool) {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "data")
	s := start(t, server.Config{Location: folder})
	storage, err := workers.OpenStorage(s.ConnectionString())
	check.OK(t, err)
	ctx := t.Context()
	_, err = storage.Tables.CreateTable(ctx, "Format", nil)
	check.OK(t, err)
	_, err = storage.Tables.NewClient("Format").AddEntity(ctx, []byte(formatEntity), nil)
	check.OK(t, err)
	_, err = storage.Queues.CreateQueue(ctx, "format",
		&azqueue.CreateOptions{Metadata: map[string]*string{"a": to.Ptr("b")}})
	check.OK(t, err)
	for _, text := range []string{"one", "two"} {
		_, err = storage.Queues.NewQueueClient("format").EnqueueMessage(ctx, text,
			&azqueue.EnqueueMessageOptions{TimeToLive: to.Ptr(int32(-1))})
		check.OK(t, err)
	}
	_, err = storage.Blobs.CreateContainer(ctx, "format", nil)
	check.OK(t, err)
	c := storage.Blobs.ServiceClient().NewContainerClient("format")
	small := c.NewBlockBlobClient("small")
	_, err = small.Upload(ctx, streaming.NopCloser(strings.NewReader("before")),
		&blockblob.UploadOptions{Metadata: map[string]*string{"a": to.Ptr("b")}})
	check.OK(t, err)
	_, err = small.CreateSnapshot(ctx, nil)
	check.OK(t, err)
	_, err = small.Upload(ctx, streaming.NopCloser(strings.NewReader("after")), nil)
	check.OK(t, err)
	l, err := lease.NewBlobClient(small, &lease.BlobClientOptions{LeaseID: to.Ptr("11111111-1111-1111-1111-111111111111")})
	check.OK(t, err)
	_, err = l.AcquireLease(ctx, -1, nil)
	check.OK(t, err)
	_, err = storage.Blobs.UploadBuffer(ctx, "format", "large", formatContent(), nil)
	check.OK(t, err)
	_, err = c.NewAppendBlobClient("append").Create(ctx, nil)
	check.OK(t, err)
	_, err = c.NewAppendBlobClient("append").AppendBlock(ctx, streaming.NopCloser(strings.NewReader("line\n")), nil)
	check.OK(t, err)
	_, err = c.NewPageBlobClient("page").Create(ctx, 1024, nil)
	check.OK(t, err)
	_, err = c.NewPageBlobClient("page").UploadPages(ctx,
		streaming.NopCloser(bytes.NewReader(bytes.Repeat([]byte("p"), 512))),
		blob.HTTPRange{Offset: 512, Count: 512}, nil)
	check.OK(t, err)
	_, err = c.NewBlockBlobClient("open").StageBlock(ctx, "AAAA", streaming.NopCloser(strings.NewReader("block")), nil)
	check.OK(t, err)
	if !killed {
		check.OK(t, s.Stop(ctx))
	}
	pack(t, folder, path)
}

func formatContent() []byte { return bytes.Repeat([]byte("0123456789abcdef"), 20<<10) }

// readFormat compares what writeFormat wrote.
func readFormat(t *testing.T, s *server.Server) {
	t.Helper()
	storage, err := workers.OpenStorage(s.ConnectionString())
	check.OK(t, err)
	ctx := t.Context()
	entity, err := storage.Tables.NewClient("Format").GetEntity(ctx, "p", "r", nil)
	check.OK(t, err)
	for _, part := range []string{`"Big":"12345678901"`, `"At":"2026-01-02T03:04:05Z"`, `"Ok":true`, `"Rate":1.5`} {
		if !strings.Contains(string(entity.Value), part) {
			t.Errorf("the entity is %s", entity.Value)
		}
	}
	queue := storage.Queues.NewQueueClient("format")
	p, err := queue.GetProperties(ctx, nil)
	check.OK(t, err)
	if *p.ApproximateMessagesCount != 2 || len(p.Metadata) != 1 {
		t.Errorf("the queue has %d messages, metadata %v", *p.ApproximateMessagesCount, p.Metadata)
	}
	got, err := queue.DequeueMessage(ctx, nil)
	check.OK(t, err)
	if len(got.Messages) != 1 || *got.Messages[0].MessageText != "one" {
		t.Errorf("the first message is %v", got.Messages)
	}
	c := storage.Blobs.ServiceClient().NewContainerClient("format")
	for name, want := range map[string]string{"small": "after", "large": string(formatContent()), "append": "line\n",
		"page": strings.Repeat("\x00", 512) + strings.Repeat("p", 512)} {
		r, err := c.NewBlobClient(name).DownloadStream(ctx, nil)
		check.OK(t, err)
		content, err := io.ReadAll(r.Body)
		if err != nil || string(content) != want {
			t.Errorf("%s has %d bytes, want %d: %v", name, len(content), len(want), err)
		}
	}
	_, err = c.NewBlobClient("small").Delete(ctx,
		&blob.DeleteOptions{DeleteSnapshots: to.Ptr(blob.DeleteSnapshotsOptionTypeInclude)})
	check.Code(t, err, "412 LeaseIdMissing")
	blocks, err := c.NewBlockBlobClient("open").GetBlockList(ctx, blockblob.BlockListTypeAll, nil)
	check.OK(t, err)
	if len(blocks.UncommittedBlocks) != 1 {
		t.Errorf("%d uncommitted blocks", len(blocks.UncommittedBlocks))
	}
	page, err := c.NewListBlobsFlatPager(&container.ListBlobsFlatOptions{
		Include: container.ListBlobsInclude{Snapshots: true}}).NextPage(ctx)
	check.OK(t, err)
	if n := len(page.Segment.BlobItems); n != 5 {
		t.Errorf("%d blobs and snapshots, want 5", n)
	}
	// It goes on from there.
	_, err = storage.Blobs.UploadBuffer(ctx, "format", "new", []byte("new"), nil)
	check.OK(t, err)
}

// pack writes the files of a folder to an archive.
func pack(t *testing.T, folder, path string) {
	t.Helper()
	check.OK(t, os.MkdirAll(filepath.Dir(path), 0o755))
	out, err := os.Create(path)
	check.OK(t, err)
	z := gzip.NewWriter(out)
	w := tar.NewWriter(z)
	check.OK(t, filepath.WalkDir(folder, func(file string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() || e.Name() == "RESERVE" || e.Name() == "LOCK" {
			return err
		}
		rel, err := filepath.Rel(folder, file)
		if err != nil {
			return err
		}
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		err = w.WriteHeader(&tar.Header{Name: filepath.ToSlash(rel), Mode: 0o600, Size: int64(len(content))})
		if err != nil {
			return err
		}
		_, err = w.Write(content)
		return err
	}))
	check.OK(t, errors.Join(w.Close(), z.Close(), out.Close()))
}

func unpack(t *testing.T, path, folder string) {
	t.Helper()
	in, err := os.Open(path)
	check.OK(t, err)
	defer in.Close()
	z, err := gzip.NewReader(in)
	check.OK(t, err)
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		check.OK(t, err)
		file := filepath.Join(folder, filepath.FromSlash(h.Name))
		check.OK(t, os.MkdirAll(filepath.Dir(file), 0o700))
		content, err := io.ReadAll(r)
		check.OK(t, err)
		check.OK(t, os.WriteFile(file, content, 0o600))
	}
}
