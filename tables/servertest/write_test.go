package servertest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/google/go-cmp/cmp"

	"github.com/lazuli-storage/lazuli/tables"
)

type account struct {
	PartitionKey, RowKey string
	ETag                 azcore.ETag
	Balance              int64
	Note                 *string
}

func TestConditions(t *testing.T) {
	t.Parallel()
	service, _ := open(t)
	table := newTable[account](t, service, "Accounts")
	ctx := t.Context()
	a := account{PartitionKey: "p", RowKey: "1", Balance: 5}
	if err := table.Replace(ctx, &a); !errors.Is(err, tables.ErrNotFound) {
		t.Errorf("replace of none: %v", err)
	}
	ok(t, table.Insert(ctx, &a))
	if err := table.Insert(ctx, &a); !errors.Is(err, tables.ErrExists) {
		t.Errorf("second insert: %v", err)
	}
	stale := a
	a.Balance = 6
	ok(t, table.Replace(ctx, &a))
	for name, write := range map[string]func() error{
		"replace": func() error { return table.Replace(ctx, &stale) },
		"merge":   func() error { return table.Merge(ctx, &stale, "Balance") },
		"delete":  func() error { return table.Delete(ctx, &stale) },
	} {
		if err := write(); !errors.Is(err, tables.ErrChanged) {
			t.Errorf("%s of a stale value: %v", name, err)
		}
	}
	stale.ETag = ""
	note := "kept"
	stale.Note = &note
	ok(t, table.Merge(ctx, &stale, "Note"))
	got, err := table.Get(ctx, tables.Key{PartitionKey: "p", RowKey: "1"})
	ok(t, err)
	if got.Balance != 6 || got.Note == nil || *got.Note != "kept" || got.ETag != stale.ETag {
		t.Errorf("after the merge of one field: %+v", got)
	}
	says(t, table.Merge(ctx, &got, "Balanse"), "Balanse")
	ok(t, table.Delete(ctx, &got))
	if _, err := table.Get(ctx, tables.Key{PartitionKey: "p", RowKey: "1"}); !errors.Is(err, tables.ErrNotFound) {
		t.Errorf("after delete: %v", err)
	}
	if err := table.DeleteKey(ctx, tables.Key{PartitionKey: "p", RowKey: "1"}); !errors.Is(err, tables.ErrNotFound) {
		t.Errorf("second delete: %v", err)
	}
	ok(t, table.InsertOrMerge(ctx, &got))
	ok(t, table.InsertOrReplace(ctx, &got))
	var r *azcore.ResponseError
	err = table.Insert(ctx, &got)
	if !errors.As(err, &r) || r.ErrorCode != "EntityAlreadyExists" || strings.Contains(err.Error(), "\n") {
		t.Errorf("error %v", err)
	}
}

// Concurrent updates lose nothing: neither each other's changes nor properties that the type does not know.
func TestUpdate(t *testing.T) {
	t.Parallel()
	service, _ := open(t)
	table := newTable[account](t, service, "Updates")
	dynamic := newTable[tables.Entity](t, service, "Updates")
	ctx := t.Context()
	ok(t, dynamic.Insert(ctx, &tables.Entity{PartitionKey: "p", RowKey: "1",
		Properties: map[string]any{"Balance": 0, "Note": "x", "Unknown": 5.0, "Big": int64(1 << 60)}}))
	key := tables.Key{PartitionKey: "p", RowKey: "1"}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 5 {
				if err := table.Update(ctx, key, func(a *account) error { a.Balance++; a.Note = nil; return nil }); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	got, err := dynamic.Get(ctx, key)
	ok(t, err)
	want := map[string]any{"Balance": int64(40), "Unknown": 5.0, "Big": int64(1 << 60)}
	if d := cmp.Diff(want, got.Properties); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	no := errors.New("no")
	if err := table.Update(ctx, key, func(*account) error { return no }); !errors.Is(err, no) {
		t.Error(err)
	}
	if err := table.Update(ctx, tables.Key{PartitionKey: "p", RowKey: "2"},
		func(*account) error { return nil }); !errors.Is(err, tables.ErrNotFound) {
		t.Error(err)
	}
	says(t, table.Update(ctx, key, func(a *account) error { a.RowKey = "3"; return nil }), "another key")
}

func TestTransaction(t *testing.T) {
	t.Parallel()
	service, count := open(t)
	table := newTable[account](t, service, "Transactions")
	ctx := t.Context()
	rows := make([]account, 4)
	tx := table.Begin()
	for i := range rows {
		rows[i] = account{PartitionKey: "p", RowKey: fmt.Sprint(i), Balance: int64(i)}
		tx.Insert(&rows[i])
	}
	ok(t, tx.Submit(ctx))
	for i, r := range rows {
		got, err := table.Get(ctx, tables.Key{PartitionKey: "p", RowKey: r.RowKey})
		if err != nil || got.ETag != r.ETag || r.ETag == "" || got.Balance != int64(i) {
			t.Errorf("%+v, %v; ETag after the transaction %q", got, err, r.ETag)
		}
	}
	// The failing change is named, and nothing has happened.
	stale := rows[2]
	ok(t, table.Replace(ctx, &rows[2]))
	tx = table.Begin()
	rows[0].Balance = 100
	tx.Replace(&rows[0])
	tx.Merge(&rows[1], "Balance")
	tx.Delete(&stale)
	tx.InsertOrReplace(&account{PartitionKey: "p", RowKey: "9"})
	err := tx.Submit(ctx)
	var failed *tables.TransactionError
	if !errors.Is(err, tables.ErrChanged) || !errors.As(err, &failed) || failed.Index != 2 || failed.Op != "delete" ||
		failed.Key.RowKey != "2" {
		t.Errorf("error %v, %+v", err, failed)
	}
	if got, err := table.Get(ctx, tables.Key{PartitionKey: "p", RowKey: "0"}); err != nil || got.Balance != 0 {
		t.Errorf("%+v, %v", got, err)
	}
	single := table.Begin()
	single.Insert(&account{PartitionKey: "p", RowKey: "1"})
	if err := single.Submit(ctx); !errors.Is(err, tables.ErrExists) || !errors.As(err, &failed) || failed.Index != 0 {
		t.Errorf("single change: %v", err)
	}

	sent := count.n.Load()
	large := strings.Repeat("x", 32<<10)
	for want, fill := range map[error]func(*tables.Changes[account]){
		tables.ErrEmptyTransaction: func(*tables.Changes[account]) {},
		tables.ErrManyPartitions: func(c *tables.Changes[account]) {
			c.Insert(&account{PartitionKey: "p", RowKey: "1"})
			c.Insert(&account{PartitionKey: "q", RowKey: "2"})
		},
		tables.ErrDuplicate: func(c *tables.Changes[account]) {
			c.Insert(&account{PartitionKey: "p", RowKey: "1"})
			c.Delete(&account{PartitionKey: "p", RowKey: "1"})
		},
		tables.ErrManyChanges: func(c *tables.Changes[account]) {
			for i := range 101 {
				c.Insert(&account{PartitionKey: "p", RowKey: fmt.Sprint(i)})
			}
		},
	} {
		tx := table.Begin()
		fill(tx)
		if err := tx.Submit(ctx); !errors.Is(err, want) {
			t.Errorf("got %v, want %v", err, want)
		}
	}
	wide := newTable[tables.Entity](t, service, "Wide")
	sent++ // the table
	big := wide.Begin()
	for i := range 70 {
		big.Insert(&tables.Entity{PartitionKey: "p", RowKey: fmt.Sprint(i),
			Properties: map[string]any{"A": large, "B": large}})
	}
	if err := big.Submit(ctx); !errors.Is(err, tables.ErrTooLarge) {
		t.Errorf("got %v, want %v", err, tables.ErrTooLarge)
	}
	if n := count.n.Load() - sent; n != 0 {
		t.Errorf("%d requests for transactions that cannot succeed", n)
	}
}

func TestTransactionOfTwoTypes(t *testing.T) {
	t.Parallel()
	service, _ := open(t)
	dogs := newTable[dog](t, service, "Zoo", tables.WithType[dog]("Dog"))
	cats := newTable[cat](t, service, "Zoo", tables.WithType[cat]("Cat"))
	tx := dogs.Begin()
	tx.Insert(&dog{PartitionKey: "house", RowKey: "rex"})
	more, err := tables.Join(tx.Transaction, cats)
	ok(t, err)
	more.Insert(&cat{"house", "tom", 9})
	ok(t, tx.Submit(t.Context()))
	if tom, err := cats.Get(t.Context(), tables.Key{PartitionKey: "house", RowKey: "tom"}); err != nil || tom.Lives != 9 {
		t.Errorf("%+v, %v", tom, err)
	}
	_, err = tables.Join(tx.Transaction, newTable[cat](t, service, "Other"))
	says(t, err, "Other")
}

func TestBulk(t *testing.T) {
	t.Parallel()
	service, count := open(t)
	table, err := tables.New[account](service, "Bulk", tables.CreateIfMissing())
	ok(t, err)
	var rows []account
	for i := range 450 {
		rows = append(rows, account{PartitionKey: fmt.Sprint("p", i%2), RowKey: fmt.Sprint(i), Balance: int64(i)})
	}
	ctx := t.Context()
	ok(t, table.Bulk(ctx, tables.BulkInsert, rows))
	for _, r := range rows {
		if r.ETag == "" {
			t.Fatalf("no ETag after the bulk: %+v", r)
		}
	}
	if n, err := table.Query().AllowScan().Count(ctx); n != 450 || err != nil {
		t.Errorf("%d entities, %v", n, err)
	}
	sent := count.n.Load()
	for i := range rows {
		rows[i].Balance++
	}
	ok(t, table.Bulk(ctx, tables.BulkReplace, rows))
	if n := count.n.Load() - sent; n != 6 {
		t.Errorf("%d requests for two partitions of 225, want 6", n)
	}
	// One transaction fails, the others do not.
	stale := append([]account(nil), rows...)
	stale[0].ETag = `W/"datetime'2020-01-01T00%3A00%3A00.0000000Z'"`
	err = table.Bulk(ctx, tables.BulkDelete, stale)
	var bulk *tables.BulkError
	if !errors.As(err, &bulk) || len(bulk.Failed) != 100 || bulk.Failed[0] != 0 || len(bulk.Unknown) != 0 ||
		!errors.Is(err, tables.ErrChanged) {
		t.Fatalf("error %v", err)
	}
	if n, err := table.Query().AllowScan().Count(ctx); n != 100 || err != nil {
		t.Errorf("%d entities are left, want the 100 of the failed transaction; %v", n, err)
	}
	twice := []account{{PartitionKey: "p", RowKey: "1"}, {PartitionKey: "p", RowKey: "1"}}
	if err := table.Bulk(ctx, tables.BulkInsert, twice); !errors.Is(err, tables.ErrDuplicate) {
		t.Errorf("an entity twice: %v", err)
	}
}

func TestCreateIfMissing(t *testing.T) {
	t.Parallel()
	service, _ := open(t)
	ctx := t.Context()
	strict, err := tables.New[account](service, "Missing")
	ok(t, err)
	if err := strict.Insert(ctx, &account{PartitionKey: "p", RowKey: "1"}); !errors.Is(err, tables.ErrTableNotFound) ||
		errors.Is(err, tables.ErrNotFound) {
		t.Errorf("insert without a table: %v", err)
	}
	creating, err := tables.New[account](service, "Missing", tables.CreateIfMissing())
	ok(t, err)
	if _, err := creating.Query(tables.PartitionKey.Eq("p")).Count(ctx); !errors.Is(err, tables.ErrTableNotFound) {
		t.Errorf("a read of a missing table: %v", err)
	}
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			if err := creating.Insert(ctx, &account{PartitionKey: "p", RowKey: fmt.Sprint(i)}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	ok(t, creating.Drop(ctx))
	ok(t, creating.Drop(ctx))
	tx := creating.Begin()
	tx.Insert(&account{PartitionKey: "p", RowKey: "1"})
	ok(t, tx.Submit(ctx))
	if n, err := creating.Query(tables.PartitionKey.Eq("p")).Count(ctx); n != 1 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
}

// Keys with quotes name the same entity in a transaction, in a bulk write and alone, in every operation.
func TestKeysWithQuotes(t *testing.T) {
	t.Parallel()
	service, _ := open(t)
	table := newTable[tables.Entity](t, service, "Quotes")
	ctx := t.Context()
	rows := []string{"a'b", "a''b", "'", "''", "it's", "x", "a%27b"}
	one := func(row string, n int) *tables.Entity {
		return &tables.Entity{PartitionKey: "O'Neil", RowKey: row, Properties: map[string]any{"N": n, "Text": "it's"}}
	}
	all := func(change func(*tables.Changes[tables.Entity], *tables.Entity), n int) {
		t.Helper()
		tx := table.Begin()
		for _, row := range rows {
			change(tx, one(row, n))
		}
		ok(t, tx.Submit(ctx))
	}
	for n, change := range []func(*tables.Changes[tables.Entity], *tables.Entity){
		func(tx *tables.Changes[tables.Entity], e *tables.Entity) { tx.Insert(e) },
		func(tx *tables.Changes[tables.Entity], e *tables.Entity) { tx.InsertOrReplace(e) },
		func(tx *tables.Changes[tables.Entity], e *tables.Entity) { tx.InsertOrMerge(e) },
		func(tx *tables.Changes[tables.Entity], e *tables.Entity) { tx.Replace(e) },
		func(tx *tables.Changes[tables.Entity], e *tables.Entity) { tx.Merge(e) },
	} {
		all(change, n)
		got := map[string]int64{}
		for _, e := range collect(t, table.Query().AllowScan()) {
			got[e.RowKey], _ = e.Properties["N"].(int64)
		}
		for _, row := range rows {
			if got[row] != int64(n) || len(got) != len(rows) {
				t.Fatalf("operation %d: %v", n, got)
			}
		}
	}
	// One deletion at a time deletes that entity and no other.
	for i, row := range rows {
		tx := table.Begin()
		tx.Delete(one(row, 0))
		ok(t, tx.Submit(ctx))
		left := collect(t, table.Query().AllowScan())
		if len(left) != len(rows)-i-1 || slices.ContainsFunc(left, func(e tables.Entity) bool { return e.RowKey == row }) {
			t.Fatalf("after the deletion of %s: %v", row, left)
		}
	}
}
