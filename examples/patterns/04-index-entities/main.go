// Index entities: lists of keys, by a property, instead of copies of whole entities.
//
// Problem: a query asks for the senators of a party in a state, and a state is a partition. Copies of whole entities
// would double the storage.
//
// Solution: for each party, keep the list of the keys of its senators. The list can be in one of three places:
//
//	a blob for each party, changed on condition of its ETag: any size, over all partitions, consistent as soon as the loop has run
//	an entity in the same partition, written in the transaction that writes the senator: always consistent, for one partition
//	an entity in another table, updated by a worker: eventually consistent (`lazuli demo index-entities`)
//
// When: many entities share a value, and few of them are read at a time. Cost: a read of the list, then one point read
// for each entity; the list is limited by the size of a property, a blob is not.
//
//	go run ./examples/patterns/04-index-entities
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"

	"github.com/lazuli-storage/lazuli/examples/patterns/run"
	"github.com/lazuli-storage/lazuli/examples/patterns/senate"
	"github.com/lazuli-storage/lazuli/tables"
	"github.com/lazuli-storage/lazuli/workers/roles/tableindex"
)

func main() { run.Main(example) }

type senator struct {
	PartitionKey, RowKey string
	Name, Party          string
}

// list is an index entity: "party_..." in the same partition.
type list struct {
	PartitionKey, RowKey string
	ETag                 azcore.ETag
	Members              []string `table:",json"`
}

func example(ctx context.Context, e *run.Env) error {
	table, err := run.New[senator](ctx, e, "Senators")
	if err != nil {
		return err
	}
	lists, err := tables.New[list](e.Service, table.Name())
	if err != nil {
		return err
	}
	container, err := e.Container(ctx, "parties")
	if err != nil {
		return err
	}
	indexName := e.Name("ByParty")
	role, err := tableindex.New(e.Storage, table.Name(), indexName,
		tableindex.Lists(func(e *tables.Entity) (tables.Key, bool) {
			party, err := tables.Value[string](e, "Party")
			return tables.Key{PartitionKey: party, RowKey: e.PartitionKey}, err == nil
		}))
	if err != nil {
		return err
	}
	all, err := senate.Senators()
	if err != nil {
		return err
	}
	for _, t := range all {
		s := senator{t.State, "id_" + t.Member, t.Name, t.Party}
		if err := insert(ctx, table, lists, s); err != nil {
			return err
		}
		if err := addToBlob(ctx, e.Blobs, container, t.Party, s); err != nil {
			return err
		}
		// What the worker does when it hears of the change.
		key := tables.Key{PartitionKey: s.PartitionKey, RowKey: s.RowKey}
		if err := role.Handle(ctx, key, []tables.Key{{PartitionKey: t.Party, RowKey: t.State}}); err != nil {
			return err
		}
	}
	state := tables.PartitionKey.Eq("NY")
	if err := e.Costs("without index: a scan of the partition", func() (string, error) {
		n := 0
		for _, err := range table.Query(state, tables.Field("Party").Eq("Democrat")).AllowScan().All(ctx) {
			if err != nil {
				return "", err
			}
			n++
		}
		return fmt.Sprint(n, " senators"), nil
	}); err != nil {
		return err
	}
	read := func(rows []string) (string, error) {
		for _, row := range rows {
			if _, err := table.Get(ctx, tables.Key{PartitionKey: "NY", RowKey: row}); err != nil {
				return "", err
			}
		}
		return fmt.Sprint(len(rows), " senators"), nil
	}
	if err := e.Costs("blob for each party, then point reads", func() (string, error) {
		keys, _, err := readBlob(ctx, e.Blobs, container, "Democrat")
		if err != nil {
			return "", err
		}
		var rows []string
		for _, k := range keys {
			if k.PartitionKey == "NY" {
				rows = append(rows, k.RowKey)
			}
		}
		return read(rows)
	}); err != nil {
		return err
	}
	if err := e.Costs("index entity in the partition, then point reads", func() (string, error) {
		l, err := lists.Get(ctx, tables.Key{PartitionKey: "NY", RowKey: "party_Democrat"})
		if err != nil {
			return "", err
		}
		return read(l.Members)
	}); err != nil {
		return err
	}
	return e.Costs("index entity in another table, then point reads", func() (string, error) {
		index, err := tables.New[tables.Entity](e.Service, indexName)
		if err != nil {
			return "", err
		}
		l, err := index.Get(ctx, tables.Key{PartitionKey: "Democrat", RowKey: "NY"})
		if err != nil {
			return "", err
		}
		keys, err := tableindex.ReadList(&l)
		if err != nil {
			return "", err
		}
		var rows []string
		for _, k := range keys {
			rows = append(rows, k.RowKey)
		}
		return read(rows)
	})
}

// insert stores a senator and its place in the list of its party, in one transaction. If another client changes the
// list in the meantime, it starts again.
func insert(ctx context.Context, table *tables.Table[senator], lists *tables.Table[list], s senator) error {
	for {
		l, err := lists.Get(ctx, tables.Key{PartitionKey: s.PartitionKey, RowKey: "party_" + s.Party})
		missing := errors.Is(err, tables.ErrNotFound)
		if err != nil && !missing {
			return err
		}
		l.PartitionKey, l.RowKey = s.PartitionKey, "party_"+s.Party
		l.Members = append(l.Members, s.RowKey)
		tx := table.Begin()
		tx.Insert(&s)
		index, err := tables.Join(tx.Transaction, lists)
		if err != nil {
			return err
		}
		if missing {
			index.Insert(&l)
		} else {
			index.Replace(&l)
		}
		if err := tx.Submit(ctx); !errors.Is(err, tables.ErrChanged) {
			return err
		}
	}
}

// addToBlob adds a key to a party's blob, on the condition that no other client has changed it since it was read.
func addToBlob(ctx context.Context, blobs *azblob.Client, container, party string, s senator) error {
	for {
		keys, etag, err := readBlob(ctx, blobs, container, party)
		if err != nil {
			return err
		}
		keys = append(keys, tables.Key{PartitionKey: s.PartitionKey, RowKey: s.RowKey})
		slices.SortFunc(keys, func(a, b tables.Key) int {
			return strings.Compare(a.PartitionKey+a.RowKey,
				b.PartitionKey+b.RowKey)
		})
		text, err := json.Marshal(keys)
		if err != nil {
			return err
		}
		condition := &blob.ModifiedAccessConditions{IfMatch: etag}
		if etag == nil {
			any := azcore.ETagAny
			condition = &blob.ModifiedAccessConditions{IfNoneMatch: &any}
		}
		_, err = blobs.UploadBuffer(ctx, container, party, text,
			&azblob.UploadBufferOptions{AccessConditions: &blob.AccessConditions{ModifiedAccessConditions: condition}})
		var r *azcore.ResponseError
		if errors.As(err, &r) && (r.StatusCode == http.StatusPreconditionFailed || r.StatusCode == http.StatusConflict) {
			continue
		}
		return err
	}
}

// readBlob returns the keys of a party, and the blob's ETag, which is nil if the blob does not exist.
func readBlob(ctx context.Context, blobs *azblob.Client, container, party string) (keys []tables.Key, etag *azcore.ETag,
	err error) {
	answer, err := blobs.DownloadStream(ctx, container, party, nil)
	var r *azcore.ResponseError
	if errors.As(err, &r) && r.StatusCode == http.StatusNotFound {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	defer answer.Body.Close()
	err = json.NewDecoder(answer.Body).Decode(&keys)
	return keys, answer.ETag, err
}
