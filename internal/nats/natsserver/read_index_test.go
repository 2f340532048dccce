package natsserver

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/natscluster"
)

// readers are a stream on three servers, and a connection and a ReadIndex for each.
type readers struct {
	t     *testing.T
	c     *natscluster.Cluster
	conns []*nats.Conn
	index []*ReadIndex
}

const readStream = "messages"

func startReaders(t *testing.T) *readers {
	t.Helper()
	r := &readers{t: t, c: natscluster.Start(t, 3)}
	for i := range 3 {
		conn := r.c.Conn(t, i)
		index, err := NewReadIndex(conn, r.c.Running(i))
		check.OK(t, err)
		t.Cleanup(index.Close)
		r.conns, r.index = append(r.conns, conn), append(r.index, index)
	}
	js, err := jetstream.New(r.conns[0])
	check.OK(t, err)
	_, err = js.CreateStream(t.Context(),
		jetstream.StreamConfig{Name: readStream, Subjects: []string{"m"}, Replicas: 3, Storage: jetstream.MemoryStorage})
	check.OK(t, err)
	return r
}

// publish publishes through a server until the message is acknowledged, and returns its sequence.
func (r *readers) publish(i int) uint64 {
	r.t.Helper()
	js, err := jetstream.New(r.conns[i])
	check.OK(r.t, err)
	for deadline := time.Now().Add(2 * time.Minute); ; {
		ctx, cancel := context.WithTimeout(r.t.Context(), time.Second)
		ack, err := js.Publish(ctx, "m", nil)
		cancel()
		if err == nil {
			return ack.Sequence
		}
		if time.Now().After(deadline) {
			r.t.Fatalf("publish: %v", err)
		}
	}
}

// end asks a server until the end is confirmed.
func (r *readers) end(i int) uint64 {
	r.t.Helper()
	var end uint64
	check.Eventually(r.t, func() bool {
		ctx, cancel := context.WithTimeout(r.t.Context(), 5*time.Second)
		defer cancel()
		var err error
		end, _, err = r.index[i].End(ctx, readStream)
		return err == nil
	}, "server %d confirms the end", i)
	return end
}

// A leader that was cut off goes on to believe that it leads, for some seconds. It must not confirm an end meanwhile
// that has been passed.
func TestServerThatWasCutOffConfirmsNoFormerEnd(t *testing.T) {
	t.Parallel()
	r := startReaders(t)
	for i := range 3 {
		last := r.publish(i)
		for j := range 3 {
			if end := r.end(j); end < last {
				t.Fatalf("end at server %d: %d, message %d is acknowledged", j, end, last)
			}
		}
	}
	leader := r.c.WaitLeads(readStream)
	r.c.Cut(leader, true)
	last := r.publish((leader + 1) % 3)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	info, err := streamInfo(ctx, r.conns[leader], readStream)
	t.Logf("message %d is acknowledged; the server that was cut off answers: %s", last, func() string {
		if err != nil {
			return err.Error()
		}
		return fmt.Sprint("last message ", info.State.LastSeq)
	}())
	if end, _, err := r.index[leader].End(ctx, readStream); err == nil {
		t.Errorf("the server that was cut off confirms %d, message %d is acknowledged", end, last)
	}
	if end := r.end((leader + 1) % 3); end < last {
		t.Errorf("another server confirms %d, message %d is acknowledged", end, last)
	}
	r.c.Cut(leader, false)
	if end := r.end(leader); end < last {
		t.Errorf("the server that was cut off confirms %d later, message %d is acknowledged", end, last)
	}
}

// No majority confirms the end of a stream that has a single server, of a cluster or alone: the answer of that server
// alone is not one of a majority.
func TestEndOfAStreamWithOneServerIsNotConfirmed(t *testing.T) {
	t.Parallel()
	for _, servers := range []int{1, 3} {
		t.Run(fmt.Sprint("servers ", servers), func(t *testing.T) {
			t.Parallel()
			c := natscluster.Start(t, servers)
			js := check.Must(jetstream.New(c.Conn(t, 0)))(t)
			check.Must(js.CreateStream(t.Context(),
				jetstream.StreamConfig{Name: readStream, Subjects: []string{"m"}, Storage: jetstream.MemoryStorage}))(t)
			check.Must(js.Publish(t.Context(), "m", nil))(t)
			for i := range servers {
				index := check.Must(NewReadIndex(c.Conn(t, i), c.Running(i)))(t)
				t.Cleanup(index.Close)
				end, _, err := index.End(t.Context(), readStream)
				if !errors.Is(err, ErrNoReadIndex) || end != 0 {
					t.Errorf("end at server %d: %d, %v; want none, and ErrNoReadIndex", i, end, err)
				}
			}
		})
	}
	t.Run("no cluster", func(t *testing.T) {
		t.Parallel()
		s := check.Must(Start(Config{Dir: t.TempDir()}))(t)
		t.Cleanup(s.Close)
		if end, _, err := s.StreamEnd(t.Context(), readStream); !errors.Is(err, ErrNoReadIndex) {
			t.Errorf("end: %d, %v; want ErrNoReadIndex", end, err)
		}
	})
}

// Each server learns the beginnings of messages from the leader, with its term, and whether a message is there.
func TestHeads(t *testing.T) {
	t.Parallel()
	r := startReaders(t)
	js := check.Must(jetstream.New(r.conns[0]))(t)
	var last uint64
	for i := range 5 {
		ack := check.Must(js.Publish(t.Context(), "m", binary.BigEndian.AppendUint64(nil, uint64(100+i))))(t)
		last = ack.Sequence
	}
	stream := check.Must(js.Stream(t.Context(), readStream))(t)
	check.OK(t, stream.Purge(t.Context(), jetstream.WithPurgeSequence(2)))
	for i, index := range r.index {
		var h Heads
		check.Eventually(t, func() (ok bool) {
			var err error
			h, err = index.Heads(t.Context(), readStream, 1, last+1)
			return err == nil
		}, "the heads at server %d", i)
		_, term, err := index.End(t.Context(), readStream)
		check.OK(t, err)
		if h.Term != term || h.First != 2 || h.Last != last || !slices.Equal(h.Sums, []uint64{0, 101, 102, 103, 104, 0}) {
			t.Errorf("heads at server %d: %+v, the term is %d", i, h, term)
		}
		if own, member := index.Term(readStream); !member || own != term {
			t.Errorf("term at server %d: %d, %t; want %d", i, own, member, term)
		}
		if _, err := index.Heads(t.Context(), readStream, 1, 1+maxHeads); err == nil {
			t.Errorf("server %d answers for more than %d messages", i, maxHeads)
		}
	}
}
