package natsserver

import (
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// The tags of a running server are what it says of itself from then on, and messages that are under way arrive. It also
// fails when the library renames or removes what tags.go calls.
func TestTagsOfARunningServer(t *testing.T) {
	t.Parallel()
	s := start(t, Config{})
	got := make(chan *nats.Msg, 1000)
	_, err := s.Conn().ChanSubscribe("x", got)
	check.OK(t, err)
	sent := 0
	for _, tags := range [][]string{{"shard-01"}, {"shard-01", "shard-02"}, {"shard-02"}} {
		for range 100 {
			check.OK(t, s.Conn().Publish("x", nil))
			sent++
		}
		s.SetTags(tags)
		v, err := s.Running().Varz(new(server.VarzOptions))
		check.OK(t, err)
		if !slices.Equal(v.Tags, tags) {
			t.Errorf("tags %v, want %v", v.Tags, tags)
		}
	}
	for range sent {
		select {
		case <-got:
		case <-time.After(time.Minute):
			t.Fatal("a message is lost")
		}
	}
}
