package replog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lazuli-storage/lazuli/internal/nats/natsserver"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/natscluster"
)

// patience is the limit for things that take milliseconds on a quiet machine.
const patience = 2 * time.Minute

// applied records what a node has applied.
type applied struct {
	*Log
	mu   sync.Mutex
	list []string
	pos  Position
}

func (a *applied) apply(payload []byte, p Position) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.list, a.pos = append(a.list, string(payload)), p
	return nil
}

func (a *applied) all() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.list)
}

func (a *applied) last() Position {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.pos
}

func single(t *testing.T) *nats.Conn { return embedded(t).Conn() }

func embedded(t *testing.T) *natsserver.Server {
	t.Helper()
	s, err := natsserver.Start(natsserver.Config{Dir: t.TempDir(), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func openLog(t *testing.T, conn *nats.Conn, replicas int, from Position) *applied {
	t.Helper()
	return openWith(t, Config{Conn: conn, Replicas: replicas}, from)
}

// openNode opens a log on a server of a cluster, which confirms the end of the stream.
func openNode(t *testing.T, c *natscluster.Cluster, server int) *applied {
	t.Helper()
	conn := c.Conn(t, server)
	index, err := natsserver.NewReadIndex(conn, c.Running(server))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(index.Close)
	return openWith(t, Config{Conn: conn, Replicas: c.Size(), End: index.End, Term: index.Term,
		Heads: func(ctx context.Context, stream string, from, to uint64) (Heads, error) {
			h, err := index.Heads(ctx, stream, from, to)
			return Heads(h), err
		}}, Position{})
}

func openWith(t *testing.T, config Config, from Position) *applied {
	t.Helper()
	config.Name, config.Log = "test", slog.New(slog.DiscardHandler)
	l, err := Open(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	a := &applied{Log: l, pos: from}
	if err := l.Follow(from, a.apply); err != nil {
		t.Fatal(err)
	}
	return a
}

func (a *applied) add(t *testing.T, payload string) {
	t.Helper()
	for {
		err := a.Append(a.last().Last, []byte(payload), nil)
		if err == nil {
			return
		}
		// Servers of a busy machine may take longer for an election than a call waits. Nothing was appended then.
		if !errors.Is(err, ErrConflict) && !errors.Is(err, ErrUnavailable) {
			t.Fatal(err)
		}
	}
}

func (a *applied) barrier(t *testing.T) {
	t.Helper()
	check.Eventually(t, func() bool {
		err := a.Barrier()
		if err != nil && !errors.Is(err, ErrUnavailable) { // see add
			t.Fatal(err)
		}
		return err == nil
	}, "a majority confirms the end of the log")
}

func TestAppendIsAppliedByAllNodes(t *testing.T) {
	t.Parallel()
	conn := single(t)
	a, b := openLog(t, conn, 1, Position{}), openLog(t, conn, 1, Position{})
	var want []string
	for i := range 20 {
		n := []*applied{a, b}[i%2]
		n.barrier(t)
		n.add(t, fmt.Sprint(i))
		want = append(want, fmt.Sprint(i))
	}
	for _, n := range []*applied{a, b} {
		n.barrier(t)
		if got := n.all(); !slices.Equal(got, want) {
			t.Errorf("applied %q, want %q", got, want)
		}
	}
	if a.ID() != b.ID() || a.ID() == "" {
		t.Errorf("ids %q and %q", a.ID(), b.ID())
	}
}

// A stream that one process alone used reaches others after it was opened for them.
func TestPrivateLogBecomesShared(t *testing.T) {
	t.Parallel()
	server := embedded(t)
	conn := server.Conn()
	alone := openWith(t, Config{Conn: conn, Store: server.Store}, Position{})
	if err := alone.Append(0, []byte("a"), nil); err != nil {
		t.Fatal(err)
	}
	if err := alone.Barrier(); err != nil { // writes a mark
		t.Fatal(err)
	}
	at := alone.last()
	alone.Close()
	writer, reader := openLog(t, conn, 1, at), openLog(t, conn, 1, Position{})
	if err := writer.Append(at.Last, []byte("b"), nil); err != nil {
		t.Fatal(err)
	}
	if err := reader.Barrier(); err != nil {
		t.Fatal(err)
	}
	if got := reader.all(); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("the other node has applied %q", got)
	}
}

func TestAppendRefusesWhatAnotherOvertook(t *testing.T) {
	t.Parallel()
	conn := single(t)
	a, b := openLog(t, conn, 1, Position{}), openLog(t, conn, 1, Position{})
	a.add(t, "first")
	b.barrier(t)
	a.add(t, "second")
	if err := b.Append(a.last().Last-1, []byte("late"), nil); !errors.Is(err, ErrConflict) {
		t.Errorf("append: %v, want ErrConflict", err)
	}
	b.barrier(t)
	if got := b.all(); !slices.Equal(got, []string{"first", "second"}) {
		t.Errorf("applied %q", got)
	}
}

// A record in the stream that names another predecessor has no effect, whatever JetStream accepted.
func TestRecordWithWrongPredecessorHasNoEffect(t *testing.T) {
	t.Parallel()
	conn := single(t)
	a := openLog(t, conn, 1, Position{})
	a.add(t, "first")
	for _, prev := range []uint64{0, 99} {
		m := encode(header{kind: kindRecord, writer: 1, counter: 1, prev: prev}, []byte("forged"))
		if _, err := conn.Request(a.subject(kindRecord), m, patience); err != nil {
			t.Fatal(err)
		}
	}
	a.add(t, "second")
	if got := a.all(); !slices.Equal(got, []string{"first", "second"}) {
		t.Errorf("applied %q", got)
	}
}

// Of copies of a record, as they follow lost acknowledgements, one has an effect.
func TestCopiesOfARecordHaveOneEffect(t *testing.T) {
	t.Parallel()
	conn := single(t)
	a := openLog(t, conn, 1, Position{})
	m := encode(header{kind: kindRecord, writer: 1, counter: 1}, []byte("once"))
	for range 3 {
		if _, err := conn.Request(a.subject(kindRecord), m, patience); err != nil {
			t.Fatal(err)
		}
	}
	a.barrier(t)
	if got := a.all(); !slices.Equal(got, []string{"once"}) {
		t.Errorf("applied %q", got)
	}
}

func TestRecordInParts(t *testing.T) {
	t.Parallel()
	conn := single(t)
	a, b := openLog(t, conn, 1, Position{}), openLog(t, conn, 1, Position{})
	large := make([]byte, 5<<20+7)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range large {
		large[i] = byte(rng.Uint32())
	}
	a.add(t, "before")
	before := a.last()
	a.add(t, string(large))
	a.add(t, "after")
	b.barrier(t)
	// A node that restarts behind the first record.
	c := openLog(t, conn, 1, before)
	c.barrier(t)
	for name, got := range map[string][]string{"other": b.all()[1:], "restarted": c.all()} {
		if len(got) != 2 || !bytes.Equal([]byte(got[0]), large) || got[1] != "after" {
			t.Errorf("%s node applied %d records, the first has %d bytes", name, len(got), len(got[0]))
		}
	}
}

// A record that a node cannot apply now is offered again, with its parts, and nothing else is applied before it. What
// waits for it learns it at once, and not after the time for a majority.
func TestRecordThatIsAppliedLater(t *testing.T) {
	t.Parallel()
	conn := single(t)
	a := openLog(t, conn, 1, Position{})
	l, err := Open(t.Context(), Config{Conn: conn, Replicas: 1, Name: "test", Timeout: 2 * patience,
		Log: slog.New(slog.DiscardHandler)})
	check.OK(t, err)
	t.Cleanup(l.Close)
	b, full := &applied{Log: l}, atomic.Bool{}
	check.OK(t, l.Follow(Position{}, func(payload []byte, p Position) error {
		if full.Load() {
			return fmt.Errorf("%w: the disk is full", ErrLater)
		}
		return b.apply(payload, p)
	}))
	a.add(t, "before")
	b.barrier(t)
	full.Store(true)
	large := strings.Repeat("x", 3<<20)
	a.add(t, large)
	a.add(t, "after")
	check.Eventually(t, func() bool { return b.checkMajority() != nil }, "the node says that it cannot apply a record")
	began := time.Now()
	if err := b.Barrier(); !errors.Is(err, ErrUnavailable) || !errors.Is(err, ErrDisk) ||
		time.Since(began) > patience {
		t.Errorf("a barrier: %v after %v, want ErrDisk at once", err, time.Since(began))
	}
	full.Store(false)
	check.Eventually(t, func() bool { return b.Barrier() == nil }, "the node goes on")
	if got := b.all(); len(got) != 3 || got[1] != large || got[2] != "after" {
		t.Errorf("%d records were applied", len(got))
	}
}

// A node that stops between the parts of a record and the record must read the parts again.
func TestResumeIsBeforePartsWithoutTheirRecord(t *testing.T) {
	t.Parallel()
	conn := single(t)
	a := openLog(t, conn, 1, Position{})
	a.add(t, "first")
	publish := func(h header, payload string) {
		t.Helper()
		if _, err := conn.Request(a.subject(h.kind), encode(h, []byte(payload)), patience); err != nil {
			t.Fatal(err)
		}
	}
	publish(header{kind: kindPart, parts: 0, writer: 7, counter: 1}, "one ")
	a.add(t, "second")
	at := a.last()
	if at.Resume >= at.Seq {
		t.Fatalf("position %+v: want Resume before the part", at)
	}
	publish(header{kind: kindPart, parts: 1, writer: 7, counter: 1}, "two ")
	publish(header{kind: kindRecord, parts: 2, writer: 7, counter: 1, prev: at.Last, chain: at.Chain}, "three")
	a.barrier(t)
	b := openLog(t, conn, 1, at)
	b.barrier(t)
	if got, want := a.all(), []string{"first", "second", "one two three"}; !slices.Equal(got, want) {
		t.Errorf("applied %q, want %q", got, want)
	}
	if got, want := b.all(), []string{"one two three"}; !slices.Equal(got, want) {
		t.Errorf("after a restart applied %q, want %q", got, want)
	}
}

func TestFollowReadsWhatWasAppendedBefore(t *testing.T) {
	t.Parallel()
	conn := single(t)
	a := openLog(t, conn, 1, Position{})
	const n = 1500 // more than one request for messages
	for i := range n {
		a.add(t, fmt.Sprint(i))
	}
	b := openLog(t, conn, 1, Position{})
	b.barrier(t)
	if got := b.all(); !slices.Equal(got, a.all()) {
		t.Errorf("applied %d records, want %d", len(got), n)
	}
	if s := b.Status(); s.Lag != 0 || s.CatchingUp || s.Records != n || !s.Available {
		t.Errorf("status %+v", s)
	}
}

func TestNodeWithOtherHistoryStops(t *testing.T) {
	t.Parallel()
	conn := single(t)
	a := openLog(t, conn, 1, Position{})
	a.add(t, "first")
	at := a.last()
	at.Chain++ // this node has applied another record with that sequence
	b := openLog(t, conn, 1, at)
	a.add(t, "second")
	if err := b.Barrier(); !errors.Is(err, ErrDiverged) {
		t.Errorf("barrier: %v, want ErrDiverged", err)
	}
	// This one has applied records that the stream does not have.
	c := openLog(t, conn, 1, Position{Seq: 1000, Log: 1000, Last: 1000, Resume: 1000})
	if err := c.Barrier(); !errors.Is(err, ErrDiverged) {
		t.Errorf("barrier of a node before its log: %v, want ErrDiverged", err)
	}
	if err := c.Append(1000, []byte("x"), nil); !errors.Is(err, ErrDiverged) {
		t.Errorf("append: %v, want ErrDiverged", err)
	}
}

func TestRecordOfANewerReleaseStopsTheNode(t *testing.T) {
	t.Parallel()
	conn := single(t)
	a := openLog(t, conn, 1, Position{})
	a.add(t, "first")
	m := newer(encode(header{kind: kindRecord, writer: 1, counter: 1, prev: a.last().Last, chain: a.last().Chain},
		[]byte("x")))
	if _, err := conn.Request(a.subject(kindRecord), m, patience); err != nil {
		t.Fatal(err)
	}
	if err := a.Barrier(); !errors.Is(err, ErrVersion) {
		t.Errorf("barrier: %v, want ErrVersion", err)
	}
	if got := a.all(); !slices.Equal(got, []string{"first"}) {
		t.Errorf("applied %q", got)
	}
}

func TestDamagedMessageStopsTheNode(t *testing.T) {
	t.Parallel()
	conn := single(t)
	a := openLog(t, conn, 1, Position{})
	a.add(t, "first")
	m := encode(header{kind: kindRecord, writer: 1, counter: 1, prev: a.last().Last, chain: a.last().Chain},
		[]byte("payload"))
	m[len(m)-1] ^= 1
	if _, err := conn.Request(a.subject(kindRecord), m, patience); err != nil {
		t.Fatal(err)
	}
	if err := a.Barrier(); !errors.Is(err, ErrDamaged) {
		t.Errorf("barrier: %v, want ErrDamaged", err)
	}
}

func TestPurgedRecordsStopTheNode(t *testing.T) {
	t.Parallel()
	conn := single(t)
	a := openLog(t, conn, 1, Position{})
	for i := range 10 {
		a.add(t, fmt.Sprint(i))
	}
	if err := a.Purge(t.Context(), a.last()); err != nil {
		t.Fatal(err)
	}
	a.add(t, "after the purge")
	b := openLog(t, conn, 1, Position{})
	if err := b.Barrier(); !errors.Is(err, ErrPurged) {
		t.Errorf("barrier: %v, want ErrPurged", err)
	}
}

func TestCloseReleasesCalls(t *testing.T) {
	t.Parallel()
	a := openLog(t, single(t), 1, Position{})
	a.Close()
	a.Close()
	if err := a.Barrier(); !errors.Is(err, ErrClosed) {
		t.Errorf("barrier: %v, want ErrClosed", err)
	}
	if err := a.Append(0, nil, nil); !errors.Is(err, ErrClosed) {
		t.Errorf("append: %v, want ErrClosed", err)
	}
}

// A call that waits ends when this node loses its majority, whether messages have no receiver or no answer.
func TestCallsEndWithTheMajority(t *testing.T) {
	t.Parallel()
	for _, silent := range []bool{false, true} {
		conn := single(t)
		var lost atomic.Bool
		asked := make(chan struct{}, 1000)
		a := openWith(t, Config{Conn: conn, Timeout: time.Hour, Majority: func() bool {
			select {
			case asked <- struct{}{}:
			default:
			}
			return !lost.Load()
		}}, Position{})
		check.OK(t, check.Must(jetstream.New(conn))(t).DeleteStream(t.Context(), a.stream))
		if silent { // as a leader that is cut off
			check.Must(conn.Subscribe("lazuli.log.test.*", func(*nats.Msg) {}))(t)
			check.OK(t, conn.Flush())
		}
		ended := make(chan error, 2)
		go func() { ended <- a.Append(0, []byte("a"), nil) }()
		go func() { ended <- a.Barrier() }()
		for range 2 { // before they wait
			<-asked
		}
		lost.Store(true)
		for range 2 {
			select {
			case err := <-ended:
				if !errors.Is(err, ErrUnavailable) && !errors.Is(err, ErrUnknown) {
					t.Errorf("silent %t: %v, want ErrUnavailable or ErrUnknown", silent, err)
				}
			case <-time.After(patience):
				t.Fatalf("silent %t: a call waits for a majority that was lost", silent)
			}
		}
	}
}

// While nothing is appended, reads on any of three nodes are confirmed without a message in the log.
func TestReadsDoNotWriteToTheLog(t *testing.T) {
	t.Parallel()
	c := natscluster.Start(t, 3)
	var nodes []*applied
	for i := range 3 {
		nodes = append(nodes, openNode(t, c, i))
	}
	for _, n := range nodes {
		n.add(t, "record")
		for _, reader := range nodes {
			reader.barrier(t)
			if got, want := reader.all(), n.all(); !slices.Equal(got, want) {
				t.Fatalf("applied %q, want %q", got, want)
			}
		}
	}
	// The servers may still have elected a leader: reads use marks for some time then.
	check.Eventually(t, func() bool {
		before := nodes[0].Position().Seq
		for range 50 {
			for _, n := range nodes {
				n.barrier(t)
			}
		}
		return nodes[0].Position().Seq == before
	}, "150 reads write nothing")
}

// A cluster that has grown keeps its logs on more servers.
func TestExistingLogGetsMoreReplicas(t *testing.T) {
	if testing.Short() {
		t.Skip("starts three servers")
	}
	t.Parallel()
	c := natscluster.Start(t, 3)
	a := openLog(t, c.Conn(t, 0), 1, Position{})
	a.add(t, "before")
	b := openLog(t, c.Conn(t, 1), 3, Position{})
	b.barrier(t)
	b.add(t, "after")
	a.barrier(t)
	if got := a.all(); !slices.Equal(got, []string{"before", "after"}) || a.ID() != b.ID() {
		t.Errorf("applied %q", got)
	}
	s, err := check.Must(jetstream.New(a.config.Conn))(t).Stream(t.Context(), a.stream)
	if err != nil {
		t.Fatal(err)
	}
	if n := s.CachedInfo().Config.Replicas; n != 3 {
		t.Errorf("%d replicas, want 3", n)
	}
}

// TestThreeNodes appends on three nodes at a time, stops one server after another, and cuts one off. Every acknowledged
// record must be applied by all nodes, once and in one order.
func TestThreeNodes(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	t.Parallel()
	c := natscluster.Start(t, 3)
	var nodes []*applied
	for i := range 3 {
		nodes = append(nodes, openNode(t, c, i))
	}
	var mu sync.Mutex
	acknowledged := map[string]bool{}
	var by [3]int
	stop := make(chan struct{})
	var work sync.WaitGroup
	for i, n := range nodes {
		work.Go(func() {
			for j := 0; ; j++ {
				select {
				case <-stop:
					return
				default:
				}
				text := fmt.Sprint(i, "-", j)
				n.AwaitTurn()
				if err := n.Append(n.last().Last, []byte(text), nil); err == nil {
					mu.Lock()
					acknowledged[text] = true
					by[i]++
					mu.Unlock()
				}
			}
		})
	}
	// progress waits until every node but one has appended.
	progress := func(except int) {
		t.Helper()
		mu.Lock()
		want := by
		mu.Unlock()
		for i := range want {
			if i != except {
				want[i] += 10
			}
		}
		check.Eventually(t, func() bool {
			mu.Lock()
			defer mu.Unlock()
			return by[0] >= want[0] && by[1] >= want[1] && by[2] >= want[2]
		}, "the nodes have acknowledged %v records", want)
	}
	const all = -1
	progress(all)
	leader := max(c.Leads(nodes[0].stream), 0)
	c.Stop(leader)
	progress(leader)
	c.Start(leader)
	progress(all)
	c.WaitCurrent(nodes[0].stream)
	leader = max(c.Leads(nodes[0].stream), 0)
	c.Cut(leader, true)
	progress(leader)
	c.Cut(leader, false)
	progress(all)
	close(stop)
	work.Wait()
	for _, n := range nodes {
		check.Eventually(t, func() bool { return n.Barrier() == nil }, "a node has no barrier")
	}
	first := nodes[0].all()
	for i, n := range nodes {
		got := n.all()
		if !slices.Equal(got, first) {
			t.Errorf("node %d has applied %d records, node 0 %d, or in another order", i, len(got), len(first))
		}
		seen := map[string]bool{}
		for _, text := range got {
			if seen[text] {
				t.Errorf("node %d has applied %s twice", i, text)
			}
			seen[text] = true
		}
		for text := range acknowledged {
			if !seen[text] {
				t.Errorf("node %d lacks the acknowledged record %s", i, text)
			}
		}
	}
	t.Logf("%d records acknowledged, %d applied", len(acknowledged), len(first))
}
