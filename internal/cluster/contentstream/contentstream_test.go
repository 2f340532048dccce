package contentstream

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/lazuli-storage/lazuli/internal/storage/extent"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/natscluster"
)

// server is a Lazuli server's content.
type server struct {
	t       *testing.T
	conn    *nats.Conn
	dir     string
	owner   uint64
	extents *extent.Store
	streams *Streams
}

func start(t *testing.T, conn *nats.Conn, dir string, owner uint64) *server {
	t.Helper()
	s := &server{t: t, conn: conn, dir: dir, owner: owner}
	s.extents = check.Must(extent.Open(dir, extent.Options{Mirrored: true, SealSize: 64 << 10, Grace: -1}))(t)
	s.streams = check.Must(Open(Config{Conn: conn, Replicas: 1, Extents: s.extents, Owner: owner, Session: 1, Grace: -1,
		Log: slog.New(slog.DiscardHandler)}))(t)
	t.Cleanup(s.stop)
	return s
}

func (s *server) stop() {
	if s.streams != nil {
		s.streams.Close()
		check.OK(s.t, s.extents.Close())
		s.streams = nil
	}
}

func (s *server) write(p []byte) ([]extent.Slice, error) {
	w := s.extents.NewWriter(int64(len(p)))
	defer w.Close()
	if _, err := w.Write(p); err != nil {
		return nil, err
	}
	return w.Commit()
}

func (s *server) read(list []extent.Slice, n int) ([]byte, error) {
	r, err := s.extents.NewReader(list, 0, int64(n))
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r)
}

func (s *server) wantRead(list []extent.Slice, want []byte) {
	s.t.Helper()
	if got, err := s.read(list, len(want)); err != nil || !bytes.Equal(got, want) {
		s.t.Errorf("server %d reads %d bytes, %v; want the %d bytes that were written", s.owner, len(got), err, len(want))
	}
}

// collect removes what lists does not have. It returns the number of streams that were deleted.
func (s *server) collect(gone uint64, lists ...[]extent.Slice) int {
	s.t.Helper()
	refs := func(_ context.Context, yield func(extent.Ref) bool) error {
		for _, list := range lists {
			for _, x := range list {
				if !yield(extent.Ref{Slice: x}) {
					return nil
				}
			}
		}
		return nil
	}
	for range 2 {
		check.Must(s.extents.Compact(s.t.Context(), extent.Owner{Refs: refs},
			extent.CompactOptions{MinLive: -1, MinSize: -1}))(s.t)
	}
	return check.Must(s.streams.Collect(s.t.Context(), refs, func(n uint64) bool { return n == gone }))(s.t)
}

func connect(t *testing.T) *nats.Conn {
	t.Helper()
	return natscluster.Start(t, 1).Conn(t, 0)
}

func random(seed uint64, n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{byte(seed)}).Read(b)
	return b
}

// What a server has committed can be read by others, also in parts, and after its folder is lost.
func TestContentSurvivesItsServer(t *testing.T) {
	t.Parallel()
	conn := connect(t)
	a := start(t, conn, t.TempDir(), 1)
	contents := map[string][]extent.Slice{}
	for _, n := range []int{1, 100, 1000, 300_000, 1 << 20, 3<<20 + 5} {
		p := random(uint64(n), n)
		contents[string(p)] = check.Must(a.write(p))(t)
	}
	a.stop()
	b, c := start(t, conn, t.TempDir(), 2), start(t, conn, t.TempDir(), 3)
	for p, list := range contents {
		b.wantRead(list, []byte(p))
		for i, x := range list { // a position inside of a record
			if x.Length > 2 {
				from := int64(i) << 20
				c.wantRead([]extent.Slice{x.Sub(x.Length-2, 1)}, []byte(p)[from+x.Length-2:from+x.Length-1])
			}
		}
		c.wantRead(list, []byte(p))
	}
}

// The streams of extents without references are deleted by the server that wrote them, or by any other when it is gone,
// and not before; the copies follow.
func TestStreamsAreDeleted(t *testing.T) {
	t.Parallel()
	conn := connect(t)
	a, b := start(t, conn, t.TempDir(), 1), start(t, conn, t.TempDir(), 2)
	p := random(1, 100_000) // fills an extent
	kept, dead, later := check.Must(a.write(p))(t), check.Must(a.write(p))(t), check.Must(a.write(p))(t)
	b.wantRead(kept, p)
	b.wantRead(dead, p)
	if n := b.collect(0, kept, later); n != 0 {
		t.Errorf("a server deleted %d streams of another one", n)
	}
	var deleted int
	check.Eventually(t, func() bool { // extents are finished in the background
		deleted += a.collect(0, kept, later)
		return deleted == 1
	}, "the server has deleted %d streams, want 1", deleted)
	b.collect(0, kept, later)
	b.collect(0, kept, later)
	for _, x := range b.extents.Stats() {
		if x.ID == dead[0].Extent {
			t.Error("the copy was kept")
		}
	}
	if _, err := b.read(dead, len(p)); err == nil {
		t.Error("deleted content can be read")
	}
	a.stop()
	if n := b.collect(1, kept); n != 1 {
		t.Errorf("%d streams of a server that is gone were deleted, want 1", n)
	}
	start(t, conn, t.TempDir(), 3).wantRead(kept, p)
}

// Without an answer of the cluster content is not acknowledged, and can be neither written nor read; later it can.
func TestClusterThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	cluster := natscluster.Start(t, 1)
	conn := cluster.Conn(t, 0)
	a, b := start(t, conn, t.TempDir(), 1), start(t, conn, t.TempDir(), 2)
	p := random(1, 50_000)
	list := check.Must(a.write(p))(t)
	cluster.Stop(0)
	a.streams.config.Timeout = 100 * time.Millisecond
	if _, err := a.write(p); !errors.Is(err, extent.ErrUnavailable) {
		t.Errorf("a write: %v, want ErrUnavailable", err)
	}
	a.streams.config.Timeout = time.Minute
	cluster.Start(0)
	cluster.WaitReady()
	b.wantRead(list, p)
	b.wantRead(check.Must(a.write(p))(t), p)
}

// Content goes to another stream when one does not acknowledge it and the cluster works otherwise.
func TestStreamThatDoesNotAcknowledge(t *testing.T) {
	t.Parallel()
	conn := connect(t)
	a, b := start(t, conn, t.TempDir(), 1), start(t, conn, t.TempDir(), 2)
	p := random(1, 1000)
	first := check.Must(a.write(p))(t)
	check.OK(t, a.streams.js.DeleteStream(t.Context(), streamName(first[0].Extent)))
	a.streams.config.Timeout = 200 * time.Millisecond
	if _, err := a.write(p); !errors.Is(err, extent.ErrUnavailable) {
		t.Errorf("a write without its stream: %v, want ErrUnavailable", err)
	}
	a.streams.config.Timeout = time.Minute
	list := check.Must(a.write(p))(t)
	if list[0].Extent == first[0].Extent {
		t.Error("content goes to the stream that does not acknowledge it")
	}
	b.wantRead(list, p)
}

// A server answers for its number until it is closed.
func TestAlive(t *testing.T) {
	t.Parallel()
	conn := connect(t)
	a := start(t, conn, t.TempDir(), 7)
	if alive, err := Alive(t.Context(), conn, 7); !alive || err != nil {
		t.Errorf("a server that runs: %t, %v", alive, err)
	}
	a.stop()
	check.Eventually(t, func() bool {
		alive, err := Alive(t.Context(), conn, 7)
		return !alive && err == nil
	}, "a server that was closed answers")
}

// The streams are refused by servers whose messages are too small.
func TestSmallMessages(t *testing.T) {
	t.Parallel()
	s := check.Must(natsserver.NewServer(&natsserver.Options{Port: -1, MaxPayload: 512 << 10, NoLog: true, NoSigs: true}))(
		t)
	s.Start()
	t.Cleanup(s.Shutdown)
	conn := check.Must(nats.Connect(s.ClientURL()))(t)
	t.Cleanup(conn.Close)
	if _, err := Open(Config{Conn: conn}); !errors.Is(err, ErrRefused) ||
		!strings.Contains(err.Error(), "set max_payload to 1MB") {
		t.Errorf("a server with small messages: %v", err)
	}
}

// The streams are refused if the account may not use the subjects by which servers find each other.
func TestMissingRights(t *testing.T) {
	t.Parallel()
	deny := &natsserver.SubjectPermission{Deny: []string{"lazuli.owner.>"}}
	s := check.Must(natsserver.NewServer(&natsserver.Options{Port: -1, NoLog: true, NoSigs: true,
		Users: []*natsserver.User{{Username: "u", Password: "p", Permissions: &natsserver.Permissions{Subscribe: deny}}}}))(t)
	s.Start()
	t.Cleanup(s.Shutdown)
	conn := check.Must(nats.Connect(s.ClientURL(), nats.UserInfo("u", "p"),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})))(t)
	t.Cleanup(conn.Close)
	if _, err := Open(Config{Conn: conn, Owner: 1}); !errors.Is(err, ErrRefused) ||
		!strings.Contains(err.Error(), "lazuli.>") {
		t.Errorf("an account without rights: %v", err)
	}
}

// A NATS server without room acknowledges nothing. What it has can be read, and once there is room content is written
// again.
func TestFullServer(t *testing.T) {
	t.Parallel()
	server := check.Must(natsserver.NewServer(
		&natsserver.Options{Port: -1, JetStream: true, StoreDir: t.TempDir(), JetStreamMaxStore: 1 << 20, NoLog: true,
			NoSigs: true}))(t)
	server.Start()
	t.Cleanup(func() { server.Shutdown(); server.WaitForShutdown() })
	conn := check.Must(nats.Connect(server.ClientURL()))(t)
	t.Cleanup(conn.Close)
	a := start(t, conn, t.TempDir(), 1)
	p := random(1, 200_000)
	kept := check.Must(a.write(p))(t)
	a.streams.config.Timeout = 300 * time.Millisecond
	if _, err := a.write(random(2, 2<<20)); !errors.Is(err, extent.ErrUnavailable) {
		t.Errorf("content without room: %v, want ErrUnavailable", err)
	}
	a.streams.config.Timeout = time.Minute
	b := start(t, conn, t.TempDir(), 2)
	b.wantRead(kept, p)
	check.Eventually(t, func() bool { return a.collect(0, kept) > 0 }, "no space was given back")
	b.wantRead(check.Must(a.write(p))(t), p)
}
