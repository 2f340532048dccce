// Package entityio calls aztables where its own methods lose something: the types of what is read, the quotes in the
// keys of a transaction.
package entityio

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"

	"github.com/lazuli-storage/lazuli/internal/sdk/emptykey"
)

// Entity is an entity in the service's JSON with minimal metadata.
type Entity struct {
	JSON []byte
	ETag azcore.ETag
	// Answer is the response whose body JSON is.
	Answer *http.Response
}

// Get reads an entity as the service sends it: in the values of the SDK, which have been decoded and encoded again, a
// Double 5.0 is an Int32 5. Its PartitionKey may be empty if the client was built with emptykey.Policy.
// https://learn.microsoft.com/rest/api/storageservices/query-entities
func Get(ctx context.Context, client *aztables.Client, partitionKey, rowKey string) (e Entity, err error) {
	ctx, partitionKey, check := emptykey.Address(ctx, partitionKey)
	got, err := client.GetEntity(policy.WithCaptureResponse(ctx, &e.Answer), partitionKey, rowKey, nil)
	if checkErr := check(); checkErr != nil {
		return e, checkErr
	}
	if err != nil {
		return e, err
	}
	e.ETag = got.ETag
	e.JSON, err = runtime.Payload(e.Answer)
	return e, err
}

// Page is a page of a query.
type Page struct {
	Entities []json.RawMessage
	// Answer is the response whose body the entities are from.
	Answer *http.Response
	// Next is the position of the next page, as the SDK has decoded it.
	Next aztables.ListEntitiesResponse
}

// NextPage returns the next page of a query.
func NextPage(ctx context.Context, pager *runtime.Pager[aztables.ListEntitiesResponse]) (p Page, err error) {
	if p.Next, err = pager.NextPage(policy.WithCaptureResponse(ctx, &p.Answer)); err != nil {
		return p, err
	}
	body, err := runtime.Payload(p.Answer)
	if err != nil {
		return p, err
	}
	var page struct{ Value []json.RawMessage }
	err = json.Unmarshal(body, &page)
	p.Entities = page.Value
	return p, err
}
