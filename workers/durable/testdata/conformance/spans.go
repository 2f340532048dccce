package tests

import (
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel/sdk/trace"
)

// inOrder sorts spans as the tests expect them: by their ends, as they are exported, and the creation of an
// orchestration before its run. The client's span ends after the call has returned. A worker that was woken at once may
// have run the orchestration by then.
func inOrder(spans []trace.ReadOnlySpan) []trace.ReadOnlySpan {
	at := func(s trace.ReadOnlySpan) time.Time {
		if strings.HasPrefix(s.Name(), "create_orchestration||") {
			return s.StartTime()
		}
		return s.EndTime()
	}
	slices.SortStableFunc(spans, func(a, b trace.ReadOnlySpan) int { return at(a).Compare(at(b)) })
	return spans
}
