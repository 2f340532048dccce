package event

import (
	"github.com/microsoft/durabletask-go/backend"
	"google.golang.org/protobuf/proto"

	"github.com/lazuli-storage/lazuli/internal/durable/protocol"
)

// NewFailure returns failure details of a kind with a message.
func NewFailure(kind, text string) *backend.TaskFailureDetails {
	return &backend.TaskFailureDetails{ErrorType: kind, ErrorMessage: text}
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

// FailureToProtocol converts failure details to the present protocol's.
func FailureToProtocol(d *backend.TaskFailureDetails) (*protocol.TaskFailureDetails, error) {
	text, err := proto.Marshal(d)
	if err != nil {
		return nil, err
	}
	p := &protocol.TaskFailureDetails{}
	return p, proto.Unmarshal(text, p)
}
