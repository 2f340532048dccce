package mirror

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"

	"github.com/lazuli-storage/lazuli/internal/storage/disk"
	"github.com/lazuli-storage/lazuli/internal/storage/extent"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/natscluster"
)

// site is three nodes that share a NATS server.
type site struct {
	t        *testing.T
	url      string
	names    []string
	sealSize int64
	majority func() bool
	nodes    [3]*node
}

type node struct {
	dir     string
	fs      disk.FS
	extents *extent.Store
	mirror  *Mirror // nil while the node is down
}

var names = []string{"n0", "n1", "n2"}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{t: t, url: natscluster.Start(t, 1).URL(), names: names, sealSize: 64 << 10}
	for i := range s.nodes {
		s.nodes[i] = &node{dir: t.TempDir()}
		s.start(i)
	}
	t.Cleanup(func() {
		for i := range s.nodes {
			s.stop(i)
		}
	})
	return s
}

// start starts a node that catches up only when the test says so.
func (s *site) start(i int) {
	s.t.Helper()
	n := s.nodes[i]
	var err error
	n.extents, err = extent.Open(n.dir,
		extent.Options{Mirrored: true, SealSize: s.sealSize, Grace: -1, FS: n.fs, Logged: 4 << 10})
	check.OK(s.t, err)
	n.mirror, err = Open(Config{Connect: func() (*nats.Conn, error) { return nats.Connect(s.url) }, Node: s.names[i],
		Nodes: s.names, Extents: n.extents, listPage: 2,
		Owner: uint64(i + 1), CatchUpEvery: -1, BytesPerSecond: -1, Majority: s.majority, Log: slog.New(slog.DiscardHandler)})
	check.OK(s.t, err)
}

func (s *site) stop(i int) {
	s.t.Helper()
	if n := s.nodes[i]; n.mirror != nil {
		n.mirror.Close()
		check.OK(s.t, n.extents.Close())
		n.mirror = nil
	}
}

// write stores content through a node.
func (s *site) write(i int, p []byte) ([]extent.Slice, error) {
	w := s.nodes[i].extents.NewWriter(int64(len(p)))
	defer w.Close()
	if _, err := w.Write(p); err != nil {
		return nil, err
	}
	return w.Commit()
}

func (s *site) mustWrite(i int, p []byte) []extent.Slice {
	s.t.Helper()
	return check.Must(s.write(i, p))(s.t)
}

func (s *site) read(i int, list []extent.Slice, n int) ([]byte, error) {
	r, err := s.nodes[i].extents.NewReader(list, 0, int64(n))
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r)
}

func (s *site) wantRead(i int, list []extent.Slice, want []byte) {
	s.t.Helper()
	if got, err := s.read(i, list, len(want)); err != nil || !bytes.Equal(got, want) {
		s.t.Errorf("node %d reads %d bytes, %v; want the %d bytes that were written", i, len(got), err, len(want))
	}
}

// catchUp makes a node copy what it lacks. The second time it knows what was written before the first.
func (s *site) catchUp(i int) {
	s.t.Helper()
	n := s.nodes[i]
	for _, p := range n.mirror.peers {
		var seen map[uint64]int64
		for range 2 {
			_, err := n.mirror.catchUp(p, &seen, nil)
			check.OK(s.t, err)
		}
	}
	check.OK(s.t, n.extents.SyncAllPuts())
}

// has reports whether a node has content without asking the others.
func (s *site) has(i int, list []extent.Slice) bool {
	for _, x := range list {
		if _, _, err := s.nodes[i].extents.Record(x); err != nil {
			return false
		}
	}
	return true
}

// random returns bytes that are the same for a seed.
func random(seed uint64, n int) []byte {
	b := make([]byte, n)
	r := rand.New(rand.NewPCG(seed, 1))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

func TestContentIsOnAMajorityBeforeCommitReturns(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for size := 1; size < 5<<20; size = 7*size + 3 {
		p := random(uint64(size), size)
		list := s.mustWrite(0, p)
		if !s.has(1, list) && !s.has(2, list) {
			t.Errorf("%d bytes: no other node has them", size)
		}
		for i := range s.nodes {
			s.wantRead(i, list, p)
		}
	}
	// One node less is a majority, two nodes less are not.
	s.stop(2)
	p := random(1, 100_000)
	list := s.mustWrite(0, p)
	if !s.has(1, list) {
		t.Error("the other node does not have what was committed")
	}
	s.stop(1)
	s.nodes[0].mirror.config.Timeout = 200 * time.Millisecond
	if _, err := s.write(0, p); !errors.Is(err, extent.ErrUnavailable) {
		t.Errorf("a write without a majority: %v, want ErrUnavailable", err)
	}
	s.wantRead(0, list, p)
	s.start(1)
	s.nodes[0].mirror.config.Timeout = time.Minute
	s.mustWrite(0, p)
}

// A writer ends when its node loses the majority, before the messages to peers that do not answer expire.
func TestWriterEndsWithTheMajority(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.stop(1)
	s.stop(2)
	conn := check.Must(nats.Connect(s.url))(t)
	defer conn.Close()
	received := make(chan *nats.Msg, 100)
	for _, name := range s.names[1:] {
		check.Must(conn.ChanSubscribe(s.nodes[0].mirror.putSubject(name), received))(t)
	}
	check.OK(t, conn.Flush())
	m := s.nodes[0].mirror
	var lost atomic.Bool
	m.config.Majority, m.config.Timeout = func() bool { return !lost.Load() }, time.Minute
	check.Eventually(t, func() bool { // a machine that stands still may let them expire first
		lost.Store(false)
		ended := make(chan error, 1)
		go func() {
			_, err := s.write(0, random(1, 100_000))
			ended <- err
		}()
		<-received
		lost.Store(true)
		if err := <-ended; !errors.Is(err, extent.ErrUnavailable) {
			t.Errorf("a write whose node loses the majority: %v, want ErrUnavailable", err)
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		return len(m.tokens) > 0
	}, "a writer ends with the majority")
}

// A node that was down receives what it has missed, in the background and on demand, and its copies become complete.
func TestNodeCatchesUp(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	first := random(1, 10_000)
	list := s.mustWrite(0, first)
	s.stop(2)
	missed := random(2, 300_000) // more than one extent
	while := s.mustWrite(0, missed)
	s.start(2)
	if s.has(2, while) {
		t.Fatal("the node has what was written while it was down")
	}
	s.wantRead(2, while[:1], missed[:while[0].Length]) // on demand
	after := random(3, 10_000)
	later := s.mustWrite(0, after)
	s.catchUp(2)
	for _, x := range [][]extent.Slice{list, while, later} {
		if !s.has(2, x) {
			t.Error("the node has not copied everything")
		}
	}
	s.stop(0) // the extents get their final size
	s.start(0)
	s.catchUp(2)
	if open, _ := filepath.Glob(filepath.Join(s.nodes[2].dir, "*.copy")); len(open) > 0 {
		t.Errorf("incomplete copies: %q", open)
	}
	s.stop(2)
	s.start(2)
	s.stop(0)
	s.stop(1)
	s.wantRead(2, while, missed)
}

// Behind is unknown until all nodes have answered, and then the number of bytes that the node lacks, also while it
// copies them.
func TestBehindCountsWhatIsMissing(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.stop(2)
	const n = 70_000
	var lists [4][]extent.Slice
	for i := range lists { // two nodes, two extents each
		lists[i] = s.mustWrite(i%2, random(uint64(i), n))
	}
	const content = 4 * n
	s.start(2)
	m := s.nodes[2].mirror
	want := func(when string, least, most int64, known bool) int64 {
		t.Helper()
		n, ok := m.Behind()
		if n < least || n > most || ok != known {
			t.Errorf("%s: %d bytes are missing, known %v; want %d to %d, known %v", when, n, ok, least, most, known)
		}
		return n
	}
	const records = 20_000 // more than the headers and fillers of the records
	want("before the first answer", 0, 0, false)
	s.stop(1)
	m.survey()
	want("when one of two nodes has answered", content/2, content/2+records, false)
	s.start(1)
	m.survey()
	all := want("when both have answered", content, content+2*records, true)
	s.wantRead(2, lists[3][:1], random(3, n)[:lists[3][0].Length])
	all = want("after a part was fetched on demand", all-n-records, all-lists[3][0].Length, true)

	seen := make([]map[uint64]int64, len(m.peers))
	_, err := m.catchUp(m.peers[0], &seen[0], nil)
	check.OK(t, err)
	part := want("after the first node's finished extents were copied", all-content/2-records, all-n, true)
	s.stop(1)
	_, err = m.catchUp(m.peers[1], &seen[1], nil)
	check.OK(t, err)
	want("when a node does not answer any more", part, part, true)
	s.start(1)
	s.catchUp(2)
	want("when everything was copied", 0, 0, true)
	s.mustWrite(0, random(9, 70_000)) // the node receives it at once
	s.catchUp(2)
	want("after more was written", 0, 0, true)
}

// A node with many extents answers with its list in parts, and one of a release before that asks for all at once.
func TestListsOfExtentsHaveParts(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for i := range 5 {
		s.mustWrite(0, random(uint64(i), 70<<10))
	}
	owner := s.nodes[0].mirror
	whole := owner.list(false, 0)
	if len(whole.Extents) < 5 || whole.More {
		t.Fatalf("the whole list: %+v", whole)
	}
	if part := owner.list(true, 0); len(part.Extents) != 2 || !part.More {
		t.Errorf("the first part: %+v", part)
	}
	asker := s.nodes[1].mirror
	got, ok, err := asker.listOf(asker.peer(names[0]))
	if diff := cmp.Diff(whole, got, cmp.AllowUnexported(listing{})); diff != "" || !ok || err != nil {
		t.Errorf("the list from another node: %v, %v (-want +got):\n%s", ok, err, diff)
	}
}

// What is damaged on one node is read from another one, and replaced. What is damaged on all of them is never returned.
func TestDamagedContentIsReplaced(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	p := random(1, 3<<20)
	list := s.mustWrite(0, p)
	s.catchUp(1)
	s.catchUp(2)
	damage := func(i int) {
		for _, path := range check.Must(filepath.Glob(filepath.Join(s.nodes[i].dir, "*")))(t) {
			f := check.Must(os.OpenFile(path, os.O_RDWR, 0))(t)
			b := make([]byte, 1)
			check.Must(f.ReadAt(b, 5000))(t)
			check.Must(f.WriteAt([]byte{b[0] ^ 1}, 5000))(t)
			check.OK(t, f.Close())
		}
	}
	for i := range s.nodes {
		damage(i)
		s.wantRead(i, list, p)
		s.wantRead(i, []extent.Slice{list[0].Sub(4000, 2000)}, p[4000:6000]) // part of a record
	}
	if n := s.nodes[0].extents.Healed(); n == 0 {
		t.Error("the damage was not reported")
	}
	s.stop(1)
	s.stop(2)
	s.stop(0)
	s.start(0)
	damage(0)
	if got, err := s.read(0, list, len(p)); !errors.Is(err, extent.ErrUnavailable) {
		t.Errorf("damage while the other nodes are down: %d bytes, %v; want ErrUnavailable", len(got), err)
	}
	for i := 1; i < 3; i++ {
		damage(i)
		s.start(i)
	}
	if got, err := s.read(0, list, len(p)); !errors.Is(err, extent.ErrCorrupt) {
		t.Errorf("damage on all nodes: %d bytes, %v; want ErrCorrupt", len(got), err)
	}
}

// A node deletes a copy once its owner has deleted the extent, and not before.
func TestCopiesAreDeletedAfterTheOwner(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	p := random(1, 100_000) // fills an extent
	s.mustWrite(0, p)
	s.mustWrite(0, p)
	s.catchUp(1)
	s.catchUp(1)
	none := extent.Owner{Refs: func(_ context.Context, _ func(extent.Ref) bool) error { return nil }}
	compact := func(i int) int {
		deleted := 0
		for range 2 {
			done := check.Must(s.nodes[i].extents.Compact(t.Context(), none, extent.CompactOptions{}))(t)
			deleted += done.Deleted
		}
		return deleted
	}
	if n := compact(1); n != 0 {
		t.Errorf("%d copies were deleted although the owner may still write", n)
	}
	if compact(0) == 0 {
		t.Fatal("the owner has deleted nothing")
	}
	s.catchUp(1)
	if compact(1) == 0 {
		t.Error("no copy was deleted after the owner had deleted the extent")
	}
	s.catchUp(1)
	if n := compact(1); n != 0 {
		t.Errorf("%d deleted copies came back", n)
	}
}

// Writers on all nodes at a time, while one node after another is down: everything that was committed can be read
// everywhere.
func TestEverythingCommittedSurvivesRestarts(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	type content struct {
		list []extent.Slice
		p    []byte
	}
	var all []content
	for round := range 6 {
		down := round % 3
		s.stop(down)
		for i := range 4 {
			p := random(uint64(round*10+i), 1+int(rand.Uint32()%200_000))
			all = append(all, content{s.mustWrite((down+1+i%2)%3, p), p})
		}
		s.start(down)
	}
	for i := range s.nodes {
		for _, c := range all {
			s.wantRead(i, c.list, c.p)
		}
	}
}

func TestMessages(t *testing.T) {
	t.Parallel()
	want := put{id: 7, offset: 32, syncs: []uint64{1, 2}, records: []byte("record")}
	got, err := parsePut(want.appendTo(nil))
	if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
	for n := range len(want.appendTo(nil)) - len(want.records) {
		if _, err := parsePut(want.appendTo(nil)[:n]); err == nil {
			t.Errorf("a message of %d bytes was parsed", n)
		}
	}
	if _, _, err := parseAnswer(answer(extent.ErrNotFound, 1, nil)); !errors.Is(err, errMissing) {
		t.Errorf("a missing record: %v", err)
	}
	if n, data, err := parseAnswer(answer(nil, 5, []byte("x"))); n != 5 || string(data) != "x" || err != nil {
		t.Errorf("%d %q %v", n, data, err)
	}
}
