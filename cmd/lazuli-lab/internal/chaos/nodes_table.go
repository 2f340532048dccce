package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/killrig"
)

// sharedTable has entities that count, see [sharedCounters].
type sharedTable struct {
	tables []*aztables.Client // by node
}

// counter is the entity.
type counter struct {
	PartitionKey, RowKey string
	N                    int64  `json:",string"`
	Type                 string `json:"N@odata.type"`
}

func newSharedTable(nodes []*killrig.Node) (*sharedTable, error) {
	t := &sharedTable{}
	for _, n := range nodes {
		connection := fmt.Sprintf("DefaultEndpointsProtocol=http;AccountName=%s;AccountKey=%s;TableEndpoint=http://%s/%[1]s;",
			auth.DevelopmentAccount, auth.DevelopmentKey, n.Table)
		s, err := aztables.NewServiceClientFromConnectionString(connection, &aztables.ClientOptions{
			ClientOptions: azcore.ClientOptions{Transport: n.HTTP, Retry: policy.RetryOptions{MaxRetries: -1}}})
		if err != nil {
			return nil, err
		}
		t.tables = append(t.tables, s.NewClient("chaos"))
	}
	return t, nil
}

// create creates the table and the entities.
func (t *sharedTable) create(ctx context.Context) error {
	exists := func(err error) bool { return status(err) == http.StatusConflict }
	var err error
	_ = wait(ctx, createPatience, func() (bool, error) {
		if _, err = t.tables[0].CreateTable(ctx, nil); err != nil && !exists(err) {
			return false, nil
		}
		for key := range counters {
			var entity []byte
			if entity, err = json.Marshal(counter{"chaos", fmt.Sprint(key), 0, "Edm.Int64"}); err != nil {
				return false, err
			}
			if _, err = t.tables[0].AddEntity(ctx, entity, nil); err != nil && !exists(err) {
				return false, nil
			}
		}
		err = nil
		return true, nil
	})
	return err
}

func (t *sharedTable) get(ctx context.Context, node, key int) (int64, azcore.ETag, error) {
	r, err := t.tables[node].GetEntity(ctx, "chaos", fmt.Sprint(key), nil)
	if err != nil {
		return 0, "", err
	}
	var e counter
	err = json.Unmarshal(r.Value, &e)
	return e.N, r.ETag, err
}

func (t *sharedTable) set(ctx context.Context, node, key int, n int64, etag azcore.ETag) error {
	entity, err := json.Marshal(counter{"chaos", fmt.Sprint(key), n, "Edm.Int64"})
	if err == nil {
		_, err = t.tables[node].UpdateEntity(ctx, entity,
			&aztables.UpdateEntityOptions{IfMatch: &etag, UpdateMode: aztables.UpdateModeReplace})
	}
	return err
}
