package workers

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/lease"
)

// hostContainer is the container for the shared records and locks of an app, as in Azure Functions.
const hostContainer = "azure-webjobs-hosts"

// errHeldByOther means that another instance holds the lock.
var errHeldByOther = errors.New("another instance holds the lock")

// hostStore stores the shared state of the instances of an app: small records, and locks that expire.
type hostStore interface {
	// read returns nil without an error if the record does not exist.
	read(ctx context.Context, name string) ([]byte, error)
	write(ctx context.Context, name string, content []byte) error
	// create writes a record unless it exists.
	create(ctx context.Context, name string, content []byte) error
	// acquire acquires a lock for a period of 15 to 60 s. It returns errHeldByOther if another instance holds it.
	acquire(ctx context.Context, name, owner string, period time.Duration) (leaseID string, err error)
	// renew restarts the period. It returns errNotHeld if the lease ID does not hold the lock.
	renew(ctx context.Context, name, leaseID string) error
	release(ctx context.Context, name, leaseID string) error
}

// azureHost implements hostStore with blobs in hostContainer; locks are blob leases.
type azureHost struct{ blobs *azblob.Client }

var _ hostStore = azureHost{}

func openAzureHost(s *Storage) (hostStore, error) {
	if s.Blobs == nil {
		return nil, errors.New("the connection string has no blob endpoint")
	}
	return azureHost{s.Blobs}, nil
}

func (h azureHost) blob(name string) *blockblob.Client {
	return h.blobs.ServiceClient().NewContainerClient(hostContainer).NewBlockBlobClient(name)
}

func (h azureHost) read(ctx context.Context, name string) ([]byte, error) {
	got, err := h.blob(name).DownloadStream(ctx, nil)
	if isMissing(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer got.Body.Close()
	const most = 1 << 20 // Records have a few hundred bytes.
	return io.ReadAll(io.LimitReader(got.Body, most))
}

func (h azureHost) write(ctx context.Context, name string, content []byte) error {
	return h.withContainer(ctx, func() error {
		_, err := h.blob(name).UploadBuffer(ctx, content, nil)
		return err
	})
}

// withContainer calls do, and creates the container and calls do again if the container does not exist.
func (h azureHost) withContainer(ctx context.Context, do func() error) error {
	err := do()
	if !bloberror.HasCode(err, bloberror.ContainerNotFound) {
		return err
	}
	if _, err := h.blobs.CreateContainer(ctx, hostContainer, nil); err != nil &&
		!bloberror.HasCode(err, bloberror.ContainerAlreadyExists) {
		return err
	}
	return do()
}

func (h azureHost) lock(name, leaseID string) (*lease.BlobClient, error) {
	var o *lease.BlobClientOptions
	if leaseID != "" {
		o = &lease.BlobClientOptions{LeaseID: to.Ptr(leaseID)}
	}
	return lease.NewBlobClient(h.blob(name), o)
}

func (h azureHost) acquire(ctx context.Context, name, owner string, period time.Duration) (string, error) {
	lock, err := h.lock(name, "")
	if err != nil {
		return "", err
	}
	got, err := lock.AcquireLease(ctx, *seconds(period), nil)
	if isMissing(err) {
		if err = h.create(ctx, name, nil); err == nil {
			got, err = lock.AcquireLease(ctx, *seconds(period), nil)
		}
	}
	if bloberror.HasCode(err, bloberror.LeaseAlreadyPresent) {
		return "", errHeldByOther
	}
	if err != nil {
		return "", err
	}
	id := *got.LeaseID
	// For diagnosis only; the lease decides.
	_, _ = h.blob(name).SetMetadata(ctx, map[string]*string{"FunctionInstance": to.Ptr(owner)},
		&blob.SetMetadataOptions{
			AccessConditions: &blob.AccessConditions{LeaseAccessConditions: &blob.LeaseAccessConditions{LeaseID: to.Ptr(id)}}})
	return id, nil
}

func (h azureHost) create(ctx context.Context, name string, content []byte) error {
	return h.withContainer(ctx, func() error {
		_, err := h.blob(name).UploadBuffer(ctx, content,
			&blockblob.UploadBufferOptions{AccessConditions: &blob.AccessConditions{
				ModifiedAccessConditions: &blob.ModifiedAccessConditions{IfNoneMatch: to.Ptr(azcore.ETagAny)},
			}})
		if bloberror.HasCode(err, bloberror.BlobAlreadyExists, bloberror.ConditionNotMet, bloberror.LeaseIDMissing) {
			return nil
		}
		return err
	})
}

func (h azureHost) renew(ctx context.Context, name, leaseID string) error {
	lock, err := h.lock(name, leaseID)
	if err != nil {
		return err
	}
	_, err = lock.RenewLease(ctx, nil)
	return lockFailure(err)
}

func (h azureHost) release(ctx context.Context, name, leaseID string) error {
	lock, err := h.lock(name, leaseID)
	if err != nil {
		return err
	}
	_, err = lock.ReleaseLease(ctx, nil)
	return lockFailure(err)
}

// lockFailure adds errNotHeld to 404 and 409 responses of lease operations: the lease ID does not hold the lock.
// https://learn.microsoft.com/rest/api/storageservices/lease-blob#outcomes-of-lease-operations-on-blobs-by-lease-state
func lockFailure(err error) error {
	var r *azcore.ResponseError
	if errors.As(err, &r) && (r.StatusCode == http.StatusConflict || r.StatusCode == http.StatusNotFound) {
		return errors.Join(errNotHeld, err)
	}
	return err
}

func isMissing(err error) bool {
	return bloberror.HasCode(err, bloberror.BlobNotFound, bloberror.ContainerNotFound)
}
