package durable

import (
	"errors"

	"github.com/microsoft/durabletask-go/backend"
	"google.golang.org/protobuf/proto"

	"github.com/lazuli-storage/lazuli/workers/durable/internal/protocol"
)

// What a server of the protocol needs of this package (package sidecar).

// ErrBadRequest means that a request is not valid.
var ErrBadRequest = errors.New("durable: the request is not valid")

// FromProtocol returns an event in the engine's form.
func FromProtocol(x *protocol.HistoryEvent) (*Event, error) { return fromProtocol(x) }

// Results returns the answer of a workflow's worker in the engine's form.
func Results(answer proto.Message) (*backend.ExecutionResults, error) {
	text, err := proto.Marshal(answer)
	if err != nil {
		return nil, err
	}
	r := &backend.ExecutionResults{}
	fill(&r.Response)
	return r, proto.Unmarshal(text, r.Response)
}

// WorkflowOf returns the name and version of the workflow that histories are of.
func WorkflowOf(histories ...[]*Event) (name, version string) {
	for _, events := range histories {
		for _, e := range events {
			if x := e.GetExecutionStarted(); x != nil {
				name, version = x.Name, x.Version.GetValue()
			}
		}
	}
	return name, version
}

// TaskTags returns the tags of an activity's event TaskScheduled.
func TaskTags(e *Event) map[string]string {
	return tagsOf(e.GetTaskScheduled().ProtoReflect(), scheduledTags)
}

// EntityName returns the name in an entity's ID, "@name@key".
func EntityName(id string) string { return entityName(id) }

// StatusName returns a status as Durable Functions writes it.
func StatusName(s Status) string { return statusText(s) }

// FailureToProtocol converts failure details to the present protocol's.
func FailureToProtocol(d *backend.TaskFailureDetails) (*protocol.TaskFailureDetails, error) {
	return failureOf(d)
}

// FailureFromProtocol converts failure details from the present protocol's.
func FailureFromProtocol(p *protocol.TaskFailureDetails) (*backend.TaskFailureDetails, error) {
	text, err := proto.Marshal(p)
	if err != nil {
		return nil, err
	}
	d := &backend.TaskFailureDetails{}
	return d, proto.Unmarshal(text, d)
}
