// Package task has the names of the package task of github.com/microsoft/durabletask-go that orchestrators use, for
// package durabletask: a program moves by changing its imports. Names of activities and orchestrators are strings.
package task

import (
	"encoding/json"

	"github.com/lazuli-storage/lazuli/workers/durable"
)

// OrchestrationContext lets an orchestrator call activities and other orchestrators, and wait for timers and events.
type OrchestrationContext = durable.Context

// Orchestrator is an orchestrator's function.
type Orchestrator = func(ctx *OrchestrationContext) (any, error)

// Task is work that an orchestrator waits for.
type Task = durable.Task

// RetryPolicy says when and how often a failed activity or orchestrator is called again.
type RetryPolicy = durable.RetryPolicy

// ErrTaskCanceled means that an event was not received before the timeout.
var ErrTaskCanceled = durable.ErrTimeout

// WithActivityInput is an activity's input, which is written as JSON.
func WithActivityInput(in any) durable.CallOption { return durable.WithInput(in) }

// WithRawActivityInput is an activity's input as JSON.
func WithRawActivityInput(in string) durable.CallOption { return raw(in) }

// WithActivityRetryPolicy calls an activity again when it has failed; nil is no policy.
func WithActivityRetryPolicy(p *RetryPolicy) durable.CallOption { return retry(p) }

// WithSubOrchestratorInput is an orchestrator's input, which is written as JSON.
func WithSubOrchestratorInput(in any) durable.CallOption { return durable.WithInput(in) }

// WithRawSubOrchestratorInput is an orchestrator's input as JSON.
func WithRawSubOrchestratorInput(in string) durable.CallOption { return raw(in) }

// WithSubOrchestrationInstanceID is the ID of the instance that a call of an orchestrator starts.
func WithSubOrchestrationInstanceID(id string) durable.CallOption { return durable.WithInstanceID(id) }

// WithSubOrchestrationRetryPolicy calls an orchestrator again when it has failed; nil is no policy.
func WithSubOrchestrationRetryPolicy(p *RetryPolicy) durable.CallOption { return retry(p) }

// WithKeepUnprocessedEvents hands on the events that an orchestrator has received and not waited for, when it continues
// as new.
func WithKeepUnprocessedEvents() durable.CallOption { return durable.KeepEvents() }

func raw(in string) durable.CallOption {
	if in == "" {
		return durable.WithInput(nil)
	}
	return durable.WithInput(json.RawMessage(in))
}

func retry(p *RetryPolicy) durable.CallOption {
	if p == nil { // One attempt.
		p = &RetryPolicy{InitialRetryInterval: 1}
	}
	return durable.WithRetry(*p)
}
