package wire

import (
	"errors"
	"fmt"
	"testing"
)

// A row is found in every tree that has its error, and an error of the protocol stays.
func TestAnswers(t *testing.T) {
	t.Parallel()
	missing, defect := errors.New("missing"), errors.New("defect")
	answers := Answers{missing: ErrResourceNotFound}
	for name, c := range map[string]struct{ err, want error }{
		"nothing":      {nil, nil},
		"itself":       {missing, ErrResourceNotFound},
		"wrapped":      {fmt.Errorf("read: %w", missing), ErrResourceNotFound},
		"joined":       {errors.Join(defect, missing), ErrResourceNotFound},
		"two wrapped":  {fmt.Errorf("%w: %w", missing, defect), ErrResourceNotFound},
		"of the wire":  {fmt.Errorf("%w", ErrServerBusy), ErrServerBusy},
		"without one":  {defect, defect},
		"incomparable": {incomparable{missing}, ErrResourceNotFound},
	} {
		if got := answers.Of(c.err); got != c.want {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}

// incomparable cannot be the key of a map.
type incomparable []error

func (incomparable) Error() string     { return "incomparable" }
func (e incomparable) Unwrap() []error { return e }
