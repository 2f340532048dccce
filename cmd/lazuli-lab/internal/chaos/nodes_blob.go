package chaos

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/service"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/killrig"
)

// maxCounting is the size of the largest of them, in bytes: some travel in the log of the metadata, and others as
// extents.
const maxCounting = 256 << 10

// of returns clients of a container, by node.
func (b *sharedBlobs) of(name string) (list []*container.Client) {
	for _, s := range b.services {
		list = append(list, s.NewContainerClient(name))
	}
	return list
}

// sharedBlobs has blobs that count, see [sharedCounters]. The content of a blob follows from its value: wrong bytes are
// found as well as old ones.
type sharedBlobs struct {
	services   []*service.Client   // by node
	containers []*container.Client // by node
}

func newSharedBlobs(nodes []*killrig.Node) (*sharedBlobs, error) {
	b := &sharedBlobs{}
	for _, n := range nodes {
		connection := fmt.Sprintf("DefaultEndpointsProtocol=http;AccountName=%s;AccountKey=%s;BlobEndpoint=http://%s/%[1]s;",
			auth.DevelopmentAccount, auth.DevelopmentKey, n.Blob)
		s, err := service.NewClientFromConnectionString(connection, &service.ClientOptions{
			ClientOptions: azcore.ClientOptions{Transport: n.HTTP, Retry: policy.RetryOptions{MaxRetries: -1}}})
		if err != nil {
			return nil, err
		}
		b.services = append(b.services, s)
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
		for key := range counters {
			content := streaming.NopCloser(bytes.NewReader(countingContent(key, 0)))
			if _, err = b.blob(0, key).Upload(ctx, content, nil); err != nil {
				return false, nil
			}
		}
		return true, nil
	})
	return err
}

func (b *sharedBlobs) blob(node, key int) *blockblob.Client {
	return b.containers[node].NewBlockBlobClient(fmt.Sprint(key))
}

func (b *sharedBlobs) get(ctx context.Context, node, key int) (n int64, etag azcore.ETag, err error) {
	r, err := b.blob(node, key).DownloadStream(ctx, nil)
	if err != nil {
		return 0, "", err
	}
	defer r.Body.Close()
	content, err := io.ReadAll(r.Body)
	if err != nil {
		return 0, "", err
	}
	if len(content) >= 8 {
		n = int64(binary.BigEndian.Uint64(content))
	}
	if !bytes.Equal(content, countingContent(key, n)) {
		return 0, "", fmt.Errorf("%w: %d bytes", errOtherBytes, len(content))
	}
	return n, *r.ETag, nil
}

func (b *sharedBlobs) set(ctx context.Context, node, key int, n int64, etag azcore.ETag) error {
	content := streaming.NopCloser(bytes.NewReader(countingContent(key, n)))
	_, err := b.blob(node, key).Upload(ctx, content, &blockblob.UploadOptions{
		AccessConditions: &blob.AccessConditions{ModifiedAccessConditions: &blob.ModifiedAccessConditions{IfMatch: &etag}}})
	return err
}
