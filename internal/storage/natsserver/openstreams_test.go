package natsserver

import (
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"
)

// A stream counts until JetStream has closed its file; streams that are open stay usable when others are refused.
func TestOpenStreamsAreLimited(t *testing.T) {
	t.Parallel()
	const after = time.Minute
	now := time.Unix(1e9, 0)
	o := newOpenStreams(3, after, slog.New(slog.DiscardHandler))
	o.now = func() time.Time { return now }
	for i := range 3 {
		if err := o.use(fmt.Sprint("s", i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := o.use("s3"); !errors.Is(err, ErrBusy) {
		t.Errorf("a fourth stream: %v, want ErrBusy", err)
	}
	now = now.Add(after)
	if err := o.use("s0"); err != nil {
		t.Errorf("a stream that is open: %v", err)
	}
	if err := o.use("s3"); !errors.Is(err, ErrBusy) {
		t.Errorf("while the files may be open: %v, want ErrBusy", err)
	}
	now = now.Add(time.Second)
	if err := o.use("s3"); err != nil {
		t.Errorf("when the others are closed: %v", err)
	}
	now = now.Add(after / 2)
	_ = o.use("s4")
	if err := o.use("s5"); !errors.Is(err, ErrBusy) {
		t.Errorf("with s0, s3 and s4 open: %v, want ErrBusy", err)
	}
	o.forget("s4")
	if err := o.use("s5"); err != nil {
		t.Errorf("after a deletion: %v", err)
	}
}
