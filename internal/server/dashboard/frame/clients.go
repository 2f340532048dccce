package frame

import (
	"net/http"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/service"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/sdk/emptykey"
)

// ClientOptions send requests to the services of this process, once.
func (d *Site) ClientOptions() policy.ClientOptions {
	return azcore.ClientOptions{Transport: &http.Client{Transport: d.Backend().Transport()},
		Retry: policy.RetryOptions{MaxRetries: -1}}
}

// AccountOf is the account in the page's path.
func (d *Site) AccountOf(r *http.Request) (string, error) {
	account := r.PathValue("account")
	if d.Accounts.Get(account) == nil {
		return "", Problem{http.StatusNotFound, "There is no account " + account, "The navigation lists the accounts."}
	}
	return account, nil
}

// BlobClient returns the client of the Blob endpoint of the account in the page's path.
func (d *Site) BlobClient(r *http.Request) (*service.Client, error) {
	account, err := d.AccountOf(r)
	if err != nil {
		return nil, err
	}
	client, err := azblob.NewClientWithNoCredential(d.Backend().URL(wire.Blob, account),
		&azblob.ClientOptions{ClientOptions: d.ClientOptions()})
	if err != nil {
		return nil, err
	}
	return client.ServiceClient(), nil
}

// QueueClient returns the client of the Queue endpoint of the account in the page's path.
func (d *Site) QueueClient(r *http.Request) (*azqueue.ServiceClient, error) {
	account, err := d.AccountOf(r)
	if err != nil {
		return nil, err
	}
	return azqueue.NewServiceClientWithNoCredential(d.Backend().URL(wire.Queue, account),
		&azqueue.ClientOptions{ClientOptions: d.ClientOptions()})
}

// TableClient returns the client of the Table endpoint of the account in the page's path.
func (d *Site) TableClient(r *http.Request) (*aztables.ServiceClient, error) {
	account, err := d.AccountOf(r)
	if err != nil {
		return nil, err
	}
	options := d.ClientOptions()
	options.PerCallPolicies = []policy.Policy{emptykey.Policy()}
	return aztables.NewServiceClientWithNoCredential(d.Backend().URL(wire.Table, account),
		&aztables.ClientOptions{ClientOptions: options})
}
