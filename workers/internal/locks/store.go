package locks

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

	"github.com/lazuli-storage/lazuli/workers/internal/queues"
)

// HostContainer is the container for the shared records and locks of an app, as in Azure Functions.
const HostContainer = "azure-webjobs-hosts"

// ErrHeldByOther means that another instance holds the lock.
var ErrHeldByOther = errors.New("another instance holds the lock")

// Store stores the shared state of the instances of an app: small records, and locks that expire.
type Store interface {
	// read returns nil without an error if the record does not exist.
	Read(ctx context.Context, name string) ([]byte, error)
	Write(ctx context.Context, name string, content []byte) error
	// create writes a record unless it exists.
	Create(ctx context.Context, name string, content []byte) error
	// acquire acquires a lock for a period of 15 to 60 s. It returns ErrHeldByOther if another instance holds it.
	Acquire(ctx context.Context, name, owner string, period time.Duration) (leaseID string, err error)
	// renew restarts the period. It returns ErrNotHeld if the lease ID does not hold the lock.
	Renew(ctx context.Context, name, leaseID string) error
	Release(ctx context.Context, name, leaseID string) error
}

// Azure implements Store with blobs in HostContainer; locks are blob leases.
type Azure struct{ blobs *azblob.Client }

var _ Store = Azure{}

// New returns the store in the account of a client.
func New(blobs *azblob.Client) Azure { return Azure{blobs} }

// Blob returns the client of a record or lock.
func (h Azure) Blob(name string) *blockblob.Client {
	return h.blobs.ServiceClient().NewContainerClient(HostContainer).NewBlockBlobClient(name)
}

// Read implements Store.
func (h Azure) Read(ctx context.Context, name string) ([]byte, error) {
	got, err := h.Blob(name).DownloadStream(ctx, nil)
	if IsMissing(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer got.Body.Close()
	const most = 1 << 20 // Records have a few hundred bytes.
	return io.ReadAll(io.LimitReader(got.Body, most))
}

// Write implements Store.
func (h Azure) Write(ctx context.Context, name string, content []byte) error {
	return h.WithContainer(ctx, func() error {
		_, err := h.Blob(name).UploadBuffer(ctx, content, nil)
		return err
	})
}

// WithContainer calls do, and creates the container and calls do again if the container does not exist.
func (h Azure) WithContainer(ctx context.Context, do func() error) error {
	err := do()
	if !bloberror.HasCode(err, bloberror.ContainerNotFound) {
		return err
	}
	if _, err := h.blobs.CreateContainer(ctx, HostContainer, nil); err != nil &&
		!bloberror.HasCode(err, bloberror.ContainerAlreadyExists) {
		return err
	}
	return do()
}

func (h Azure) lock(name, leaseID string) (*lease.BlobClient, error) {
	var o *lease.BlobClientOptions
	if leaseID != "" {
		o = &lease.BlobClientOptions{LeaseID: to.Ptr(leaseID)}
	}
	return lease.NewBlobClient(h.Blob(name), o)
}

// Acquire implements Store.
func (h Azure) Acquire(ctx context.Context, name, owner string, period time.Duration) (string, error) {
	lock, err := h.lock(name, "")
	if err != nil {
		return "", err
	}
	got, err := lock.AcquireLease(ctx, *queues.Seconds(period), nil)
	if IsMissing(err) {
		if err = h.Create(ctx, name, nil); err == nil {
			got, err = lock.AcquireLease(ctx, *queues.Seconds(period), nil)
		}
	}
	if bloberror.HasCode(err, bloberror.LeaseAlreadyPresent) {
		return "", ErrHeldByOther
	}
	if err != nil {
		return "", err
	}
	id := *got.LeaseID
	// For diagnosis only; the lease decides.
	_, _ = h.Blob(name).SetMetadata(ctx, map[string]*string{"FunctionInstance": to.Ptr(owner)},
		&blob.SetMetadataOptions{
			AccessConditions: &blob.AccessConditions{LeaseAccessConditions: &blob.LeaseAccessConditions{LeaseID: to.Ptr(id)}}})
	return id, nil
}

// Create implements Store.
func (h Azure) Create(ctx context.Context, name string, content []byte) error {
	return h.WithContainer(ctx, func() error {
		_, err := h.Blob(name).UploadBuffer(ctx, content,
			&blockblob.UploadBufferOptions{AccessConditions: &blob.AccessConditions{
				ModifiedAccessConditions: &blob.ModifiedAccessConditions{IfNoneMatch: to.Ptr(azcore.ETagAny)},
			}})
		if bloberror.HasCode(err, bloberror.BlobAlreadyExists, bloberror.ConditionNotMet, bloberror.LeaseIDMissing) {
			return nil
		}
		return err
	})
}

// Renew implements Store.
func (h Azure) Renew(ctx context.Context, name, leaseID string) error {
	lock, err := h.lock(name, leaseID)
	if err != nil {
		return err
	}
	_, err = lock.RenewLease(ctx, nil)
	return lockFailure(err)
}

// Release implements Store.
func (h Azure) Release(ctx context.Context, name, leaseID string) error {
	lock, err := h.lock(name, leaseID)
	if err != nil {
		return err
	}
	_, err = lock.ReleaseLease(ctx, nil)
	return lockFailure(err)
}

// lockFailure adds ErrNotHeld to 404 and 409 responses of lease operations: the lease ID does not hold the lock.
// https://learn.microsoft.com/rest/api/storageservices/lease-blob#outcomes-of-lease-operations-on-blobs-by-lease-state
func lockFailure(err error) error {
	var r *azcore.ResponseError
	if errors.As(err, &r) && (r.StatusCode == http.StatusConflict || r.StatusCode == http.StatusNotFound) {
		return errors.Join(queues.ErrNotHeld, err)
	}
	return err
}

// IsMissing reports whether the error says that a blob or its container does not exist.
func IsMissing(err error) bool {
	return bloberror.HasCode(err, bloberror.BlobNotFound, bloberror.ContainerNotFound)
}
