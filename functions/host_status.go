package functions

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lazuli-storage/lazuli/workers/status"
)

// Status returns the state of the functions, and of the processes that run them.
func (h *Host) Status(ctx context.Context) Status {
	s := Status{Dir: h.project.dir, Language: h.project.host.runtime}
	if h.project.worker != nil {
		s.Workers = h.project.worker.Processes(ctx)
	}
	h.past.mu.Lock()
	defer h.past.mu.Unlock()
	s.Origin = h.past.origin
	if s.Language == "" {
		s.Language = "custom"
	}
	now := time.Now()
	for _, f := range slices.Concat(h.project.functions, h.project.disabled) {
		s.Functions = append(s.Functions, h.functionStatus(f, now))
	}
	return s
}

// functionStatus returns the state of a function without its invocations. The caller holds h.past.mu.
func (h *Host) functionStatus(f *function, now time.Time) FunctionStatus {
	p := h.past.functions[f.name]
	if p == nil {
		p = &functionPast{}
	}
	s := FunctionStatus{Name: f.name, Trigger: f.trigger.kind, Source: h.sourceOf(f),
		Disabled: slices.Contains(h.project.disabled, f), Running: p.running, Succeeded: p.succeeded, Failed: p.failed,
		LastHour: status.LastHour{Succeeded: p.hour.List(now, 0), Failed: p.hour.List(now, 1)}}
	if f.route != nil && h.past.origin != "" {
		s.URL = h.past.origin + "/" + h.pathOf(f)
	}
	if err := errors.Join(f.errs...); err != nil {
		s.Error = err.Error()
	}
	if text, ok := f.example(); ok && !s.Disabled {
		s.Example = &text
	}
	return s
}

// FunctionStatus returns the state of a function and its invocations. The error is ErrNoFunction.
func (h *Host) FunctionStatus(name string) (FunctionStatus, error) {
	f, err := h.functionNamed(name)
	if err != nil {
		return FunctionStatus{}, err
	}
	h.past.mu.Lock()
	defer h.past.mu.Unlock()
	now := time.Now()
	s := h.functionStatus(f, now)
	if p := h.past.functions[f.name]; p != nil {
		for _, i := range p.calls.All() {
			copied := i.at(now)
			copied.Logs = nil
			s.Invocations = append(s.Invocations, copied)
		}
	}
	return s, nil
}

// Invocation returns an invocation of a function with its logs. The error is ErrNoFunction, or ErrNoInvocation.
func (h *Host) Invocation(name, id string) (InvocationStatus, error) {
	f, err := h.functionNamed(name)
	if err != nil {
		return InvocationStatus{}, err
	}
	h.past.mu.Lock()
	defer h.past.mu.Unlock()
	if p := h.past.functions[f.name]; p != nil {
		for _, i := range p.calls.All() {
			if i.ID == id {
				s := i.at(time.Now())
				s.Logs = slices.Clone(s.Logs)
				return s, nil
			}
		}
	}
	return InvocationStatus{}, fmt.Errorf("%w: %s", ErrNoInvocation, id)
}
