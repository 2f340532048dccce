package record

import (
	"time"

	"github.com/microsoft/durabletask-go/api"
	"github.com/microsoft/durabletask-go/backend"

	"github.com/lazuli-storage/lazuli/internal/durable/event"
)

// Instance is the state of an instance.
type Instance struct {
	ID, Name       string
	Version        string            `json:",omitempty"`
	Execution      string            `json:",omitempty"`
	Tags           map[string]string `json:",omitempty"`
	Status         string
	Created        time.Time
	LastUpdated    time.Time
	Scheduled      *time.Time `json:",omitempty"` // when it was to start, if that was given
	Completed      *time.Time `json:",omitempty"`
	Parent         string     `json:",omitempty"`
	Input          string     `json:",omitempty"`
	Output         string     `json:",omitempty"`
	CustomStatus   string     `json:",omitempty"`
	FailureType    string     `json:",omitempty"`
	FailureMessage string     `json:",omitempty"`

	Cause *backend.TaskFailureDetails `json:"-"`
}

// Failure returns why the instance has failed, or nil.
func (i *Instance) Failure() *backend.TaskFailureDetails { return i.Cause }

// Done reports whether the instance has ended.
func (i *Instance) Done() bool {
	s, err := ParseStatus(i.Status)
	return err == nil && IsFinal(s)
}

// Begun reports whether the instance's first step has run.
func (i *Instance) Begun() bool { return i.Status != StatusName(api.RUNTIME_STATUS_PENDING) }

func NewInstance(r *InstanceRow, m *api.OrchestrationMetadata) *Instance {
	i := &Instance{ID: string(m.InstanceID), Name: m.Name, Status: StatusName(m.RuntimeStatus), Created: m.CreatedAt,
		LastUpdated: m.LastUpdatedAt,
		Parent:      r.ParentInstanceID, Input: m.SerializedInput, Output: m.SerializedOutput,
		CustomStatus: m.SerializedCustomStatus,
		Version:      r.Version, Execution: r.ExecutionID, Tags: event.DecodeTags(r.Tags), Scheduled: r.ScheduledStartTime}
	if IsFinal(r.Status()) {
		i.Completed = r.CompletedTime
	}
	if d := m.FailureDetails; d != nil {
		i.FailureType, i.FailureMessage, i.Cause = d.ErrorType, d.ErrorMessage, d
	}
	return i
}
