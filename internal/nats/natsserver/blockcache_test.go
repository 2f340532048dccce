package natsserver

import (
	"reflect"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// Blocks of a stream stay in memory for a short time while the stream is copied from another node, and for JetStream's
// time before and afterwards. If this fails after an update of nats-server, its fields have moved: see blockcache.go.
func TestBlockCachesOfCopiedStreams(t *testing.T) {
	t.Parallel()
	s := check.Must(Start(Config{Dir: t.TempDir()}))(t)
	defer s.Close()
	js := check.Must(jetstream.New(s.Conn()))(t)
	check.Must(js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "a", Subjects: []string{"a"}}))(t)
	check.Must(js.CreateStream(t.Context(),
		jetstream.StreamConfig{Name: "b", Subjects: []string{"b"}, Storage: jetstream.MemoryStorage}))(t)
	stream := func(name string) reflect.Value {
		account := reflect.ValueOf(s.Running().GlobalAccount()).Elem()
		return account.FieldByName("js").Elem().FieldByName("streams").MapIndex(reflect.ValueOf(name)).Elem()
	}
	store := stream("a").FieldByName("store").Elem().Elem()
	lock := mutexOf(store)
	blockTime := func() time.Duration {
		lock.RLock()
		defer lock.RUnlock()
		return *fieldOf[time.Duration](store.FieldByName("fcfg").FieldByName("CacheExpire"))
	}
	var c BlockCaches
	for _, step := range []struct {
		copied bool
		want   time.Duration
	}{{false, usualBlockTime}, {true, copiedBlockTime}, {true, copiedBlockTime}, {false, usualBlockTime}} {
		for _, name := range []string{"a", "b"} {
			fieldOf[atomic.Bool](stream(name).FieldByName("catchup")).Store(step.copied)
		}
		check.OK(t, c.Adjust(s.Running()))
		if got := blockTime(); got != step.want {
			t.Errorf("copied %v: blocks stay for %v, want %v", step.copied, got, step.want)
		}
	}
	if len(c.copied) != 0 {
		t.Errorf("%d streams count as copied at the end", len(c.copied))
	}
}
