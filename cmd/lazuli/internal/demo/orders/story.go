package orders

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo/rig"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo/story"
	"github.com/lazuli-storage/lazuli/internal/lazyregexp"
)

// sagaStoryPoint is the step of a story's kill if it may choose, and storyHit the hit: the payment is made, and nothing
// says so yet.
const (
	sagaStoryPoint = "durable/before-activity-result"
	storyHit       = 2
)

// checkStory checks what the story is to be, and chooses the step of the kill.
func (c *Config) checkStory() error {
	switch {
	case c.Story == 0:
		return nil
	case c.Story > c.Orders:
		return fmt.Errorf("there is no order %d to follow: the run has %d; --orders says how many", c.Story, c.Orders)
	case c.Points == nil || len(c.Points) > 1 && slices.Equal(c.Points, Points()):
		c.Points = []string{sagaStoryPoint}
	case len(c.Points) > 1 || slices.Contains(c.Points, rig.Frozen):
		return errors.New("a story has one kill, at one step")
	}
	return nil
}

// newTeller returns the storyteller of a saga. A workflow does one thing after another, so that the requests of an
// order come in the same order each time. Those of the engine are left out, but for its checkpoints. The engine that
// takes over sends the last step once more, and whether that is done before the first result comes is chance.
func newTeller(s Settings, id string) (*story.Teller, error) {
	t, err := story.NewTeller(s.ConnectionString, id, "with the pattern")
	if err != nil {
		return nil, err
	}
	t.Explain = s.explain
	return t, nil
}

// historyEvent matches the kind of an event that a checkpoint writes.
var historyEvent = lazyregexp.New(`"EventType":"([A-Za-z]+)"`)

// explain names the step of the order that a request belongs to.
func (s Settings) explain(x story.Exchange, to, text string) (string, string) {
	if text == "" {
		return "", ""
	}
	says := func(part string) bool { return bytes.Contains(x.Body, []byte(part)) }
	switch {
	case to == s.Hub+"History":
		var kinds []string
		for _, m := range historyEvent().FindAllSubmatch(x.Body, -1) {
			if kind := string(m[1]); kind != "OrchestratorStarted" { // it is in every checkpoint
				kinds = append(kinds, kind)
			}
		}
		if len(kinds) == 0 {
			return "", ""
		}
		return story.History, "notes " + strings.Join(kinds, ", ")
	case strings.HasPrefix(strings.ToLower(to), strings.ToLower(s.Hub)):
		return "", ""
	case to == s.Payments && says("refund"):
		return to, "refund: puts a message"
	case to == s.Payments:
		return to, "charge: puts a message"
	case to == s.Receipts && len(x.Body) == 0:
		return to, "withdraw: writes an empty blob"
	case to == s.Receipts:
		return to, "receipt: writes a blob"
	case to == s.Archive:
		return to, "copy: " + text
	case x.Method == http.MethodGet:
		return to, "copy: " + text
	case says("released"):
		return to, "release: marks the order as released"
	case says("archived"):
		return to, "close: marks the order as archived"
	}
	return to, "reserve: " + text
}

// noteKill notes the death of a worker, and what has taken effect by then.
func (r *run) noteKill(ctx context.Context, point string) error {
	r.teller.Note(story.Event{From: r.teller.Worker(), Text: "is KILLED at " + point, Kill: true})
	// What is read now goes into the drawing as state, since no request shows what a dead worker had done.
	id := r.teller.Item()
	orders, err := r.entities(ctx, r.settings.Orders)
	archived, err2 := r.entities(ctx, r.settings.Archive)
	receipts, err3 := r.receipts(ctx)
	if err := errors.Join(err, err2, err3, r.collectPayments(ctx)); err != nil {
		return err
	}
	var done []string
	for _, effect := range []struct {
		is   bool
		word string
	}{{orders[id], "reserved"}, {r.payments[id]["charge"], "charged"}, {receipts[id], "with a receipt"},
		{archived[id], "copied to the other table"}, {r.payments[id]["refund"], "refunded"}} {
		if effect.is {
			done = append(done, effect.word)
		}
	}
	text := "no effect yet"
	if len(done) > 0 {
		text = "half: " + strings.Join(done, ", ")
	}
	// The lesson of the drawing: effects exist that the history does not have yet, so the next worker repeats the step.
	r.teller.Note(story.Event{From: story.Harness, State: true, Text: text + "; the history does not have the last step"})
	if r.Step != nil {
		return r.Step(ctx, "another worker finishes the order")
	}
	return nil
}

// endStory completes the story, if there is one.
func (r *run) endStory(row *Row) {
	if r.teller == nil {
		return
	}
	s := r.teller.Story
	s.Well = len(row.Half) == 0
	switch {
	case row.Done > 0:
		s.End = "done: " + storyDone
	case row.Compensated > 0:
		s.End = "compensated: " + storyCompensated
	default:
		s.End = strings.Join(row.Half, "; ")
	}
	r.report.Story = &s
}
