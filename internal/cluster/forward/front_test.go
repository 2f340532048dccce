package forward

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/natscluster"
)

// fronted are a front-end and two nodes, n0 and n1, on three servers. n0 is the home.
type fronted struct {
	t       *testing.T
	cluster *natscluster.Cluster
	front   *Front
	nodes   [2]*Forwarder
	refuses [2]atomic.Bool
	closed  [2]atomic.Bool
}

// A node of a busy machine may not answer for a second, and gets no requests then. What nodes serve is asked often, so
// that no test waits for it.
const (
	frontProbe = 2 * time.Second
	frontLook  = 20 * time.Millisecond
)

func newFronted(t *testing.T, handlers ...http.HandlerFunc) *fronted {
	t.Helper()
	x := &fronted{t: t, cluster: natscluster.Start(t, 3)}
	for i, h := range handlers {
		x.nodes[i] = New(Config{
			Connect:  func() (*nats.Conn, error) { return x.cluster.Conn(t, i), nil },
			Node:     fmt.Sprint("n", i),
			Services: map[string]Service{"table": {Log: "tables", Handler: h}},
			Leader:   func(context.Context, string) (string, error) { return "n0", nil },
			Mark:     func(ctx context.Context) context.Context { return context.WithValue(ctx, markKey{}, true) },
			Refuses:  x.refuses[i].Load,
			Log:      slog.New(slog.DiscardHandler),
			probe:    frontProbe,
			look:     frontLook,
		})
		check.OK(t, x.nodes[i].Open())
		t.Cleanup(func() { x.close(i) })
	}
	x.front = NewFront(FrontConfig{Connect: func() (*nats.Conn, error) { return x.cluster.Conn(t, 2), nil },
		Nodes: []string{"n0", "n1"}, Services: []string{"table"}, Logs: []string{"tables"},
		Log: slog.New(slog.DiscardHandler), probe: frontProbe, look: frontLook})
	check.OK(t, x.front.Open())
	t.Cleanup(x.front.Close)
	check.Eventually(t, func() bool {
		return len(x.front.Serving()) == len(handlers) && x.front.Homes()["tables"] == "n0"
	}, "the front-end knows the nodes and the home")
	return x
}

func (x *fronted) close(i int) {
	if x.nodes[i] != nil && !x.closed[i].Swap(true) {
		x.nodes[i].Close()
	}
}

// put is a request with a body of a length, -1 for one that is not known.
func put(body io.Reader, length int64) *http.Request {
	r := request(http.MethodPut, "")
	r.Body, r.ContentLength = io.NopCloser(body), length
	return r
}

// pattern is a body of n bytes that no reordering leaves the same. It counts what was read.
type pattern struct {
	n, at int64
	read  *atomic.Int64
}

func (p *pattern) Read(b []byte) (int, error) {
	if p.at == p.n {
		return 0, io.EOF
	}
	n := int(min(int64(len(b)), p.n-p.at))
	for i := range b[:n] {
		b[i] = byte((p.at + int64(i)) * 2654435761 >> 16)
	}
	p.at += int64(n)
	if p.read != nil {
		p.read.Add(int64(n))
	}
	return n, nil
}

func sumOf(t *testing.T, n int64) uint32 {
	sum := crc32.NewIEEE()
	check.Must(io.Copy(sum, &pattern{n: n}))(t)
	return sum.Sum32()
}

// Bodies of any size reach the home as they are, with and without a length, and at most a few parts of each are under
// way, whatever the home does.
func TestFrontStreams(t *testing.T) {
	t.Parallel()
	var passed, ahead atomic.Int64 // bytes that clients have sent, and by how much they were ahead of the home
	x := newFronted(t, func(w http.ResponseWriter, r *http.Request) {
		sum, buf := crc32.NewIEEE(), make([]byte, 100_000)
		for {
			n, err := r.Body.Read(buf)
			_, _ = sum.Write(buf[:n])
			if most := passed.Add(-int64(n)); most > ahead.Load() {
				ahead.Store(most)
			}
			if err != nil {
				if !errors.Is(err, io.EOF) {
					t.Errorf("the body ends with %v", err)
				}
				break
			}
		}
		fmt.Fprint(w, r.ContentLength, " ", sum.Sum32())
	})
	for _, size := range []int64{0, 1, MaxBody, MaxBody + 1, partSize, 3 * partSize, 5<<20 + 7} {
		for _, length := range []int64{size, -1} {
			w := httptest.NewRecorder()
			err := x.front.Serve(w, put(&pattern{n: size, read: &passed}, length), "table", "tables", true, false, nil)
			if want := fmt.Sprint(length, " ", sumOf(t, size)); err != nil || w.Body.String() != want {
				t.Errorf("%d bytes, length %d: %v, the home has %q, want %q", size, length, err, w.Body, want)
			}
		}
	}
	// 32 at once: the bound is that of one, 32 times.
	ahead.Store(0)
	const uploads, size = 32, 4 << 20
	want := fmt.Sprint(size, " ", sumOf(t, size))
	var wait sync.WaitGroup
	for range uploads {
		wait.Go(func() {
			w := httptest.NewRecorder()
			err := x.front.Serve(w, put(&pattern{n: size, read: &passed}, size), "table", "tables", true, false, nil)
			if err != nil || w.Body.String() != want {
				t.Errorf("%v, the home has %q", err, w.Body)
			}
		})
	}
	wait.Wait()
	if limit := int64(uploads * (uploadWindow + 1) * partSize); ahead.Load() > limit {
		t.Errorf("clients were %d bytes ahead of the home, want at most %d", ahead.Load(), limit)
	}
}

type systemKey struct{}

// A request goes only to nodes that have its log, and one of the server itself is one at the node that serves it.
func TestFrontOfParts(t *testing.T) {
	t.Parallel()
	system := func(ctx context.Context) bool { return ctx.Value(systemKey{}) != nil }
	c := natscluster.Start(t, 3)
	for i, log := range []string{"tables", "tables-s01"} {
		n := New(Config{
			Connect: func() (*nats.Conn, error) { return c.Conn(t, i), nil },
			Node:    fmt.Sprint("n", i),
			Services: map[string]Service{"table": {Log: log,
				Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					fmt.Fprint(w, log, " ", system(r.Context()))
				})}},
			Leader:   func(context.Context, string) (string, error) { return "", nil }, // an election
			Mark:     func(ctx context.Context) context.Context { return ctx },
			AsSystem: func(ctx context.Context) context.Context { return context.WithValue(ctx, systemKey{}, true) },
			Log:      slog.New(slog.DiscardHandler), probe: frontProbe, look: frontLook})
		check.OK(t, n.Open())
		t.Cleanup(n.Close)
	}
	front := NewFront(FrontConfig{Connect: func() (*nats.Conn, error) { return c.Conn(t, 2), nil },
		Nodes: []string{"n0", "n1"}, Services: []string{"table"}, Logs: []string{"tables", "tables-s01"}, System: system,
		Log: slog.New(slog.DiscardHandler), probe: frontProbe, look: frontLook})
	check.OK(t, front.Open())
	t.Cleanup(front.Close)
	check.Eventually(t, func() bool { return len(front.Serving()) == 2 }, "the front-end knows the nodes")
	for i := range 4 {
		for _, log := range []string{"tables", "tables-s01"} {
			r := put(strings.NewReader("x"), 1)
			if i > 1 {
				r = r.WithContext(context.WithValue(r.Context(), systemKey{}, true))
			}
			w := httptest.NewRecorder()
			check.OK(t, front.Serve(w, r, "table", log, i%2 == 0, false, nil))
			if want := fmt.Sprint(log, " ", i > 1); w.Body.String() != want {
				t.Errorf("request %d: %q, want %q", i, w.Body, want)
			}
		}
	}
	if err := front.Serve(httptest.NewRecorder(), request(http.MethodPut, ""), "table", "tables-s02", true, false,
		nil); !errors.Is(err, ErrNoNode) {
		t.Errorf("a log that no node has: error %v", err)
	}
}

// A body that the home does not want is not read, and a client that breaks its body off breaks it off at the home.
func TestFrontBodies(t *testing.T) {
	t.Parallel()
	got := make(chan error, 1)
	x := newFronted(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.Header.Get("Do") {
		case "refuse":
			w.WriteHeader(http.StatusForbidden)
		case "begin":
			_, err := io.ReadFull(r.Body, make([]byte, 10))
			check.OK(t, err)
			w.WriteHeader(http.StatusConflict)
		default:
			_, err := io.Copy(io.Discard, r.Body)
			got <- err
		}
	})
	for _, length := range []int64{10, MaxBody + 1} {
		var read atomic.Int64
		r := put(&pattern{n: length, read: &read}, length)
		r.Header.Set("Expect", "100-continue")
		r.Header.Set("Do", "refuse")
		w := httptest.NewRecorder()
		check.OK(t, x.front.Serve(w, r, "table", "tables", true, false, nil))
		if w.Code != http.StatusForbidden || read.Load() > 0 {
			t.Errorf("status %d, and %d bytes of a body that was not wanted were read", w.Code, read.Load())
		}
	}
	var read atomic.Int64
	r := put(&pattern{n: 1 << 30, read: &read}, 1<<30)
	r.Header.Set("Do", "begin")
	w := httptest.NewRecorder()
	check.OK(t, x.front.Serve(w, r, "table", "tables", true, false, nil))
	if w.Code != http.StatusConflict || read.Load() > (uploadWindow+1)*partSize {
		t.Errorf("status %d, and %d bytes were read", w.Code, read.Load())
	}
	for _, whole := range []int64{10, 1 << 20} { // kept in memory, and streamed
		broken := io.MultiReader(strings.NewReader("abc"), failing{errors.New("reset")})
		check.OK(t, x.front.Serve(httptest.NewRecorder(), put(broken, whole), "table", "tables", true, false, nil))
		if err := <-got; !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("of %d bytes: the home sees the end of the body as %v", whole, err)
		}
	}
}

// Where a request goes when nodes refuse, are lost, or are not there.
func TestFrontChoosesNodes(t *testing.T) {
	t.Parallel()
	named := func(name string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			fmt.Fprint(w, name, " ", len(body))
		}
	}
	x := newFronted(t, named("n0"), named("n1"))
	send := func(changes bool, size int64) string {
		w := httptest.NewRecorder()
		if err := x.front.Serve(w, put(&pattern{n: size}, size), "table", "tables", changes, !changes, nil); err != nil {
			return err.Error()
		}
		return w.Body.String()
	}
	for _, size := range []int64{1, MaxBody + 1} {
		for range 3 {
			if got, want := send(true, size), fmt.Sprint("n0 ", size); got != want {
				t.Errorf("a change went to %q, want %q", got, want)
			}
		}
	}
	reads := []string{send(false, 0), send(false, 0)}
	if slices.Sort(reads); !slices.Equal(reads, []string{"n0 0", "n1 0"}) {
		t.Errorf("reads went to %q", reads)
	}
	// The home refuses, also before the front-end learns of it.
	x.refuses[0].Store(true)
	for _, size := range []int64{1, MaxBody + 1} {
		if got, want := send(true, size), fmt.Sprint("n1 ", size); got != want {
			t.Errorf("a change went to %q, want %q", got, want)
		}
	}
	takes := func() (list []string, insist bool) { return x.front.nodesFor("tables", true) }
	check.Eventually(t, func() bool {
		list, insist := takes()
		return slices.Equal(list, []string{"n1"}) && !insist
	}, "the front-end knows that the home refuses")
	// All disks are full: a node says so, and serves reads and what needs no room.
	x.refuses[1].Store(true)
	check.Eventually(t, func() bool {
		list, insist := takes()
		return slices.Equal(list, []string{"n0", "n1"}) && insist
	}, "the front-end knows that all nodes refuse")
	if got := send(true, 1); got != "n0 1" {
		t.Errorf("where all nodes refuse, a change went to %q", got)
	}
	if got := send(false, 0); got != "n0 0" && got != "n1 0" {
		t.Errorf("where all nodes refuse, a read went to %q", got)
	}
	x.refuses[0].Store(false)
	x.refuses[1].Store(false)
	check.Eventually(t, func() bool { _, insist := takes(); return !insist }, "nodes take changes again")
	x.close(0)
	gone(t, x.front.f, "n0")
	if got := send(true, 1); got != "n1 1" {
		t.Errorf("a change went to %q", got)
	}
	x.close(1)
	check.Eventually(t, func() bool { return len(x.front.Serving()) == 0 }, "no node serves")
	err := x.front.Serve(httptest.NewRecorder(), put(&pattern{n: 1}, 1), "table", "tables", true, false, nil)
	if !errors.Is(err, ErrNoNode) {
		t.Errorf("without a node: %v", err)
	}
	if s := x.front.Stats()["table"]; s.Refused != 1 || s.Unknown != 0 || s.Passed < 10 {
		t.Errorf("stats %+v", s)
	}
}

// A home that is lost in the middle: before it has the whole body it has changed nothing; afterwards, and where the end
// is not known, the outcome is unknown. What has no effect is asked of the next node.
func TestFrontLosesTheHome(t *testing.T) {
	t.Parallel()
	begun := make(chan struct{}, 4)
	end := make(chan struct{})
	x := newFronted(t, func(_ http.ResponseWriter, r *http.Request) {
		switch r.Header.Get("Do") {
		case "all":
			_, _ = io.Copy(io.Discard, r.Body)
		case "begin":
			_, _ = io.ReadFull(r.Body, make([]byte, 10))
		}
		begun <- struct{}{}
		<-end
	}, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "n1") })
	var wait sync.WaitGroup
	type attempt struct {
		do         string
		length     int64
		repeatable bool
		want       error
	}
	attempts := []attempt{{"begin", 1 << 30, false, ErrNoNode}, {"begin", -1, false, store.ErrUnknown},
		{"all", 1 << 20, false, store.ErrUnknown}, {"", 0, true, nil}}
	for _, a := range attempts {
		wait.Go(func() {
			size := a.length
			if size < 0 {
				size = 1 << 30
			}
			r := put(&pattern{n: size}, a.length)
			r.Header.Set("Do", a.do)
			w := httptest.NewRecorder()
			// As a change: so the home gets it first.
			err := x.front.Serve(w, r, "table", "tables", true, a.repeatable, nil)
			if !errors.Is(err, a.want) || a.want == nil && w.Body.String() != "n1" {
				t.Errorf("%+v: %v, %q", a, err, w.Body)
			}
		})
	}
	for range attempts {
		<-begun
	}
	x.cluster.Stop(0)
	wait.Wait()
	close(end)
}

// A home that waits for a body does not wait for a front-end that is gone.
func TestFrontIsLost(t *testing.T) {
	t.Parallel()
	begun, got := make(chan struct{}), make(chan error, 1)
	x := newFronted(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadFull(r.Body, make([]byte, 1))
		close(begun)
		_, err := io.Copy(io.Discard, r.Body)
		got <- err
	})
	blocked, release := io.Pipe()
	var wait sync.WaitGroup
	wait.Go(func() {
		_ = x.front.Serve(httptest.NewRecorder(), put(io.MultiReader(bytes.NewReader(make([]byte, partSize)), blocked),
			1<<20), "table", "tables", true, false, nil)
	})
	<-begun
	x.cluster.Stop(2)
	if err := <-got; err == nil {
		t.Error("the body is whole")
	}
	check.OK(t, release.Close())
	wait.Wait()
}

// A node that has a request and does not answer is waited for no longer than until another one can serve it: a change
// until there is another home, and what has no effect goes to any other node.
func TestFrontLeavesASilentNode(t *testing.T) {
	t.Parallel()
	for _, repeatable := range []bool{false, true} {
		cluster := natscluster.Start(t, 3)
		var silent atomic.Bool
		var questions atomic.Int64
		mute := cluster.Conn(t, 0)
		check.Must(mute.Subscribe(requestSubject("n0"), func(*nats.Msg) { silent.Store(true) }))(t)
		check.Must(mute.Subscribe(controlSubject("n0"), func(m *nats.Msg) {
			if k, _ := parse(m.Data); !silent.Load() && k == kindWhere {
				h := here{reads: true, writes: true, homes: map[string]string{"tables": "n0"}}
				_ = m.Respond(h.message())
			} else if strings.HasSuffix(m.Reply, questionSuffix) {
				questions.Add(1)
			}
		}))(t)
		const probe = 200 * time.Millisecond // a slow machine may not answer for a second
		n1 := New(Config{
			Connect: func() (*nats.Conn, error) { return cluster.Conn(t, 1), nil },
			Node:    "n1",
			Services: map[string]Service{"table": {Log: "tables", Handler: http.HandlerFunc(
				func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "n1") })}},
			Leader: func(context.Context, string) (string, error) {
				if !repeatable && silent.Load() { // the election
					return "n1", nil
				}
				return "n0", nil
			},
			Mark: func(ctx context.Context) context.Context { return ctx },
			Log:  slog.New(slog.DiscardHandler), probe: probe,
		})
		check.OK(t, n1.Open())
		t.Cleanup(n1.Close)
		front := NewFront(FrontConfig{Connect: func() (*nats.Conn, error) { return cluster.Conn(t, 2), nil },
			Nodes: []string{"n0", "n1"}, Services: []string{"table"}, Logs: []string{"tables"},
			Log: slog.New(slog.DiscardHandler), probe: probe})
		check.OK(t, front.Open())
		t.Cleanup(front.Close)
		check.Eventually(t, func() bool { return len(front.Serving()) == 2 && front.Homes()["tables"] == "n0" },
			"the front-end knows the nodes and the home")
		// As a change: so the home gets it first.
		w := httptest.NewRecorder()
		err := front.Serve(w, put(&pattern{n: 1}, 1), "table", "tables", true, repeatable, nil)
		if !repeatable {
			if !errors.Is(err, store.ErrUnknown) {
				t.Errorf("the outcome is %v, want that it is unknown", err)
			}
			w = httptest.NewRecorder()
			err = front.Serve(w, put(&pattern{n: 1}, 1), "table", "tables", true, false, nil)
		}
		if err != nil || w.Body.String() != "n1" {
			t.Errorf("repeatable %t: %v, %q from the next node", repeatable, err, w.Body)
		}
		if n := questions.Load(); n == 0 || n >= patience {
			t.Errorf("repeatable %t: %d questions before the node was given up", repeatable, n)
		}
	}
}

// A request that no node takes is held until one does, as while a shard is handed over.
func TestFrontHoldsARequest(t *testing.T) {
	t.Parallel()
	serve := func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) }
	x := newFronted(t, serve, serve)
	for _, node := range x.nodes {
		if node != nil {
			node.Remove("table")
		}
	}
	check.Eventually(t, func() bool {
		list, _ := x.front.nodesFor("tables", true)
		return len(list) == 0
	}, "no node has the log")
	w, done := httptest.NewRecorder(), make(chan error, 1)
	go func() {
		done <- x.front.Serve(w, put(strings.NewReader("held"), 4), "table", "tables", true, false, nil)
	}()
	select {
	case err := <-done:
		t.Fatalf("it was not held: %v", err)
	case <-time.After(2 * holdPoll):
	}
	x.nodes[1].Add("table", Service{Log: "tables", Handler: http.HandlerFunc(serve)})
	// On a machine that stands still the time may be over.
	if err := <-done; !errors.Is(err, ErrNoNode) && (err != nil || w.Body.String() != "held") {
		t.Errorf("%v, %q", err, w.Body)
	}
}

// Nodes say by themselves what they serve when it changes, and when they close: a front-end that asked once an hour
// knows as soon.
func TestFrontIsTold(t *testing.T) {
	t.Parallel()
	x := &fronted{t: t, cluster: natscluster.Start(t, 3)}
	for i := range x.nodes {
		x.nodes[i] = New(Config{
			Connect: func() (*nats.Conn, error) { return x.cluster.Conn(t, i), nil },
			Node:    fmt.Sprint("n", i),
			Services: map[string]Service{"table": {Log: "tables",
				Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})}},
			Leader:  func(context.Context, string) (string, error) { return "n0", nil },
			Mark:    func(ctx context.Context) context.Context { return ctx },
			Refuses: x.refuses[i].Load,
			Log:     slog.New(slog.DiscardHandler), probe: time.Hour, look: frontLook})
		check.OK(t, x.nodes[i].Open())
		t.Cleanup(func() { x.close(i) })
	}
	x.front = NewFront(FrontConfig{Connect: func() (*nats.Conn, error) { return x.cluster.Conn(t, 2), nil },
		Nodes: []string{"n0", "n1"}, Services: []string{"table"}, Logs: []string{"tables"},
		Log: slog.New(slog.DiscardHandler), probe: time.Hour})
	check.OK(t, x.front.Open())
	t.Cleanup(x.front.Close)
	writers := func() (list []string) {
		list, insist := x.front.nodesFor("tables", true)
		if insist {
			return nil
		}
		return list
	}
	check.Eventually(t, func() bool { return slices.Equal(writers(), []string{"n0", "n1"}) }, "both nodes serve")
	x.refuses[0].Store(true)
	check.Eventually(t, func() bool { return slices.Equal(writers(), []string{"n1"}) }, "one refuses writes")
	x.refuses[0].Store(false)
	check.Eventually(t, func() bool { return len(writers()) == 2 }, "it takes them again")
	x.close(1)
	check.Eventually(t, func() bool { return slices.Equal(x.front.Serving(), []string{"n0"}) }, "one is closed")
}
