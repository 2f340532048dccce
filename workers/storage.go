package workers

import (
	"errors"
	"fmt"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"
	"github.com/lazuli-storage/lazuli/internal/sdk/connstr"
)

// Storage is one storage account, as the official SDK's clients. A client is nil when the connection string has no
// endpoint for its service. The clients may be used by many goroutines at once.
type Storage struct {
	Queues *azqueue.ServiceClient
	Blobs  *azblob.Client
	Tables *aztables.ServiceClient
	// Local is true when the account is served by this machine.
	Local bool
}

// StorageOption changes how OpenStorage builds its clients.
type StorageOption func(*connstr.Options)

// WithTransport sends every request through t: an in-process server in tests, a recorder, an HTTP client with a proxy.
func WithTransport(t policy.Transporter) StorageOption {
	return func(o *connstr.Options) { o.Transport = t }
}

// WithClientRetry sets the SDK's retry policy for single requests.
func WithClientRetry(r policy.RetryOptions) StorageOption {
	return func(o *connstr.Options) { o.Retry = r }
}

// OpenStorage builds clients for the account that a connection string names. All of Azure's forms are read, also
// UseDevelopmentStorage=true. Nothing is sent yet. Errors never contain the key or signature.
func OpenStorage(connectionString string, options ...StorageOption) (*Storage, error) {
	settings, err := connstr.Parse(connectionString)
	if err != nil {
		return nil, err
	}
	var o connstr.Options
	for _, option := range options {
		option(&o)
	}
	s := &Storage{Local: settings.Local()}
	var errs []error
	if settings.QueueEndpoint != "" {
		s.Queues, err = settings.Queues(o)
		errs = append(errs, err)
	}
	if settings.BlobEndpoint != "" {
		s.Blobs, err = settings.Blobs(o)
		errs = append(errs, err)
	}
	if settings.TableEndpoint != "" {
		s.Tables, err = settings.Tables(o)
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("workers: open storage: %w", err)
	}
	return s, nil
}
