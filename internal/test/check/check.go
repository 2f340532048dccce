// Package check has assertions for tests of all packages: about errors, about answers of the Azure SDKs, and about
// effects of other goroutines.
package check

import (
	"errors"
	"fmt"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
)

// T is a test or benchmark, or a test of pgregory.net/rapid, which prints the steps that led to a failure.
type T interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// OK ends the test if err is not nil.
func OK(t T, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%v", err)
	}
}

// Must returns a function that returns v, or ends the test if err is not nil: check.Must(os.Open(name))(t).
func Must[V any](v V, err error) func(T) V {
	return func(t T) V {
		t.Helper()
		OK(t, err)
		return v
	}
}

// Code fails the test unless err is the SDK's error for an answer with this status and error code, written as "404
// TableNotFound".
func Code(t T, err error, want string) {
	t.Helper()
	var e *azcore.ResponseError
	if !errors.As(err, &e) {
		t.Errorf("got %v, want %s", err, want)
		return
	}
	if got := fmt.Sprint(e.StatusCode, " ", e.ErrorCode); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// Patience is the time limit of [Eventually]: much longer than needed, for busy machines. Only failures take that long.
const Patience = 3 * time.Minute

// Eventually waits until the condition is true. It ends the test after [Patience]; the message is formatted by
// fmt.Sprintf.
func Eventually(t T, condition func() bool, format string, args ...any) {
	t.Helper()
	deadline := time.Now().Add(Patience)
	for pause := 100 * time.Microsecond; !condition(); pause = min(2*pause, 20*time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited %v: %s", Patience, fmt.Sprintf(format, args...))
		}
		time.Sleep(pause)
	}
}
