package adminhttp

import (
	"errors"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/workers"
	"github.com/lazuli-storage/lazuli/workers/status"
)

// A report has the stack of a panic.
func TestReportHasTheStack(t *testing.T) {
	t.Parallel()
	at := time.Unix(1, 0)
	panicked := status.Function{LastError: &status.LastError{At: at,
		Err: &workers.PanicError{Value: "out of reach", Stack: []byte("goroutine 7")}}}
	if r := newFunction("host", panicked); r.LastStack != "goroutine 7" || r.LastError == "" {
		t.Errorf("%+v", r)
	}
	failed := status.Function{PerSecond: 2, LastError: &status.LastError{At: at, Err: errors.New("no stock")}}
	if r := newFunction("host", failed); r.LastStack != "" || r.PerSecond != 2 {
		t.Errorf("%+v", r)
	}
}
