package server

import (
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lazuli-storage/lazuli/internal/nats/natsserver"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// A node that knows an old state of the conversion must not delete what the cluster has got since.
func TestConversionDeletesNothingAfterAnOldState(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	nats := check.Must(natsserver.Start(natsserver.Config{}))(t)
	defer nats.Close()
	js := check.Must(jetstream.New(nats.Conn()))(t)
	c := conversion{nats: nats, js: js}

	begun := check.Must(c.begin(ctx, "", 0))(t)
	check.Must(js.CreateStream(ctx, jetstream.StreamConfig{Name: "data", Subjects: []string{"data"}}))(t)
	if again := check.Must(c.begin(ctx, conversionBegun, begun))(t); again <= begun {
		t.Errorf("the second attempt has message %d, the first one %d", again, begun)
	}
	if names := check.Must(nats.StreamNames(ctx))(t); len(names) != 1 {
		t.Errorf("after the second attempt there are streams %q, want only that of the conversion", names)
	}

	state, seq, err := c.state(ctx)
	if err != nil || state != conversionBegun {
		t.Fatalf("the conversion is %q, %v", state, err)
	}
	check.Must(js.CreateStream(ctx, jetstream.StreamConfig{Name: "data", Subjects: []string{"data"}}))(t)
	check.Must(c.note(ctx, conversionDone, seq))(t)
	if _, err := c.begin(ctx, state, seq); err == nil {
		t.Error("a node with the state before the last one begins again")
	}
	if names := check.Must(nats.StreamNames(ctx))(t); len(names) != 2 {
		t.Errorf("there are streams %q, want that of the data as well", names)
	}
}
