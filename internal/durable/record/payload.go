package record

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
)

// InlineLimit is the size up to which a payload stays in rows and messages, in bytes. A message has at most 64 KiB, in
// base64; a property 64 KiB, in UTF-16.
const InlineLimit = 16 << 10

// maxStored is the maximum size of a payload read from a blob. It does not depend on the options, which may have
// changed since the payload was written.
const maxStored = 256 << 20

// Payloads are texts in blobs, compressed by gzip. A name is derived from the content, so that writing it again changes
// nothing:
//
//	<instance>/<scope>/<hash>.gz
//
// The scope is an execution, whose payloads are deleted together, or it belongs to one message or one column of a row,
// so that no other one has the blob when its payload is deleted.
type Payloads struct {
	Container *container.Client
}

func payloadName(instance, scope, text string) string {
	sum := sha256.Sum256([]byte(text))
	return fmt.Sprintf("%s/%s/%s.gz", PartitionKey(instance), scope, hex.EncodeToString(sum[:16]))
}

func (p Payloads) Put(ctx context.Context, name, text string) error {
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, _ = io.WriteString(w, text) // A buffer does not fail.
	_ = w.Close()
	_, err := p.Container.NewBlockBlobClient(name).UploadBuffer(ctx, packed.Bytes(), nil)
	if err != nil {
		return fmt.Errorf("durable: write the payload %s: %w", name, err)
	}
	return nil
}

// ErrNoPayload: a row or message refers to a payload that is not there, or not readable.
var ErrNoPayload = errors.New("a payload cannot be read")

// PayloadLost is the type of the failure of a task or call whose payload cannot be read.
const PayloadLost = "PayloadLost"

func (p Payloads) Get(ctx context.Context, name string) (string, error) {
	got, err := p.Container.NewBlobClient(name).DownloadStream(ctx, nil)
	if bloberror.HasCode(err, bloberror.BlobNotFound, bloberror.ContainerNotFound) {
		return "", fmt.Errorf("durable: %w: there is no blob %s", ErrNoPayload, name)
	}
	if err != nil {
		return "", fmt.Errorf("durable: read the payload %s: %w", name, err)
	}
	defer got.Body.Close()
	r, err := gzip.NewReader(got.Body)
	if err != nil {
		return "", fmt.Errorf("durable: %w: %s: %w", ErrNoPayload, name, err)
	}
	text, err := io.ReadAll(io.LimitReader(r, maxStored+1))
	switch {
	case err != nil && ctx.Err() != nil:
		return "", ctx.Err()
	case err != nil:
		return "", fmt.Errorf("durable: %w: %s: %w", ErrNoPayload, name, err)
	case len(text) > maxStored:
		return "", fmt.Errorf("durable: %w: %s has more than %d bytes", ErrNoPayload, name, maxStored)
	}
	return string(text), nil
}

func (p Payloads) Delete(ctx context.Context, name string) error {
	_, err := p.Container.NewBlobClient(name).Delete(ctx, nil)
	if err == nil || bloberror.HasCode(err, bloberror.BlobNotFound, bloberror.ContainerNotFound) {
		return nil
	}
	return fmt.Errorf("durable: delete the payload %s: %w", name, err)
}

// DeleteAll deletes the payloads of an instance.
func (p Payloads) DeleteAll(ctx context.Context, instance string) error {
	prefix := PartitionKey(instance) + "/"
	for pager := p.Container.NewListBlobsFlatPager(&azblob.ListBlobsFlatOptions{Prefix: to.Ptr(prefix)}); pager.More(); {
		page, err := pager.NextPage(ctx)
		if IsNotFound(err) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("durable: list the payloads of %q: %w", instance, err)
		}
		for _, b := range page.Segment.BlobItems {
			if err := p.Delete(ctx, *b.Name); err != nil {
				return err
			}
		}
	}
	return nil
}
