package hub

import (
	"github.com/microsoft/durabletask-go/api"
	"github.com/microsoft/durabletask-go/backend"

	"github.com/lazuli-storage/lazuli/internal/durable/event"
	"github.com/lazuli-storage/lazuli/internal/durable/results"
)

// maxContinued is the number of times that the engine lets a workflow continue as new in one work item. It refuses the
// work item after that, each time it comes again; a workflow that handles one event in each execution would never get
// through a longer list of events.
const maxContinued = 20

// pauseContinued returns an answer without actions if the workflow has continued as new maxContinued times in the work
// item, or nil. The checkpoint then commits the last execution before its first step, and sends the instance a message
// with which it goes on.
func (b *Backend) pauseContinued(id api.InstanceID) *backend.ExecutionResults {
	w := b.inWork.of(string(id))
	if w == nil || w.continued < maxContinued {
		return nil
	}
	w.paused = true
	r := results.New()
	r.Response.InstanceId, r.Response.CustomStatus = string(id), w.customStatus
	return r
}

// noteContinued counts an answer that continues as new.
func (b *Backend) noteContinued(id api.InstanceID, r *backend.ExecutionResults) {
	w := b.inWork.of(string(id))
	if w == nil {
		return
	}
	for _, a := range r.Response.GetActions() {
		if x := a.GetCompleteOrchestration(); x.GetOrchestrationStatus() == api.RUNTIME_STATUS_CONTINUED_AS_NEW {
			w.continued++
			if x.NewVersion != nil {
				w.version = x.NewVersion.Value
			}
			if tags := event.TagsOf(x.ProtoReflect(), event.CompletedTags); tags != nil {
				w.tags = tags
			}
			w.customStatus = r.Response.GetCustomStatus()
			return
		}
	}
}
