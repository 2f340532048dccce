package server

import (
	"math"
	"testing"
)

func TestMissingContentIsNotZeroWhileItIsUnknown(t *testing.T) {
	t.Parallel()
	if v := missingContent(0, false); !math.IsNaN(v) {
		t.Errorf("unknown: %v, want NaN", v)
	}
	if v := missingContent(5, true); v != 5 {
		t.Errorf("5 bytes: %v", v)
	}
}
