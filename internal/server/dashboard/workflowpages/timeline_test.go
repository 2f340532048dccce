package workflowpages

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// What a workflow waits for is a bar: from its last step to the event, or to the time at which the timer fired. While
// an activity is under way it is not the event that it waits for.
func TestWaitsInTimeline(t *testing.T) {
	t.Parallel()
	begin := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	at := func(seconds float64) time.Time { return begin.Add(time.Duration(seconds * float64(time.Second))) }
	step := func(kind, name string, seconds float64, scheduled ...float64) workflowEvent {
		e := workflowEvent{EventType: kind, Timestamp: at(seconds)}
		if kind == "EventRaised" {
			e.Name = name
		} else {
			e.FunctionName = name
		}
		if len(scheduled) > 0 {
			when := at(scheduled[0])
			if kind == "TimerCreated" || kind == "TimerFired" {
				e.FireAt = &when
			} else {
				e.ScheduledTime = &when
			}
		}
		return e
	}
	started := step("ExecutionStarted", "order", 0)
	for name, c := range map[string]struct {
		status string
		events []workflowEvent
		now    float64
		want   []string
	}{
		"an event": {"Completed", []workflowEvent{started, step("TaskCompleted", "reserve", 1, 0),
			step("EventRaised", "approved", 8.5), step("ExecutionCompleted", "", 8.5)}, 100, []string{
			"0s started 0s 0+6", "1s activity done 1s 0+117", "1s waited for approved 7.5s 117+882",
			"8.5s event received 0s 994+6", "8.5s ended 0s 994+6"}},
		"an event while an activity runs": {"Running", []workflowEvent{started, step("EventRaised", "approved", 2),
			step("TaskCompleted", "reserve", 4, 0)}, 4, []string{
			"0s started 0s 0+6", "2s event received 0s 500+6", "4s activity done 4s 0+1000"}},
		"an event that nothing has sent yet": {"Running", []workflowEvent{started, step("TaskCompleted", "reserve", 1, 0)},
			5, []string{"0s started 0s 0+6", "1s activity done 1s 0+200", "1s waits for an event 4s… 200+800"}},
		"a timer": {"Completed", []workflowEvent{started, step("TimerCreated", "", 1, 3), step("TimerFired", "", 3.5, 3),
			step("ExecutionCompleted", "", 4)}, 100, []string{"0s started 0s 0+6", "1s waited for a timer 2.5s 250+625",
			"3.5s timer fired 0s 875+6", "4s ended 0s 994+6"}},
		"a timer that was not needed": {"Completed", []workflowEvent{started, step("TimerCreated", "", 1, 60),
			step("EventRaised", "approved", 4), step("ExecutionCompleted", "", 4)}, 100, []string{"0s started 0s 0+6",
			"1s timer set 0s 250+6", "1s waited for approved 3s 250+750", "4s event received 0s 994+6", "4s ended 0s 994+6"}},
		"a timer that is set": {"Running", []workflowEvent{started, step("TimerCreated", "", 1, 60)}, 11, []string{
			"0s started 0s 0+6", "1s waits for a timer 10s… 90+909"}},
		"an activity that runs": {"Running", []workflowEvent{started, step("TaskScheduled", "", 1)}, 11, []string{
			"0s started 0s 0+6", "1s activity runs 10s… 90+909"}},
		"an entity": {"Running", []workflowEvent{started, step("EntityOperationCalled", "", 1),
			step("EventRaised", "approved", 2), step("EntityOperationCompleted", "", 3), step("EventRaised", "again", 5)}, 5,
			[]string{"0s started 0s 0+6", "1s entity called 0s 200+6", "2s event received 0s 400+6",
				"3s entity answered 0s 600+6", "3s waited for again 2s 600+400", "5s event received 0s 994+6"}},
		"suspended and resumed": {"Completed", []workflowEvent{started, step("ExecutionSuspended", "", 1),
			step("ExecutionResumed", "", 2), step("EventRaised", "approved", 4)}, 9, []string{"0s started 0s 0+6",
			"0s waited for approved 4s 0+1000", "1s suspended 0s 250+6", "2s resumed 0s 500+6", "4s event received 0s 994+6"}},
		"suspended": {"Suspended", []workflowEvent{started, step("ExecutionSuspended", "", 1)}, 10, []string{
			"0s started 0s 0+6", "1s suspended 0s 100+6"}},
	} {
		var got []string
		for _, r := range timeline(workflowState{RuntimeStatus: c.status, HistoryEvents: c.events}, at(c.now)) {
			open := map[bool]string{true: "…"}[r.Open]
			got = append(got, fmt.Sprintf("%v %s %v%s %d+%d", r.After, r.What(), r.Took, open, r.From, r.Width))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s:\n%q, want\n%q", name, got, c.want)
		}
	}
	if rows := timeline(workflowState{}, begin); rows != nil {
		t.Errorf("%v", rows)
	}
}
