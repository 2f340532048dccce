package hub

import (
	"errors"
	"fmt"

	"github.com/microsoft/durabletask-go/api"
	"github.com/microsoft/durabletask-go/backend"

	"github.com/lazuli-storage/lazuli/internal/durable/event"
	"github.com/lazuli-storage/lazuli/internal/durable/record"
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
			err = record.CheckInstanceID(x.GetInstance().GetInstanceId())
		} else if x := a.GetCreateTimer(); x != nil {
			err = event.CheckTime(x.FireAt)
		} else if x := a.GetScheduleTask(); x != nil {
			err = checkTags(event.TagsOf(x.ProtoReflect(), event.ActionTags))
		} else if x := a.GetCreateSubOrchestration(); x != nil {
			err = checkTags(event.TagsOf(x.ProtoReflect(), event.ChildTags))
		} else if a.GetTerminateOrchestration() == nil {
			err = errors.New("its kind is unknown")
		}
		if err != nil {
			return fmt.Errorf("%w: action %d: %w", errAction, i+1, err)
		}
	}
	return nil
}

func checkCompletion(s record.Status, carryover []*record.Event) error {
	if !record.IsFinal(s) && s != api.RUNTIME_STATUS_CONTINUED_AS_NEW {
		return fmt.Errorf("the workflow completes with the status %d", int32(s))
	}
	for _, e := range carryover {
		if body, _ := event.Body(e); body == nil {
			return errors.New("the workflow keeps an event of an unknown kind")
		}
	}
	return nil
}

// maxTags bounds the tags of an instance, activity or child workflow, keys and values together, in bytes.
const maxTags = 8 << 10

// checkTags returns ErrTooLarge if there is too much in tags.
func checkTags(tags map[string]string) error {
	n := 0
	for k, v := range tags {
		n += len(k) + len(v)
	}
	if n > maxTags {
		return fmt.Errorf("%w: the tags have %d bytes; %d are allowed", record.ErrTooLarge, n, maxTags)
	}
	return nil
}
