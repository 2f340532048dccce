package demo

import (
	"errors"
	"testing"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo/outbox"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo/rig"
	"github.com/lazuli-storage/lazuli/internal/test/testaccount"
)

func init() {
	otherVariants["jobs"] = outbox.RunJobsWorker
}

// Workers are killed at the steps: each item has one job in the end. `lazuli demo jobs` also freezes one.
func TestJobs(t *testing.T) {
	t.Parallel()
	c := rig.Config{ConnectionString: testaccount.Open(t).ConnectionString, Worker: variantWorker("jobs"), Records: 60,
		Points: []string{"jobs/after-put", "jobs/after-insert", "jobs/after-start", "jobs/after-end"},
		Seed:   seed(t), Patience: patience}
	if _, err := outbox.RunJobs(t.Context(), c); err != nil {
		t.Fatal(err)
	}
}

func TestJobsThatAreNotUniqueAreCaught(t *testing.T) {
	t.Parallel()
	c := rig.Config{ConnectionString: testaccount.Open(t).ConnectionString, Worker: variantWorker("jobs/no-key"),
		Points: []string{"jobs/after-show"}, Records: 30, Seed: 1, Patience: patience, StuckAfter: stuckAfter, Plain: true}
	if _, err := outbox.RunJobs(t.Context(), c); !errors.Is(err, rig.ErrInvariant) {
		t.Fatalf("got %v, want %v", err, rig.ErrInvariant)
	}
}
