package story

import (
	"encoding/xml"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"
)

// Requests that are under way at the same time are in one order, whichever of them came first.
func TestByCause(t *testing.T) {
	t.Parallel()
	event := func(from, to, text, cause, message string) Event {
		return Event{From: from, To: to, Text: text, cause: cause, message: message}
	}
	put := event(Program, "queue", "puts a message", "", "")
	kill := Event{From: "worker 1", Text: "is KILLED", Kill: true}
	first := event("worker 1", "queue", receivesText, "a", "a")
	a := []Event{event("worker 2", "queue", receivesText, "a", "a"),
		event("worker 2", "other", "puts a message", "a", "b"),
		event("worker 2", "queue", deletesText, "a", "a")}
	b := []Event{event("worker 2", "other", receivesText, "b", "b"), event("worker 2", "table", "writes", "b", ""),
		event("worker 2", "table", "writes", "b", ""), event("worker 2", "other", deletesText, "b", "b")}
	sweep := event("worker 2", "table", "deletes", "", "")
	want := "a a a b b b  "
	for _, events := range [][]Event{
		slices.Concat([]Event{put, first, kill}, a, b, []Event{sweep}),
		{put, first, kill, sweep, a[0], a[1], b[0], b[1], a[2], b[2], b[3]},
		{put, first, kill, a[0], a[1], b[0], sweep, b[1], b[2], b[3], a[2]},
	} {
		s := Story{Events: events}
		got := ""
		for _, e := range s.byCause()[3:] {
			got += e.cause + " "
		}
		if got != want || s.byCause()[4].message != "b" || s.byCause()[7].Times != 1 {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// Drawings are well-formed, escape what they quote, and pages have no scripts and load nothing.
func TestStoryPage(t *testing.T) {
	s := &Story{Title: "a <b> & c", Item: "AK/1", End: "lost", Events: []Event{
		{From: Program, To: "queue", Text: "puts a message"},
		{At: time.Second, From: "worker 1", To: "Current", Text: `reads "x" & <y>`},
		{From: "worker 1", Text: "is KILLED", Kill: true}, {From: Harness, Text: "half", State: true}}}
	d := xml.NewDecoder(strings.NewReader(s.SVG(true)))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("%v\n%s", err, s.SVG(true))
		}
	}
	page := Page("archive", []*Story{s})
	if strings.Contains(page, "<script") || strings.Contains(page, "src=") || strings.Contains(page, "<b>") ||
		!strings.Contains(page, "1.000 s") || !strings.Contains(page, "&lt;y&gt;") {
		t.Error(page)
	}
	if a, b := s.SVG(false), strings.Contains(s.SVG(false), "1.000 s"); b || a != s.SVG(false) {
		t.Error("a drawing without times has times")
	}
}
