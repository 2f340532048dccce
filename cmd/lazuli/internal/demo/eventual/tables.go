package eventual

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"golang.org/x/sync/errgroup"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo/records"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo/rig"
	"github.com/lazuli-storage/lazuli/internal/sdk/entityio"
)

// insert inserts entities, up to 100 of one partition in a transaction.
func (p *Pattern) insert(ctx context.Context, entities []records.Entity, done func(n int)) error {
	table := p.storage.Tables.NewClient(p.current)
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(rig.Parallel)
	for len(entities) > 0 {
		// The records are in the order of their keys, so those of a partition stand together, and 100 are what a
		// transaction may have.
		n := 1
		for n < len(entities) && n < 100 && entities[n].Key.Partition == entities[0].Key.Partition {
			n++
		}
		actions := make([]aztables.TransactionAction, 0, n)
		for _, e := range entities[:n] {
			actions = append(actions, aztables.TransactionAction{ActionType: aztables.TransactionTypeAdd, Entity: e.JSON})
		}
		entities = entities[n:]
		g.Go(func() error {
			if _, err := entityio.Submit(ctx, table, actions, nil); err != nil {
				return fmt.Errorf("load the records: %w", err)
			}
			done(n)
			return nil
		})
	}
	return g.Wait()
}

// read returns the contents of a table. It looks at the service's own bytes: the SDK's entities have been through
// float64, where a double of 2 and an integer of 2 are the same.
func (p *Pattern) read(ctx context.Context, table string) (rig.Contents, error) {
	all := rig.Contents{}
	pager := p.storage.Tables.NewClient(table).NewListEntitiesPager(nil)
	for pager.More() {
		var raw *http.Response
		if _, err := pager.NextPage(policy.WithCaptureResponse(ctx, &raw)); err != nil {
			return nil, fmt.Errorf("read table %s: %w", table, err)
		}
		body, err := runtime.Payload(raw)
		if err != nil {
			return nil, fmt.Errorf("read table %s: %w", table, err)
		}
		var page struct {
			Value []map[string]json.RawMessage `json:"value"`
		}
		if err := json.Unmarshal(body, &page); err != nil {
			return nil, fmt.Errorf("read table %s: %w", table, err)
		}
		for _, properties := range page.Value {
			k, hash, err := digest(properties)
			if err != nil {
				return nil, fmt.Errorf("read table %s: %w", table, err)
			}
			all[k] = hash
		}
	}
	return all, nil
}

// digest is a hash over an entity's properties, values and types, without what the service adds.
func digest(properties map[string]json.RawMessage) (rig.Key, string, error) {
	var k rig.Key
	if err := errors.Join(json.Unmarshal(properties["PartitionKey"], &k.Partition),
		json.Unmarshal(properties["RowKey"], &k.Row)); err != nil {
		return k, "", fmt.Errorf("an entity without keys: %w", err)
	}
	for name := range properties {
		if strings.HasPrefix(name, "odata.") || name == "Timestamp" || strings.HasPrefix(name, "Timestamp@") {
			delete(properties, name)
		}
	}
	canonical, err := json.Marshal(properties) // Keys sorted.
	if err != nil {
		return k, "", err
	}
	sum := sha256.Sum256(canonical)
	return k, hex.EncodeToString(sum[:]), nil
}
