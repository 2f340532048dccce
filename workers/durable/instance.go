package durable

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
	"google.golang.org/protobuf/proto"

	"github.com/microsoft/durabletask-go/backend"

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

// isFinal reports whether an instance with the status has ended.
func isFinal(s Status) bool {
	switch s {
	case api.RUNTIME_STATUS_COMPLETED, api.RUNTIME_STATUS_FAILED, api.RUNTIME_STATUS_TERMINATED,
		api.RUNTIME_STATUS_CANCELED:
		return true
	}
	return false
}

// instanceRow is a row of the Instances table.
type instanceRow struct {
	etag azcore.ETag

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

func (r *instanceRow) status() Status {
	s, err := ParseStatus(r.RuntimeStatus)
	if err != nil {
		return api.RUNTIME_STATUS_PENDING
	}
	return s
}

// instances reads and writes the Instances table.
type instances struct {
	table    *aztables.Client
	payloads payloads
	hub      string
	// key returns the partition key of an instance: partitionKey, or dtfxKey in a hub that is only read.
	key func(instance string) string
}

// get returns an instance's row, or nil if it does not exist.
func (s instances) get(ctx context.Context, instance string) (*instanceRow, error) {
	r := &instanceRow{}
	etag, err := readRowAt(ctx, s.table, "Instances", instance, s.key(instance), "", r)
	if err != nil || etag == "" {
		return nil, err
	}
	r.etag = etag
	return r, nil
}

// await returns an instance's row when it matches a filter, nil when the wait is over. waited is false if the service
// lets no request wait.
func (s instances) await(ctx context.Context, instance, filter string) (row *instanceRow, waited bool, err error) {
	var answer *http.Response
	ctx = policy.WithHTTPHeader(policy.WithCaptureResponse(ctx, &answer),
		http.Header{longpoll.WaitHeader: {strconv.Itoa(int(waitMost / time.Second))}})
	filter = "PartitionKey eq " + quote(partitionKey(instance)) + " and RowKey eq '' and " + filter
	got, err := s.table.NewListEntitiesPager(&aztables.ListEntitiesOptions{Filter: &filter}).NextPage(ctx)
	if err != nil {
		return nil, false, fmt.Errorf("durable: wait for the instance %q: %w", instance, err)
	}
	waited = answer != nil && answer.Header.Get(longpoll.WaitHeader) != ""
	if len(got.Entities) == 0 {
		return nil, waited, nil
	}
	row = &instanceRow{}
	if err := json.Unmarshal(got.Entities[0], row); err != nil {
		return nil, waited, corrupt(instance, nil, fmt.Errorf("the row in Instances: %w", err))
	}
	return row, waited, nil
}

// errExists means that the row exists or has changed.
var errExists = errors.New("the instance's row exists or has changed")

// start writes the row of an instance that is about to begin. With an ETag it replaces the row that has it; without one
// there must be no row. It returns errExists otherwise.
func (s instances) start(ctx context.Context, instance string, e *Event, blob string, etag azcore.ETag) (*instanceRow,
	error) {
	x := e.GetExecutionStarted()
	at := e.Timestamp.AsTime()
	r := &instanceRow{PartitionKey: partitionKey(instance), Name: x.Name, Version: x.Version.GetValue(),
		ExecutionID: event.ExecutionOf(e), StartID: event.ExecutionOf(e),
		RuntimeStatus: StatusName(api.RUNTIME_STATUS_PENDING), CreatedTime: at, LastUpdatedTime: at,
		ParentInstanceID: x.ParentInstance.GetOrchestrationInstance().GetInstanceId()}
	row := newEntity(r.PartitionKey, "")
	row["TaskHubName"], row["Name"], row["RuntimeStatus"] = s.hub, r.Name, r.RuntimeStatus
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
		got, err = s.table.AddEntity(ctx, row.encode(), nil)
		r.etag = got.ETag
	} else {
		var got aztables.UpdateEntityResponse
		got, err = s.table.UpdateEntity(ctx, row.encode(),
			&aztables.UpdateEntityOptions{IfMatch: to.Ptr(etag), UpdateMode: aztables.UpdateModeReplace})
		r.etag = got.ETag
	}
	// Another process was first, or the row was changed since it was read.
	if isConflict(err) {
		return nil, errExists
	}
	if err != nil {
		return nil, fmt.Errorf("durable: write the instance %q: %w", instance, err)
	}
	return r, nil
}

// setPayload sets the column to a text, or names the blob that has it. The row has its execution and checkpoint.
func (s instances) setPayload(ctx context.Context, row entity, instance, column, text, blob string) error {
	if blob == "" && (len(text) > inlineLimit || !plain(text)) {
		blob = payloadName(instance, fmt.Sprintf("%s-%v-%v", column, row["ExecutionId"], row["Checkpoint"]), text)
		if err := s.payloads.put(ctx, blob, text); err != nil {
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

// update has the changes of a checkpoint to an instance's row.
type update struct {
	status       Status
	customStatus *string
	completed    *Event // ExecutionCompleted, if the instance has completed
	now          time.Time
	continued    *Event // ExecutionStarted, if the instance has continued as new
}

// write applies a checkpoint to the row, and notes that its messages have been sent. A row of another start is left
// alone.
func (s instances) write(ctx context.Context, instance string, h *history, u update) error {
	for range readAttempts {
		if h.row == nil || h.row.StartID != h.StartID {
			row, err := s.get(ctx, instance)
			if err != nil {
				return err
			}
			h.row = row
			if row == nil || row.StartID != h.StartID {
				return nil // It was purged or replaced; its checkpoints are obsolete.
			}
		}
		// The step is repeated, or a newer owner was here: a row never goes back.
		if h.row.Checkpoint >= h.Checkpoint {
			return nil
		}
		row, err := s.changes(ctx, instance, h, u)
		if err != nil {
			return err
		}
		got, err := s.table.UpdateEntity(ctx, row.encode(),
			&aztables.UpdateEntityOptions{IfMatch: to.Ptr(h.row.etag), UpdateMode: aztables.UpdateModeMerge})
		if isConflict(err) {
			h.row = nil
			continue
		}
		if err != nil {
			return fmt.Errorf("durable: write the instance %q: %w", instance, err)
		}
		// This is after the update: a reader that still has the old row misses its blob, and reads the row again.
		if old := h.row.CustomStatusBlobName; old != "" && u.customStatus != nil && row["CustomStatusBlobName"] != old {
			if err := s.payloads.delete(ctx, old); err != nil {
				return err
			}
		}
		next := *h.row
		if u.customStatus != nil {
			next.CustomStatus, _ = row["CustomStatus"].(string)
			next.CustomStatusBlobName, _ = row["CustomStatusBlobName"].(string)
		}
		next.etag, next.Checkpoint, next.RuntimeStatus = got.ETag, h.Checkpoint, StatusName(u.status)
		h.row = &next
		return nil
	}
	return fmt.Errorf("durable: write the instance %q: %w", instance, errExists)
}

func (s instances) changes(ctx context.Context, instance string, h *history, u update) (entity, error) {
	row := newEntity(partitionKey(instance), "")
	row["RuntimeStatus"], row["ExecutionId"], row["Checkpoint"] = StatusName(u.status), h.ExecutionID, h.Checkpoint
	row.setTime("LastUpdatedTime", u.now)
	if u.customStatus != nil {
		if err := s.setPayload(ctx, row, instance, "CustomStatus", *u.customStatus, ""); err != nil {
			return nil, err
		}
	}
	if u.continued != nil {
		if err := s.setPayload(ctx, row, instance, "Input", u.continued.GetExecutionStarted().Input.GetValue(),
			h.blobs[u.continued]); err != nil {
			return nil, err
		}
	}
	if u.completed == nil {
		if isFinal(h.row.status()) { // It was rewound.
			row["Output"], row["OutputBlobName"], row["OutputIsReason"] = "", "", false
		}
		return row, nil
	}
	x := u.completed.GetExecutionCompleted()
	row.setTime("CompletedTime", u.completed.Timestamp.AsTime())
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
	if err := s.setPayload(ctx, row, instance, "Output", text, h.blobs[u.completed]); err != nil {
		return nil, err
	}
	return row, nil
}

// remove deletes the row, unless it is another one by now.
func (s instances) remove(ctx context.Context, instance string, etag azcore.ETag) error {
	_, err := s.table.DeleteEntity(ctx, partitionKey(instance), "", &aztables.DeleteEntityOptions{IfMatch: to.Ptr(etag)})
	if isNotFound(err) {
		return nil
	}
	if isConflict(err) {
		return errExists
	}
	if err != nil {
		return fmt.Errorf("durable: delete the instance %q: %w", instance, err)
	}
	return nil
}

// described returns the metadata of an instance with its payloads, and its row, nil if it does not exist. A commit may
// delete the blob of a payload after the row was read: the row is read again until its blobs are there, or it is the
// same.
func (s instances) described(ctx context.Context, instance string) (*instanceRow, *api.OrchestrationMetadata, error) {
	for before := azcore.ETag(""); ; {
		r, err := s.get(ctx, instance)
		if err != nil || r == nil {
			return nil, nil, err
		}
		m, err := s.metadata(ctx, r, true)
		if !errors.Is(err, errNoPayload) || r.etag == before {
			return r, m, err
		}
		before = r.etag
	}
}

// metadata converts a row, with its payloads if they are wanted.
func (s instances) metadata(ctx context.Context, r *instanceRow, withPayloads bool) (*api.OrchestrationMetadata,
	error) {
	m := &api.OrchestrationMetadata{InstanceID: api.InstanceID(instanceOf(r.PartitionKey)), Name: r.Name,
		RuntimeStatus: r.status(),
		CreatedAt:     r.CreatedTime, LastUpdatedAt: r.LastUpdatedTime}
	if len(r.FailureDetails) > 0 && r.OutputIsReason {
		m.FailureDetails = &backend.TaskFailureDetails{}
		if err := proto.Unmarshal(r.FailureDetails, m.FailureDetails); err != nil {
			return nil, corrupt(instanceOf(r.PartitionKey), nil, fmt.Errorf("the failure details: %w", err))
		}
	}
	if !withPayloads {
		return m, nil
	}
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
			text, err := s.payloads.get(ctx, p.blob)
			if err != nil {
				return nil, err
			}
			*p.to = text
		}
	}
	return m, nil
}
