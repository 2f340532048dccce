package record

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/lazuli-storage/lazuli/internal/durable/event"
	"github.com/lazuli-storage/lazuli/internal/lazyregexp"
	"github.com/lazuli-storage/lazuli/internal/sdk/entityio"
)

// A history is one partition of the History table:
//
//	RowKey            columns
//	0000000000000000  EventType, EventId, _Timestamp, ExecutionId, Event, ...
//	0000000000000001
//	...
//	sentinel          ExecutionId, First, Length, From, Checkpoint, StartId, Seen, Terminations, Wake, Rewound,
//	                  RewindReason, Order, Commit
//
// The rows from the sentinel's First on are committed, as many as Length says. Readers ignore the others: they belong
// to a checkpoint of more rows than a batch can have left behind when it was not finished, or to a history that a
// continue-as-new has replaced. Column Event has the event in the protocol's encoding; its payload is in the column
// Input or Result, which people and viewers read, or in the blob that InputBlobName or ResultBlobName names.

const SentinelKey = "sentinel"

func rowKey(i int) string { return fmt.Sprintf("%016X", i) }

// Sentinel is the row that commits.
type Sentinel struct {
	ExecutionID string `json:"ExecutionId"`
	// First is the number in the table of the first row: 0, unless a continue-as-new had more rows than a batch can
	// have. The other numbers of rows count from it.
	First int
	// Length is the number of committed rows, From the first row of the last checkpoint, Checkpoint its number.
	Length, From, Checkpoint int
	// StartID is the execution that the instance was started with; continue-as-new changes ExecutionID only.
	StartID string `json:"StartId"`
	// Seen are messages of earlier executions that could come again.
	Seen SeenList
	// Terminations are the messages of the last checkpoint that do not follow from the history.
	Terminations string
	// Wake means that the last checkpoint sends the instance a message with which it goes on.
	Wake bool
	// Rewound means that the last checkpoint is a rewind: it sends the open tasks alone, and rewinds sub-orchestrations,
	// with RewindReason.
	Rewound      bool
	RewindReason string
	// CustomStatus is the last value that the workflow has set.
	CustomStatus []byte
	// Order is the place of the last message that the instance has sent to an entity.
	Order order
	// Span is the execution's span, if its worker has told one.
	Span []byte
	// Commit is random and new in every version of the row.
	Commit string
}

// Next returns the sentinel without what belongs to the last checkpoint alone.
func (s Sentinel) Next() Sentinel {
	s.Terminations, s.Wake, s.Rewound, s.RewindReason = "", false, false, ""
	return s
}

// History is the state of an instance that this process has read. It is not changed once it is in the cache, except by
// its session.
type History struct {
	Sentinel
	Etag   azcore.ETag // of the sentinel; empty if it does not exist
	Events []*Event
	IDs    map[string]bool   // of the messages in events
	Row    *InstanceRow      // the row in Instances; nil if it does not exist
	Blobs  map[*Event]string // payloads that events refer to
	// Stale says that rows which are no part of the history may exist.
	Stale  bool
	weight int // in the cache
	// Confirmed are messages that are known to be deleted: they cannot come again.
	Confirmed *idSet
	// Delivered is the checkpoint whose messages this process has sent, while the row may not say so yet.
	Delivered int
}

// idSet is a set of messages' IDs. It is safe for concurrent use.
type idSet struct {
	mu   sync.Mutex // guards list
	list map[string]bool
}

func (s *idSet) Add(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list[id] = true
}

func (s *idSet) All() map[string]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.list)
}

func NewHistory() *History {
	return &History{IDs: map[string]bool{}, Blobs: map[*Event]string{}, Confirmed: &idSet{list: map[string]bool{}}}
}

// Started reports whether an execution has begun.
func (h *History) Started() bool { return h.Length > 0 }

func (h *History) Completed() bool {
	for i := len(h.Events) - 1; i >= 0; i-- {
		if h.Events[i].GetExecutionCompleted() != nil {
			return true
		}
	}
	return false
}

// Sent reports whether the messages of the last checkpoint have been sent, or are obsolete because the instance was
// purged or replaced.
func (h *History) Sent() bool {
	return h.Length == 0 || h.Delivered == h.Checkpoint || h.Row == nil || h.Row.StartID != h.StartID ||
		h.Row.Checkpoint >= h.Checkpoint
}

// StartEvent returns the event that started the execution, or nil if it has not started.
func (h *History) StartEvent() *Event {
	for _, e := range h.Events {
		if e.GetExecutionStarted() != nil {
			return e
		}
	}
	return nil
}

// CorruptError means that an instance's history cannot be read. Retrying does not help.
type CorruptError struct {
	Instance string
	Err      error

	History *History // as far as it can be read
}

// Error implements error.
func (e *CorruptError) Error() string {
	return fmt.Sprintf("the history of %q is corrupt: %v", e.Instance, e.Err)
}

func Corrupt(instance string, h *History, err error) error {
	return &CorruptError{instance, err, h}
}

// Unwrap returns the cause.
func (e *CorruptError) Unwrap() error { return e.Err }

// Histories reads and writes the History table.
type Histories struct {
	Table    *aztables.Client
	Payloads Payloads
}

// ErrMoved means that another process has written the history since it was read.
var ErrMoved = errors.New("the history was changed by another owner")

// ReadAttempts bounds the attempts to read a history that another process is writing.
const ReadAttempts = 5

// Read returns an instance's history, which is empty if it does not exist.
func (s Histories) Read(ctx context.Context, instance string) (*History, error) {
	for range ReadAttempts {
		h, err := s.tryRead(ctx, instance)
		if !errors.Is(err, ErrMoved) {
			return h, err
		}
	}
	return nil, fmt.Errorf("durable: read the history of %q: %w", instance, ErrMoved)
}

// tryRead reads the sentinel before the rows and after them: pages of a query are not read at one point in time.
func (s Histories) tryRead(ctx context.Context, instance string) (*History, error) {
	partition := PartitionKey(instance)
	h := NewHistory()
	got, err := s.Table.GetEntity(ctx, partition, SentinelKey, nil)
	if IsNotFound(err) {
		return h, nil
	}
	if err != nil {
		return nil, fmt.Errorf("durable: read the history of %q: %w", instance, err)
	}
	// A history that is returned early, empty or corrupt, may have rows that were not counted.
	h.Etag, h.Stale = got.ETag, true
	if err := json.Unmarshal(got.Value, &h.Sentinel); err != nil {
		return h, Corrupt(instance, h, fmt.Errorf("sentinel: %w", err))
	}
	if h.Length == 0 {
		return h, nil
	}
	rows, err := s.Rows(ctx, partition)
	if err != nil {
		return nil, fmt.Errorf("durable: read the history of %q: %w", instance, err)
	}
	n := len(rows)
	// The sentinel sorts behind the rows. If it has the Commit that was read before them, nothing was written in
	// between, and the rows belong together.
	if n == 0 || rows[n-1].RowKey != SentinelKey || rows[n-1].Commit != h.Commit {
		return nil, ErrMoved
	}
	// The rows before the first one sort before it.
	begin := 0
	for begin < n-1 && rows[begin].RowKey < rowKey(h.First) {
		begin++
	}
	h.Stale = n-1 > h.Length
	rows = rows[begin : n-1]
	for i := range h.Length {
		key := rowKey(h.First + i)
		if i >= len(rows) || rows[i].RowKey != key {
			return h, Corrupt(instance, h, fmt.Errorf("row %s is missing", key))
		}
		e, err := s.event(ctx, &rows[i])
		if errors.Is(err, ErrNoPayload) { // A commit may have deleted the blob after the rows were read.
			now, err := s.Table.GetEntity(ctx, partition, SentinelKey, nil)
			if IsNotFound(err) || err == nil && now.ETag != h.Etag {
				return nil, ErrMoved
			}
			if err != nil {
				return nil, fmt.Errorf("durable: read the history of %q: %w", instance, err)
			}
		}
		if err != nil {
			if errors.Is(err, ErrNoPayload) || errors.Is(err, errBadRow) {
				return h, Corrupt(instance, h, fmt.Errorf("row %s: %w", key, err))
			}
			return nil, err
		}
		h.add(e, rows[i].MessageID, rows[i].blob())
	}
	return h, nil
}

func (h *History) add(e *Event, id, blob string) {
	h.Events = append(h.Events, e)
	if id != "" {
		h.IDs[id] = true
	}
	if blob != "" {
		h.Blobs[e] = blob
	}
}

// historyRow is a row of either kind, as it is read.
type historyRow struct {
	RowKey, Commit                 string
	Event                          []byte
	MessageID                      string `json:"MessageId"`
	Payload                        string
	Input, Result, Data            *string
	InputBlobName, ResultBlobName  string
	DataBlobName, EventBlobName    string
	EventType, ExecutionID, Reason string
}

func (r *historyRow) blob() string {
	return r.InputBlobName + r.ResultBlobName + r.DataBlobName // At most one is set.
}

var errBadRow = errors.New("the row is not readable")

func (s Histories) Rows(ctx context.Context, key string) ([]historyRow, error) {
	var rows []historyRow
	pager := s.Table.NewListEntitiesPager(&aztables.ListEntitiesOptions{Filter: to.Ptr("PartitionKey eq " + Quote(key))})
	for pager.More() {
		page, err := pager.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		for _, text := range page.Entities {
			var r historyRow
			if err := json.Unmarshal(text, &r); err != nil {
				var keys struct{ RowKey string }
				_ = json.Unmarshal(text, &keys)
				r = historyRow{RowKey: keys.RowKey} // event will refuse it.
			}
			rows = append(rows, r)
		}
	}
	return rows, nil
}

func (s Histories) event(ctx context.Context, r *historyRow) (*Event, error) {
	e := &Event{}
	if err := proto.Unmarshal(r.Event, e); err != nil {
		return nil, fmt.Errorf("%w: %w", errBadRow, err)
	}
	if body, _ := event.Body(e); body == nil || e.Timestamp == nil {
		return nil, fmt.Errorf("%w: the event has no kind or time", errBadRow)
	}
	text := map[string]*string{"input": r.Input, "result": r.Result, "data": r.Data}[r.Payload]
	if r.Payload != "" && text == nil {
		got, err := s.Payloads.Get(ctx, r.blob())
		if err != nil {
			return nil, err
		}
		text = &got
	}
	if text != nil {
		if err := event.SetPayload(e, protoreflect.Name(r.Payload), *text); err != nil {
			return nil, fmt.Errorf("%w: %w", errBadRow, err)
		}
	}
	return e, nil
}

// NewRow is an event that is to be committed.
type NewRow struct {
	Event *Event
	ID    string // of the message that brought it, if that has one
	Blob  string // that has its payload already
}

// encodeRow writes an event as a row, whose key the caller sets, and its payload to a blob if it is large. It returns
// the blob's name.
func (s Histories) encodeRow(ctx context.Context, instance, execution string, n NewRow) (entity, string, error) {
	row := newEntity(PartitionKey(instance), rowKey(0))
	row["EventType"], row["EventId"], row["ExecutionId"] = event.Type(n.Event), n.Event.EventId, execution
	row.setTime("_Timestamp", n.Event.Timestamp.AsTime())
	row.setText("MessageId", n.ID)
	describe(row, n.Event)
	e, blob := n.Event, n.Blob
	if v, field := event.PayloadOf(e); v != nil {
		column := string(field[0]-'a'+'A') + string(field[1:])
		switch {
		case blob != "" || len(v.Value) > InlineLimit:
			// The blob of the message that brought the event is used again: the payload is written once.
			if blob == "" {
				blob = payloadName(instance, execution, v.Value)
				if err := s.Payloads.Put(ctx, blob, v.Value); err != nil {
					return nil, "", err
				}
			}
			row["Payload"], row[column+"BlobName"] = string(field), blob
			e = event.WithoutPayload(e)
		case plain(v.Value):
			// A text with other characters stays in the event, where its bytes survive.
			row["Payload"], row[column] = string(field), v.Value
			e = event.WithoutPayload(e)
		}
	}
	packed, err := proto.Marshal(e)
	if err != nil {
		return nil, "", fmt.Errorf("durable: write an event of %q: %w", instance, err)
	}
	// A binary column holds 64 KiB.
	if len(packed) > 60<<10 {
		return nil, "", fmt.Errorf("durable: an event of %q has %d bytes beside its payload; 60 KiB are allowed", instance,
			len(packed))
	}
	row.setBytes("Event", packed)
	return row, blob, nil
}

// describe sets the columns that only people and viewers read.
func describe(row entity, e *Event) {
	if x := e.GetExecutionStarted(); x != nil {
		row.setText("Name", x.Name)
		row.setText("Version", x.Version.GetValue())
		row.setText("ParentInstanceId", x.ParentInstance.GetOrchestrationInstance().GetInstanceId())
	} else if x := e.GetTaskScheduled(); x != nil {
		row.setText("Name", x.Name)
		row.setText("Version", x.Version.GetValue())
	} else if x := e.GetSubOrchestrationInstanceCreated(); x != nil {
		row.setText("Name", x.Name)
		row.setText("InstanceId", x.InstanceId)
	} else if x := e.GetEventRaised(); x != nil {
		row.setText("Name", x.Name)
	} else if x := e.GetEventSent(); x != nil {
		row.setText("Name", x.Name)
		row.setText("InstanceId", x.InstanceId)
	} else if x := e.GetTimerCreated(); x != nil {
		row.setTime("FireAt", x.FireAt.AsTime())
	} else if x := e.GetTimerFired(); x != nil {
		row.setTime("FireAt", x.FireAt.AsTime())
		row["TimerId"] = x.TimerId
	} else if x := e.GetExecutionCompleted(); x != nil {
		row["OrchestrationStatus"] = StatusName(x.OrchestrationStatus)
		row.setText("Reason", short(x.FailureDetails.GetErrorMessage()))
	} else if x := e.GetTaskFailed(); x != nil {
		row.setText("Reason", short(x.FailureDetails.GetErrorMessage()))
	} else if x := e.GetSubOrchestrationInstanceFailed(); x != nil {
		row.setText("Reason", short(x.FailureDetails.GetErrorMessage()))
	}
	if id, ok := event.TaskOf(e); ok && e.GetTimerFired() == nil {
		row["TaskScheduledId"] = id
	}
}

// short truncates a text for a column that is only displayed.
func short(text string) string {
	const most = 1000
	r := []rune(text)
	if len(r) > most {
		r = append(r[:most], '…')
	}
	if text = string(r); plain(text) {
		return text
	}
	return fmt.Sprintf("%+q", text)
}

// Bounds of an entity group transaction: 100 operations, one of which is the sentinel's, and 4 MiB.
// https://learn.microsoft.com/rest/api/storageservices/performing-entity-group-transactions
const (
	BatchRows  = 99
	batchBytes = 3 << 20
)

// Commit appends rows after keep rows of the history, and makes them its last checkpoint. keep is all rows, or 0 to
// replace the history. next has the sentinel's new fields except First, Length, From, Checkpoint and Commit. It returns
// the history as it is then; h is not changed. ErrMoved means that nothing is committed, by this call at least: the
// service may have lost the answer to a commit that succeeded.
func (s Histories) Commit(ctx context.Context, instance string, h *History, keep int, rows []NewRow, next Sentinel,
	now time.Time) (*History, error) {
	next.First, next.Length, next.From, next.Checkpoint = 0, keep+len(rows), keep, h.Checkpoint+1
	if keep > 0 {
		next.First = h.First
	}
	n := NewHistory()
	// n begins with the ETag of h, and each batch hands the next one a new ETag: another writer is noticed before
	// whichever batch it gets ahead of.
	n.Sentinel, n.Etag, n.Row, n.Stale = next, h.Etag, h.Row, h.Stale || h.First+h.Length > next.First+next.Length
	if keep > 0 {
		// h has to stay as it is if the commit is refused: its events are copied. The maps are shared, because only rows
		// that are committed are added to them.
		n.Events = append(n.Events, h.Events[:keep]...)
		n.IDs, n.Confirmed, n.Blobs = h.IDs, h.Confirmed, h.Blobs
	}
	var batch []entity
	bytes := 0
	flush := func(last bool) error {
		// Only the last batch has the new Length. What the batches before it write lies outside the rows of the old
		// sentinel, where readers ignore it; their sentinel holds the place against other writers.
		at := h.Sentinel
		if last {
			at = n.Sentinel
		} else if keep == 0 && h.Length > 0 && n.First == 0 {
			// The rows of a replaced history count until the last batch. One batch may replace them where they are. More than
			// one have to write beside them, or a crash in between leaves a history with rows of both.
			if len(rows) > h.First {
				n.First = h.First + h.Length
			}
			n.Stale = true
			for i, row := range batch {
				row["RowKey"] = rowKey(n.First + i)
			}
		}
		var actions []aztables.TransactionAction
		for _, row := range batch {
			actions = append(actions, aztables.TransactionAction{ActionType: aztables.TransactionTypeInsertReplace,
				Entity: row.encode()})
		}
		var err error
		n.Etag, n.Commit, err = s.submit(ctx, instance, n.Etag, at, actions, now, last)
		batch, bytes = nil, 0
		return err
	}
	ids, blobs := []string{}, []string{}
	for i, r := range rows {
		row, blob, err := s.encodeRow(ctx, instance, next.ExecutionID, r)
		if err != nil {
			return nil, err
		}
		// The rest is for the headers of the operation within the batch.
		size := len(row.encode()) + 1024
		if len(batch) == BatchRows || bytes+size > batchBytes {
			if err := flush(false); err != nil {
				return nil, err
			}
		}
		row["RowKey"] = rowKey(n.First + keep + i)
		batch = append(batch, row)
		bytes += size
		ids, blobs = append(ids, r.ID), append(blobs, blob)
	}
	// This batch is the commit.
	if err := flush(true); err != nil {
		return nil, err
	}
	for i, r := range rows {
		n.add(r.Event, ids[i], blobs[i])
	}
	return n, nil
}

// sentinelETag finds the ETag of the first operation in the answer to a batch, which the SDK does not return.
var sentinelETag = lazyregexp.New(`(?mi)^ETag:[ \t]*(.+?)[ \t]*\r?$`)

// submit writes a batch with the sentinel, which must still have the ETag. It returns the sentinel's new ETag and
// Commit.
func (s Histories) submit(ctx context.Context, instance string, etag azcore.ETag, at Sentinel,
	rest []aztables.TransactionAction, now time.Time, complete bool) (azcore.ETag, string, error) {
	// tryRead compares it to learn whether there was a write between two reads.
	at.Commit = rand.Text()
	row := newEntity(PartitionKey(instance), SentinelKey)
	row["ExecutionId"], row["StartId"], row["Commit"] = at.ExecutionID, at.StartID, at.Commit
	row["First"], row["Length"], row["From"], row["Checkpoint"] = at.First, at.Length, at.From, at.Checkpoint
	row["IsCheckpointComplete"] = complete
	row.setTime("CheckpointCompletedTimestamp", now)
	row.setText("Terminations", at.Terminations)
	row.setText("Order", string(at.Order))
	if at.Wake {
		row["Wake"] = true
	}
	if at.Rewound {
		row["Rewound"] = true
		row.setText("RewindReason", at.RewindReason)
	}
	if at.CustomStatus != nil {
		row.setBytes("CustomStatus", at.CustomStatus)
	}
	if len(at.Span) > 0 {
		row.setBytes("Span", at.Span)
	}
	if len(at.Seen) > 0 {
		row.setBytes("Seen", at.Seen.encode())
	}
	// Without an ETag the history is thought not to exist: the insertion is refused if it does.
	first := aztables.TransactionAction{ActionType: aztables.TransactionTypeAdd, Entity: row.encode()}
	if etag != "" {
		first.ActionType, first.IfMatch = aztables.TransactionTypeUpdateReplace, to.Ptr(etag)
	}
	next, err := s.transact(ctx, instance, append([]aztables.TransactionAction{first}, rest...))
	return next, at.Commit, err
}

// transact sends a batch whose first operation is the sentinel's, and returns the sentinel's new ETag; none if it is
// deleted.
func (s Histories) transact(ctx context.Context, instance string, actions []aztables.TransactionAction) (azcore.ETag,
	error) {
	var answer *http.Response
	_, err := entityio.Submit(policy.WithCaptureResponse(ctx, &answer), s.Table, actions, nil)
	if err != nil {
		if IsConflict(err) {
			return "", fmt.Errorf("durable: %w: %w", ErrMoved, err)
		}
		return "", fmt.Errorf("durable: write the history of %q: %w", instance, err)
	}
	if actions[0].ActionType == aztables.TransactionTypeDelete {
		return "", nil
	}
	body, err := runtime.Payload(answer)
	if err != nil {
		body, err = io.ReadAll(answer.Body)
	}
	m := sentinelETag().FindSubmatch(body)
	if err != nil || m == nil {
		return "", fmt.Errorf("durable: the answer to a batch for %q names no ETag", instance)
	}
	return azcore.ETag(m[1]), nil
}

// Trim deletes the rows that are not part of the history; they are harmless but cost space and reads.
// Every batch has the sentinel in it: a deposed owner must not delete what the next one has written there.
func (s Histories) Trim(ctx context.Context, instance string, h *History, now time.Time) error {
	list, err := s.others(ctx, instance, h.First, h.First+h.Length)
	for err == nil && len(list) > 0 {
		n := min(BatchRows, len(list))
		// h gets the new ETag, because the next commit of its session is made on it.
		if h.Etag, h.Commit, err = s.submit(ctx, instance, h.Etag, h.Sentinel, list[:n], now, true); err != nil {
			return err
		}
		list = list[n:]
	}
	return err
}

// others returns the deletions of all rows except those from first on before end.
func (s Histories) others(ctx context.Context, instance string, first, end int) (list []aztables.TransactionAction,
	err error) {
	rows := fmt.Sprintf("RowKey ge %s and RowKey lt %s", Quote(rowKey(end)), Quote(SentinelKey))
	// Most histories begin with row 0. A service reads one range faster than what an "or" selects from a partition.
	if first > 0 {
		rows = fmt.Sprintf("(RowKey lt %s or (%s))", Quote(rowKey(first)), rows)
	}
	filter := fmt.Sprintf("PartitionKey eq %s and %s", Quote(PartitionKey(instance)), rows)
	pager := s.Table.NewListEntitiesPager(
		&aztables.ListEntitiesOptions{Filter: to.Ptr(filter), Select: to.Ptr("PartitionKey,RowKey")})
	for pager.More() {
		page, err := pager.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("durable: list the history of %q: %w", instance, err)
		}
		for _, text := range page.Entities {
			list = append(list, aztables.TransactionAction{ActionType: aztables.TransactionTypeDelete, Entity: text})
		}
	}
	return list, nil
}

// Remove deletes a history. ErrMoved means that another process has started a new one in the meantime.
func (s Histories) Remove(ctx context.Context, instance string, now time.Time) error {
	got, err := s.Table.GetEntity(ctx, PartitionKey(instance), SentinelKey, nil)
	if IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("durable: read the history of %q: %w", instance, err)
	}
	etag := got.ETag
	list, err := s.others(ctx, instance, 0, 0)
	if err != nil {
		return err
	}
	for len(list) > BatchRows {
		// An empty sentinel has Length 0: if this process dies in between, the instance has no history, and the other rows
		// are no part of one.
		if etag, _, err = s.submit(ctx, instance, etag, Sentinel{}, list[:BatchRows], now, false); err != nil {
			return err
		}
		list = list[BatchRows:]
	}
	last := newEntity(PartitionKey(instance), SentinelKey)
	// The sentinel goes with the last rows: if it went before them, a later call would take the history for removed.
	_, err = s.transact(ctx, instance, append([]aztables.TransactionAction{
		{ActionType: aztables.TransactionTypeDelete, Entity: last.encode(), IfMatch: to.Ptr(etag)}}, list...))
	return err
}
