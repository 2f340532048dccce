// Package results reads what a workflow answers to one step of it, an OrchestratorResponse of the Durable Task
// protocol, in the form that the engine takes.
package results

import (
	"github.com/microsoft/durabletask-go/backend"
	"google.golang.org/protobuf/proto"
)

// New returns an empty answer.
func New() *backend.ExecutionResults {
	r := &backend.ExecutionResults{}
	// The library does not export the type of Response.
	fill(&r.Response)
	return r
}

// Of converts an OrchestratorResponse of the present protocol.
func Of(response proto.Message) (*backend.ExecutionResults, error) {
	text, err := proto.Marshal(response)
	if err != nil {
		return nil, err
	}
	return Read(text)
}

// Read reads an OrchestratorResponse.
func Read(text []byte) (*backend.ExecutionResults, error) {
	r := New()
	return r, proto.Unmarshal(text, r.Response)
}

// fill sets a pointer to a new value of its type.
func fill[T any](p **T) { *p = new(T) }
