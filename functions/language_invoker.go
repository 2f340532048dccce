package functions

import (
	"context"
	"log/slog"
)

// languageInvoker calls functions in language workers.
type languageInvoker struct {
	host *Host
	app  WorkerApp
}

func (l *languageInvoker) run(ctx context.Context) error { return l.app.Run(ctx) }

func (l *languageInvoker) invoke(ctx context.Context, inv *invocation, inputs map[string]any) (*response, error) {
	call := &Invocation{
		ID: inv.id, Function: inv.function.name, Metadata: map[string]any{}, Retry: inv.retry,
		Trace: inv.trace, Forward: inv.forward, Gone: inv.gone,
		Log: func(user bool, level slog.Level, message string) {
			category := "Function." + inv.function.name
			if user {
				category += ".User"
			}
			if l.host.project.host.levels.enabled(category, level) {
				inv.log.Log(ctx, level, message)
			}
		},
	}
	for _, b := range append([]*binding{inv.function.trigger}, inv.function.in...) {
		value := inputs[b.name]
		if data, ok := value.(httpData); ok {
			value = data.request
		}
		call.Inputs = append(call.Inputs, Input{b.name, value})
	}
	for name, value := range inv.data.All() {
		if value != nil {
			call.Metadata[name] = value
		}
	}
	// internal/functions/languageworker has the WorkerApp of all languages: it gives the call to one of its processes.
	got, err := l.app.Invoke(ctx, call)
	if err != nil {
		return nil, err
	}
	return &response{outputs: got.Outputs, returned: got.Return, forwarded: inv.forwarded}, nil
}
