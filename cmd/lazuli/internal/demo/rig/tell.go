package rig

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo/story"
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
func (r *Run) tell(ctx context.Context) error {
	first := r.Story - 1
	if first >= len(r.Work) {
		return fmt.Errorf("there is no item %d to follow: the run has %d; --records says how many", r.Story, len(r.Work))
	}
	// Not each item comes to each point: an insert never deletes a blob. A few items are tried, and then it is the point
	// that is wrong.
	for _, key := range r.Work[first:min(first+storyItems, len(r.Work))] {
		r.teller.Follow(key.String())
		plan := roundPlan{Keys: []Key{key}}
		if len(r.Points) > 0 {
			plan.kills = []Kill{{r.Points[0], 1}}
		}
		row, err := r.round(ctx, "1/1", plan)
		if errors.Is(err, errNotReached) {
			r.Say.Line("%s does not come to %s; the next item is followed", key, r.Points[0])
			continue
		}
		r.Report.Rows = []Row{row}
		s := r.teller.Story
		// Read after the round: what the item has become, not what the worker said.
		s.End, s.Well = r.placeOf(row.End, key), row.well()
		r.Report.Story = &s
		return err
	}
	return fmt.Errorf("%w %s: name another one with --fault, or another item", errNotReached, r.Points[0])
}

// placeOf says where an item is.
func (r *Run) placeOf(c Census, key Key) string {
	w := r.Report.Words
	for _, at := range []struct {
		keys        []Key
		word, means string
	}{{c.Lost, "lost", w.Lost}, {c.Both, "half", w.Half}, {c.Moved, "done", w.Done}, {c.Kept, "not yet", w.NotYet},
		{c.Changed, "changed", w.Changed}} {
		if slices.Contains(at.keys, key) {
			text := at.word + ", " + at.means
			if len(c.Orphans) > 0 {
				text += fmt.Sprintf("; and %d orphaned: %s", len(c.Orphans), w.Orphaned)
			}
			return text
		}
	}
	return "not counted"
}

// noteAsked notes that the message of the item was put.
func (r *Run) noteAsked() {
	if r.teller != nil {
		r.teller.Note(story.Event{From: story.Program, To: "queue", Text: "puts a message that asks for the item",
			Kind: story.Kinds["queue"]})
	}
}

// noteKill notes the death of a worker, and noteState what was counted then.
func (r *Run) noteKill(k Kill) {
	if r.teller != nil {
		r.teller.Note(story.Event{From: r.teller.Worker(), Text: "is KILLED at " + k.Point, Kill: true})
	}
}

func (r *Run) noteState(c Census, keys []Key, messages int) {
	if r.teller == nil {
		return
	}
	hidden := "no message is left: nothing reminds of the rest"
	if messages > 0 {
		hidden = fmt.Sprintf("the message is hidden until its lease of %v ends", r.Lease.Round(time.Second))
	}
	r.teller.Note(story.Event{From: story.Harness, State: true, Text: r.placeOf(c, keys[0]) + "; " + hidden})
}
