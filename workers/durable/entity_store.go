package durable

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"

	"github.com/lazuli-storage/lazuli/internal/durable/event"
	"github.com/lazuli-storage/lazuli/internal/durable/protocol"
)

// An entity is one partition of the Entities table:
//
//	RowKey                      columns
//	entity                      State or StateBlobName, LastModified, LockedBy, LockOwner, Epoch, Commit, Order, Outbox or
//	                            OutboxBlobName
//	q<order><hash of the ID>    Message: an operation, lock request or unlock that the entity has yet to handle
//	s<hash of the ID>           a message of the hub that has arrived; its copies are dropped
//	c<hash of the ID>           the same for a signal of a client
//	u<hash of the section>      a critical section that was released before its lock request arrived
//	tail                        Order of an entity that was removed
//
// The row entity commits: each write of it names the ETag that the writer has read, and has the deletions of the
// messages that it has handled in its transaction. Outbox are the messages that follow from the last commit and may not
// have been sent yet.

const (
	entityKey = "entity"
	// tailKey is among the keys that trim deletes: an entity that is made again later has no older messages under way.
	tailKey = "tail"
)

// Prefixes of the other row keys, and the keys behind all with them.
const (
	inboxPrefix, inboxEnd       = "q", "r"
	releasedPrefix, releasedEnd = "u", "v"
	hubPrefix, hubEnd           = "s", "t"
	clientPrefix, clientEnd     = "c", "d"
)

// sender is the kind of sender of a message, which says how long its copies can come.
type sender string

const (
	// fromHub are the messages of workflows and entities, and delayed signals.
	fromHub sender = hubPrefix
	// fromClient are signals that a client sends at once, and sends again after an error.
	fromClient sender = clientPrefix
)

// entityRow is the row of an entity.
type entityRow struct {
	etag azcore.ETag // empty if the row does not exist

	PartitionKey           string
	HasState               bool
	State, StateBlobName   string
	LastModified           time.Time
	LockedBy, LockOwner    string
	Epoch                  string
	Commit                 int
	Order                  order // of the last message that it has sent to an entity
	Outbox, OutboxBlobName string
	state                  *string // with its blob read
}

func (r *entityRow) lock() lock { return lock{r.LockedBy, r.LockOwner} }

// pending reports whether messages of the last commit may not have been sent.
func (r *entityRow) pending() bool { return r.Outbox != "" || r.OutboxBlobName != "" }

// entityStore reads and writes the Entities table.
type entityStore struct {
	table    *aztables.Client
	payloads payloads
	last     *atomic.Int64 // the time in the last key of a message, in nanoseconds
}

// get returns an entity's row, which has no ETag if it does not exist, with its state if that is wanted, or the order
// that a removed entity has left. A commit may delete the blob of a state after its row was read: the row is read again
// until it refers to a blob that is there, or is the same.
func (s entityStore) get(ctx context.Context, id string, state bool) (*entityRow, error) {
	for before := azcore.ETag(""); ; {
		r, err := s.row(ctx, id, state)
		if err != nil || !state {
			return r, err
		}
		if err = s.fill(ctx, r); !errors.Is(err, errNoPayload) || r.etag == before {
			return r, err
		}
		before = r.etag
	}
}

// row returns an entity's row without the blob of its state. tail says whether the order of a removed entity is wanted.
func (s entityStore) row(ctx context.Context, id string, tail bool) (*entityRow, error) {
	r := &entityRow{}
	etag, err := readRow(ctx, s.table, "Entities", id, entityKey, r)
	if err != nil {
		return nil, err
	}
	if r.etag = etag; etag != "" {
		return r, nil
	}
	r = &entityRow{PartitionKey: partitionKey(id), Epoch: rand.Text()}
	if tail {
		r.Order, err = s.tail(ctx, id)
	}
	return r, err
}

// tail returns the place of the last message that a removed entity has sent to an entity.
func (s entityStore) tail(ctx context.Context, id string) (order, error) {
	var row struct{ Order order }
	_, err := readRow(ctx, s.table, "Entities", id, tailKey, &row)
	return row.Order, err
}

// fill reads the state of a row.
func (s entityStore) fill(ctx context.Context, r *entityRow) error {
	switch {
	case !r.HasState:
	case r.StateBlobName != "":
		text, err := s.payloads.get(ctx, r.StateBlobName)
		if err != nil {
			return err
		}
		r.state = &text
	default:
		r.state = &r.State
	}
	return nil
}

// key returns the key of a message's row. The keys of messages without an order, those of clients, increase in one
// process, so that they stay in the order in which they were put.
func (s entityStore) key(now time.Time, m *message) string {
	h := hashID(m.ID)
	if m.Order != "" {
		return fmt.Sprintf("%s%s%x", inboxPrefix, m.Order, h[:6])
	}
	at := now.UnixNano()
	for {
		last := s.last.Load()
		next := max(at, last+1)
		if s.last.CompareAndSwap(last, next) {
			return fmt.Sprintf("%s%016X%x", inboxPrefix, next, h[:6])
		}
	}
}

// put adds a message to an entity's inbox. put is false for a copy of a message that has arrived before.
func (s entityStore) put(ctx context.Context, m *message, now time.Time, from sender) (put bool, err error) {
	h := hashID(m.ID)
	m.Execution = fmt.Sprintf("%x", h[:8]) // The scope of its payload's blob, which is deleted with the message.
	text, err := s.payloads.encode(ctx, m)
	if err != nil {
		return false, err
	}
	row := newEntity(partitionKey(m.Instance), s.key(now, m))
	row["Message"] = text
	mark := newEntity(partitionKey(m.Instance), fmt.Sprintf("%s%x", from, h))
	// The mark refuses copies, also when the message has been handled: so neither may be written without the other.
	_, err = s.table.SubmitTransaction(ctx, []aztables.TransactionAction{
		{ActionType: aztables.TransactionTypeAdd, Entity: mark.encode()},
		{ActionType: aztables.TransactionTypeAdd, Entity: row.encode()}}, nil)
	if isConflict(err) && !isTableMissing(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("durable: send to the entity %q: %w", m.Instance, err)
	}
	return true, nil
}

// isTableMissing reports whether a request was refused because the hub's table does not exist.
func isTableMissing(err error) bool {
	_, code := status(err)
	return code == "TableNotFound" || err != nil && strings.Contains(err.Error(), "TableNotFound")
}

// inbox calls f with the messages of an entity in their order until f returns false. Messages that cannot be read are
// passed with the error.
func (s entityStore) inbox(ctx context.Context, id string, page int, f func(inboxMessage, error) bool) error {
	filter := fmt.Sprintf("PartitionKey eq %s and RowKey ge '%s' and RowKey lt '%s'", quote(partitionKey(id)), inboxPrefix,
		inboxEnd)
	pager := s.table.NewListEntitiesPager(&aztables.ListEntitiesOptions{Filter: &filter, Top: to.Ptr(int32(page))})
	for pager.More() {
		got, err := pager.NextPage(ctx)
		if isNotFound(err) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("durable: read the messages of the entity %q: %w", id, err)
		}
		for _, text := range got.Entities {
			var row struct{ RowKey, Message string }
			if err := json.Unmarshal(text, &row); err != nil {
				return fmt.Errorf("durable: read the messages of the entity %q: %w", id, err)
			}
			m := inboxMessage{key: row.RowKey}
			m.message, err = decode(row.Message)
			if err == nil {
				if m.x = event.ExtraOf(m.message.event); m.x == nil {
					err = errBadMessage
				}
			}
			if !f(m, err) {
				return nil
			}
		}
	}
	return nil
}

// backlog returns how many messages an entity has yet to handle, at most 1,000.
func (s entityStore) backlog(ctx context.Context, id string) (n int, err error) {
	err = s.inbox(ctx, id, 1000, func(inboxMessage, error) bool { n++; return n < 1000 })
	return n, err
}

func releasedKey(section string) string {
	h := hashID(section)
	return fmt.Sprintf("%s%x", releasedPrefix, h)
}

// isReleased reports whether a critical section was released before its lock request arrived.
func (s entityStore) isReleased(ctx context.Context, id, section string) (bool, error) {
	_, err := s.table.GetEntity(ctx, partitionKey(id), releasedKey(section), nil)
	if isNotFound(err) {
		return false, nil
	}
	return err == nil, err
}

// entityCommit holds what one commit changes.
type entityCommit struct {
	state  *string
	lock   lock
	outbox []string // encoded messages
	order  order    // of the last one to an entity
	delete []string // keys of handled messages
	note   []string // critical sections to note as released
	forget []string // notes to delete
	now    time.Time
}

// commit writes an entity with everything that follows from it in one transaction. errMoved means that another process
// has written the entity, or handled one of the messages; nothing is written then.
func (s entityStore) commit(ctx context.Context, id string, r *entityRow, c entityCommit) (*entityRow, error) {
	key := partitionKey(id)
	n := &entityRow{PartitionKey: key, HasState: c.state != nil, state: c.state, LastModified: c.now,
		LockedBy: c.lock.Section, LockOwner: c.lock.Owner,
		Epoch: r.Epoch, Commit: r.Commit + 1, Order: c.order}
	row := newEntity(key, entityKey)
	row["HasState"], row["Epoch"], row["Commit"] = n.HasState, n.Epoch, n.Commit
	row.setTime("LastModified", c.now)
	row.setText("LockedBy", n.LockedBy)
	row.setText("LockOwner", n.LockOwner)
	row.setText("Order", string(n.Order))
	var err error
	if c.state != nil {
		if n.State, n.StateBlobName, err = s.text(ctx, row, n, "State", *c.state); err != nil {
			return nil, err
		}
	}
	if len(c.outbox) > 0 {
		list, err := json.Marshal(c.outbox)
		if err != nil {
			return nil, err
		}
		if n.Outbox, n.OutboxBlobName, err = s.text(ctx, row, n, "Outbox", string(list)); err != nil {
			return nil, err
		}
	}
	// The entity comes first, because transact takes its ETag from the first answer. Each deletion of a message must
	// find its row: if another process has handled it, all is refused.
	actions := []aztables.TransactionAction{write(row, r.etag)}
	for _, k := range c.delete {
		actions = append(actions, aztables.TransactionAction{ActionType: aztables.TransactionTypeDelete,
			Entity: newEntity(key, k).encode(), IfMatch: to.Ptr(azcore.ETagAny)})
	}
	for _, section := range c.note {
		actions = append(actions, aztables.TransactionAction{ActionType: aztables.TransactionTypeInsertReplace,
			Entity: newEntity(key, releasedKey(section)).encode()})
	}
	for _, section := range c.forget {
		actions = append(actions, aztables.TransactionAction{ActionType: aztables.TransactionTypeDelete,
			Entity: newEntity(key, releasedKey(section)).encode(), IfMatch: to.Ptr(azcore.ETagAny)})
	}
	n.etag, err = s.transact(ctx, id, actions)
	return n, err
}

// text sets a column to a text, or to the name of the blob that has it.
func (s entityStore) text(ctx context.Context, row entity, r *entityRow, column, text string) (inline, blob string,
	err error) {
	if len(text) <= inlineLimit && plain(text) {
		row[column] = text
		return text, "", nil
	}
	// No two commits share a blob: a process that was deposed may delete one late.
	blob = payloadName(instanceOf(r.PartitionKey), fmt.Sprintf("%s-%s-%d", column, r.Epoch, r.Commit), text)
	row[column+"BlobName"] = blob
	return "", blob, s.payloads.put(ctx, blob, text)
}

func write(row entity, etag azcore.ETag) aztables.TransactionAction {
	if etag == "" {
		return aztables.TransactionAction{ActionType: aztables.TransactionTypeAdd, Entity: row.encode()}
	}
	return aztables.TransactionAction{ActionType: aztables.TransactionTypeUpdateReplace, Entity: row.encode(),
		IfMatch: to.Ptr(etag)}
}

// transact sends a batch whose first operation writes the entity's row, and returns the row's new ETag.
func (s entityStore) transact(ctx context.Context, id string, actions []aztables.TransactionAction) (azcore.ETag,
	error) {
	etag, err := histories{table: s.table}.transact(ctx, id, actions)
	if err != nil && !errors.Is(err, errMoved) {
		return "", fmt.Errorf("durable: write the entity %q: %w", id, err)
	}
	return etag, err
}

// sent notes that the messages of the last commit have been sent.
func (s entityStore) sent(ctx context.Context, id string, r *entityRow) error {
	if !r.pending() {
		return nil
	}
	row := newEntity(partitionKey(id), entityKey)
	row["Outbox"], row["OutboxBlobName"] = "", ""
	got, err := s.table.UpdateEntity(ctx, row.encode(),
		&aztables.UpdateEntityOptions{IfMatch: to.Ptr(r.etag), UpdateMode: aztables.UpdateModeMerge})
	if isConflict(err) {
		return fmt.Errorf("durable: %w: %w", errMoved, err)
	}
	if err != nil {
		return fmt.Errorf("durable: write the entity %q: %w", id, err)
	}
	if r.OutboxBlobName != "" {
		err = s.payloads.delete(ctx, r.OutboxBlobName)
	}
	r.etag, r.Outbox, r.OutboxBlobName = got.ETag, "", ""
	return err
}

// unsent returns the messages of the last commit.
func (s entityStore) unsent(ctx context.Context, r *entityRow) (list []string, err error) {
	text := r.Outbox
	if r.OutboxBlobName != "" {
		if text, err = s.payloads.get(ctx, r.OutboxBlobName); err != nil {
			return nil, err
		}
	}
	if text == "" {
		return nil, nil
	}
	return list, json.Unmarshal([]byte(text), &list)
}

// Times for which the marks of messages that have arrived are kept.
const (
	// seenMarks: a sender whose process has crashed sends again once its own message is visible, and messages outlive
	// their receiver by seven days at most.
	seenMarks = seenUnsure
	// seenSignals: longer than a client repeats a signal after an error.
	seenSignals = time.Hour
)

// trimMost bounds the marks that one call of trim deletes.
const trimMost = 100 * batchRows

// trim deletes old marks of messages that have arrived and of sections that were released: those of an entity, or of
// all if id is empty.
func (s entityStore) trim(ctx context.Context, id string, now time.Time) error {
	where := "PartitionKey ge '@' and PartitionKey lt 'A'"
	if id != "" {
		where = "PartitionKey eq " + quote(partitionKey(id))
	}
	for _, kind := range []struct {
		first, end string
		kept       time.Duration
	}{{clientPrefix, clientEnd, seenSignals}, {hubPrefix, releasedEnd, seenMarks}} {
		filter := fmt.Sprintf("%s and RowKey ge '%s' and RowKey lt '%s' and Timestamp lt datetime'%s'", where, kind.first,
			kind.end, now.Add(-kind.kept).UTC().Format(edmTime))
		pager := s.table.NewListEntitiesPager(&aztables.ListEntitiesOptions{Filter: &filter,
			Select: to.Ptr("PartitionKey,RowKey"), Top: to.Ptr(int32(batchRows))})
		for n := 0; n < trimMost && pager.More(); {
			page, err := pager.NextPage(ctx)
			if err != nil {
				return err
			}
			n += len(page.Entities)
			if err := s.deleteRows(ctx, page.Entities); err != nil {
				return err
			}
		}
	}
	return nil
}

// deleteRows deletes rows in the order of their partitions, one transaction for each partition.
func (s entityStore) deleteRows(ctx context.Context, rows [][]byte) error {
	var batch []aztables.TransactionAction
	last := ""
	flush := func() error {
		if len(batch) == 0 {
			return nil
		}
		_, err := s.table.SubmitTransaction(ctx, batch, nil)
		batch = nil
		if isNotFound(err) {
			return nil // Another process has deleted them.
		}
		return err
	}
	for _, text := range rows {
		var key struct{ PartitionKey string }
		if err := json.Unmarshal(text, &key); err != nil {
			return err
		}
		if key.PartitionKey != last {
			if err := flush(); err != nil {
				return err
			}
		}
		last = key.PartitionKey
		batch = append(batch, aztables.TransactionAction{ActionType: aztables.TransactionTypeDelete, Entity: text,
			IfMatch: to.Ptr(azcore.ETagAny)})
	}
	return flush()
}

// remove deletes the row of an entity that has neither state nor lock nor messages. It is false if the entity has any
// of them.
func (s entityStore) remove(ctx context.Context, id string, r *entityRow) (bool, error) {
	if r.etag == "" || r.HasState || r.LockedBy != "" || r.pending() {
		return false, nil
	}
	if n, err := s.backlog(ctx, id); err != nil || n > 0 {
		return false, err
	}
	err := s.delete(ctx, id, r)
	if errors.Is(err, errMoved) {
		return false, nil
	}
	return err == nil, err
}

// delete deletes the row of an entity. errMoved means that it is another one by now.
func (s entityStore) delete(ctx context.Context, id string, r *entityRow) error {
	key := partitionKey(id)
	actions := []aztables.TransactionAction{{ActionType: aztables.TransactionTypeDelete,
		Entity: newEntity(key, entityKey).encode(), IfMatch: to.Ptr(r.etag)}}
	if r.Order != "" { // An entity with the ID goes on after it, whatever its process's clock says.
		tail := newEntity(key, tailKey)
		tail.setText("Order", string(r.Order))
		actions = append(actions, aztables.TransactionAction{ActionType: aztables.TransactionTypeInsertReplace,
			Entity: tail.encode()})
	}
	if _, err := s.transact(ctx, id, actions); err != nil {
		return err
	}
	if r.OutboxBlobName != "" {
		return s.payloads.delete(ctx, r.OutboxBlobName)
	}
	return nil
}

// list returns a page of rows of entities, without their ETags.
func (s entityStore) list(ctx context.Context, filter string, top int, after position) (rows []*entityRow,
	next position, err error) {
	all := "PartitionKey ge '@' and PartitionKey lt 'A' and RowKey eq '" + entityKey + "'"
	if filter != "" {
		all += " and " + filter
	}
	texts, next, err := listPage(ctx, s.table, all, top, after)
	if isNotFound(err) {
		return nil, next, nil
	}
	if err != nil {
		return nil, next, fmt.Errorf("durable: list entities: %w", err)
	}
	for _, text := range texts {
		r := &entityRow{}
		if err := json.Unmarshal(text, r); err != nil {
			return nil, next, corrupt(r.PartitionKey, nil, err)
		}
		rows = append(rows, r)
	}
	return rows, next, nil
}

// responseTo returns the workflow that waits for the result of an operation; none for a signal.
func responseTo(x *protocol.HistoryEvent) (instance, execution string) {
	c := x.GetEntityOperationCalled()
	return c.GetParentInstanceId().GetValue(), c.GetParentExecutionId().GetValue()
}
