package entitybatch

import (
	"errors"

	"github.com/lazuli-storage/lazuli/internal/durable/event"
	"github.com/lazuli-storage/lazuli/internal/durable/protocol"
)

// ToProtocol returns a batch of operations as the request to a worker.
func ToProtocol(b *Batch) *protocol.EntityBatchRequest {
	r := &protocol.EntityBatchRequest{InstanceId: b.ID, EntityState: protocol.Text(b.State)}
	for _, o := range b.Operations {
		r.Operations = append(r.Operations,
			&protocol.OperationRequest{Operation: o.Name, RequestId: event.RequestID(o.ID),
				Input: protocol.Text(o.Input)})
	}
	return r
}

// FromProtocol reads the answer of a worker. Time stamps of its actions that are zero mean at once.
func FromProtocol(r *protocol.EntityBatchResult) (*Result, error) {
	result := &Result{State: protocol.TextOf(r.EntityState)}
	var err error
	for _, o := range r.Results {
		one := OperationResult{}
		if f := o.GetFailure(); f != nil {
			if one.Failure, err = event.FailureFromProtocol(f.FailureDetails); err != nil {
				return nil, err
			}
		} else {
			one.Output = protocol.TextOf(o.GetSuccess().GetResult())
		}
		result.Results = append(result.Results, one)
	}
	for _, a := range r.Actions {
		if s := a.GetSendSignal(); s != nil {
			signal := Signal{ID: s.InstanceId, Operation: s.Name, Input: protocol.TextOf(s.Input)}
			if s.ScheduledTime.IsValid() {
				signal.At = s.ScheduledTime.AsTime()
			}
			result.Signals = append(result.Signals, signal)
		} else if s := a.GetStartNewOrchestration(); s != nil {
			start := Start{InstanceID: s.InstanceId, Workflow: s.Name, Version: s.Version.GetValue(),
				Input: protocol.TextOf(s.Input)}
			if s.ScheduledTime.IsValid() {
				start.At = s.ScheduledTime.AsTime()
			}
			result.Starts = append(result.Starts, start)
		} else {
			// The whole answer is refused: without this action the entity's state would be stored, and a message that belongs
			// to it would not be sent.
			return nil, errors.New("durable: an action of an entity is of an unknown kind")
		}
	}
	if r.FailureDetails != nil {
		if result.Failure, err = event.FailureFromProtocol(r.FailureDetails); err != nil {
			return nil, err
		}
	}
	return result, nil
}
