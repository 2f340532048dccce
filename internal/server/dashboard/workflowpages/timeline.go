package workflowpages

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/lazuli-storage/lazuli/internal/server/dashboard/chart"
)

// timelineRow is a step on the page of an instance, or a time in which the workflow waits.
type timelineRow struct {
	workflowEvent
	After time.Duration // since the first step
	Took  time.Duration // of a task, or a wait
	// Waits is what the workflow waits for: "approved", "a timer", or "an event" whose name is not known; "" for a step.
	Waits string
	// Open says that the task or the wait has not ended.
	Open bool
	// Due is when the timer that was set fires, since the first step; Idle says that the workflow ended before.
	Due  time.Duration
	Idle bool
	chart.Bar
}

// Class returns the style of the step.
func (t timelineRow) Class() string {
	if strings.HasSuffix(t.EventType, "Failed") || t.OrchestrationStatus == "Failed" {
		return "bad"
	}
	return statusClasses[t.OrchestrationStatus]
}

// BarClass returns the style of the bar.
func (t timelineRow) BarClass() string {
	switch {
	case t.Waits != "":
		return "wait"
	case t.Class() == "bad":
		return "failed"
	}
	return ""
}

// stepNames describe the steps of a history to people, by their names in the SDKs.
var stepNames = map[string]string{
	"ExecutionStarted": "started", "ExecutionCompleted": "ended", "ExecutionTerminated": "terminated",
	"ExecutionSuspended": "suspended", "ExecutionResumed": "resumed", "ExecutionRewound": "rewound",
	"TaskScheduled": "activity runs", "TaskCompleted": "activity done", "TaskFailed": "activity failed",
	"TimerCreated": "timer set", "TimerFired": "timer fired", "EventRaised": "event received", "EventSent": "event sent",
	"SubOrchestrationInstanceCreated":   "child workflow runs",
	"SubOrchestrationInstanceCompleted": "child workflow done",
	"SubOrchestrationInstanceFailed":    "child workflow failed",
	"ContinueAsNew":                     "began again",
	"EntityOperationCalled":             "entity called", "EntityOperationSignaled": "entity signalled",
	"EntityOperationCompleted": "entity answered", "EntityOperationFailed": "entity failed",
	"EntityLockRequested": "lock asked for", "EntityLockGranted": "lock granted", "EntityUnlockSent": "unlocked",
}

// What describes the step to people.
func (t timelineRow) What() string {
	switch {
	case t.Waits != "" && t.Open:
		return "waits for " + t.Waits
	case t.Waits != "":
		return "waited for " + t.Waits
	}
	return cmp.Or(stepNames[t.EventType], t.EventType)
}

// shownSteps bounds the steps that a page shows.
const shownSteps = 1000

// period is a time in which something was under way: to is zero while it is.
type period struct{ from, to time.Time }

// overlaps reports whether something was under way between two times.
func (s period) overlaps(from, to time.Time) bool {
	return s.from.Before(to) && (s.to.IsZero() || s.to.After(from))
}

// busy returns the times in which the workflow had activities, children or entities to wait for. A step that ends one
// has the time at which it was scheduled. Calls and locks of entities are matched in their order.
func busy(events []workflowEvent) (list []period) {
	var calls []int // those of entities, in list
	for _, e := range events {
		switch e.EventType {
		case "TaskScheduled", "SubOrchestrationInstanceCreated":
			list = append(list, period{from: e.Timestamp}) // without an end: that would have its place
		case "EntityOperationCalled", "EntityLockRequested":
			calls = append(calls, len(list))
			list = append(list, period{from: e.Timestamp})
		case "EntityOperationCompleted", "EntityOperationFailed", "EntityLockGranted":
			if len(calls) > 0 {
				list[calls[0]].to = e.Timestamp
				calls = calls[1:]
			}
		default:
			if e.ScheduledTime != nil {
				list = append(list, period{*e.ScheduledTime, e.Timestamp})
			}
		}
	}
	return list
}

// leastWait is the shortest wait for an event that is shown: a workflow that begins to wait after the event came has
// not waited.
const leastWait = time.Millisecond

// timeline places the steps of a history between its first and its last one, or now while the workflow runs, and adds
// the times in which it waited. A history has no entry for the beginning of a wait for an event: the workflow waits
// from its last step before the event, if nothing else was under way.
func timeline(state workflowState, now time.Time) []timelineRow {
	events := state.HistoryEvents
	if len(events) == 0 {
		return nil
	}
	first, last := events[0].Timestamp, events[len(events)-1].Timestamp
	over := state.Done()
	if !over && now.After(last) {
		last = now
	}
	whole := last.Sub(first)
	fired := map[time.Time]time.Time{} // when timers fired, by when they were to
	for _, e := range events {
		if e.EventType == "TimerFired" && e.FireAt != nil {
			fired[e.FireAt.UTC()] = e.Timestamp
		}
	}
	under := busy(events)
	idle := func(from, to time.Time) bool {
		for _, s := range under {
			if s.overlaps(from, to) {
				return false
			}
		}
		return to.Sub(from) >= leastWait
	}
	var rows []timelineRow
	wait := func(what string, from, to time.Time, open bool) timelineRow {
		return timelineRow{Waits: what, After: max(0, from.Sub(first)), Took: to.Sub(from), Open: open,
			workflowEvent: workflowEvent{Timestamp: from}, Bar: chart.Place(from.Sub(first), to.Sub(from), whole)}
	}
	before := first // the last step after which the workflow could wait
	behind := 0     // the place of its row, plus 1: a wait stands where it began
	timers := 0     // that the workflow waits for now
	for _, e := range events {
		row := timelineRow{workflowEvent: e, After: max(0, e.Timestamp.Sub(first))}
		began := e.Timestamp
		switch {
		case e.EventType == "TimerCreated" && e.FireAt != nil:
			at, done := fired[e.FireAt.UTC()]
			row.Due, row.Idle = max(0, e.FireAt.Sub(first)), over && !done
			if !row.Idle {
				if !done {
					at = last
					timers++
				}
				row.Waits, row.Open, row.Took = "a timer", !done, max(0, at.Sub(e.Timestamp))
			}
		case e.EventType == "EventRaised" && idle(before, e.Timestamp):
			rows = slices.Insert(rows, behind, wait(e.Name, before, e.Timestamp, false))
		case e.ScheduledTime != nil:
			began = *e.ScheduledTime
			row.Took = e.Timestamp.Sub(began)
		case e.EventType == "TaskScheduled", e.EventType == "SubOrchestrationInstanceCreated":
			if !over {
				row.Took, row.Open = max(0, last.Sub(e.Timestamp)), true
			}
		}
		row.Bar = chart.Place(began.Sub(first), row.Took, whole)
		rows = append(rows, row)
		if e.EventType != "ExecutionSuspended" && e.EventType != "ExecutionResumed" {
			before, behind = e.Timestamp, len(rows)
		}
	}
	if state.RuntimeStatus == "Running" && timers == 0 && idle(before, last) {
		rows = slices.Insert(rows, behind, wait("an event", before, last, true))
	}
	return rows[max(0, len(rows)-shownSteps):]
}
