package calls

import (
	"errors"
	"testing"
	"time"
)

func TestMarksOfNilAreNil(t *testing.T) {
	t.Parallel()
	failure := errors.New("failure")
	if Permanent(nil) != nil || RetryAfter(nil, time.Second) != nil {
		t.Error("marking no error made one")
	}
	if !errors.Is(Permanent(failure), failure) || !errors.Is(RetryAfter(failure, 0), failure) {
		t.Error("a mark hides the error that it marks")
	}
}
