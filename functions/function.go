package functions

import (
	"github.com/lazuli-storage/lazuli/functions/internal/route"
	"github.com/lazuli-storage/lazuli/workers"
)

// function is one folder with a function.json, or a route of host.json.
type function struct {
	name     string
	trigger  *binding
	in, out  []*binding // without the trigger
	retry    *retryPolicy
	disabled bool
	errs     []error      // why it cannot run
	route    *route.Route // of an HTTP trigger
	methods  []string
	// authLevel is the access level of an HTTP trigger, in lower case.
	authLevel string
	// forwarded: the handler gets the HTTP request itself.
	forwarded bool
	// source describes the function to a language worker.
	source WorkerFunction
	// worker runs a blob trigger.
	worker *workers.Function
}

// isDurable reports whether the function is an orchestration, an activity or an entity.
func (f *function) isDurable() bool {
	return durableKind(f.trigger.kind)
}

func durableKind(trigger string) bool {
	return trigger == kindOrchestrationTrigger || trigger == kindActivityTrigger || trigger == kindEntityTrigger
}

func (f *function) hasReturn() bool {
	for _, b := range f.out {
		if b.name == returnName {
			return true
		}
	}
	return false
}
