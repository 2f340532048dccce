package chaos

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/service"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/cli/nodeproc"
)

// countingBlobs is the number of blobs that count.
const countingBlobs = 4

// maxCounting is the size of the largest of them, in bytes: some travel in the log of the metadata, and others as extents.
const maxCounting = 256 << 10

// sharedBlobs has blobs that all clients overwrite, as sharedTable has entities. The content of a blob follows from its value: wrong bytes are found
// as well as old ones.
type sharedBlobs struct {
	containers []*container.Client // by node

	outcomes
	// What follows is guarded by outcomes.mu.
	written []map[int64]bool // by blob: the values whose write was acknowledged
	highest []int64          // by blob: the highest value that was acknowledged or read
	writes  int64            // acknowledged requests
	reads   int64
}

func newSharedBlobs(nodes []*nodeproc.Node) (*sharedBlobs, error) {
	b := &sharedBlobs{highest: make([]int64, countingBlobs)}
	for range countingBlobs {
		b.written = append(b.written, map[int64]bool{})
	}
	for _, n := range nodes {
		connection := fmt.Sprintf("DefaultEndpointsProtocol=http;AccountName=%s;AccountKey=%s;BlobEndpoint=http://%s/%[1]s;",
			auth.DevelopmentAccount, auth.DevelopmentKey, n.Blob)
		s, err := service.NewClientFromConnectionString(connection, &service.ClientOptions{
			ClientOptions: azcore.ClientOptions{Transport: n.HTTP, Retry: policy.RetryOptions{MaxRetries: -1}}})
		if err != nil {
			return nil, err
		}
		b.containers = append(b.containers, s.NewContainerClient("chaos"))
	}
	return b, nil
}

// countingContent is the content of a blob that has a value.
func countingContent(key int, n int64) []byte {
	r := rand.New(rand.NewPCG(uint64(key), uint64(n)))
	b := make([]byte, 8+1<<r.IntN(15)*r.IntN(maxCounting>>14))
	binary.BigEndian.PutUint64(b, uint64(n))
	for i := 8; i < len(b); i++ {
		b[i] = byte(r.Uint32())
	}
	return b
}

// create creates the container and the blobs.
func (b *sharedBlobs) create(ctx context.Context) error {
	var err error
	_ = wait(ctx, createPatience, func() (bool, error) {
		if _, err = b.containers[0].Create(ctx, nil); err != nil && status(err) != http.StatusConflict {
			return false, nil
		}
		for key := range countingBlobs {
			content := streaming.NopCloser(bytes.NewReader(countingContent(key, 0)))
			if _, err = b.blob(b.containers[0], key).Upload(ctx, content, nil); err != nil {
				return false, nil
			}
		}
		return true, nil
	})
	return err
}

func (b *sharedBlobs) any(rnd *rand.Rand) *container.Client {
	return b.containers[rnd.IntN(len(b.containers))]
}

func (b *sharedBlobs) blob(c *container.Client, key int) *blockblob.Client {
	return c.NewBlockBlobClient(fmt.Sprint(key))
}

// overwrite reads and overwrites blobs until ctx is done.
func (b *sharedBlobs) overwrite(ctx context.Context, rnd *rand.Rand) {
	for ctx.Err() == nil {
		key := rnd.IntN(countingBlobs)
		n, etag, ok := b.read(context.WithoutCancel(ctx), b.any(rnd), key)
		if !ok {
			pause(ctx, 20*time.Millisecond)
			continue
		}
		b.write(context.WithoutCancel(ctx), b.any(rnd), key, n+1, etag)
		pause(ctx, time.Duration(rnd.IntN(20))*time.Millisecond)
	}
}

// read reads a blob, and checks its content, and that it is not older than what was known before.
func (b *sharedBlobs) read(ctx context.Context, c *container.Client, key int) (n int64, etag azcore.ETag, ok bool) {
	b.mu.Lock()
	known := b.highest[key]
	b.mu.Unlock()
	r, err := b.blob(c, key).DownloadStream(ctx, nil)
	var content []byte
	if err == nil {
		content, err = io.ReadAll(r.Body)
		_ = r.Body.Close()
	}
	if !b.answered(err, &b.reads) {
		return 0, "", false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(content) >= 8 {
		n = int64(binary.BigEndian.Uint64(content))
	}
	switch {
	case !bytes.Equal(content, countingContent(key, n)):
		b.found(Wrong, "blob %d has %d bytes that were never written to it", key, len(content))
		return 0, "", false
	case n < known:
		b.found(Stale, "blob %d was read as %d, and was %d before the request", key, n, known)
	}
	b.highest[key] = max(b.highest[key], n)
	return n, *r.ETag, true
}

// write replaces a blob that has an ETag.
func (b *sharedBlobs) write(ctx context.Context, c *container.Client, key int, n int64, etag azcore.ETag) {
	content := streaming.NopCloser(bytes.NewReader(countingContent(key, n)))
	_, err := b.blob(c, key).Upload(ctx, content, &blockblob.UploadOptions{
		AccessConditions: &blob.AccessConditions{ModifiedAccessConditions: &blob.ModifiedAccessConditions{IfMatch: &etag}}})
	if status(err) == http.StatusPreconditionFailed {
		return // another client was first
	}
	if !b.answered(err, &b.writes) {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.written[key][n] {
		b.found(Doubled, "two clients wrote %d to blob %d on condition of the value before it", n, key)
	}
	b.written[key][n] = true
	b.highest[key] = max(b.highest[key], n)
}

// last reads all blobs through all nodes. A value below an acknowledged one is lost.
func (b *sharedBlobs) last(ctx context.Context) {
	for i, c := range b.containers {
		for key := range countingBlobs {
			var ok bool
			_ = wait(ctx, drainPatience, func() (bool, error) {
				_, _, ok = b.read(ctx, c, key)
				return ok, nil
			})
			if !ok && ctx.Err() == nil {
				b.mu.Lock()
				b.found(Lost, "blob %d cannot be read through node %d", key, i+1)
				b.mu.Unlock()
			}
		}
	}
}

// fill copies the numbers to the report.
func (b *sharedBlobs) fill(r *NodesReport) {
	b.mu.Lock()
	defer b.mu.Unlock()
	r.BlobWrites, r.BlobReads = b.writes, b.reads
	b.add(r)
}
