package demo

import (
	"errors"
	"testing"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo/outbox"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo/rig"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/testaccount"
)

func init() {
	otherVariants["outbox"] = outbox.RunWorker
}

// Workers are killed at every step, and frozen: each row has its message in the end.
func TestOutbox(t *testing.T) {
	t.Parallel()
	c := rig.Config{ConnectionString: testaccount.Open(t).ConnectionString, Worker: variantWorker("outbox"),
		Records: check.Size(70, 180), Pairs: true, SamplePairs: sample(), Seed: seed(t), Patience: patience}
	report, err := outbox.Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	half := 0
	for _, row := range report.Rows {
		for _, crash := range row.Crashes {
			half += crash.Both
		}
	}
	if half == 0 {
		t.Error("no kill left a message to deliver: they prove nothing")
	}
}

func TestWrongOutboxIsCaught(t *testing.T) {
	t.Parallel()
	c := rig.Config{ConnectionString: testaccount.Open(t).ConnectionString,
		Worker: variantWorker("outbox/row-then-message"),
		Points: []string{"outbox/after-commit"}, Records: 60, Seed: 1, Patience: patience, StuckAfter: stuckAfter,
		Plain: true}
	if _, err := outbox.Run(t.Context(), c); !errors.Is(err, rig.ErrInvariant) {
		t.Fatalf("got %v, want %v", err, rig.ErrInvariant)
	}
}
