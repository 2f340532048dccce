package workers

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"

	"github.com/lazuli-storage/lazuli/internal/sdk/connstr"
	"github.com/lazuli-storage/lazuli/workers/internal/locks"
	"github.com/lazuli-storage/lazuli/workers/internal/queues"
)

// Storage has the official SDK's clients of a storage account. A client is nil if the connection string has no endpoint
// of its service. The clients are safe for concurrent use.
type Storage struct {
	Queues *azqueue.ServiceClient
	Blobs  *azblob.Client
	Tables *aztables.ServiceClient
	// Local is true if all endpoints are on this machine.
	Local bool

	putters *putters // nil in a Storage that a program has filled itself
}

// openQueueOf is the default of App.openQueue, which tests replace.
func openQueueOf(s *Storage, name string) (queues.Client, error) {
	if s.Queues == nil {
		return nil, errors.New("the connection string has no queue endpoint")
	}
	return queues.New(s.Queues.NewQueueClient(name)), nil
}

// openHostOf is the default of App.openHost, which tests replace.
func openHostOf(s *Storage) (locks.Store, error) {
	if s.Blobs == nil {
		return nil, errors.New("the connection string has no blob endpoint")
	}
	return locks.New(s.Blobs), nil
}

// StorageOption is an option of OpenStorage.
type StorageOption struct {
	apply func(*connstr.Options)
}

// WithTransport sends all requests through t, such as an in-process server in tests or an HTTP client with a proxy.
func WithTransport(t policy.Transporter) StorageOption {
	return StorageOption{func(o *connstr.Options) { o.Transport = t }}
}

// WithClientRetry sets the SDK's retry policy for requests.
func WithClientRetry(r policy.RetryOptions) StorageOption {
	return StorageOption{func(o *connstr.Options) { o.Retry = r }}
}

// Server is a server in this process, such as a server.Server or a lazulitest.Lazuli.
type Server interface {
	// ConnectionString returns the connection string of the account to use.
	ConnectionString() string
	// Client returns a client that reaches the server without a connection.
	Client() *http.Client
}

// OpenServer is OpenStorage for a server in this process, whose requests need no connection. The server authorizes,
// counts and logs them like those of other programs.
func OpenServer(s Server, options ...StorageOption) (*Storage, error) {
	return OpenStorage(s.ConnectionString(), append([]StorageOption{WithTransport(s.Client())}, options...)...)
}

// OpenStorage creates clients for the account of a connection string in any of Azure's forms, including
// UseDevelopmentStorage=true. It sends no requests. Errors do not contain the key or signature. Without WithTransport,
// requests to a server in this process need no connection, unless they go by https.
func OpenStorage(connectionString string, options ...StorageOption) (*Storage, error) {
	settings, err := connstr.Parse(connectionString)
	if err != nil {
		return nil, err
	}
	o := connstr.Options{PerCall: []policy.Policy{workPolicy{}}}
	for _, option := range options {
		option.apply(&o)
	}
	// A client of a service without an endpoint stays nil: what needs the service says so when it is used.
	s := &Storage{Local: settings.Local(), putters: &putters{}}
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
