package durable

import (
	"context"
	"errors"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/durable/entitybatch"
	"github.com/lazuli-storage/lazuli/workers"
)

// A batch of code elsewhere fails once if its error is permanent, and keeps its state; otherwise it is run again.
func TestExternalEntityErrors(t *testing.T) {
	state := "7"
	batch := &entitybatch.Batch{ID: "@counter@a", State: &state, Operations: []entitybatch.Operation{{Name: "add"}}}
	broken := errors.New("broken")
	for _, test := range []struct {
		name       string
		err        error
		kind, text string // of the failure; empty if the batch is run again
	}{
		{"another attempt may succeed", broken, "", ""},
		{"permanent", workers.Permanent(broken), "EntityFailed", "broken"},
		{"permanent, with details", workers.Permanent(&Failure{Type: "Overdrawn", Message: "no money"}), "Overdrawn",
			"no money"},
	} {
		t.Run(test.name, func(t *testing.T) {
			e := externalEntity(func(context.Context, *entitybatch.Batch) (*entitybatch.Result, error) { return nil, test.err })
			r, err := e(t.Context(), batch)
			if test.kind == "" {
				if !errors.Is(err, broken) || r != nil {
					t.Fatalf("%+v, %v, want the error", r, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if r.State != batch.State || r.Failure.GetErrorType() != test.kind || r.Failure.GetErrorMessage() != test.text {
				t.Errorf("state %v, failure %v, want that of a batch with %s: %s", r.State, r.Failure, test.kind, test.text)
			}
		})
	}
}
