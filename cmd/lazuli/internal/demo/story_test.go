package demo

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lazuli-storage/lazuli/internal/test/testaccount"
)

// A story has what happens to one item, in order, and its drawing is well-formed.
func TestStory(t *testing.T) {
	t.Parallel()
	c := newConfig(testaccount.Open(t), "correct")
	c.Story, c.Records = 1, mistakeItems
	report, err := Archive(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range report.Story.Events {
		text, _, _ := strings.Cut(e.Text, ";")
		got = append(got, e.From+" "+text+" "+e.To)
	}
	want := []string{
		"program puts a message that asks for the item queue",
		"worker 1 receives the message, attempt 1 queue",
		"worker 1 reads the entity Current", "worker 1 writes the entity Archive",
		"worker 1 is KILLED at archive/after-copy ",
		"census half, in both tables ",
		"worker 2 receives the message, attempt 2 queue",
		"worker 2 reads the entity Current", "worker 2 writes the entity Archive", "worker 2 deletes the entity Current",
		"worker 2 deletes the message queue",
	}
	if diff := cmp.Diff(want, got); diff != "" || !report.Story.Well {
		t.Errorf("well %v; want(-) got(+):\n%s", report.Story.Well, diff)
	}
}

// Drawings are well-formed, escape what they quote, and pages have no scripts and load nothing.
func TestStoryPage(t *testing.T) {
	s := &Story{Title: "a <b> & c", Item: "AK/1", End: "lost", Events: []Event{
		{From: storyProgram, To: "queue", Text: "puts a message"},
		{At: time.Second, From: "worker 1", To: "Current", Text: `reads "x" & <y>`},
		{From: "worker 1", Text: "is KILLED", Kill: true}, {From: storyHarness, Text: "half", State: true}}}
	d := xml.NewDecoder(strings.NewReader(s.SVG(true)))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("%v\n%s", err, s.SVG(true))
		}
	}
	page := StoryPage("archive", []*Story{s})
	if strings.Contains(page, "<script") || strings.Contains(page, "src=") || strings.Contains(page, "<b>") ||
		!strings.Contains(page, "1.000 s") || !strings.Contains(page, "&lt;y&gt;") {
		t.Error(page)
	}
	if a, b := s.SVG(false), strings.Contains(s.SVG(false), "1.000 s"); b || a != s.SVG(false) {
		t.Error("a drawing without times has times")
	}
}
