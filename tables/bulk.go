package tables

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sync/errgroup"
)

// BulkOp is the operation of a bulk write on each entity.
type BulkOp int

// The operations of a bulk write.
const (
	BulkInsert BulkOp = iota
	BulkInsertOrReplace
	BulkInsertOrMerge
	BulkReplace
	BulkMerge
	BulkDelete
)

// bulkParallel is the number of transactions that a bulk write has under way.
const bulkParallel = 16

// BulkError lists the entities that a bulk write did not write. Entities of other transactions are written.
type BulkError struct {
	// Failed are the indexes of the entities whose transactions failed, and that were not written.
	Failed []int
	// Unknown are the indexes of those whose transactions may have been carried out: their answers were lost.
	Unknown []int
	// Err are the failures, joined.
	Err error
}

func (e *BulkError) Error() string {
	return fmt.Sprintf("tables: bulk write: %d entities were not written, %d perhaps: %v", len(e.Failed), len(e.Unknown),
		e.Err)
}

// Unwrap returns the failures.
func (e *BulkError) Unwrap() error { return e.Err }

// Bulk writes many entities, in transactions of one partition each that run in parallel, and sets their ETags. Each
// transaction is carried out as a whole or not at all, the bulk is not. All are tried, also when some fail: see
// [BulkError]. An entity that is there twice is an error before anything is sent.
func (t *Table[T]) Bulk(ctx context.Context, op BulkOp, entities []T) error {
	groups, err := t.groups(ctx, op, entities)
	if err != nil {
		return t.wrap("bulk", Key{}, err)
	}
	var (
		g      errgroup.Group
		mu     sync.Mutex // guards result
		result BulkError
	)
	g.SetLimit(bulkParallel)
	for _, group := range groups {
		g.Go(func() error {
			err := group.tx.Submit(ctx)
			if err == nil {
				return nil
			}
			mu.Lock()
			defer mu.Unlock()
			if refused(err) {
				result.Failed = append(result.Failed, group.indexes...)
			} else {
				result.Unknown = append(result.Unknown, group.indexes...)
			}
			result.Err = errors.Join(result.Err, err)
			return nil
		})
	}
	_ = g.Wait()
	if result.Err == nil {
		return nil
	}
	return &result
}

// bulkGroup is one transaction of a bulk.
type bulkGroup struct {
	tx      *Transaction
	indexes []int
	size    int
}

// groups deals the entities to transactions.
func (t *Table[T]) groups(ctx context.Context, op BulkOp, entities []T) ([]*bulkGroup, error) {
	var groups []*bulkGroup
	open := map[string]*bulkGroup{}
	seen := make(map[Key]int, len(entities))
	for i := range entities {
		e := &entities[i]
		body, k, err := t.encode(ctx, e, nil)
		if err != nil {
			return nil, fmt.Errorf("entity %d: %w", i, err)
		}
		// Twice in one transaction is refused by the service, and in two the order would decide which one stays.
		if first, ok := seen[k]; ok {
			return nil, fmt.Errorf("entities %d and %d have the same key (%q, %q): %w", first, i, k.PartitionKey, k.RowKey,
				ErrDuplicate)
		}
		seen[k] = i
		c := &Changes[T]{table: t}
		size := c.sizeOf(&change{body: body, key: k})
		g := open[k.PartitionKey]
		// The group of a partition is closed when the next entity would exceed a limit of the service. Others stay open:
		// entities of several partitions may be mixed.
		if g == nil || g.tx.Len() == maxChanges || g.size+size > maxTransactionSize {
			g = &bulkGroup{tx: &Transaction{table: &t.table}}
			open[k.PartitionKey] = g
			groups = append(groups, g)
		}
		c.Transaction = g.tx
		if err := c.bulk(op, e); err != nil {
			return nil, err
		}
		g.size += size
		g.indexes = append(g.indexes, i)
	}
	return groups, nil
}

func (c *Changes[T]) bulk(op BulkOp, e *T) error {
	switch op {
	case BulkInsert:
		c.Insert(e)
	case BulkInsertOrReplace:
		c.InsertOrReplace(e)
	case BulkInsertOrMerge:
		c.InsertOrMerge(e)
	case BulkReplace:
		c.Replace(e)
	case BulkMerge:
		c.Merge(e)
	case BulkDelete:
		c.Delete(e)
	default:
		return fmt.Errorf("unknown operation %d", op)
	}
	return nil
}
