package largeentity

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"golang.org/x/sync/errgroup"

	"github.com/lazuli-storage/lazuli/internal/fault"
)

// parallel is the number of blobs that of one entity are written or read at once.
const parallel = 4

// blobs is the container.
type blobs struct {
	client    *azblob.Client
	container string
}

// write writes the blobs of an entity. Blobs that were written before one failed stay.
func (b blobs) write(ctx context.Context, k Key, parts map[string]part, contents map[string][]byte) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(parallel)
	for name, p := range parts {
		kind := "application/octet-stream"
		if p.Type == edmString {
			kind = "text/plain; charset=utf-8"
		}
		g.Go(func() error {
			if err := fault.Point(pointBeforeBlob); err != nil {
				return err
			}
			_, err := b.client.UploadBuffer(ctx, b.container, p.Blob, contents[name], &azblob.UploadBufferOptions{
				Metadata: ownerMetadata(k), HTTPHeaders: &blob.HTTPHeaders{BlobContentType: to.Ptr(kind)},
			})
			if err != nil {
				return fmt.Errorf("largeentity: write the blob of %s: %w", name, err)
			}
			return fault.Point(pointAfterBlob)
		})
	}
	return g.Wait()
}

// errGone means that a blob does not exist.
var errGone = errors.New("largeentity: a blob is gone")

// read returns the contents of parts, verified. errGone if one is not there.
func (b blobs) read(ctx context.Context, parts map[string]part) (map[string][]byte, error) {
	contents := make([][]byte, len(parts))
	names := make([]string, 0, len(parts))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(parallel)
	for name, p := range parts {
		i := len(names)
		names = append(names, name)
		g.Go(func() (err error) {
			contents[i], err = b.readOne(ctx, name, p)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	all := make(map[string][]byte, len(names))
	for i, name := range names {
		all[name] = contents[i]
	}
	return all, nil
}

func (b blobs) readOne(ctx context.Context, name string, p part) ([]byte, error) {
	got, err := b.client.DownloadStream(ctx, b.container, p.Blob, nil)
	if bloberror.HasCode(err, bloberror.BlobNotFound) {
		return nil, errGone
	}
	if err != nil {
		return nil, fmt.Errorf("largeentity: read the blob of %s: %w", name, err)
	}
	body := got.NewRetryReader(ctx, nil)
	defer body.Close()
	if got.ContentLength == nil || *got.ContentLength != p.Bytes {
		return nil, fmt.Errorf("%w: the blob of %s does not have its original length of %d bytes", ErrDamaged, name, p.Bytes)
	}
	content := make([]byte, p.Bytes)
	if _, err := io.ReadFull(body, content); err != nil {
		return nil, fmt.Errorf("largeentity: read the blob of %s: %w", name, err)
	}
	if sum := sha256.Sum256(content); hex.EncodeToString(sum[:]) != p.SHA256 {
		return nil, fmt.Errorf("%w: the content of the blob of %s has changed", ErrDamaged, name)
	}
	return content, nil
}

// remove deletes unreferenced blobs. A missing blob is not an error.
func (b blobs) remove(ctx context.Context, names []string, before, after fault.Name) error {
	for _, name := range names {
		if err := fault.Point(before); err != nil {
			return err
		}
		if _, err := b.client.DeleteBlob(ctx, b.container, name, nil); err != nil && !hasStatus(err, http.StatusNotFound) {
			return fmt.Errorf("largeentity: remove the blob %s: %w", name, err)
		}
		if err := fault.Point(after); err != nil {
			return err
		}
	}
	return nil
}
