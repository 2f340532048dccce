package forward

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/lazuli-storage/lazuli/internal/httpserver/headercase"
	"github.com/lazuli-storage/lazuli/internal/httpserver/statusline"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/natscluster"
	"github.com/lazuli-storage/lazuli/internal/test/workbudget"
)

// pair are a node that clients ask, and the home, on two servers.
type pair struct {
	t       testing.TB
	cluster *natscluster.Cluster
	asked   *Forwarder
	home    *Forwarder
	leader  atomic.Pointer[string]
	refuses atomic.Bool
}

type markKey struct{}

func newPair(t testing.TB, h http.HandlerFunc) *pair {
	t.Helper()
	p := &pair{t: t, cluster: natscluster.Start(t, 3)}
	p.leader.Store(new("home"))
	open := func(server int, node string, h http.HandlerFunc) *Forwarder {
		f := New(Config{
			Connect:  func() (*nats.Conn, error) { return p.cluster.Conn(t, server), nil },
			Node:     node,
			Services: map[string]Service{"table": {Log: "tables", Handler: h}},
			Leader:   func(context.Context, string) (string, error) { return *p.leader.Load(), nil },
			Mark:     func(ctx context.Context) context.Context { return context.WithValue(ctx, markKey{}, true) },
			Refuses:  p.refuses.Load,
			Log:      slog.New(slog.DiscardHandler),
			probe:    200 * time.Millisecond, // a slow machine may not answer for a second
		})
		check.OK(t, f.Open())
		return f
	}
	p.home = open(0, "home", h)
	p.asked = open(1, "asked", func(http.ResponseWriter, *http.Request) { t.Error("the node that was asked serves") })
	t.Cleanup(p.asked.Close)
	check.Eventually(t, func() bool { return p.asked.Elsewhere("table") }, "the home is known")
	check.Eventually(t, func() bool { // the servers know of the subscription
		_, err := p.asked.conn.Request(controlSubject("home"), control(kindAsk, ""), time.Second)
		return err == nil
	}, "the home can be reached")
	return p
}

// gone waits until the server of f knows that a node, which was closed, has no subscription. What f sends it before is
// lost, and its outcome unknown.
func gone(t *testing.T, f *Forwarder, node string) {
	t.Helper()
	check.Eventually(t, func() bool {
		_, err := f.conn.Request(controlSubject(node), control(kindAsk, ""), time.Second)
		return errors.Is(err, nats.ErrNoResponders)
	}, "the servers know that %s is closed", node)
}

// closeHome is for tests that do not close it themselves.
func (p *pair) closeHome() { p.t.Cleanup(p.home.Close) }

func request(method, body string) *http.Request {
	r := httptest.NewRequest(method, "/account/people(a%2Fb)?comp=x", strings.NewReader(body))
	r.Host, r.RemoteAddr = "account.table.example:443", "192.0.2.7:4711"
	return r
}

// lower is the name of a header as the services write it.
var lower = "x-ms-lower"

// The home sees the request as the client has sent it, and the client the answer as the home has given it.
func TestForward(t *testing.T) {
	t.Parallel()
	p := newPair(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header()[lower] = []string{"kept"}
		w.Header().Set("Saw", fmt.Sprint(r.Method, " ", r.RequestURI, " ", r.URL.Path, " ", r.Host, " ", r.RemoteAddr, " ",
			r.TLS != nil, " ", r.ContentLength, " ", r.Header["Authorization"], " ",
			headercase.Original(r.Context(), "x-ms-meta-color"), "=", r.Header.Get("X-Ms-Meta-Color"), " ", string(body), " ",
			r.Context().Value(markKey{}) != nil))
		statusline.SetReason(w, http.StatusConflict, "It is there.\nmore")
		w.WriteHeader(http.StatusConflict)
		_, _ = io.WriteString(w, "answer")
	})
	p.closeHome()
	r := request(http.MethodPut, "content")
	names := new(headercase.Names)
	names.Set("X-MS-Meta-CoLoR")
	r = r.WithContext(headercase.NewContext(r.Context(), names))
	r.Header["X-Ms-Meta-Color"], r.Header["Authorization"] = []string{"blue"}, []string{"SharedKey account:c2ln"}
	w := reasoned{ResponseRecorder: httptest.NewRecorder()}
	version := "x-ms-version" // as the services write it, which is not the form of Go
	w.Header()[version] = []string{"of the node that was asked"}
	done, err := p.asked.Forward(&w, r, "table", nil)
	if !done || err != nil {
		t.Fatalf("done %t, %v", done, err)
	}
	want := "PUT /account/people(a%2Fb)?comp=x /account/people(a/b) account.table.example:443 192.0.2.7:4711 false 7 " +
		"[SharedKey account:c2ln] X-MS-Meta-CoLoR=blue content true"
	if got := w.Header().Get("Saw"); got != want {
		t.Errorf("the home saw\n%s, want\n%s", got, want)
	}
	if w.Code != http.StatusConflict || w.reason != "It is there." || w.Body.String() != "answer" ||
		!slices.Equal(w.Header()[lower], []string{"kept"}) || w.Header()[version] != nil {
		t.Errorf("the answer is %d %q %q %v", w.Code, w.reason, w.Body.String(), w.Header())
	}
	if s := p.asked.Stats()["tables"]; s != (Stats{Passed: 1}) {
		t.Errorf("stats %+v", s)
	}
}

type reasoned struct {
	*httptest.ResponseRecorder
	reason string
}

func (r *reasoned) SetReason(_ int, phrase string) { r.reason = phrase }

// Long answers come in parts, of which a few are under way.
func TestForwardLongAnswers(t *testing.T) {
	t.Parallel()
	long := bytes.Repeat([]byte("0123456789abcdef"), 5<<20/16)
	var sent atomic.Int64
	p := newPair(t, func(w http.ResponseWriter, r *http.Request) {
		for i := 0; i < len(long); i += 10_000 {
			n, err := w.Write(long[i:min(i+10_000, len(long))])
			check.OK(t, err)
			sent.Add(int64(n))
		}
	})
	p.closeHome()
	w := &slow{ResponseRecorder: httptest.NewRecorder(), sent: &sent}
	done, err := p.asked.Forward(w, request(http.MethodPost, ""), "table", nil)
	if !done || err != nil || !bytes.Equal(w.Body.Bytes(), long) {
		t.Fatalf("done %t, %v, %d bytes", done, err, w.Body.Len())
	}
	if limit := int64((2*window + 2) * partSize); w.ahead > limit {
		t.Errorf("the home was %d bytes ahead of the client, want at most %d", w.ahead, limit)
	}
}

// slow notes how far the home is ahead of the client.
type slow struct {
	*httptest.ResponseRecorder
	sent  *atomic.Int64
	ahead int64
}

func (s *slow) Write(p []byte) (int, error) {
	s.ahead = max(s.ahead, s.sent.Load()-int64(s.Body.Len()))
	return s.ResponseRecorder.Write(p)
}

// What was not taken is served where it arrived, with its whole body.
func TestForwardKeeps(t *testing.T) {
	t.Parallel()
	var served atomic.Int64
	p := newPair(t, func(http.ResponseWriter, *http.Request) { served.Add(1) })
	large := strings.Repeat("x", MaxBody+1)
	unknownLength := request(http.MethodPost, large)
	unknownLength.ContentLength = -1
	broken := request(http.MethodPost, "")
	broken.ContentLength = 10
	broken.Body = io.NopCloser(io.MultiReader(strings.NewReader("abc"), failing{io.ErrUnexpectedEOF}))
	keeps := func(name string, r *http.Request, body string, end error) {
		t.Helper()
		w := httptest.NewRecorder()
		done, err := p.asked.Forward(w, r, "table", nil)
		got, readErr := io.ReadAll(r.Body)
		if done || err != nil || string(got) != body || !errors.Is(readErr, end) || w.Body.Len() > 0 {
			t.Errorf("%s: done %t, %v; the body has %d bytes, %v", name, done, err, len(got), readErr)
		}
	}
	keeps("a large body", request(http.MethodPost, large), large, nil)
	keeps("a large body of unknown length", unknownLength, large, nil)
	keeps("a body that ends too early", broken, "abc", io.ErrUnexpectedEOF)
	p.refuses.Store(true)
	keeps("a home that refuses", request(http.MethodPost, "body"), "body", nil)
	p.refuses.Store(false)
	p.home.Close()
	gone(t, p.asked, "home")
	keeps("a home that was stopped", request(http.MethodPost, "body"), "body", nil)
	if n := served.Load(); n != 0 {
		t.Errorf("the home has served %d requests", n)
	}
}

// If the home is lost while it has the request, the outcome is unknown; a wait ends without one.
func TestForwardLosesTheHome(t *testing.T) {
	t.Parallel()
	begun, end := make(chan struct{}, 1), make(chan struct{})
	p := newPair(t, func(http.ResponseWriter, *http.Request) {
		begun <- struct{}{}
		<-end
	})
	var wait sync.WaitGroup
	wait.Go(func() {
		done, err := p.asked.Forward(httptest.NewRecorder(), request(http.MethodPost, "x"), "table", nil)
		if !done || !errors.Is(err, store.ErrUnknown) {
			t.Errorf("done %t, %v", done, err)
		}
	})
	<-begun
	p.cluster.Stop(0)
	wait.Wait()
	close(end)
	p.home.Close() // it has no connection
	if s := p.asked.Stats()["tables"]; s != (Stats{Unknown: 1}) {
		t.Errorf("stats %+v", s)
	}
}

// A home that is at work is waited for; one that does not answer gets no requests until it does.
func TestForwardWaits(t *testing.T) {
	t.Parallel()
	p := newPair(t, func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-time.After(10 * time.Second):
		}
		_, _ = io.WriteString(w, "ended")
	})
	p.closeHome()
	released := make(chan struct{})
	time.AfterFunc(10*p.asked.config.probe, func() { close(released) }) // longer than an unanswered question may take
	w := httptest.NewRecorder()
	done, err := p.asked.Forward(w, request(http.MethodGet, ""), "table", released)
	if !done || err != nil || w.Body.String() != "ended" {
		t.Errorf("a wait that was released: done %t, %v, %q", done, err, w.Body)
	}
	// A subscription that answers nothing is what a stopped process looks like.
	mute := p.cluster.Conn(t, 0)
	var answers atomic.Bool
	for _, subject := range []string{requestSubject("mute"), controlSubject("mute")} {
		check.Must(mute.Subscribe(subject, func(m *nats.Msg) {
			if answers.Load() {
				_ = m.Respond(control(kindUnknown, ""))
			}
		}))(t)
	}
	check.OK(t, mute.Flush())
	p.leader.Store(new("mute"))
	check.Eventually(t, func() bool { return p.asked.HomeOf("tables") == "mute" }, "the home has changed")
	// Before the routes know of the subscription, the request would be served here.
	check.Eventually(t, func() bool {
		done, err = p.asked.Forward(httptest.NewRecorder(), request(http.MethodPost, "x"), "table", nil)
		return done
	}, "the request is sent")
	if !errors.Is(err, store.ErrUnknown) {
		t.Errorf("a home that does not answer: %v", err)
	}
	before := p.asked.Stats()["tables"]
	done, err = p.asked.Forward(httptest.NewRecorder(), request(http.MethodPost, "x"), "table", nil)
	if done || err != nil {
		t.Errorf("a node that does not answer gets requests: %v", err)
	}
	if s := p.asked.Stats()["tables"]; s.Kept != before.Kept+1 {
		t.Errorf("stats %+v, and %+v before a request that was served here", s, before)
	}
	answers.Store(true)
	check.Eventually(t, func() bool { return !p.asked.isSilent("mute") }, "the node gets requests again")
}

// A home that does not answer is waited for no longer than until another node has its place: the client's next request
// goes there.
func TestForwardLeavesASilentHome(t *testing.T) {
	t.Parallel()
	p := newPair(t, func(http.ResponseWriter, *http.Request) {})
	p.closeHome()
	mute := p.cluster.Conn(t, 0)
	var questions atomic.Int64
	check.Must(mute.Subscribe(requestSubject("mute"), func(*nats.Msg) {}))(t)
	check.Must(mute.Subscribe(controlSubject("mute"), func(m *nats.Msg) {
		if !strings.HasSuffix(m.Reply, questionSuffix) {
			return
		}
		questions.Add(1)
		p.leader.Store(new("home")) // by an election
	}))(t)
	check.OK(t, mute.Flush())
	p.leader.Store(new("mute"))
	check.Eventually(t, func() bool { return p.asked.HomeOf("tables") == "mute" }, "the home has changed")
	var done bool
	var err error
	check.Eventually(t, func() bool { // before the routes know of the subscription, the request would be served here
		done, err = p.asked.Forward(httptest.NewRecorder(), request(http.MethodPost, "x"), "table", nil)
		return done
	}, "the request is sent")
	if !errors.Is(err, store.ErrUnknown) {
		t.Errorf("the outcome is %v, want that it is unknown", err)
	}
	if n := questions.Load(); n >= patience {
		t.Errorf("%d questions before the home was given up", n)
	}
	check.Eventually(t, func() bool { return p.asked.HomeOf("tables") == "home" && !p.asked.isSilent("home") },
		"the new home gets requests")
}

// FuzzMessages: any message of another node is parsed or refused.
func FuzzMessages(f *testing.F) {
	r := request(http.MethodPut, "")
	r.Header["X-Ms-Meta-A"] = []string{"1", "2"}
	f.Add(append(appendRequest(nil, "table", r, 0), "body"...))
	f.Add((&here{true, false, map[string]string{"tables": "n1"}}).message())
	f.Add((&answer{status: 201, header: http.Header{"Etag": {"x"}}}).appendTo(nil))
	f.Fuzz(func(t *testing.T, message []byte) {
		defer workbudget.Default.Start(t, len(message))()
		_, p := parse(message)
		if service, r, flags, err := p.request(t.Context()); err == nil {
			again := appendRequest(nil, service, r, 0)
			_, p := parse(again)
			service2, r2, flags2, err := p.request(t.Context())
			if err != nil || flags2&^flags != 0 || service2 != service || r2.RequestURI != r.RequestURI ||
				r2.ContentLength != r.ContentLength ||
				len(r2.Header) > len(r.Header) {
				t.Errorf("%x is parsed as %+v, and then as %+v", message, r, r2)
			}
		}
		_, p = parse(message)
		if h, err := p.here(); err == nil {
			_, p := parse(h.message())
			if again, err := p.here(); err != nil || !reflect.DeepEqual(again, h) {
				t.Errorf("%x is parsed as %+v, and then as %+v", message, h, again)
			}
		}
		_, p = parse(message)
		if a, err := p.answer(http.Header{}); err == nil {
			_, p := parse(a.appendTo(nil))
			if b, err := p.answer(http.Header{}); err != nil || b.status != a.status || b.phrase != a.phrase {
				t.Errorf("%x is parsed as %+v, and then as %+v", message, a, b)
			}
		}
	})
}
