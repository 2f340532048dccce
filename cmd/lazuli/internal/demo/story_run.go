package demo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// errNotReached is the error of a story whose item does not come to the step of the kill.
var errNotReached = errors.New("the item does not come to the step")

// storyItems is the number of items that are tried until one comes to the step: the kinds of changes, and one more.
const storyItems = 4

// storyPoints are the steps at which a story kills if it may choose: in the middle of what the pattern is about.
var storyPoints = []string{"archive/after-copy", "table-index/before-read", "large-entity/after-blob",
	"outbox/after-commit", "jobs/after-insert", "log-storage/after-write", "lake-commit/after-task"}

// storyPoint chooses the step of a pattern: one of storyPoints, else the first after an effect.
func storyPoint(points []string) string {
	for _, want := range []func(string) bool{
		func(p string) bool { return slices.Contains(storyPoints, p) },
		func(p string) bool {
			return strings.Contains(p, "/after-") && !strings.HasPrefix(p, "search-index/") && !strings.HasPrefix(p, "workers/")
		},
		func(p string) bool { return p == "workers/before-delete-message" },
	} {
		if i := slices.IndexFunc(points, want); i >= 0 {
			return points[i]
		}
	}
	return points[0]
}

// tell runs the story of an item: the one that the configuration names, or the next one that comes to the step.
func (r *run) tell(ctx context.Context) error {
	first := r.Story - 1
	if first >= len(r.work) {
		return fmt.Errorf("there is no item %d to follow: the run has %d; --records says how many", r.Story, len(r.work))
	}
	// Not each item comes to each point: an insert never deletes a blob. A few items are tried, and then it is the point
	// that is wrong.
	for _, key := range r.work[first:min(first+storyItems, len(r.work))] {
		r.teller.follow(key.String())
		plan := roundPlan{keys: []entityKey{key}}
		if len(r.Points) > 0 {
			plan.kills = []kill{{r.Points[0], 1}}
		}
		row, err := r.round(ctx, "1/1", plan)
		if errors.Is(err, errNotReached) {
			r.say.line("%s does not come to %s; the next item is followed", key, r.Points[0])
			continue
		}
		r.report.Rows = []Row{row}
		s := r.teller.story
		// Read after the round: what the item has become, not what the worker said.
		s.End, s.Well = r.placeOf(row.end, key), row.well()
		r.report.Story = &s
		return err
	}
	return fmt.Errorf("%w %s: name another one with --fault, or another item", errNotReached, r.Points[0])
}

// placeOf says where an item is.
func (r *run) placeOf(c census, key entityKey) string {
	w := r.report.words
	for _, at := range []struct {
		keys        []entityKey
		word, means string
	}{{c.Lost, "lost", w.lost}, {c.Both, "half", w.half}, {c.Moved, "done", w.done}, {c.Kept, "not yet", w.notYet},
		{c.Changed, "changed", w.changed}} {
		if slices.Contains(at.keys, key) {
			text := at.word + ", " + at.means
			if len(c.Orphans) > 0 {
				text += fmt.Sprintf("; and %d orphaned: %s", len(c.Orphans), w.orphaned)
			}
			return text
		}
	}
	return "not counted"
}

// noteAsked notes that the message of the item was put.
func (r *run) noteAsked() {
	if r.teller != nil {
		r.teller.note(Event{From: storyProgram, To: "queue", Text: "puts a message that asks for the item",
			kind: laneKinds["queue"]})
	}
}

// noteKill notes the death of a worker, and noteState what was counted then.
func (r *run) noteKill(k kill) {
	if r.teller != nil {
		r.teller.note(Event{From: r.teller.worker(), Text: "is KILLED at " + k.point, Kill: true})
	}
}

func (r *run) noteState(c census, keys []entityKey, messages int) {
	if r.teller == nil {
		return
	}
	hidden := "no message is left: nothing reminds of the rest"
	if messages > 0 {
		hidden = fmt.Sprintf("the message is hidden until its lease of %v ends", r.Lease.Round(time.Second))
	}
	r.teller.note(Event{From: storyHarness, State: true, Text: r.placeOf(c, keys[0]) + "; " + hidden})
}
