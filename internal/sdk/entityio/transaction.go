package entityio

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
)

// Submit is [aztables.Client.SubmitTransaction] for actions whose keys may have quotes. It does not change the actions.
//
// aztables 1.4.1 does not double the quotes of keys in the addresses of a transaction's changes, as OData demands and
// as it does for single requests (prepareKey): sdk/data/aztables/transactional_batch.go, lines 217, 249 and 270, the
// calls of DeleteEntityCreateRequest, MergeEntityCreateRequest and UpdateEntityCreateRequest in generateEntitySubset. A
// change of the entity a”b changes a'b there, and one of a'b fails.
//
// The SDK takes the address of a change from the keys in its entity. Submit doubles the quotes there. The service reads
// the key of a change that has an address from the address only; an insert has none, and is left as it is.
// https://learn.microsoft.com/rest/api/storageservices/performing-entity-group-transactions
func Submit(ctx context.Context, client *aztables.Client, actions []aztables.TransactionAction,
	o *aztables.SubmitTransactionOptions) (aztables.TransactionResponse, error) {
	quoted := make([]aztables.TransactionAction, len(actions))
	for i, a := range actions {
		if a.ActionType != aztables.TransactionTypeAdd &&
			(bytes.ContainsRune(a.Entity, '\'') || bytes.Contains(a.Entity, []byte("u0027"))) {
			var err error
			if a.Entity, err = quote(a.Entity); err != nil {
				return aztables.TransactionResponse{}, err
			}
		}
		quoted[i] = a
	}
	return client.SubmitTransaction(ctx, quoted, o)
}

// quote doubles the quotes in the keys of an entity.
func quote(entity []byte) ([]byte, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(entity, &members); err != nil {
		return nil, err
	}
	for _, name := range []string{"PartitionKey", "RowKey"} {
		var key string
		if json.Unmarshal(members[name], &key) != nil || !strings.Contains(key, "'") {
			continue
		}
		doubled, err := json.Marshal(strings.ReplaceAll(key, "'", "''"))
		if err != nil {
			return nil, err
		}
		members[name] = doubled
	}
	return json.Marshal(members)
}
