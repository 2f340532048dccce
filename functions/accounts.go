package functions

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"

	"github.com/lazuli-storage/lazuli/workers"
)

// open returns the clients of a connection's account.
func (h *Host) open(connection string) (*workers.Storage, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s := h.accounts[connection]; s != nil {
		return s, nil
	}
	text, err := h.project.settings.Connection(connection)
	if err != nil {
		return nil, err
	}
	s, err := workers.OpenStorage(text)
	if err != nil {
		return nil, fmt.Errorf("connection %q: %w", connection, err)
	}
	h.accounts[connection] = s
	return s, nil
}

func (h *Host) blobClient(b *binding) (*azblob.Client, error) {
	storage, err := h.open(b.connection)
	if err != nil {
		return nil, err
	}
	if storage.Blobs == nil {
		return nil, errNoEndpoint(b, "blob")
	}
	return storage.Blobs, nil
}

func (h *Host) tableClient(b *binding) (*aztables.ServiceClient, error) {
	storage, err := h.open(b.connection)
	if err != nil {
		return nil, err
	}
	if storage.Tables == nil {
		return nil, errNoEndpoint(b, "table")
	}
	return storage.Tables, nil
}

func errNoEndpoint(b *binding, service string) error {
	return fmt.Errorf("the connection %q has no %s endpoint", b.connection, service)
}

// splitPath takes the path of a blob apart. With an error, container may be there still.
func splitPath(path string) (container, name string, err error) {
	container, name, _ = strings.Cut(strings.TrimPrefix(path, "/"), "/")
	if container == "" || name == "" {
		return container, name, fmt.Errorf("%q is not container/blob", path)
	}
	return container, name, nil
}

// download reads a blob, in a certain state if an ETag is given.
func download(ctx context.Context, client *blob.Client, etag string) ([]byte, error) {
	var o blob.DownloadStreamOptions
	if etag != "" {
		o.AccessConditions = &blob.AccessConditions{ModifiedAccessConditions: &blob.ModifiedAccessConditions{IfMatch: to.Ptr(
			azcore.ETag(etag))}}
	}
	got, err := client.DownloadStream(ctx, &o)
	if err != nil {
		return nil, err
	}
	defer got.Body.Close()
	if got.ContentLength != nil && *got.ContentLength > maxBody {
		return nil, errTooLarge
	}
	return readBounded(got.Body)
}

// missing reports whether the error means that the resource does not exist.
func missing(err error) bool {
	var r *azcore.ResponseError
	return bloberror.HasCode(err, bloberror.BlobNotFound, bloberror.ContainerNotFound) ||
		errors.As(err, &r) && (r.ErrorCode == string(aztables.ResourceNotFound) ||
			r.ErrorCode == string(aztables.TableNotFound))
}
