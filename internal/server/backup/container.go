package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/lease"

	"github.com/lazuli-storage/lazuli/internal/sdk/connstr"
)

const (
	// leaseTime is the length of the lease that locks a container, and leaseRenewal the interval of renewing it.
	leaseTime    = 60 * time.Second
	leaseRenewal = 15 * time.Second
)

// blobs is a container of a storage account.
type blobs struct {
	client *container.Client
	url    string // without a signature
}

// Container returns the place at the URL of a container: https://ACCOUNT.blob.core.windows.net/CONTAINER, or with an
// account in the path. A SAS in the URL needs the permissions read, add, create, write, delete and list; without one,
// account is the connection string of the container's account.
func Container(text, account string) (Place, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, errors.New("the URL of the container does not parse")
	}
	endpoint, name := u.Scheme+"://"+u.Host, strings.Trim(u.Path, "/")
	if owner, rest, found := strings.Cut(name, "/"); found {
		endpoint, name = endpoint+"/"+owner, rest
	}
	plain := endpoint + "/" + name
	if name == "" || strings.Contains(name, "/") {
		return nil, notContainer(plain)
	}
	s := connstr.Settings{BlobEndpoint: endpoint, SAS: connstr.NewSecret(u.RawQuery)}
	if u.RawQuery == "" {
		if s, err = connstr.Parse(account); err != nil {
			return nil, fmt.Errorf("the connection string of the account of %s: %w", plain, err)
		}
		if strings.TrimRight(s.BlobEndpoint, "/") == plain { // an account in the path, and nothing behind it
			return nil, notContainer(plain)
		}
		if strings.TrimRight(s.BlobEndpoint, "/") != endpoint {
			return nil, fmt.Errorf("%s belongs to another account than the connection string, whose blobs are at %s: give "+
				"the URL "+
				"a SAS, or another --connection-string", plain, s.BlobEndpoint)
		}
	}
	client, err := s.Blobs(connstr.Options{})
	if err != nil {
		return nil, err
	}
	return blobs{client.ServiceClient().NewContainerClient(name), plain}, nil
}

func notContainer(address string) error {
	return fmt.Errorf("%s is not the URL of a container, such as https://ACCOUNT.blob.core.windows.net/backups", address)
}

func (b blobs) String() string { return b.url }

func (b blobs) Get(ctx context.Context, name string) ([]byte, error) {
	r, err := b.client.NewBlobClient(name).DownloadStream(ctx, nil)
	if bloberror.HasCode(err, bloberror.BlobNotFound, bloberror.ContainerNotFound) {
		return nil, fmt.Errorf("%s/%s: %w", b.url, name, ErrAbsent)
	}
	if err != nil {
		return nil, err
	}
	body := r.NewRetryReader(ctx, nil)
	content, err := io.ReadAll(body)
	return content, errors.Join(err, body.Close())
}

func (b blobs) Put(ctx context.Context, name string, content []byte) error {
	_, err := b.client.NewBlockBlobClient(name).Upload(ctx, streaming.NopCloser(bytes.NewReader(content)), nil)
	return err
}

func (b blobs) Create(ctx context.Context, name string, content []byte) error {
	any := azcore.ETagAny
	_, err := b.client.NewBlockBlobClient(name).Upload(ctx, streaming.NopCloser(bytes.NewReader(content)),
		&blockblob.UploadOptions{AccessConditions: &blob.AccessConditions{
			ModifiedAccessConditions: &blob.ModifiedAccessConditions{IfNoneMatch: &any}}})
	if bloberror.HasCode(err, bloberror.BlobAlreadyExists, bloberror.ConditionNotMet) {
		return fmt.Errorf("%s/%s: %w", b.url, name, ErrExists)
	}
	return err
}

func (b blobs) List(ctx context.Context, prefix string, fn func(string) error) error {
	return b.list(ctx, prefix, func(name string, _ int64) error {
		if name == lockName {
			return nil
		}
		return fn(name)
	})
}

// list calls fn with the names and sizes of the blobs that begin with prefix. A container that does not exist has none.
func (b blobs) list(ctx context.Context, prefix string, fn func(string, int64) error) error {
	pages := b.client.NewListBlobsFlatPager(&container.ListBlobsFlatOptions{Prefix: &prefix})
	for pages.More() {
		page, err := pages.NextPage(ctx)
		if bloberror.HasCode(err, bloberror.ContainerNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		for _, item := range page.Segment.BlobItems {
			if err := fn(*item.Name, *item.Properties.ContentLength); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b blobs) Exists(ctx context.Context) (bool, error) {
	// A listing, since a SAS of the container may not read its properties.
	one := int32(1)
	_, err := b.client.NewListBlobsFlatPager(&container.ListBlobsFlatOptions{MaxResults: &one}).NextPage(ctx)
	if bloberror.HasCode(err, bloberror.ContainerNotFound) {
		return false, nil
	}
	return err == nil, err
}

func (b blobs) Remove(ctx context.Context, name string) error {
	_, err := b.client.NewBlobClient(name).Delete(ctx, nil)
	if bloberror.HasCode(err, bloberror.BlobNotFound) {
		return nil
	}
	return err
}

// Lock leases the blob "lock" until unlock; a process that dies leaves the lease for a minute.
func (b blobs) Lock(ctx context.Context) (context.Context, func() error, error) {
	if _, err := b.client.Create(ctx, nil); err != nil &&
		!bloberror.HasCode(err, bloberror.ContainerAlreadyExists, bloberror.AuthorizationFailure,
			bloberror.AuthorizationPermissionMismatch) { // a SAS of the container cannot create it
		return nil, nil, err
	}
	lock := b.client.NewBlockBlobClient(lockName)
	// A blob with a lease refuses the upload without its ID. It exists then, which is all that is needed: AcquireLease
	// decides.
	if _, err := lock.Upload(ctx, streaming.NopCloser(strings.NewReader("")), nil); err != nil &&
		!bloberror.HasCode(err, bloberror.LeaseIDMissing) {
		return nil, nil, err
	}
	l, err := lease.NewBlobClient(lock, nil)
	if err != nil {
		return nil, nil, err
	}
	if _, err = l.AcquireLease(ctx, int32(leaseTime/time.Second), nil); err != nil {
		if bloberror.HasCode(err, bloberror.LeaseAlreadyPresent) {
			err = fmt.Errorf("%s: %w; if it died, wait a minute", b.url, ErrLocked)
		}
		return nil, nil, err
	}
	locked, cancel := context.WithCancelCause(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for last := time.Now(); ; {
			select {
			case <-locked.Done():
				return
			case <-time.After(leaseRenewal):
			}
			// One renewal that fails is no loss yet: the lease lasts from the last one that succeeded. The work ends one
			// interval before the lease would, so that another process does not write at the same time.
			if _, err := l.RenewLease(locked, nil); err == nil {
				last = time.Now()
			} else if time.Since(last) > leaseTime-leaseRenewal {
				cancel(fmt.Errorf("%s: the lock was lost: %w", b.url, err))
				return
			}
		}
	}()
	return locked, func() error {
		cancel(nil)
		<-ended
		// The lease is released also if ctx has ended. Otherwise the next backup would wait for its end.
		_, err := l.ReleaseLease(context.WithoutCancel(ctx), nil)
		return err
	}, nil
}
