package functions

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/lazuli-storage/lazuli/internal/fault"
	"github.com/lazuli-storage/lazuli/internal/sdk/sdkerr"
	"github.com/lazuli-storage/lazuli/workers"
)

// The moments between an invocation's effects.
var (
	pointAnswered = fault.Declare("functions/after-answer")
	pointWritten  = fault.Declare("functions/after-outputs")
)

// call runs an invocation, by the function's retry policy if it has one, and logs its beginning and end as the Core
// Tools do.
//
// The result is the response of an HTTP trigger, nil for other triggers.
func (h *Host) call(ctx context.Context, inv *invocation) (*httpResult, error) {
	f := inv.function
	inv.beginTrace()
	h.logExecuting(ctx, inv)
	var r *httpResult
	var err error
	for attempt := 1; ; attempt++ {
		if f.retry != nil {
			inv.retry = &RetryContext{RetryCount: attempt - 1, MaxRetryCount: f.retry.max}
			if err != nil {
				inv.retry.Exception = err.Error()
			}
		}
		r, err = h.attempt(ctx, inv)
		// A request that is passed on is not attempted again: its body was read, and the response may have begun.
		if err == nil || ctx.Err() != nil || f.retry == nil || inv.forward != nil || f.retry.max >= 0 &&
			attempt > f.retry.max {
			break
		}
		delay := f.retry.delay(attempt)
		h.logAt(ctx, inv, slog.LevelWarn, "Failed; trying again", "attempt", attempt, "after", delay, "err",
			sdkerr.Short(err))
		if !h.waitToRetry(ctx, delay) {
			// The run is not over: a timer that is monitored stays due, and happens after the next start.
			err = errors.Join(workers.ErrStopping, err)
			break
		}
	}
	if err != nil {
		h.logExecuted(ctx, inv, sdkerr.Short(err))
		return nil, workers.Logged(err)
	}
	h.logExecuted(ctx, inv, nil)
	return r, nil
}

// waitToRetry waits for the time between two attempts, and reports whether there is to be another one: not if the host
// stops, which is not to wait for an attempt that may be hours away.
func (h *Host) waitToRetry(ctx context.Context, delay time.Duration) bool {
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
	case <-h.stopping.Done():
	}
	return false
}

// attempt calls the handler once and writes its response to the output bindings, except the HTTP response.
func (h *Host) attempt(ctx context.Context, inv *invocation) (*httpResult, error) {
	ctx, cancel := h.limit(ctx)
	defer cancel()
	// Inputs are read again in each attempt: an earlier one may have changed what they come from.
	inputs := map[string]any{inv.function.trigger.name: inv.trigger}
	for _, b := range inv.function.in {
		value, err := h.read(ctx, inv, b)
		if err != nil {
			return nil, fmt.Errorf("input %s: %w", b.name, err)
		}
		inputs[b.name] = value
	}
	// languageInvoker.invoke, or handlerInvoker.invoke for a custom handler.
	answer, err := h.invoker.invoke(ctx, inv, inputs)
	if err != nil {
		return nil, err
	}
	if h.project.host.levels.enabled("Function."+inv.function.name+".User", slog.LevelInfo) {
		for _, line := range answer.logs {
			inv.log.InfoContext(ctx, line)
		}
	}
	inv.returned = answer.returned
	// The answer is read as a whole before the first output is written, so that one that cannot be read has no effects.
	var result *httpResult
	if inv.function.trigger.kind == kindHTTPTrigger && !answer.forwarded {
		if result, err = answer.httpAnswer(inv.function); err != nil {
			return nil, err
		}
	}
	if err := fault.Point(pointAnswered); err != nil {
		return nil, err
	}
	for _, b := range inv.function.out {
		value := answer.output(inv.function, b)
		// The response goes out last, when the outputs are written: a client must not see a success whose effects are
		// missing.
		if b.kind == kindHTTP || !value.present() {
			continue
		}
		if err := h.write(ctx, inv, b, value); err != nil {
			return nil, fmt.Errorf("output %s: %w", b.name, err)
		}
	}
	return result, fault.Point(pointWritten)
}
