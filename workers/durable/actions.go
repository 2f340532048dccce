package durable

import (
	"errors"
	"fmt"
	"time"

	"github.com/microsoft/durabletask-go/api"
	"github.com/microsoft/durabletask-go/backend"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// errAction means that a workflow's answer contains an action that cannot be applied.
var errAction = errors.New("the workflow's action cannot be applied")

// checkActions returns errAction unless the engine can apply all actions of a workflow's answer. The answer may come
// from an SDK of another version: the engine panics on kinds of actions that it does not know and on missing fields,
// which would end the process.
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
			err = checkTags(tagsOf(x.ProtoReflect(), taskTags))
		} else if x := a.GetCreateSubOrchestration(); x != nil {
			err = checkTags(tagsOf(x.ProtoReflect(), childTags))
		} else if a.GetTerminateOrchestration() == nil {
			err = errors.New("its kind is unknown")
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
