package record

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"github.com/microsoft/durabletask-go/api"
	"github.com/microsoft/durabletask-go/backend"
	"google.golang.org/protobuf/proto"

	"github.com/lazuli-storage/lazuli/internal/azure/longpoll"
	"github.com/lazuli-storage/lazuli/internal/durable/event"
)

// Status is the state of an instance.
type Status = api.OrchestrationStatus

// statusNames are the texts of DurableTask.AzureStorage.
var statusNames = map[Status]string{
	api.RUNTIME_STATUS_RUNNING: "Running", api.RUNTIME_STATUS_COMPLETED: "Completed",
	api.RUNTIME_STATUS_CONTINUED_AS_NEW: "ContinuedAsNew",
	api.RUNTIME_STATUS_FAILED:           "Failed", api.RUNTIME_STATUS_CANCELED: "Canceled",
	api.RUNTIME_STATUS_TERMINATED: "Terminated",
	api.RUNTIME_STATUS_PENDING:    "Pending", api.RUNTIME_STATUS_SUSPENDED: "Suspended",
}

// StatusName returns a status as Durable Functions writes it.
func StatusName(s Status) string { return statusNames[s] }

// ParseStatus reads a status as Durable Functions writes it, in any case.
func ParseStatus(text string) (Status, error) {
	for s, name := range statusNames {
		if strings.EqualFold(name, text) {
			return s, nil
		}
	}
	return 0, fmt.Errorf("durable: unknown status %q; the statuses are %s", text,
		strings.Join(slices.Sorted(maps.Values(statusNames)), ", "))
}

// IsFinal reports whether an instance with the status has ended.
func IsFinal(s Status) bool {
	switch s {
	case api.RUNTIME_STATUS_COMPLETED, api.RUNTIME_STATUS_FAILED, api.RUNTIME_STATUS_TERMINATED,
		api.RUNTIME_STATUS_CANCELED:
		return true
	}
	return false
}

// InstanceRow is a row of the Instances table.
type InstanceRow struct {
	ETag azcore.ETag `json:"-"`

	PartitionKey, Name, Version string
	ExecutionID                 string `json:"ExecutionId"`
	StartID                     string `json:"StartId"`
	// Checkpoint is the last one whose messages have been sent.
	Checkpoint                                          int
	RuntimeStatus                                       string
	CreatedTime, LastUpdatedTime                        time.Time
	CompletedTime, ScheduledStartTime                   *time.Time
	Input, Output, CustomStatus                         string
	InputBlobName, OutputBlobName, CustomStatusBlobName string
	FailureDetails                                      []byte
	ParentInstanceID                                    string `json:"ParentInstanceId"`
	Replaces                                            bool   // there was an instance with the ID
	OutputIsReason                                      bool
	Tags                                                string // JSON
}

func (r *InstanceRow) Status() Status {
	s, err := ParseStatus(r.RuntimeStatus)
	if err != nil {
		return api.RUNTIME_STATUS_PENDING
	}
	return s
}

// Instances reads and writes the Instances table.
type Instances struct {
	Table    *aztables.Client
	Payloads Payloads
	Hub      string
	// Key returns the partition key of an instance: PartitionKey, or DtfxKey in a hub that is only read.
	Key func(instance string) string
}

// Get returns an instance's row, or nil if it does not exist.
func (s Instances) Get(ctx context.Context, instance string) (*InstanceRow, error) {
	r := &InstanceRow{}
	etag, err := readRowAt(ctx, s.Table, "Instances", instance, s.Key(instance), "", r)
	if err != nil || etag == "" {
		return nil, err
	}
	r.ETag = etag
	return r, nil
}

// Await returns an instance's row when it matches a filter, nil when the wait is over. waited is false if the service
// lets no request wait.
func (s Instances) Await(ctx context.Context, instance, filter string) (row *InstanceRow, waited bool, err error) {
	var answer *http.Response
	ctx = policy.WithHTTPHeader(policy.WithCaptureResponse(ctx, &answer),
		http.Header{longpoll.WaitHeader: {strconv.Itoa(int(WaitMost / time.Second))}})
	filter = "PartitionKey eq " + Quote(PartitionKey(instance)) + " and RowKey eq '' and " + filter
	got, err := s.Table.NewListEntitiesPager(&aztables.ListEntitiesOptions{Filter: &filter}).NextPage(ctx)
	if err != nil {
		return nil, false, fmt.Errorf("durable: wait for the instance %q: %w", instance, err)
	}
	waited = answer != nil && answer.Header.Get(longpoll.WaitHeader) != ""
	if len(got.Entities) == 0 {
		return nil, waited, nil
	}
	row = &InstanceRow{}
	if err := json.Unmarshal(got.Entities[0], row); err != nil {
		return nil, waited, Corrupt(instance, nil, fmt.Errorf("the row in Instances: %w", err))
	}
	return row, waited, nil
}

// ErrExists means that the row exists or has changed.
var ErrExists = errors.New("the instance's row exists or has changed")

// Start writes the row of an instance that is about to begin. With an ETag it replaces the row that has it; without one
// there must be no row. It returns ErrExists otherwise.
func (s Instances) Start(ctx context.Context, instance string, e *Event, blob string, etag azcore.ETag) (*InstanceRow,
	error) {
	x := e.GetExecutionStarted()
	at := e.Timestamp.AsTime()
	r := &InstanceRow{PartitionKey: PartitionKey(instance), Name: x.Name, Version: x.Version.GetValue(),
		ExecutionID: event.ExecutionOf(e), StartID: event.ExecutionOf(e),
		RuntimeStatus: StatusName(api.RUNTIME_STATUS_PENDING), CreatedTime: at, LastUpdatedTime: at,
		ParentInstanceID: x.ParentInstance.GetOrchestrationInstance().GetInstanceId()}
	row := newEntity(r.PartitionKey, "")
	row["TaskHubName"], row["Name"], row["RuntimeStatus"] = s.Hub, r.Name, r.RuntimeStatus
	// The start has an ID of its own, so that a message that comes twice is recognized as the same start.
	row["ExecutionId"], row["StartId"], row["Checkpoint"] = r.ExecutionID, r.StartID, 0
	row.setText("Version", r.Version)
	row.setText("ParentInstanceId", r.ParentInstanceID)
	row.setText("Tags", event.EncodeTags(event.TagsOf(x.ProtoReflect(), event.StartedTags)))
	row.setTime("CreatedTime", at)
	row.setTime("LastUpdatedTime", at)
	if t := x.ScheduledStartTimestamp; t != nil {
		row.setTime("ScheduledStartTime", t.AsTime())
		r.ScheduledStartTime = to.Ptr(t.AsTime())
	}
	// Before the row: a row must not refer to a blob that is not written.
	if err := s.setPayload(ctx, row, instance, "Input", x.Input.GetValue(), blob); err != nil {
		return nil, err
	}
	var err error
	if etag != "" {
		// The row says that an instance had the ID before: then a first step must not guess that there is no history.
		row["Replaces"], r.Replaces = true, true
	}
	if etag == "" {
		var got aztables.AddEntityResponse
		got, err = s.Table.AddEntity(ctx, row.encode(), nil)
		r.ETag = got.ETag
	} else {
		var got aztables.UpdateEntityResponse
		got, err = s.Table.UpdateEntity(ctx, row.encode(),
			&aztables.UpdateEntityOptions{IfMatch: to.Ptr(etag), UpdateMode: aztables.UpdateModeReplace})
		r.ETag = got.ETag
	}
	// Another process was first, or the row was changed since it was read.
	if IsConflict(err) {
		return nil, ErrExists
	}
	if err != nil {
		return nil, fmt.Errorf("durable: write the instance %q: %w", instance, err)
	}
	return r, nil
}

// setPayload sets the column to a text, or names the blob that has it. The row has its execution and checkpoint.
func (s Instances) setPayload(ctx context.Context, row entity, instance, column, text, blob string) error {
	if blob == "" && (len(text) > InlineLimit || !plain(text)) {
		blob = payloadName(instance, fmt.Sprintf("%s-%v-%v", column, row["ExecutionId"], row["Checkpoint"]), text)
		if err := s.Payloads.Put(ctx, blob, text); err != nil {
			return err
		}
	}
	if blob != "" {
		row[column+"BlobName"], row[column] = blob, ""
		return nil
	}
	row[column], row[column+"BlobName"] = text, ""
	return nil
}

// Update has the changes of a checkpoint to an instance's row.
type Update struct {
	Status       Status
	CustomStatus *string
	Completed    *Event // ExecutionCompleted, if the instance has completed
	Now          time.Time
	Continued    *Event // ExecutionStarted, if the instance has continued as new
}

// Write applies a checkpoint to the row, and notes that its messages have been sent. A row of another start is left
// alone.
func (s Instances) Write(ctx context.Context, instance string, h *History, u Update) error {
	for range ReadAttempts {
		if h.Row == nil || h.Row.StartID != h.StartID {
			row, err := s.Get(ctx, instance)
			if err != nil {
				return err
			}
			h.Row = row
			if row == nil || row.StartID != h.StartID {
				return nil // It was purged or replaced; its checkpoints are obsolete.
			}
		}
		// The step is repeated, or a newer owner was here: a row never goes back.
		if h.Row.Checkpoint >= h.Checkpoint {
			return nil
		}
		row, err := s.changes(ctx, instance, h, u)
		if err != nil {
			return err
		}
		got, err := s.Table.UpdateEntity(ctx, row.encode(),
			&aztables.UpdateEntityOptions{IfMatch: to.Ptr(h.Row.ETag), UpdateMode: aztables.UpdateModeMerge})
		if IsConflict(err) {
			h.Row = nil
			continue
		}
		if err != nil {
			return fmt.Errorf("durable: write the instance %q: %w", instance, err)
		}
		// This is after the update: a reader that still has the old row misses its blob, and reads the row again.
		if old := h.Row.CustomStatusBlobName; old != "" && u.CustomStatus != nil && row["CustomStatusBlobName"] != old {
			if err := s.Payloads.Delete(ctx, old); err != nil {
				return err
			}
		}
		next := *h.Row
		if u.CustomStatus != nil {
			next.CustomStatus, _ = row["CustomStatus"].(string)
			next.CustomStatusBlobName, _ = row["CustomStatusBlobName"].(string)
		}
		next.ETag, next.Checkpoint, next.RuntimeStatus = got.ETag, h.Checkpoint, StatusName(u.Status)
		h.Row = &next
		return nil
	}
	return fmt.Errorf("durable: write the instance %q: %w", instance, ErrExists)
}

func (s Instances) changes(ctx context.Context, instance string, h *History, u Update) (entity, error) {
	row := newEntity(PartitionKey(instance), "")
	row["RuntimeStatus"], row["ExecutionId"], row["Checkpoint"] = StatusName(u.Status), h.ExecutionID, h.Checkpoint
	row.setTime("LastUpdatedTime", u.Now)
	if u.CustomStatus != nil {
		if err := s.setPayload(ctx, row, instance, "CustomStatus", *u.CustomStatus, ""); err != nil {
			return nil, err
		}
	}
	if u.Continued != nil {
		if err := s.setPayload(ctx, row, instance, "Input", u.Continued.GetExecutionStarted().Input.GetValue(),
			h.Blobs[u.Continued]); err != nil {
			return nil, err
		}
	}
	if u.Completed == nil {
		if IsFinal(h.Row.Status()) { // It was rewound.
			row["Output"], row["OutputBlobName"], row["OutputIsReason"] = "", "", false
		}
		return row, nil
	}
	x := u.Completed.GetExecutionCompleted()
	row.setTime("CompletedTime", u.Completed.Timestamp.AsTime())
	text := x.Result.GetValue()
	row["OutputIsReason"] = x.FailureDetails != nil
	if x.FailureDetails != nil {
		packed, err := proto.Marshal(x.FailureDetails)
		if err != nil {
			return nil, fmt.Errorf("durable: write the instance %q: %w", instance, err)
		}
		if len(packed) > 60<<10 {
			packed, _ = proto.Marshal(event.NewFailure(x.FailureDetails.ErrorType, short(x.FailureDetails.ErrorMessage)))
		}
		row.setBytes("FailureDetails", packed)
		text = short(x.FailureDetails.ErrorMessage) // For viewers, which show it as the output.
	}
	if err := s.setPayload(ctx, row, instance, "Output", text, h.Blobs[u.Completed]); err != nil {
		return nil, err
	}
	return row, nil
}

// Remove deletes the row, unless it is another one by now.
func (s Instances) Remove(ctx context.Context, instance string, etag azcore.ETag) error {
	_, err := s.Table.DeleteEntity(ctx, PartitionKey(instance), "", &aztables.DeleteEntityOptions{IfMatch: to.Ptr(etag)})
	if IsNotFound(err) {
		return nil
	}
	if IsConflict(err) {
		return ErrExists
	}
	if err != nil {
		return fmt.Errorf("durable: delete the instance %q: %w", instance, err)
	}
	return nil
}

// Described returns the metadata of an instance with its payloads, and its row, nil if it does not exist. A commit may
// delete the blob of a payload after the row was read: the row is read again until its blobs are there, or it is the
// same.
func (s Instances) Described(ctx context.Context, instance string) (*InstanceRow, *api.OrchestrationMetadata, error) {
	for before := azcore.ETag(""); ; {
		r, err := s.Get(ctx, instance)
		if err != nil || r == nil {
			return nil, nil, err
		}
		m, err := s.Metadata(ctx, r, true)
		if !errors.Is(err, ErrNoPayload) || r.ETag == before {
			return r, m, err
		}
		before = r.ETag
	}
}

// Metadata converts a row, with its payloads if they are wanted.
func (s Instances) Metadata(ctx context.Context, r *InstanceRow, withPayloads bool) (*api.OrchestrationMetadata,
	error) {
	m := &api.OrchestrationMetadata{InstanceID: api.InstanceID(InstanceOf(r.PartitionKey)), Name: r.Name,
		RuntimeStatus: r.Status(),
		CreatedAt:     r.CreatedTime, LastUpdatedAt: r.LastUpdatedTime}
	if len(r.FailureDetails) > 0 && r.OutputIsReason {
		m.FailureDetails = &backend.TaskFailureDetails{}
		if err := proto.Unmarshal(r.FailureDetails, m.FailureDetails); err != nil {
			return nil, Corrupt(InstanceOf(r.PartitionKey), nil, fmt.Errorf("the failure details: %w", err))
		}
	}
	if !withPayloads {
		return m, nil
	}
	// A payload is in the row, or in a blob if it is too large for a property. The reason of a failure is no output.
	for _, p := range []struct {
		to         *string
		text, blob string
		skip       bool
	}{
		{&m.SerializedInput, r.Input, r.InputBlobName, false},
		{&m.SerializedOutput, r.Output, r.OutputBlobName, r.OutputIsReason},
		{&m.SerializedCustomStatus, r.CustomStatus, r.CustomStatusBlobName, false},
	} {
		if p.skip {
			continue
		}
		*p.to = p.text
		if p.blob != "" {
			text, err := s.Payloads.Get(ctx, p.blob)
			if err != nil {
				return nil, err
			}
			*p.to = text
		}
	}
	return m, nil
}

// WaitMost is the time that one request waits for messages where the service allows it, less than proxies and clients
// give up after.
const WaitMost = 50 * time.Second

// UpdateOf derives the content of the row from a history.
func UpdateOf(h *History, now time.Time) Update {
	u := Update{Status: api.RUNTIME_STATUS_RUNNING, Now: now}
	if h.CustomStatus != nil {
		text := string(h.CustomStatus)
		u.CustomStatus = &text
	}
	for _, e := range h.Events {
		switch {
		case e.GetExecutionSuspended() != nil:
			u.Status = api.RUNTIME_STATUS_SUSPENDED
		case e.GetExecutionResumed() != nil:
			u.Status = api.RUNTIME_STATUS_RUNNING
		case e.GetExecutionCompleted() != nil:
			u.Completed = e
		}
	}
	if u.Completed != nil {
		u.Status = u.Completed.GetExecutionCompleted().OrchestrationStatus
	}
	if h.From == 0 && h.StartID != h.ExecutionID {
		u.Continued = h.StartEvent()
	}
	return u
}
