package demo

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2/queueerror"
	"golang.org/x/sync/errgroup"

	"github.com/lazuli-storage/lazuli/workers"
	"github.com/lazuli-storage/lazuli/workers/roles/archive"
)

// parallel is how many requests the demonstration itself has under way.
const parallel = 8

// names are what one run creates in the account.
type names struct{ current, archive, queue, poison string }

// freshNames differ from run to run, so that a run in a shared account meets nothing of another's.
func freshNames(now time.Time) names {
	id := fmt.Sprintf("%x", now.UnixNano())
	return names{
		current: "LazuliDemoCurrent" + id, archive: "LazuliDemoArchive" + id,
		queue: "lazuli-demo-" + id, poison: "lazuli-demo-" + id + "-poison",
	}
}

// account is the storage account of a run, with what the run created in it.
type account struct {
	storage *workers.Storage
	names   names
	queue   *azqueue.QueueClient
}

func openAccount(connectionString string, n names) (*account, error) {
	storage, err := workers.OpenStorage(connectionString)
	if err != nil {
		return nil, err
	}
	if storage.Queues == nil || storage.Tables == nil {
		return nil, errors.New("the connection string must name a queue and a table endpoint")
	}
	return &account{storage: storage, names: n, queue: storage.Queues.NewQueueClient(n.queue)}, nil
}

func (a *account) create(ctx context.Context) error {
	for _, table := range []string{a.names.current, a.names.archive} {
		if _, err := a.storage.Tables.CreateTable(ctx, table, nil); err != nil {
			return fmt.Errorf("create table %s: %w", table, err)
		}
	}
	if _, err := a.queue.Create(ctx, nil); err != nil {
		return fmt.Errorf("create queue %s: %w", a.names.queue, err)
	}
	return nil
}

// remove deletes everything that the run created. What is not there is no error.
func (a *account) remove(ctx context.Context) error {
	var errs []error
	for _, table := range []string{a.names.current, a.names.archive} {
		if _, err := a.storage.Tables.DeleteTable(ctx, table, nil); err != nil && !notFound(err) {
			errs = append(errs, fmt.Errorf("delete table %s: %w", table, err))
		}
	}
	for _, queue := range []string{a.names.queue, a.names.poison} {
		if _, err := a.storage.Queues.DeleteQueue(ctx, queue, nil); err != nil && !notFound(err) {
			errs = append(errs, fmt.Errorf("delete queue %s: %w", queue, err))
		}
	}
	return errors.Join(errs...)
}

func notFound(err error) bool { return statusOf(err) == http.StatusNotFound }

// load inserts entities, up to 100 of one partition in a transaction.
func (a *account) load(ctx context.Context, entities []entity, done func(n int)) error {
	table := a.storage.Tables.NewClient(a.names.current)
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(parallel)
	for len(entities) > 0 {
		n := 1
		for n < len(entities) && n < 100 && entities[n].key.partition == entities[0].key.partition {
			n++
		}
		actions := make([]aztables.TransactionAction, 0, n)
		for _, e := range entities[:n] {
			actions = append(actions, aztables.TransactionAction{ActionType: aztables.TransactionTypeAdd, Entity: e.json})
		}
		entities = entities[n:]
		g.Go(func() error {
			if _, err := table.SubmitTransaction(ctx, actions, nil); err != nil {
				return fmt.Errorf("load the records: %w", err)
			}
			done(n)
			return nil
		})
	}
	return g.Wait()
}

// ask puts a message for every key.
func (a *account) ask(ctx context.Context, keys []entityKey) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(parallel)
	for _, k := range keys {
		g.Go(func() error {
			body, err := json.Marshal(archive.Key{PartitionKey: k.partition, RowKey: k.row})
			if err != nil {
				return err
			}
			if _, err := a.queue.EnqueueMessage(ctx, base64.StdEncoding.EncodeToString(body), nil); err != nil {
				return fmt.Errorf("put a message: %w", err)
			}
			return nil
		})
	}
	return g.Wait()
}

// read returns the contents of a table. It looks at the service's own bytes: the SDK's entities have been through float64, where
// a double of 2 and an integer of 2 are the same.
func (a *account) read(ctx context.Context, table string) (contents, error) {
	all := contents{}
	pager := a.storage.Tables.NewClient(table).NewListEntitiesPager(nil)
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
func digest(properties map[string]json.RawMessage) (entityKey, string, error) {
	var k entityKey
	if err := errors.Join(json.Unmarshal(properties["PartitionKey"], &k.partition), json.Unmarshal(properties["RowKey"], &k.row)); err != nil {
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

// waiting returns how many messages a queue holds, also invisible ones; 0 if it does not exist.
func (a *account) waiting(ctx context.Context, queue string) (int, error) {
	p, err := a.storage.Queues.NewQueueClient(queue).GetProperties(ctx, nil)
	switch {
	case queueerror.HasCode(err, queueerror.QueueNotFound):
		return 0, nil
	case err != nil:
		return 0, fmt.Errorf("look at queue %s: %w", queue, err)
	}
	return int(value(p.ApproximateMessagesCount)), nil
}

// visible reports whether a queue has a message to give, to confirm that an approximate count of 0 is true.
func (a *account) visible(ctx context.Context, queue string) (bool, error) {
	p, err := a.storage.Queues.NewQueueClient(queue).PeekMessages(ctx, &azqueue.PeekMessagesOptions{NumberOfMessages: to.Ptr[int32](1)})
	if err != nil {
		return false, fmt.Errorf("peek at queue %s: %w", queue, err)
	}
	return len(p.Messages) > 0, nil
}

func value[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}
