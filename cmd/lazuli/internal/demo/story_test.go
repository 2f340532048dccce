package demo

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo/eventual"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo/lesson"
	"github.com/lazuli-storage/lazuli/internal/test/testaccount"
)

// A story has what happens to one item, in order, and its drawing is well-formed.
func TestStory(t *testing.T) {
	t.Parallel()
	c := newConfig(testaccount.Open(t), "correct")
	c.Story, c.Records = 1, lesson.MistakeItems
	report, err := eventual.Run(t.Context(), c)
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
