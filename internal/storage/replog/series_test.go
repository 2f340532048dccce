package replog

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// A piece of a snapshot whose acknowledgement is lost fails the snapshot, which is tried again. Without a limit nothing
// ended the wait but the end of the node, and the log grew from then on.
func TestLostAcknowledgementOfASeries(t *testing.T) {
	t.Parallel()
	conn := single(t)
	// What a stream looks like whose leader is deposed before it answers.
	check.Must(conn.Subscribe("mute", func(*nats.Msg) {}))(t)
	js := check.Must(newJetStream(conn))(t)
	js.pieceTimeout = 10 * time.Millisecond
	send := check.Must(js.series(2))(t)
	wait := check.Must(send(nats.NewMsg("mute")))(t)
	if _, err := wait(t.Context(), context.Background()); !errors.Is(err, ErrUnavailable) {
		t.Errorf("an acknowledgement that does not come: %v, want ErrUnavailable", err)
	}
}
