package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/cli/nodeproc"
)

// counters is the number of entities that count.
const counters = 4

// sharedTable has entities that all clients increment, each time on condition of the ETag that they have read, through all nodes. Increments of an
// entity form a chain, so that its history is linearizable if each value has one writer, and no read returns less than what was
// acknowledged before the read began.
type sharedTable struct {
	tables []*aztables.Client // by node

	outcomes
	// What follows is guarded by outcomes.mu.
	written []map[int64]bool // by entity: the values whose write was acknowledged
	highest []int64          // by entity: the highest value that was acknowledged or read
	updates int64            // acknowledged requests
	reads   int64
}

// counter is the entity.
type counter struct {
	PartitionKey, RowKey string
	N                    int64  `json:",string"`
	Type                 string `json:"N@odata.type"`
}

func newSharedTable(nodes []*nodeproc.Node) (*sharedTable, error) {
	t := &sharedTable{highest: make([]int64, counters)}
	for range counters {
		t.written = append(t.written, map[int64]bool{})
	}
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

func (t *sharedTable) any(rnd *rand.Rand) *aztables.Client { return t.tables[rnd.IntN(len(t.tables))] }

// increment reads and increments entities until ctx is done.
func (t *sharedTable) increment(ctx context.Context, rnd *rand.Rand) {
	for ctx.Err() == nil {
		key := rnd.IntN(counters)
		n, etag, ok := t.read(context.WithoutCancel(ctx), t.any(rnd), key)
		if !ok {
			pause(ctx, 20*time.Millisecond)
			continue
		}
		t.write(context.WithoutCancel(ctx), t.any(rnd), key, n+1, etag)
		pause(ctx, time.Duration(rnd.IntN(10))*time.Millisecond)
	}
}

// read reads an entity, and checks that it is not older than what was known before.
func (t *sharedTable) read(ctx context.Context, table *aztables.Client, key int) (n int64, etag azcore.ETag, ok bool) {
	t.mu.Lock()
	known := t.highest[key]
	t.mu.Unlock()
	r, err := table.GetEntity(ctx, "chaos", fmt.Sprint(key), nil)
	var e counter
	if err == nil {
		err = json.Unmarshal(r.Value, &e)
	}
	if !t.answered(err, &t.reads) {
		return 0, "", false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if e.N < known {
		t.found(Stale, "entity %d was read as %d, and was %d before the request", key, e.N, known)
	}
	t.highest[key] = max(t.highest[key], e.N)
	return e.N, r.ETag, true
}

// write replaces an entity that has an ETag.
func (t *sharedTable) write(ctx context.Context, table *aztables.Client, key int, n int64, etag azcore.ETag) {
	entity, err := json.Marshal(counter{"chaos", fmt.Sprint(key), n, "Edm.Int64"})
	if err == nil {
		_, err = table.UpdateEntity(ctx, entity, &aztables.UpdateEntityOptions{IfMatch: &etag, UpdateMode: aztables.UpdateModeReplace})
	}
	if status(err) == http.StatusPreconditionFailed {
		return // another client was first
	}
	if !t.answered(err, &t.updates) {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.written[key][n] {
		t.found(Doubled, "two clients wrote %d to entity %d on condition of the value before it", n, key)
	}
	t.written[key][n] = true
	t.highest[key] = max(t.highest[key], n)
}

// last reads all entities through all nodes. A value below an acknowledged one is lost.
func (t *sharedTable) last(ctx context.Context) {
	for i, table := range t.tables {
		for key := range counters {
			var ok bool
			_ = wait(ctx, drainPatience, func() (bool, error) {
				_, _, ok = t.read(ctx, table, key)
				return ok, nil
			})
			if !ok && ctx.Err() == nil {
				t.mu.Lock()
				t.found(Lost, "entity %d cannot be read through node %d", key, i+1)
				t.mu.Unlock()
			}
		}
	}
}

// fill copies the numbers to the report.
func (t *sharedTable) fill(r *NodesReport) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r.Increments, r.Reads = t.updates, t.reads
	t.add(r)
}
