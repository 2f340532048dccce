package trigger

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/lazuli-storage/lazuli/workers/internal/calls"
)

// CallAlone calls the handler of a trigger that has one call at a time: a timer, or a table in order. It bounds the
// call by the function's time limit, counts it, and logs its failure. gaveUp is set in addition if the handler did not
// return when it had to: the function cannot be called again.
func (f *Function) CallAlone(hard context.Context, env *Environment, log *slog.Logger, i *Invocation,
	handler func(ctx context.Context) error) (err, gaveUp error) {
	stats := &f.Stats
	stats.InFlight.Add(1)
	defer stats.InFlight.Add(-1)
	defer stats.Call(i, env.Clock)()
	log = log.With("invocation_id", i.ID)
	limits := calls.Supervision{Clock: env.Clock, Timeout: f.Settings.Timeout, Stuck: env.Stuck, Log: log}
	err = calls.Supervise(hard, limits, func(ctx context.Context) error {
		return env.Invoke(WithInvocation(ctx, i), i, handler)
	})
	if errors.Is(err, calls.ErrStuck) {
		stats.Stuck.Add(1)
		gaveUp = fmt.Errorf("function %q: %w", f.Name, calls.ErrStuck)
	}
	stats.End(i, env.Clock.Now(), err)
	if err != nil {
		stats.Fail(env.Clock.Now(), err)
		calls.LogFailure(log, err)
	}
	return err, gaveUp
}
