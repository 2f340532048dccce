package record

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

// Sender is the kind of sender of a message, which says how long its copies can come.
type Sender string

const (
	// FromHub are the messages of workflows and entities, and delayed signals.
	FromHub Sender = hubPrefix
	// FromClient are signals that a client sends at once, and sends again after an error.
	FromClient Sender = clientPrefix
)

// EntityRow is the row of an entity.
type EntityRow struct {
	ETag azcore.ETag `json:"-"` // empty if the row does not exist

	PartitionKey           string
	HasState               bool
	State, StateBlobName   string
	LastModified           time.Time
	LockedBy, LockOwner    string
	Epoch                  string
	Commit                 int
	Order                  order // of the last message that it has sent to an entity
	Outbox, OutboxBlobName string
	Content                *string `json:"-"` // with its blob read
}

func (r *EntityRow) Lock() lock { return lock{r.LockedBy, r.LockOwner} }

// pending reports whether messages of the last commit may not have been sent.
func (r *EntityRow) pending() bool { return r.Outbox != "" || r.OutboxBlobName != "" }

// EntityStore reads and writes the Entities table.
type EntityStore struct {
	Table    *aztables.Client
	Payloads Payloads
	Last     *atomic.Int64 // the time in the last key of a message, in nanoseconds
}

// Get returns an entity's row, which has no ETag if it does not exist, with its state if that is wanted, or the order
// that a removed entity has left. A commit may delete the blob of a state after its row was read: the row is read again
// until it refers to a blob that is there, or is the same.
func (s EntityStore) Get(ctx context.Context, id string, state bool) (*EntityRow, error) {
	for before := azcore.ETag(""); ; {
		r, err := s.row(ctx, id, state)
		if err != nil || !state {
			return r, err
		}
		if err = s.Fill(ctx, r); !errors.Is(err, ErrNoPayload) || r.ETag == before {
			return r, err
		}
		before = r.ETag
	}
}

// row returns an entity's row without the blob of its state. tail says whether the order of a removed entity is wanted.
func (s EntityStore) row(ctx context.Context, id string, tail bool) (*EntityRow, error) {
	r := &EntityRow{}
	etag, err := readRow(ctx, s.Table, "Entities", id, entityKey, r)
	if err != nil {
		return nil, err
	}
	if r.ETag = etag; etag != "" {
		return r, nil
	}
	r = &EntityRow{PartitionKey: PartitionKey(id), Epoch: rand.Text()}
	if tail {
		r.Order, err = s.tail(ctx, id)
	}
	return r, err
}

// tail returns the place of the last message that a removed entity has sent to an entity.
func (s EntityStore) tail(ctx context.Context, id string) (order, error) {
	var row struct{ Order order }
	_, err := readRow(ctx, s.Table, "Entities", id, tailKey, &row)
	return row.Order, err
}

// Fill reads the state of a row.
func (s EntityStore) Fill(ctx context.Context, r *EntityRow) error {
	switch {
	case !r.HasState:
	case r.StateBlobName != "":
		text, err := s.Payloads.Get(ctx, r.StateBlobName)
		if err != nil {
			return err
		}
		r.Content = &text
	default:
		r.Content = &r.State
	}
	return nil
}

// key returns the key of a message's row. The keys of messages without an order, those of clients, increase in one
// process, so that they stay in the order in which they were put.
func (s EntityStore) key(now time.Time, m *Message) string {
	h := hashID(m.ID)
	if m.Order != "" {
		return fmt.Sprintf("%s%s%x", inboxPrefix, m.Order, h[:6])
	}
	at := now.UnixNano()
	for {
		last := s.Last.Load()
		next := max(at, last+1)
		if s.Last.CompareAndSwap(last, next) {
			return fmt.Sprintf("%s%016X%x", inboxPrefix, next, h[:6])
		}
	}
}

// Put adds a message to an entity's inbox. put is false for a copy of a message that has arrived before.
func (s EntityStore) Put(ctx context.Context, m *Message, now time.Time, from Sender) (put bool, err error) {
	h := hashID(m.ID)
	m.Execution = fmt.Sprintf("%x", h[:8]) // The scope of its payload's blob, which is deleted with the message.
	text, err := s.Payloads.Encode(ctx, m)
	if err != nil {
		return false, err
	}
	row := newEntity(PartitionKey(m.Instance), s.key(now, m))
	row["Message"] = text
	mark := newEntity(PartitionKey(m.Instance), fmt.Sprintf("%s%x", from, h))
	// The mark refuses copies, also when the message has been handled: so neither may be written without the other.
	_, err = s.Table.SubmitTransaction(ctx, []aztables.TransactionAction{
		{ActionType: aztables.TransactionTypeAdd, Entity: mark.encode()},
		{ActionType: aztables.TransactionTypeAdd, Entity: row.encode()}}, nil)
	if IsConflict(err) && !IsTableMissing(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("durable: send to the entity %q: %w", m.Instance, err)
	}
	return true, nil
}

// IsTableMissing reports whether a request was refused because the hub's table does not exist.
func IsTableMissing(err error) bool {
	_, code := HTTPStatus(err)
	return code == "TableNotFound" || err != nil && strings.Contains(err.Error(), "TableNotFound")
}

// Inbox calls f with the messages of an entity in their order until f returns false. Messages that cannot be read are
// passed with the error.
func (s EntityStore) Inbox(ctx context.Context, id string, page int, f func(InboxMessage, error) bool) error {
	filter := fmt.Sprintf("PartitionKey eq %s and RowKey ge '%s' and RowKey lt '%s'", Quote(PartitionKey(id)),
		inboxPrefix,
		inboxEnd)
	pager := s.Table.NewListEntitiesPager(&aztables.ListEntitiesOptions{Filter: &filter, Top: to.Ptr(int32(page))})
	for pager.More() {
		got, err := pager.NextPage(ctx)
		if IsNotFound(err) {
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
			m := InboxMessage{Key: row.RowKey}
			m.Message, err = Decode(row.Message)
			if err == nil {
				if m.X = event.ExtraOf(m.Message.Parsed); m.X == nil {
					err = ErrBadMessage
				}
			}
			if !f(m, err) {
				return nil
			}
		}
	}
	return nil
}

// Backlog returns how many messages an entity has yet to handle, at most 1,000.
func (s EntityStore) Backlog(ctx context.Context, id string) (n int, err error) {
	err = s.Inbox(ctx, id, 1000, func(InboxMessage, error) bool { n++; return n < 1000 })
	return n, err
}

func releasedKey(section string) string {
	h := hashID(section)
	return fmt.Sprintf("%s%x", releasedPrefix, h)
}

// IsReleased reports whether a critical section was released before its lock request arrived.
func (s EntityStore) IsReleased(ctx context.Context, id, section string) (bool, error) {
	_, err := s.Table.GetEntity(ctx, PartitionKey(id), releasedKey(section), nil)
	if IsNotFound(err) {
		return false, nil
	}
	return err == nil, err
}

// EntityCommit holds what one commit changes.
type EntityCommit struct {
	State  *string
	Lock   lock
	Outbox []string // encoded messages
	Order  order    // of the last one to an entity
	Delete []string // keys of handled messages
	Note   []string // critical sections to note as released
	Forget []string // notes to delete
	Now    time.Time
}

// Commit writes an entity with everything that follows from it in one transaction. ErrMoved means that another process
// has written the entity, or handled one of the messages; nothing is written then.
func (s EntityStore) Commit(ctx context.Context, id string, r *EntityRow, c EntityCommit) (*EntityRow, error) {
	key := PartitionKey(id)
	n := &EntityRow{PartitionKey: key, HasState: c.State != nil, Content: c.State, LastModified: c.Now,
		LockedBy: c.Lock.Section, LockOwner: c.Lock.Owner,
		Epoch: r.Epoch, Commit: r.Commit + 1, Order: c.Order}
	row := newEntity(key, entityKey)
	row["HasState"], row["Epoch"], row["Commit"] = n.HasState, n.Epoch, n.Commit
	row.setTime("LastModified", c.Now)
	row.setText("LockedBy", n.LockedBy)
	row.setText("LockOwner", n.LockOwner)
	row.setText("Order", string(n.Order))
	var err error
	if c.State != nil {
		if n.State, n.StateBlobName, err = s.text(ctx, row, n, "State", *c.State); err != nil {
			return nil, err
		}
	}
	if len(c.Outbox) > 0 {
		list, err := json.Marshal(c.Outbox)
		if err != nil {
			return nil, err
		}
		if n.Outbox, n.OutboxBlobName, err = s.text(ctx, row, n, "Outbox", string(list)); err != nil {
			return nil, err
		}
	}
	// The entity comes first, because transact takes its ETag from the first answer. Each deletion of a message must
	// find its row: if another process has handled it, all is refused.
	actions := []aztables.TransactionAction{write(row, r.ETag)}
	for _, k := range c.Delete {
		actions = append(actions, aztables.TransactionAction{ActionType: aztables.TransactionTypeDelete,
			Entity: newEntity(key, k).encode(), IfMatch: to.Ptr(azcore.ETagAny)})
	}
	for _, section := range c.Note {
		actions = append(actions, aztables.TransactionAction{ActionType: aztables.TransactionTypeInsertReplace,
			Entity: newEntity(key, releasedKey(section)).encode()})
	}
	for _, section := range c.Forget {
		actions = append(actions, aztables.TransactionAction{ActionType: aztables.TransactionTypeDelete,
			Entity: newEntity(key, releasedKey(section)).encode(), IfMatch: to.Ptr(azcore.ETagAny)})
	}
	n.ETag, err = s.transact(ctx, id, actions)
	return n, err
}

// text sets a column to a text, or to the name of the blob that has it.
func (s EntityStore) text(ctx context.Context, row entity, r *EntityRow, column, text string) (inline, blob string,
	err error) {
	if len(text) <= InlineLimit && plain(text) {
		row[column] = text
		return text, "", nil
	}
	// No two commits share a blob: a process that was deposed may delete one late.
	blob = payloadName(InstanceOf(r.PartitionKey), fmt.Sprintf("%s-%s-%d", column, r.Epoch, r.Commit), text)
	row[column+"BlobName"] = blob
	return "", blob, s.Payloads.Put(ctx, blob, text)
}

func write(row entity, etag azcore.ETag) aztables.TransactionAction {
	if etag == "" {
		return aztables.TransactionAction{ActionType: aztables.TransactionTypeAdd, Entity: row.encode()}
	}
	return aztables.TransactionAction{ActionType: aztables.TransactionTypeUpdateReplace, Entity: row.encode(),
		IfMatch: to.Ptr(etag)}
}

// transact sends a batch whose first operation writes the entity's row, and returns the row's new ETag.
func (s EntityStore) transact(ctx context.Context, id string, actions []aztables.TransactionAction) (azcore.ETag,
	error) {
	etag, err := Histories{Table: s.Table}.transact(ctx, id, actions)
	if err != nil && !errors.Is(err, ErrMoved) {
		return "", fmt.Errorf("durable: write the entity %q: %w", id, err)
	}
	return etag, err
}

// Sent notes that the messages of the last commit have been sent.
func (s EntityStore) Sent(ctx context.Context, id string, r *EntityRow) error {
	if !r.pending() {
		return nil
	}
	row := newEntity(PartitionKey(id), entityKey)
	row["Outbox"], row["OutboxBlobName"] = "", ""
	got, err := s.Table.UpdateEntity(ctx, row.encode(),
		&aztables.UpdateEntityOptions{IfMatch: to.Ptr(r.ETag), UpdateMode: aztables.UpdateModeMerge})
	if IsConflict(err) {
		return fmt.Errorf("durable: %w: %w", ErrMoved, err)
	}
	if err != nil {
		return fmt.Errorf("durable: write the entity %q: %w", id, err)
	}
	if r.OutboxBlobName != "" {
		err = s.Payloads.Delete(ctx, r.OutboxBlobName)
	}
	r.ETag, r.Outbox, r.OutboxBlobName = got.ETag, "", ""
	return err
}

// Unsent returns the messages of the last commit.
func (s EntityStore) Unsent(ctx context.Context, r *EntityRow) (list []string, err error) {
	text := r.Outbox
	if r.OutboxBlobName != "" {
		if text, err = s.Payloads.Get(ctx, r.OutboxBlobName); err != nil {
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
	seenMarks = SeenUnsure
	// seenSignals: longer than a client repeats a signal after an error.
	seenSignals = time.Hour
)

// trimMost bounds the marks that one call of trim deletes.
const trimMost = 100 * BatchRows

// Trim deletes old marks of messages that have arrived and of sections that were released: those of an entity, or of
// all if id is empty.
func (s EntityStore) Trim(ctx context.Context, id string, now time.Time) error {
	where := "PartitionKey ge '@' and PartitionKey lt 'A'"
	if id != "" {
		where = "PartitionKey eq " + Quote(PartitionKey(id))
	}
	for _, kind := range []struct {
		first, end string
		kept       time.Duration
	}{{clientPrefix, clientEnd, seenSignals}, {hubPrefix, releasedEnd, seenMarks}} {
		filter := fmt.Sprintf("%s and RowKey ge '%s' and RowKey lt '%s' and Timestamp lt datetime'%s'", where, kind.first,
			kind.end, now.Add(-kind.kept).UTC().Format(EdmTime))
		pager := s.Table.NewListEntitiesPager(&aztables.ListEntitiesOptions{Filter: &filter,
			Select: to.Ptr("PartitionKey,RowKey"), Top: to.Ptr(int32(BatchRows))})
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
func (s EntityStore) deleteRows(ctx context.Context, rows [][]byte) error {
	var batch []aztables.TransactionAction
	last := ""
	flush := func() error {
		if len(batch) == 0 {
			return nil
		}
		_, err := s.Table.SubmitTransaction(ctx, batch, nil)
		batch = nil
		if IsNotFound(err) {
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

// Remove deletes the row of an entity that has neither state nor lock nor messages. It is false if the entity has any
// of them.
func (s EntityStore) Remove(ctx context.Context, id string, r *EntityRow) (bool, error) {
	if r.ETag == "" || r.HasState || r.LockedBy != "" || r.pending() {
		return false, nil
	}
	if n, err := s.Backlog(ctx, id); err != nil || n > 0 {
		return false, err
	}
	err := s.Delete(ctx, id, r)
	if errors.Is(err, ErrMoved) {
		return false, nil
	}
	return err == nil, err
}

// Delete deletes the row of an entity. ErrMoved means that it is another one by now.
func (s EntityStore) Delete(ctx context.Context, id string, r *EntityRow) error {
	key := PartitionKey(id)
	actions := []aztables.TransactionAction{{ActionType: aztables.TransactionTypeDelete,
		Entity: newEntity(key, entityKey).encode(), IfMatch: to.Ptr(r.ETag)}}
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
		return s.Payloads.Delete(ctx, r.OutboxBlobName)
	}
	return nil
}

// List returns a page of rows of entities, without their ETags.
func (s EntityStore) List(ctx context.Context, filter string, top int, after position) (rows []*EntityRow,
	next position, err error) {
	all := "PartitionKey ge '@' and PartitionKey lt 'A' and RowKey eq '" + entityKey + "'"
	if filter != "" {
		all += " and " + filter
	}
	texts, next, err := ListPage(ctx, s.Table, all, top, after)
	if IsNotFound(err) {
		return nil, next, nil
	}
	if err != nil {
		return nil, next, fmt.Errorf("durable: list entities: %w", err)
	}
	for _, text := range texts {
		r := &EntityRow{}
		if err := json.Unmarshal(text, r); err != nil {
			return nil, next, Corrupt(r.PartitionKey, nil, err)
		}
		rows = append(rows, r)
	}
	return rows, next, nil
}

// ResponseTo returns the workflow that waits for the result of an operation; none for a signal.
func ResponseTo(x *protocol.HistoryEvent) (instance, execution string) {
	c := x.GetEntityOperationCalled()
	return c.GetParentInstanceId().GetValue(), c.GetParentExecutionId().GetValue()
}

// EntityInfo is the state of an entity.
type EntityInfo struct {
	// ID is "@name@key".
	ID string
	// State holds what the entity keeps, in the form of its worker; nil if it has none, or was not asked for.
	State *string `json:",omitempty"`
	// LastModified is the time at which the entity has handled its last message.
	LastModified time.Time
	// LockedBy is the workflow that has locked the entity; empty if none has.
	LockedBy string `json:",omitempty"`
	// Backlog is the number of messages that wait, up to 1,000. Queries leave it out.
	Backlog int
}

func (r *EntityRow) Info() *EntityInfo {
	return &EntityInfo{ID: InstanceOf(r.PartitionKey), State: r.Content, LastModified: r.LastModified,
		LockedBy: r.LockOwner}
}
