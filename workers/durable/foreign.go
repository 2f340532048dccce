package durable

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/lazuli-storage/lazuli/internal/durable/event"
	"github.com/lazuli-storage/lazuli/internal/durable/protocol"
)

// A hub of DTFx (DurableTask.AzureStorage, also below the Durable Functions extension) has tables, queues and
// containers with the names of ours, and other messages: neither engine reads the queues of the other, and each moves
// what it finds there into its poison queue. Such a hub is recognised before anything is written to it, and can be
// read.
//
// taskhub.json of a hub that this engine makes names the engine. Where it does not, as in hubs of earlier builds, the
// tables decide:
//
//	<hub>Partitions            DTFx, with partitions in a table; such a hub may have no taskhub.json
//	<hub>History               ours if a row has the column Event, which DTFx does not write
//	<hub>Entities              ours if there is no row: this engine makes the table before the others
//
// A hub of DTFx is not continued in place, although its format is known: its histories are those of other code, whose
// workers would meet numbers of tasks and forms of payloads that they have not written.

// The engines of hubs.
const (
	EngineLazuli = "Lazuli"
	EngineDTFx   = "DurableTask.AzureStorage"
)

// ErrForeignHub means that a hub is one of another engine, and that nothing was written to it. A [Reader] reads it.
var ErrForeignHub = errors.New("durable: the task hub belongs to another engine")

// dtfxEscaper writes partition keys of DTFx: it leaves ', % and + as they are, which ours escapes. Control characters,
// which DTFx moves up by 0xC0, are in no ID that is looked for.
// https://github.com/Azure/durabletask/blob/main/src/DurableTask.AzureStorage/Tracking/KeySanitation.cs
var dtfxEscaper = strings.NewReplacer("^", "^^", "/", "^0", `\`, "^1", "#", "^2", "?", "^3")

// dtfxKey returns the partition key under which DTFx stores an instance.
func dtfxKey(instance string) string { return dtfxEscaper.Replace(instance) }

func (n names) partitions() string { return n.hub + "Partitions" }

// firstRow returns the first row of a table that matches a filter; nil without one. exists says whether there is a
// table.
func (b *Backend) firstRow(ctx context.Context, table, filter string) (row map[string]json.RawMessage, exists bool,
	err error) {
	o := &aztables.ListEntitiesOptions{Top: to.Ptr(int32(1))}
	if filter != "" {
		o.Filter = &filter
	}
	for pages := b.options.Storage.Tables.NewClient(table).NewListEntitiesPager(o); pages.More(); {
		page, err := pages.NextPage(ctx)
		if s, _ := status(err); s == 404 || s == 409 { // It does not exist, or is being deleted.
			return nil, false, nil
		}
		if err != nil {
			return nil, false, fmt.Errorf("durable: read the table %s: %w", table, err)
		}
		if len(page.Entities) > 0 {
			return row, true, json.Unmarshal(page.Entities[0], &row)
		}
	}
	return nil, true, nil
}

// findEngine returns the engine of a hub whose taskhub.json names none, described says that it has the file. It returns
// "" if there is no hub.
func (b *Backend) findEngine(ctx context.Context, described bool) (string, error) {
	_, partitions, err := b.firstRow(ctx, b.names.partitions(), "")
	if err != nil {
		return "", err
	}
	if partitions {
		return EngineDTFx, nil
	}
	// The filter leaves out our sentinel, which has no EventType: the row is one of an event.
	row, history, err := b.firstRow(ctx, b.names.history(), "EventType ne ''")
	if err != nil {
		return "", err
	}
	if row != nil {
		if row["Event"] != nil {
			return EngineLazuli, nil
		}
		return EngineDTFx, nil
	}
	if !history && !described {
		return "", nil
	}
	_, entities, err := b.firstRow(ctx, b.names.entities(), "")
	switch {
	case err != nil:
		return "", err
	case !entities:
		return EngineDTFx, nil
	case described:
		return EngineLazuli, nil
	}
	return "", nil // The hub is being made, or deleted.
}

// foreign returns ErrForeignHub with the hub and its engine.
func (b *Backend) foreign(engine string) error {
	return fmt.Errorf("%w: %q is one of %s (DTFx, or Durable Functions in .NET); it can be read with lazuli durable ls and "+
		"show, and nothing is written to it; choose another hub", ErrForeignHub, b.options.Hub, engine)
}

// Reader reads the instances of a hub, of this engine or of DTFx.
type Reader struct {
	c      *Client
	engine string
}

// NewReader opens a hub that exists; it returns ErrHubNotFound otherwise. It writes nothing.
func NewReader(ctx context.Context, o Options) (*Reader, error) {
	b, err := New(o)
	if err != nil {
		return nil, err
	}
	r := &Reader{&Client{b}, EngineLazuli}
	if err = b.open(ctx); errors.Is(err, ErrForeignHub) {
		r.engine, err = EngineDTFx, nil
		b.instances.key = dtfxKey
	}
	if err != nil {
		return nil, err
	}
	return r, nil
}

// Engine returns the hub's engine: EngineLazuli or EngineDTFx.
func (r *Reader) Engine() string { return r.engine }

// Query returns a page of instances; see [Client.Query].
func (r *Reader) Query(ctx context.Context, q Query) (*Page, error) {
	page, err := r.c.Query(ctx, q)
	if err != nil || r.engine == EngineLazuli {
		return page, err
	}
	page.Instances = slices.DeleteFunc(page.Instances, func(i *Instance) bool { return isEntity(i.ID) })
	for _, i := range page.Instances {
		if err := r.complete(ctx, i); err != nil {
			return nil, err
		}
	}
	return page, nil
}

// Get returns an instance with its payloads; see [Client.Get].
func (r *Reader) Get(ctx context.Context, id string) (*Instance, error) {
	i, err := r.c.Get(ctx, id)
	if err != nil || r.engine == EngineLazuli {
		return i, err
	}
	if err := r.complete(ctx, i); err != nil {
		return nil, err
	}
	events, err := r.History(ctx, id)
	if err != nil {
		return nil, err
	}
	for _, e := range events {
		if d := e.GetExecutionCompleted().GetFailureDetails(); d != nil {
			i.FailureType, i.FailureMessage, i.failure, i.Output = d.ErrorType, d.ErrorMessage, d, ""
		}
	}
	return i, nil
}

// complete reads the payloads that an instance's row of DTFx refers to by their URLs, and gives it its failure.
func (r *Reader) complete(ctx context.Context, i *Instance) error {
	for _, p := range []*string{&i.Input, &i.Output} {
		text, err := r.payload(ctx, *p)
		if err != nil {
			return err
		}
		*p = text
	}
	if i.Status == "Failed" && i.FailureMessage == "" {
		i.FailureMessage = i.Output
	}
	return nil
}

// payload returns the text that a URL of a blob with large payloads stands for, or the text itself.
func (r *Reader) payload(ctx context.Context, text string) (string, error) {
	_, name, ok := strings.Cut(text, "/"+r.c.b.names.largeMessages()+"/")
	// A text of a workflow may contain such a URL; only one that is nothing else refers to a blob.
	if !ok || !strings.HasPrefix(text, "http") || strings.ContainsAny(text, " \n{\"") {
		return text, nil
	}
	name, err := url.PathUnescape(name)
	if err != nil {
		return text, nil
	}
	got, err := r.c.b.instances.payloads.get(ctx, name)
	if errors.Is(err, errNoPayload) {
		return text, nil
	}
	return got, err
}

// History returns the events of an instance's present execution; see [Client.History].
func (r *Reader) History(ctx context.Context, id string) ([]*Event, error) {
	if r.engine == EngineLazuli {
		return r.c.History(ctx, id)
	}
	if err := r.c.exists(ctx, id); err != nil {
		return nil, err
	}
	var rows []foreignRow
	execution := ""
	filter := "PartitionKey eq " + quote(dtfxKey(id))
	pages := r.c.b.histories.table.NewListEntitiesPager(&aztables.ListEntitiesOptions{Filter: &filter})
	for pages.More() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("durable: read the history of %q: %w", id, err)
		}
		for _, text := range page.Entities {
			var row foreignRow
			if err := json.Unmarshal(text, &row); err != nil {
				return nil, corrupt(id, nil, err)
			}
			if row.RowKey == sentinelKey {
				execution = row.ExecutionID
			} else if row.EventType != "" {
				rows = append(rows, row)
			}
		}
	}
	var events []*Event
	for _, row := range rows {
		if execution != "" && row.ExecutionID != execution { // Of an execution before.
			continue
		}
		e, err := r.event(ctx, &row)
		if err != nil {
			return nil, err
		}
		events = append(events, e)
	}
	return events, nil
}

// foreignRow is a row of DTFx's History table.
// https://github.com/Azure/durabletask/blob/main/src/DurableTask.AzureStorage/Tracking/AzureTableTrackingStore.cs
type foreignRow struct {
	RowKey, EventType             string
	EventID                       int32     `json:"EventId"`
	ExecutionID                   string    `json:"ExecutionId"`
	Timestamp                     time.Time `json:"_Timestamp"`
	Name, Version, InstanceID     string
	Input, Result, Data           *string
	InputBlobName, ResultBlobName string
	DataBlobName                  string
	TaskScheduledID, TimerID      int32
	FireAt                        time.Time
	OrchestrationStatus           string
	Reason                        string
	FailureDetails                string
}

// text returns a payload: inline, or in a blob.
func (r *Reader) text(ctx context.Context, inline *string, blob string) (*wrapperspb.StringValue, error) {
	if blob == "" {
		return protocol.Text(inline), nil
	}
	text, err := r.c.b.instances.payloads.get(ctx, blob)
	if errors.Is(err, errNoPayload) {
		text, err = "(the payload cannot be read)", nil
	}
	return wrapperspb.String(text), err
}

// failure returns the failure of a row.
func (row *foreignRow) failure() *protocol.TaskFailureDetails {
	var d *event.CoreFailure
	if row.FailureDetails != "" && json.Unmarshal([]byte(row.FailureDetails), &d) == nil && d != nil {
		return d.Protocol()
	}
	if row.Reason == "" {
		return nil
	}
	return &protocol.TaskFailureDetails{ErrorMessage: row.Reason}
}

// event returns a row's event. One of an unknown kind is shown with its kind as text.
func (r *Reader) event(ctx context.Context, row *foreignRow) (*Event, error) {
	input, err := r.text(ctx, row.Input, row.InputBlobName)
	if err != nil {
		return nil, err
	}
	result, err := r.text(ctx, row.Result, row.ResultBlobName)
	if err != nil {
		return nil, err
	}
	data, err := r.text(ctx, row.Data, row.DataBlobName)
	if err != nil {
		return nil, err
	}
	x := &protocol.HistoryEvent{EventId: row.EventID, Timestamp: timestamppb.New(row.Timestamp)}
	fireAt := timestamppb.New(row.FireAt)
	switch row.EventType {
	case "ExecutionStarted":
		x.EventType = &protocol.HistoryEvent_ExecutionStarted{ExecutionStarted: &protocol.ExecutionStartedEvent{
			Name: row.Name, Input: input}}
	case "ExecutionCompleted":
		c := &protocol.ExecutionCompletedEvent{Result: result, FailureDetails: row.failure()}
		if s, err := ParseStatus(row.OrchestrationStatus); err == nil {
			c.OrchestrationStatus = protocol.OrchestrationStatus(s)
		}
		// Without details the result is the text of the failure.
		if c.FailureDetails == nil && row.OrchestrationStatus == "Failed" {
			c.FailureDetails = &protocol.TaskFailureDetails{ErrorMessage: result.GetValue()}
		}
		x.EventType = &protocol.HistoryEvent_ExecutionCompleted{ExecutionCompleted: c}
	case "ExecutionTerminated":
		x.EventType = &protocol.HistoryEvent_ExecutionTerminated{
			ExecutionTerminated: &protocol.ExecutionTerminatedEvent{Input: input}}
	case "ExecutionSuspended":
		x.EventType = &protocol.HistoryEvent_ExecutionSuspended{
			ExecutionSuspended: &protocol.ExecutionSuspendedEvent{Input: input}}
	case "ExecutionResumed":
		x.EventType = &protocol.HistoryEvent_ExecutionResumed{
			ExecutionResumed: &protocol.ExecutionResumedEvent{Input: input}}
	case "TaskScheduled":
		x.EventType = &protocol.HistoryEvent_TaskScheduled{TaskScheduled: &protocol.TaskScheduledEvent{Name: row.Name,
			Input: input}}
	case "TaskCompleted":
		x.EventType = &protocol.HistoryEvent_TaskCompleted{TaskCompleted: &protocol.TaskCompletedEvent{
			TaskScheduledId: row.TaskScheduledID, Result: result}}
	case "TaskFailed":
		x.EventType = &protocol.HistoryEvent_TaskFailed{TaskFailed: &protocol.TaskFailedEvent{
			TaskScheduledId: row.TaskScheduledID, FailureDetails: row.failure()}}
	case "SubOrchestrationInstanceCreated":
		x.EventType = &protocol.HistoryEvent_SubOrchestrationInstanceCreated{
			SubOrchestrationInstanceCreated: &protocol.SubOrchestrationInstanceCreatedEvent{Name: row.Name,
				InstanceId: row.InstanceID, Input: input}}
	case "SubOrchestrationInstanceCompleted":
		x.EventType = &protocol.HistoryEvent_SubOrchestrationInstanceCompleted{
			SubOrchestrationInstanceCompleted: &protocol.SubOrchestrationInstanceCompletedEvent{
				TaskScheduledId: row.TaskScheduledID, Result: result}}
	case "SubOrchestrationInstanceFailed":
		x.EventType = &protocol.HistoryEvent_SubOrchestrationInstanceFailed{
			SubOrchestrationInstanceFailed: &protocol.SubOrchestrationInstanceFailedEvent{
				TaskScheduledId: row.TaskScheduledID, FailureDetails: row.failure()}}
	case "TimerCreated":
		x.EventType = &protocol.HistoryEvent_TimerCreated{TimerCreated: &protocol.TimerCreatedEvent{FireAt: fireAt}}
	case "TimerFired":
		x.EventType = &protocol.HistoryEvent_TimerFired{TimerFired: &protocol.TimerFiredEvent{FireAt: fireAt,
			TimerId: row.TimerID}}
	case "EventRaised":
		x.EventType = &protocol.HistoryEvent_EventRaised{EventRaised: &protocol.EventRaisedEvent{Name: row.Name,
			Input: input}}
	case "EventSent":
		x.EventType = &protocol.HistoryEvent_EventSent{EventSent: &protocol.EventSentEvent{Name: row.Name,
			InstanceId: row.InstanceID, Input: input}}
	case "OrchestratorStarted":
		x.EventType = &protocol.HistoryEvent_OrchestratorStarted{
			OrchestratorStarted: &protocol.OrchestratorStartedEvent{}}
	case "OrchestratorCompleted":
		x.EventType = &protocol.HistoryEvent_OrchestratorCompleted{
			OrchestratorCompleted: &protocol.OrchestratorCompletedEvent{}}
	case "ContinueAsNew":
		x.EventType = &protocol.HistoryEvent_ContinueAsNew{ContinueAsNew: &protocol.ContinueAsNewEvent{Input: result}}
	default:
		if data == nil {
			data = wrapperspb.String(row.EventType)
		}
		x.EventType = &protocol.HistoryEvent_GenericEvent{GenericEvent: &protocol.GenericEvent{Data: data}}
	}
	return event.FromProtocol(x)
}
