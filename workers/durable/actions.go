package durable

import (
	"errors"
	"fmt"
	"time"

	"github.com/microsoft/durabletask-go/api"
	"github.com/microsoft/durabletask-go/backend"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// errAction means that a workflow's answer contains an action that cannot be applied.
var errAction = errors.New("the workflow's action cannot be applied")

// checkActions returns errAction unless the engine can apply all actions of a workflow's answer. The answer may come from an SDK of another
// version: the engine panics on kinds of actions that it does not know and on missing fields, which would end the process.
func checkActions(r *backend.ExecutionResults) error {
	for i, a := range r.Response.GetActions() {
		err := error(nil)
		if x := a.GetCompleteOrchestration(); x != nil {
			err = checkCompletion(x.OrchestrationStatus, x.CarryoverEvents)
		} else if x := a.GetSendEvent(); x != nil {
			err = checkInstanceID(x.GetInstance().GetInstanceId())
		} else if x := a.GetCreateTimer(); x != nil {
			err = checkTime(x.FireAt)
		} else if x := a.GetScheduleTask(); x != nil {
			err = checkTags(x, taskTags)
		} else if x := a.GetCreateSubOrchestration(); x != nil {
			err = checkTags(x, childTags)
		} else if a.GetTerminateOrchestration() == nil {
			err = unknownAction(a)
		}
		if err != nil {
			return fmt.Errorf("%w: action %d: %w", errAction, i+1, err)
		}
	}
	return nil
}

func checkCompletion(s Status, carryover []*Event) error {
	if !isFinal(s) && s != api.RUNTIME_STATUS_CONTINUED_AS_NEW {
		return fmt.Errorf("the workflow completes with the status %d", int32(s))
	}
	for _, e := range carryover {
		if body, _ := eventBody(e); body == nil {
			return errors.New("the workflow keeps an event of an unknown kind")
		}
	}
	return nil
}

// lastYear bounds times: a property of a table has years of four digits.
const lastYear = 9999

func checkTime(t *timestamppb.Timestamp) error {
	if err := t.CheckValid(); err != nil {
		return err
	}
	if at := t.AsTime(); at.Year() > lastYear || at.Before(time.Unix(0, 0)) {
		return fmt.Errorf("the time %v is not between 1970 and %d", at, lastYear)
	}
	return nil
}

// Fields of newer versions of the protocol: sendEntityMessage of OrchestratorAction, and the tags of ScheduleTaskAction and
// CreateSubOrchestrationAction.
// https://github.com/microsoft/durabletask-protobuf
const (
	entityAction protowire.Number = 8
	taskTags     protowire.Number = 4
	childTags    protowire.Number = 6
)

func unknownAction(a proto.Message) error {
	if hasUnknown(a, entityAction) {
		return errEntities
	}
	return errors.New("its kind is unknown")
}

// checkTags returns an error if an activity or child workflow has tags, which would be lost.
func checkTags(a proto.Message, field protowire.Number) error {
	if hasUnknown(a, field) {
		return errors.New("tags are not supported")
	}
	return nil
}

// hasUnknown reports whether a message has a field that this version of the protocol does not have.
func hasUnknown(m proto.Message, field protowire.Number) bool {
	for rest := m.ProtoReflect().GetUnknown(); len(rest) > 0; {
		number, _, n := protowire.ConsumeField(rest)
		if n < 0 {
			break
		}
		if number == field {
			return true
		}
		rest = rest[n:]
	}
	return false
}
