package workers

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/test/testlog"
)

func TestRecover(t *testing.T) {
	t.Parallel()
	log := &testlog.Buffer{}
	before := slog.Default()
	slog.SetDefault(slog.New(NewLogHandler(slog.NewTextHandler(log, nil))))
	defer slog.SetDefault(before)
	ctx := NewContext(t.Context(), &InvocationContext{InvocationID: "seven"})
	func() {
		defer Recover(ctx)
		panic("one")
	}()
	to := func(ctx context.Context, first error, panics bool) (err error) {
		defer RecoverTo(ctx, &err)
		err = first
		if panics {
			panic(errBoom)
		}
		return err
	}
	var p *PanicError
	if err := to(ctx, nil, true); !errors.As(err, &p) || !errors.Is(err, errBoom) ||
		!strings.Contains(string(p.Stack), "TestRecover") {
		t.Errorf("got %v", err)
	}
	if err := to(ctx, context.Canceled, true); err != context.Canceled {
		t.Errorf("the first error is lost: %v", err)
	}
	if err := to(ctx, nil, false); err != nil {
		t.Error(err)
	}
	if text := log.String(); strings.Count(text, "panicked") != 3 || strings.Count(text, "invocation_id=seven") != 3 ||
		!strings.Contains(text, "panic=one") || !strings.Contains(text, "recover_test.go") {
		t.Errorf("log:\n%s", text)
	}
}
