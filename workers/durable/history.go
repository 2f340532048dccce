package durable

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

const sentinelKey = "sentinel"

func rowKey(i int) string { return fmt.Sprintf("%016X", i) }

// sentinel is the row that commits.
type sentinel struct {
	ExecutionID string `json:"ExecutionId"`
	// First is the number in the table of the first row: 0, unless a continue-as-new had more rows than a batch can
	// have. The other numbers of rows count from it.
	First int
	// Length is the number of committed rows, From the first row of the last checkpoint, Checkpoint its number.
	Length, From, Checkpoint int
	// StartID is the execution that the instance was started with; continue-as-new changes ExecutionID only.
	StartID string `json:"StartId"`
	// Seen are messages of earlier executions that could come again.
	Seen seenList
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

// next returns the sentinel without what belongs to the last checkpoint alone.
func (s sentinel) next() sentinel {
	s.Terminations, s.Wake, s.Rewound, s.RewindReason = "", false, false, ""
	return s
}

// history is the state of an instance that this process has read. It is not changed once it is in the cache, except by
// its session.
type history struct {
	sentinel
	etag   azcore.ETag // of the sentinel; empty if it does not exist
	events []*Event
	ids    map[string]bool   // of the messages in events
	row    *instanceRow      // the row in Instances; nil if it does not exist
	blobs  map[*Event]string // payloads that events refer to
	// stale says that rows which are no part of the history may exist.
	stale  bool
	weight int // in the cache
	// confirmed are messages that are known to be deleted: they cannot come again.
	confirmed *idSet
	// delivered is the checkpoint whose messages this process has sent, while the row may not say so yet.
	delivered int
}

// idSet is a set of messages' IDs. It is safe for concurrent use.
type idSet struct {
	mu   sync.Mutex // guards list
	list map[string]bool
}

func (s *idSet) add(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list[id] = true
}

func (s *idSet) all() map[string]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.list)
}

func newHistory() *history {
	return &history{ids: map[string]bool{}, blobs: map[*Event]string{}, confirmed: &idSet{list: map[string]bool{}}}
}

// started reports whether an execution has begun.
func (h *history) started() bool { return h.Length > 0 }

func (h *history) completed() bool {
	for i := len(h.events) - 1; i >= 0; i-- {
		if h.events[i].GetExecutionCompleted() != nil {
			return true
		}
	}
	return false
}

// sent reports whether the messages of the last checkpoint have been sent, or are obsolete because the instance was
// purged or replaced.
func (h *history) sent() bool {
	return h.Length == 0 || h.delivered == h.Checkpoint || h.row == nil || h.row.StartID != h.StartID ||
		h.row.Checkpoint >= h.Checkpoint
}

// startEvent returns the event that started the execution, or nil if it has not started.
func (h *history) startEvent() *Event {
	for _, e := range h.events {
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

	history *history // as far as it can be read
}

// Error implements error.
func (e *CorruptError) Error() string {
	return fmt.Sprintf("the history of %q is corrupt: %v", e.Instance, e.Err)
}

func corrupt(instance string, h *history, err error) error {
	return &CorruptError{instance, err, h}
}

// Unwrap returns the cause.
func (e *CorruptError) Unwrap() error { return e.Err }

// histories reads and writes the History table.
type histories struct {
	table    *aztables.Client
	payloads payloads
}

// errMoved means that another process has written the history since it was read.
var errMoved = errors.New("the history was changed by another owner")

// readAttempts bounds the attempts to read a history that another process is writing.
const readAttempts = 5

// read returns an instance's history, which is empty if it does not exist.
func (s histories) read(ctx context.Context, instance string) (*history, error) {
	for range readAttempts {
		h, err := s.tryRead(ctx, instance)
		if !errors.Is(err, errMoved) {
			return h, err
		}
	}
	return nil, fmt.Errorf("durable: read the history of %q: %w", instance, errMoved)
}

// tryRead reads the sentinel before the rows and after them: pages of a query are not read at one point in time.
func (s histories) tryRead(ctx context.Context, instance string) (*history, error) {
	partition := partitionKey(instance)
	h := newHistory()
	got, err := s.table.GetEntity(ctx, partition, sentinelKey, nil)
	if isNotFound(err) {
		return h, nil
	}
	if err != nil {
		return nil, fmt.Errorf("durable: read the history of %q: %w", instance, err)
	}
	// A history that is returned early, empty or corrupt, may have rows that were not counted.
	h.etag, h.stale = got.ETag, true
	if err := json.Unmarshal(got.Value, &h.sentinel); err != nil {
		return h, corrupt(instance, h, fmt.Errorf("sentinel: %w", err))
	}
	if h.Length == 0 {
		return h, nil
	}
	rows, err := s.rows(ctx, partition)
	if err != nil {
		return nil, fmt.Errorf("durable: read the history of %q: %w", instance, err)
	}
	n := len(rows)
	// The sentinel sorts behind the rows. If it has the Commit that was read before them, nothing was written in
	// between, and the rows belong together.
	if n == 0 || rows[n-1].RowKey != sentinelKey || rows[n-1].Commit != h.Commit {
		return nil, errMoved
	}
	// The rows before the first one sort before it.
	begin := 0
	for begin < n-1 && rows[begin].RowKey < rowKey(h.First) {
		begin++
	}
	h.stale = n-1 > h.Length
	rows = rows[begin : n-1]
	for i := range h.Length {
		key := rowKey(h.First + i)
		if i >= len(rows) || rows[i].RowKey != key {
			return h, corrupt(instance, h, fmt.Errorf("row %s is missing", key))
		}
		e, err := s.event(ctx, &rows[i])
		if errors.Is(err, errNoPayload) { // A commit may have deleted the blob after the rows were read.
			now, err := s.table.GetEntity(ctx, partition, sentinelKey, nil)
			if isNotFound(err) || err == nil && now.ETag != h.etag {
				return nil, errMoved
			}
			if err != nil {
				return nil, fmt.Errorf("durable: read the history of %q: %w", instance, err)
			}
		}
		if err != nil {
			if errors.Is(err, errNoPayload) || errors.Is(err, errBadRow) {
				return h, corrupt(instance, h, fmt.Errorf("row %s: %w", key, err))
			}
			return nil, err
		}
		h.add(e, rows[i].MessageID, rows[i].blob())
	}
	return h, nil
}

func (h *history) add(e *Event, id, blob string) {
	h.events = append(h.events, e)
	if id != "" {
		h.ids[id] = true
	}
	if blob != "" {
		h.blobs[e] = blob
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

func (s histories) rows(ctx context.Context, key string) ([]historyRow, error) {
	var rows []historyRow
	pager := s.table.NewListEntitiesPager(&aztables.ListEntitiesOptions{Filter: to.Ptr("PartitionKey eq " + quote(key))})
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

func (s histories) event(ctx context.Context, r *historyRow) (*Event, error) {
	e := &Event{}
	if err := proto.Unmarshal(r.Event, e); err != nil {
		return nil, fmt.Errorf("%w: %w", errBadRow, err)
	}
	if body, _ := event.Body(e); body == nil || e.Timestamp == nil {
		return nil, fmt.Errorf("%w: the event has no kind or time", errBadRow)
	}
	text := map[string]*string{"input": r.Input, "result": r.Result, "data": r.Data}[r.Payload]
	if r.Payload != "" && text == nil {
		got, err := s.payloads.get(ctx, r.blob())
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

// newRow is an event that is to be committed.
type newRow struct {
	event *Event
	id    string // of the message that brought it, if that has one
	blob  string // that has its payload already
}

// encodeRow writes an event as a row, whose key the caller sets, and its payload to a blob if it is large. It returns
// the blob's name.
func (s histories) encodeRow(ctx context.Context, instance, execution string, n newRow) (entity, string, error) {
	row := newEntity(partitionKey(instance), rowKey(0))
	row["EventType"], row["EventId"], row["ExecutionId"] = event.Type(n.event), n.event.EventId, execution
	row.setTime("_Timestamp", n.event.Timestamp.AsTime())
	row.setText("MessageId", n.id)
	describe(row, n.event)
	e, blob := n.event, n.blob
	if v, field := event.PayloadOf(e); v != nil {
		column := string(field[0]-'a'+'A') + string(field[1:])
		switch {
		case blob != "" || len(v.Value) > inlineLimit:
			// The blob of the message that brought the event is used again: the payload is written once.
			if blob == "" {
				blob = payloadName(instance, execution, v.Value)
				if err := s.payloads.put(ctx, blob, v.Value); err != nil {
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
	batchRows  = 99
	batchBytes = 3 << 20
)

// commit appends rows after keep rows of the history, and makes them its last checkpoint. keep is all rows, or 0 to
// replace the history. next has the sentinel's new fields except First, Length, From, Checkpoint and Commit. It returns
// the history as it is then; h is not changed. errMoved means that nothing is committed, by this call at least: the
// service may have lost the answer to a commit that succeeded.
func (s histories) commit(ctx context.Context, instance string, h *history, keep int, rows []newRow, next sentinel,
	now time.Time) (*history, error) {
	next.First, next.Length, next.From, next.Checkpoint = 0, keep+len(rows), keep, h.Checkpoint+1
	if keep > 0 {
		next.First = h.First
	}
	n := newHistory()
	// n begins with the ETag of h, and each batch hands the next one a new ETag: another writer is noticed before
	// whichever batch it gets ahead of.
	n.sentinel, n.etag, n.row, n.stale = next, h.etag, h.row, h.stale || h.First+h.Length > next.First+next.Length
	if keep > 0 {
		// h has to stay as it is if the commit is refused: its events are copied. The maps are shared, because only rows
		// that are committed are added to them.
		n.events = append(n.events, h.events[:keep]...)
		n.ids, n.confirmed, n.blobs = h.ids, h.confirmed, h.blobs
	}
	var batch []entity
	bytes := 0
	flush := func(last bool) error {
		// Only the last batch has the new Length. What the batches before it write lies outside the rows of the old
		// sentinel, where readers ignore it; their sentinel holds the place against other writers.
		at := h.sentinel
		if last {
			at = n.sentinel
		} else if keep == 0 && h.Length > 0 && n.First == 0 {
			// The rows of a replaced history count until the last batch. One batch may replace them where they are. More than
			// one have to write beside them, or a crash in between leaves a history with rows of both.
			if len(rows) > h.First {
				n.First = h.First + h.Length
			}
			n.stale = true
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
		n.etag, n.Commit, err = s.submit(ctx, instance, n.etag, at, actions, now, last)
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
		if len(batch) == batchRows || bytes+size > batchBytes {
			if err := flush(false); err != nil {
				return nil, err
			}
		}
		row["RowKey"] = rowKey(n.First + keep + i)
		batch = append(batch, row)
		bytes += size
		ids, blobs = append(ids, r.id), append(blobs, blob)
	}
	// This batch is the commit.
	if err := flush(true); err != nil {
		return nil, err
	}
	for i, r := range rows {
		n.add(r.event, ids[i], blobs[i])
	}
	return n, nil
}

// sentinelETag finds the ETag of the first operation in the answer to a batch, which the SDK does not return.
var sentinelETag = lazyregexp.New(`(?mi)^ETag:[ \t]*(.+?)[ \t]*\r?$`)

// submit writes a batch with the sentinel, which must still have the ETag. It returns the sentinel's new ETag and
// Commit.
func (s histories) submit(ctx context.Context, instance string, etag azcore.ETag, at sentinel,
	rest []aztables.TransactionAction, now time.Time, complete bool) (azcore.ETag, string, error) {
	// tryRead compares it to learn whether there was a write between two reads.
	at.Commit = rand.Text()
	row := newEntity(partitionKey(instance), sentinelKey)
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
func (s histories) transact(ctx context.Context, instance string, actions []aztables.TransactionAction) (azcore.ETag,
	error) {
	var answer *http.Response
	_, err := entityio.Submit(policy.WithCaptureResponse(ctx, &answer), s.table, actions, nil)
	if err != nil {
		if isConflict(err) {
			return "", fmt.Errorf("durable: %w: %w", errMoved, err)
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

// trim deletes the rows that are not part of the history; they are harmless but cost space and reads.
// Every batch has the sentinel in it: a deposed owner must not delete what the next one has written there.
func (s histories) trim(ctx context.Context, instance string, h *history, now time.Time) error {
	list, err := s.others(ctx, instance, h.First, h.First+h.Length)
	for err == nil && len(list) > 0 {
		n := min(batchRows, len(list))
		// h gets the new ETag, because the next commit of its session is made on it.
		if h.etag, h.Commit, err = s.submit(ctx, instance, h.etag, h.sentinel, list[:n], now, true); err != nil {
			return err
		}
		list = list[n:]
	}
	return err
}

// others returns the deletions of all rows except those from first on before end.
func (s histories) others(ctx context.Context, instance string, first, end int) (list []aztables.TransactionAction,
	err error) {
	rows := fmt.Sprintf("RowKey ge %s and RowKey lt %s", quote(rowKey(end)), quote(sentinelKey))
	// Most histories begin with row 0. A service reads one range faster than what an "or" selects from a partition.
	if first > 0 {
		rows = fmt.Sprintf("(RowKey lt %s or (%s))", quote(rowKey(first)), rows)
	}
	filter := fmt.Sprintf("PartitionKey eq %s and %s", quote(partitionKey(instance)), rows)
	pager := s.table.NewListEntitiesPager(
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

// remove deletes a history. errMoved means that another process has started a new one in the meantime.
func (s histories) remove(ctx context.Context, instance string, now time.Time) error {
	got, err := s.table.GetEntity(ctx, partitionKey(instance), sentinelKey, nil)
	if isNotFound(err) {
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
	for len(list) > batchRows {
		// An empty sentinel has Length 0: if this process dies in between, the instance has no history, and the other rows
		// are no part of one.
		if etag, _, err = s.submit(ctx, instance, etag, sentinel{}, list[:batchRows], now, false); err != nil {
			return err
		}
		list = list[batchRows:]
	}
	last := newEntity(partitionKey(instance), sentinelKey)
	// The sentinel goes with the last rows: if it went before them, a later call would take the history for removed.
	_, err = s.transact(ctx, instance, append([]aztables.TransactionAction{
		{ActionType: aztables.TransactionTypeDelete, Entity: last.encode(), IfMatch: to.Ptr(etag)}}, list...))
	return err
}
