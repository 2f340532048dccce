package tabletool

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
)

// Continuation is the position at which the next page of a table's entities begins.
type Continuation struct{ PartitionKey, RowKey string }

// Page returns a page of a table's entities in the form of [Query], from the beginning or a continuation on. next is
// nil at the end.
func Page(ctx context.Context, client *aztables.Client, from *Continuation) (entities []json.RawMessage,
	next *Continuation, err error) {
	o := &aztables.ListEntitiesOptions{}
	if from != nil {
		o.NextPartitionKey, o.NextRowKey = &from.PartitionKey, &from.RowKey
	}
	var response *http.Response
	if _, err := client.NewListEntitiesPager(o).NextPage(policy.WithCaptureResponse(ctx, &response)); err != nil {
		return nil, nil, err
	}
	if entities, err = entitiesOf(response); err != nil {
		return nil, nil, err
	}
	for i := range entities {
		if entities[i], err = withoutAnnotations(entities[i]); err != nil {
			return nil, nil, err
		}
	}
	if p, r := response.Header.Get("x-ms-continuation-NextPartitionKey"),
		response.Header.Get("x-ms-continuation-NextRowKey"); p != "" {
		next = &Continuation{PartitionKey: p, RowKey: r}
	}
	return entities, next, nil
}
