package dashboard

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

// clientOptions send requests to the services of this process, once.
func (d *dashboard) clientOptions() policy.ClientOptions {
	return azcore.ClientOptions{Transport: &http.Client{Transport: d.Backend().Transport()},
		Retry: policy.RetryOptions{MaxRetries: -1}}
}

// accountOf is the account in the page's path.
func (d *dashboard) accountOf(r *http.Request) (string, error) {
	account := r.PathValue("account")
	if d.Accounts.Get(account) == nil {
		return "", problem{http.StatusNotFound, "There is no account " + account, "The navigation lists the accounts."}
	}
	return account, nil
}

func (d *dashboard) blobClient(r *http.Request) (*service.Client, error) {
	account, err := d.accountOf(r)
	if err != nil {
		return nil, err
	}
	client, err := azblob.NewClientWithNoCredential(d.Backend().URL(wire.Blob, account),
		&azblob.ClientOptions{ClientOptions: d.clientOptions()})
	if err != nil {
		return nil, err
	}
	return client.ServiceClient(), nil
}

func (d *dashboard) queueClient(r *http.Request) (*azqueue.ServiceClient, error) {
	account, err := d.accountOf(r)
	if err != nil {
		return nil, err
	}
	return azqueue.NewServiceClientWithNoCredential(d.Backend().URL(wire.Queue, account),
		&azqueue.ClientOptions{ClientOptions: d.clientOptions()})
}

func (d *dashboard) tableClient(r *http.Request) (*aztables.ServiceClient, error) {
	account, err := d.accountOf(r)
	if err != nil {
		return nil, err
	}
	options := d.clientOptions()
	options.PerCallPolicies = []policy.Policy{emptykey.Policy()}
	return aztables.NewServiceClientWithNoCredential(d.Backend().URL(wire.Table, account),
		&aztables.ClientOptions{ClientOptions: options})
}
