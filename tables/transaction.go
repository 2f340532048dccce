package tables

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"mime/multipart"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"

	"github.com/lazuli-storage/lazuli/internal/sdk/entityio"
)

// The service's limits of a transaction.
// https://learn.microsoft.com/rest/api/storageservices/performing-entity-group-transactions
const (
	maxChanges         = 100
	maxTransactionSize = 4 << 20
	// changeOverhead is more than what a change has beside its JSON and its address: headers and boundaries.
	changeOverhead = 1 << 10
)

// Faults of a transaction that are found before it is sent.
var (
	ErrEmptyTransaction = errors.New("the transaction has no changes")
	ErrManyChanges      = errors.New("a transaction has at most 100 changes")
	ErrManyPartitions   = errors.New("a transaction changes entities of one partition only")
	ErrDuplicate        = errors.New("a transaction changes an entity only once")
	ErrTooLarge         = errors.New("a transaction has at most 4 MiB")
)

// errEmptyPartition: the SDK does not address entities with an empty PartitionKey in transactions.
var errEmptyPartition = errors.New("the SDK cannot change an entity with an empty PartitionKey in a transaction")

// Transaction is a list of changes of one partition that are carried out all or not at all. [Table.Begin] begins one,
// [Join] adds changes of another type.
type Transaction struct {
	table     *table
	changes   []*change
	companion Companion
}

// change is one change of a transaction.
type change struct {
	op      string
	action  aztables.TransactionType
	encode  func(context.Context) ([]byte, Key, error)
	ifMatch func() *azcore.ETag
	setETag func(azcore.ETag)
	body    []byte
	key     Key
}

// Changes adds changes of entities that are T to a transaction.
type Changes[T any] struct {
	*Transaction
	table *Table[T]
}

// Begin begins a transaction.
func (t *Table[T]) Begin() *Changes[T] {
	return &Changes[T]{&Transaction{table: &t.table}, t}
}

// Join returns how to add changes of the type of another Table to a transaction. Both must be of one table of the
// account.
func Join[T any](tx *Transaction, t *Table[T]) (*Changes[T], error) {
	if !strings.EqualFold(tx.table.name, t.name) {
		return nil, fmt.Errorf("tables: a transaction of table %s cannot change table %s", tx.table.name, t.name)
	}
	return &Changes[T]{tx, t}, nil
}

func (c *Changes[T]) add(op string, action aztables.TransactionType, e *T, only []string, conditional bool) {
	ch := &change{op: op, action: action}
	ch.encode = func(ctx context.Context) ([]byte, Key, error) {
		if err := c.table.checkNames(op, only); err != nil {
			return nil, Key{}, err
		}
		if action == aztables.TransactionTypeDelete {
			only = []string{}
		}
		return c.table.encode(ctx, e, only)
	}
	ch.ifMatch = func() *azcore.ETag { return nil }
	if conditional {
		ch.ifMatch = func() *azcore.ETag { return c.table.ifMatch(e) }
	}
	ch.setETag = func(etag azcore.ETag) { c.table.codec.setETag(reflect.ValueOf(e).Elem(), etag) }
	c.changes = append(c.changes, ch)
}

// Insert adds an insert of a new entity. The values of a transaction are encoded by Submit, and get their new ETags
// from it.
func (c *Changes[T]) Insert(e *T) { c.add("insert", aztables.TransactionTypeAdd, e, nil, false) }

// InsertOrReplace adds a write of an entity, whatever was there before.
func (c *Changes[T]) InsertOrReplace(e *T) {
	c.add("insert or replace", aztables.TransactionTypeInsertReplace, e, nil, false)
}

// InsertOrMerge adds a write of an entity, or of the properties named.
func (c *Changes[T]) InsertOrMerge(e *T, properties ...string) {
	c.add("insert or merge", aztables.TransactionTypeInsertMerge, e, properties, false)
}

// Replace adds a replacement, on condition that the entity has the value's ETag if that is not empty.
func (c *Changes[T]) Replace(e *T) {
	c.add("replace", aztables.TransactionTypeUpdateReplace, e, nil, true)
}

// Merge adds a change of properties, on the same condition.
func (c *Changes[T]) Merge(e *T, properties ...string) {
	c.add("merge", aztables.TransactionTypeUpdateMerge, e, properties, true)
}

// Delete adds a deletion, on the same condition.
func (c *Changes[T]) Delete(e *T) { c.add("delete", aztables.TransactionTypeDelete, e, nil, true) }

// Len returns the number of changes.
func (tx *Transaction) Len() int { return len(tx.changes) }

// TransactionError says which change made a transaction fail. Nothing was changed.
type TransactionError struct {
	// Index is the number of the change, from 0, in the order in which the changes were added; Op and Key are what it
	// was.
	Index int
	Op    string
	Key   Key
	Err   error
}

func (e *TransactionError) Error() string {
	return fmt.Sprintf("change %d, %s (%q, %q): %s", e.Index, e.Op, e.Key.PartitionKey, e.Key.RowKey, shortText(e.Err))
}

// Unwrap returns the cause.
func (e *TransactionError) Unwrap() error { return e.Err }

// Submit sends the transaction, and sets the ETags of its values. It checks before that the changes are of one
// partition, at most 100, no larger than 4 MiB, and that no entity is changed twice. A failure that one change caused
// is an [*Error] with a [*TransactionError] in its chain; it matches ErrNotFound and the others as that of the change
// alone would.
func (tx *Transaction) Submit(ctx context.Context) error {
	if tx.companion == nil {
		return tx.submit(ctx)
	}
	if _, err := tx.prepare(ctx); err != nil { // before the companion does anything
		return tx.table.wrap("transaction", Key{}, err)
	}
	return tx.companion.Submit(ctx, tx.table.name, tx.changes[0].key.PartitionKey,
		func(ctx context.Context, insert ...*Entity) error {
			all := &Transaction{table: tx.table, changes: slices.Clone(tx.changes)}
			for _, e := range insert {
				all.changes = append(all.changes, inserted(e))
			}
			return all.submit(ctx)
		})
}

// A Companion goes with a transaction: it adds entities that are written in the same request, and acts before and after
// it. An outbox is one.
type Companion interface {
	// Submit is called by [Transaction.Submit], once the changes are checked. It calls send, which sends the transaction
	// with further entities to insert, and returns its error. The entities' PartitionKey must be that of the transaction;
	// they count against its limits.
	Submit(ctx context.Context, table, partitionKey string,
		send func(ctx context.Context, insert ...*Entity) error) error
}

// Accompany returns the transaction's companion, which is new's result the first time.
func (tx *Transaction) Accompany(new func() Companion) Companion {
	if tx.companion == nil {
		tx.companion = new()
	}
	return tx.companion
}

// inserted is the insert of an entity that a companion adds.
func inserted(e *Entity) *change {
	return &change{op: "insert", action: aztables.TransactionTypeAdd,
		encode: func(context.Context) ([]byte, Key, error) {
			body, err := e.MarshalJSON()
			return body, Key{e.PartitionKey, e.RowKey}, err
		},
		ifMatch: func() *azcore.ETag { return nil }, setETag: func(etag azcore.ETag) { e.ETag = etag }}
}

// submit sends the changes.
func (tx *Transaction) submit(ctx context.Context) error {
	t := tx.table
	actions, err := tx.prepare(ctx)
	if err != nil {
		return t.wrap("transaction", Key{}, err)
	}
	var answer []byte
	err = t.creating(ctx, func() (err error) {
		answer, err = payload(ctx, func(ctx context.Context) error {
			_, err := entityio.Submit(ctx, t.client, actions, nil)
			return err
		})
		return tx.explain(err)
	})
	if err != nil {
		return t.wrap("transaction", Key{}, err)
	}
	for i, p := range responses(answer) {
		if i < len(tx.changes) {
			tx.changes[i].setETag(azcore.ETag(p.Header.Get("ETag")))
		}
	}
	return nil
}

// prepare encodes and checks the changes.
func (tx *Transaction) prepare(ctx context.Context) ([]aztables.TransactionAction, error) {
	if len(tx.changes) == 0 {
		return nil, ErrEmptyTransaction
	}
	if len(tx.changes) > maxChanges {
		return nil, fmt.Errorf("%w: there are %d", ErrManyChanges, len(tx.changes))
	}
	seen := map[string]bool{}
	size := 0
	actions := make([]aztables.TransactionAction, 0, len(tx.changes))
	for i, c := range tx.changes {
		fail := func(err error) error { return &TransactionError{Index: i, Op: c.op, Key: c.key, Err: err} }
		var err error
		if c.body, c.key, err = c.encode(ctx); err != nil {
			return nil, fail(err)
		}
		if c.key.PartitionKey == "" {
			return nil, fail(errEmptyPartition)
		}
		// Checked here and not by the service, whose answer does not say which change is wrong.
		if c.key.PartitionKey != tx.changes[0].key.PartitionKey {
			return nil, fail(ErrManyPartitions)
		}
		if seen[c.key.RowKey] {
			return nil, fail(ErrDuplicate)
		}
		seen[c.key.RowKey] = true
		// An estimate of the request's size from above: the service refuses more than 4 MiB.
		if size += tx.sizeOf(c); size > maxTransactionSize {
			return nil, fail(ErrTooLarge)
		}
		actions = append(actions, aztables.TransactionAction{ActionType: c.action, Entity: c.body, IfMatch: c.ifMatch()})
	}
	return actions, nil
}

// sizeOf is a bound of what a change takes in the body of the request: keys stand in its address too, escaped.
func (tx *Transaction) sizeOf(c *change) int {
	return len(c.body) + changeOverhead + 3*(len(c.key.PartitionKey)+len(c.key.RowKey))
}

// response is the answer to one change.
type response struct {
	StatusCode int
	Header     http.Header
	Body       []byte
}

// responses reads the answers to a transaction's changes. What cannot be read is left out.
// https://learn.microsoft.com/rest/api/storageservices/performing-entity-group-transactions#sample-response
func responses(body []byte) (list []response) {
	outer, err := firstPart(body)
	if err != nil {
		return nil
	}
	boundary, _, _ := bytes.Cut(bytes.TrimSpace(outer), []byte("\r\n"))
	parts := multipart.NewReader(bytes.NewReader(outer), strings.TrimPrefix(string(boundary), "--"))
	for {
		p, err := parts.NextPart()
		if err != nil {
			return list
		}
		r, err := http.ReadResponse(bufio.NewReader(p), nil)
		if err != nil {
			return list
		}
		var b bytes.Buffer
		_, _ = b.ReadFrom(r.Body)
		r.Body.Close()
		list = append(list, response{r.StatusCode, r.Header, b.Bytes()})
	}
}

// firstPart returns the only part of a batch's answer, the change set.
func firstPart(body []byte) ([]byte, error) {
	boundary, _, _ := bytes.Cut(bytes.TrimSpace(body), []byte("\r\n"))
	p, err := multipart.NewReader(bytes.NewReader(body), strings.TrimPrefix(string(boundary), "--")).NextPart()
	if err != nil {
		return nil, err
	}
	if kind, _, err := mime.ParseMediaType(p.Header.Get("Content-Type")); err != nil || kind != "multipart/mixed" {
		return nil, errJSON
	}
	var b bytes.Buffer
	_, err = b.ReadFrom(p)
	return b.Bytes(), err
}

// explain finds out which change made a transaction fail: the answer has the service's error for it, whose message
// begins with its number.
func (tx *Transaction) explain(err error) error {
	var r *azcore.ResponseError
	if !errors.As(err, &r) || r.StatusCode != http.StatusAccepted || r.RawResponse == nil {
		return err
	}
	body, readErr := readAll(r.RawResponse)
	if readErr != nil {
		return err
	}
	for _, p := range responses(body) {
		if p.StatusCode < 400 {
			continue
		}
		var answer struct {
			Error struct {
				Code    string `json:"code"`
				Message struct {
					Value string `json:"value"`
				} `json:"message"`
			} `json:"odata.error"`
		}
		if json.Unmarshal(p.Body, &answer) != nil {
			return err
		}
		cause := &azcore.ResponseError{ErrorCode: answer.Error.Code, StatusCode: p.StatusCode, RawResponse: r.RawResponse}
		number, _, _ := strings.Cut(answer.Error.Message.Value, ":")
		i, convErr := strconv.Atoi(number)
		if convErr != nil || i < 0 || i >= len(tx.changes) {
			if len(tx.changes) > 1 {
				return cause
			}
			i = 0 // The service leaves the number of an only change out.
		}
		return &TransactionError{Index: i, Op: tx.changes[i].op, Key: tx.changes[i].key, Err: cause}
	}
	return err
}
