package hub

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/lazuli-storage/lazuli/internal/durable/event"
	"github.com/lazuli-storage/lazuli/internal/durable/protocol"
	"github.com/lazuli-storage/lazuli/internal/durable/record"
)

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
	if err = b.open(ctx); errors.Is(err, record.ErrForeignHub) {
		r.engine, err = EngineDTFx, nil
		b.instances.Key = record.DtfxKey
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
	page.Instances = slices.DeleteFunc(page.Instances, func(i *record.Instance) bool { return record.IsEntity(i.ID) })
	for _, i := range page.Instances {
		if err := r.complete(ctx, i); err != nil {
			return nil, err
		}
	}
	return page, nil
}

// Get returns an instance with its payloads; see [Client.Get].
func (r *Reader) Get(ctx context.Context, id string) (*record.Instance, error) {
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
			i.FailureType, i.FailureMessage, i.Cause, i.Output = d.ErrorType, d.ErrorMessage, d, ""
		}
	}
	return i, nil
}

// complete reads the payloads that an instance's row of DTFx refers to by their URLs, and gives it its failure.
func (r *Reader) complete(ctx context.Context, i *record.Instance) error {
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
	_, name, ok := strings.Cut(text, "/"+r.c.b.names.LargeMessages()+"/")
	// A text of a workflow may contain such a URL; only one that is nothing else refers to a blob.
	if !ok || !strings.HasPrefix(text, "http") || strings.ContainsAny(text, " \n{\"") {
		return text, nil
	}
	name, err := url.PathUnescape(name)
	if err != nil {
		return text, nil
	}
	got, err := r.c.b.instances.Payloads.Get(ctx, name)
	if errors.Is(err, record.ErrNoPayload) {
		return text, nil
	}
	return got, err
}

// History returns the events of an instance's present execution; see [Client.History].
func (r *Reader) History(ctx context.Context, id string) ([]*record.Event, error) {
	if r.engine == EngineLazuli {
		return r.c.History(ctx, id)
	}
	if err := r.c.exists(ctx, id); err != nil {
		return nil, err
	}
	var rows []foreignRow
	execution := ""
	filter := "PartitionKey eq " + record.Quote(record.DtfxKey(id))
	pages := r.c.b.histories.Table.NewListEntitiesPager(&aztables.ListEntitiesOptions{Filter: &filter})
	for pages.More() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("durable: read the history of %q: %w", id, err)
		}
		for _, text := range page.Entities {
			var row foreignRow
			if err := json.Unmarshal(text, &row); err != nil {
				return nil, record.Corrupt(id, nil, err)
			}
			if row.RowKey == record.SentinelKey {
				execution = row.ExecutionID
			} else if row.EventType != "" {
				rows = append(rows, row)
			}
		}
	}
	var events []*record.Event
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
	text, err := r.c.b.instances.Payloads.Get(ctx, blob)
	if errors.Is(err, record.ErrNoPayload) {
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
func (r *Reader) event(ctx context.Context, row *foreignRow) (*record.Event, error) {
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
		if s, err := record.ParseStatus(row.OrchestrationStatus); err == nil {
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
		// A later release of the other engine may have more kinds, and one of them must not hide the whole history.
		if data == nil {
			data = wrapperspb.String(row.EventType)
		}
		x.EventType = &protocol.HistoryEvent_GenericEvent{GenericEvent: &protocol.GenericEvent{Data: data}}
	}
	return event.FromProtocol(x)
}
