package natsserver

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// Blocks of a stream are small, and stay in memory for a short time, from the creation of the stream on, and after a restart. If this fails after an update of nats-server, its fields have
// moved: see blocksize.go.
func TestBlocksAreSmall(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "nats")
	s := start(t, Config{Dir: dir, Relaxed: true})
	js := check.Must(jetstream.New(s.Conn()))(t)
	check.Must(js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "s", Subjects: []string{"s"}}))(t)
	s.LimitBlocks("s")
	s.LimitBlocks("other")
	fillBlocks(t, s, js, 2)
	s.Close()
	s = start(t, Config{Dir: dir, Relaxed: true})
	fillBlocks(t, s, check.Must(jetstream.New(s.Conn()))(t), 3)
}

// fillBlocks publishes until the stream has n blocks, and checks the size of the full ones.
func fillBlocks(t *testing.T, s *Server, js jetstream.JetStream, n int) {
	t.Helper()
	const record = 512 << 10
	block := func(i int) string { return filepath.Join(s.streamDir("s"), "msgs", fmt.Sprint(i, ".blk")) }
	for i := 0; ; i++ {
		if _, err := os.Stat(block(n)); err == nil {
			break
		}
		if i > 2*blockSize/record {
			t.Fatalf("no block %d after %d records of %d bytes", n, i, record)
		}
		check.Must(js.Publish(t.Context(), "s", make([]byte, record)))(t)
	}
	if size := check.Must(os.Stat(block(n - 1)))(t).Size(); size > blockSize || size < blockSize-2*record {
		t.Errorf("block %d has %d bytes, want just less than %d", n-1, size, blockSize)
	}
	if got := lastBlockTime(s, "s"); got != blockTime {
		t.Errorf("block %d stays in memory for %v, want %v", n, got, blockTime)
	}
}

// lastBlockTime returns for how long the last block of a stream stays in memory after its last use.
func lastBlockTime(s *Server, stream string) (d time.Duration) {
	chosenStreams(s.running(), func(all reflect.Value) []reflect.Value {
		store, _ := fileStoreOf(all.MapIndex(reflect.ValueOf(stream)).Elem())
		lock := mutexOf(store)
		lock.RLock()
		defer lock.RUnlock()
		d = *fieldOf[time.Duration](store.FieldByName("lmb").Elem().FieldByName("cexp"))
		return nil
	})
	return d
}
