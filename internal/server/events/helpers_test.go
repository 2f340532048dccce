package events_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/google/uuid"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/egress"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/server"
	"github.com/lazuli-storage/lazuli/internal/server/events"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/clock"
)

// hook is a webhook that records what it gets.
type hook struct {
	*httptest.Server
	mu       sync.Mutex
	requests []request
	// answer decides the status of a delivery; nil is 200.
	answer func(request) int
	// greet answers a handshake; nil confirms it.
	greet http.HandlerFunc
}

// request is a delivery.
type request struct {
	header http.Header
	body   []byte
	events []map[string]any
}

func (r request) subject() string {
	s, _ := r.events[0]["subject"].(string)
	return s
}

func (r request) id() string {
	s, _ := r.events[0]["id"].(string)
	return s
}

func newHook(t *testing.T) *hook {
	h := &hook{}
	h.Server = httptest.NewServer(h)
	t.Cleanup(h.Close)
	return h
}

func (h *hook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var list []map[string]any
	if json.Unmarshal(body, &list) != nil {
		var one map[string]any
		_ = json.Unmarshal(body, &one)
		list = []map[string]any{one}
	}
	if r.Method == http.MethodOptions || r.Header.Get("Aeg-Event-Type") == "SubscriptionValidation" {
		switch {
		case h.greet != nil:
			r.Body = io.NopCloser(bytes.NewReader(body))
			h.greet(w, r)
		case r.Method == http.MethodOptions:
			w.Header().Set("WebHook-Allowed-Origin", r.Header.Get("WebHook-Request-Origin"))
		default:
			code := list[0]["data"].(map[string]any)["validationCode"]
			_ = json.NewEncoder(w).Encode(map[string]any{"validationResponse": code})
		}
		return
	}
	got := request{r.Header, body, list}
	h.mu.Lock()
	h.requests = append(h.requests, got)
	answer := h.answer
	h.mu.Unlock()
	if answer != nil {
		w.WriteHeader(answer(got))
	}
}

// answerWith sets the status of deliveries from now on.
func (h *hook) answerWith(answer func(request) int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.answer = answer
}

func status(code int) func(request) int { return func(request) int { return code } }

func (h *hook) got() []request {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]request(nil), h.requests...)
}

// events returns type and subject of what was delivered, in order.
func (h *hook) events() (list []string) {
	for _, r := range h.got() {
		for _, e := range r.events {
			kind, _ := e["eventType"].(string)
			if kind == "" {
				kind, _ = e["type"].(string)
			}
			list = append(list, kind+" "+e["subject"].(string))
		}
	}
	return list
}

// fixture is a stack with events.
type fixture struct {
	*testing.T
	stack *server.Server
	clock *clock.Clock
	blobs *azblob.Client
}

// hosts allows webhooks of tests.
func hosts(hooks ...*hook) (p egress.Policy) {
	p.Private = true
	for _, h := range hooks {
		u, err := url.Parse(h.URL)
		if err != nil {
			panic(err)
		}
		p.Hosts = append(p.Hosts, u.Host)
	}
	return p
}

// start runs a stack whose clock stands still. set may change its configuration.
func start(t *testing.T, hooks []*hook, set func(*server.Config)) *fixture {
	t.Helper()
	f := &fixture{T: t, clock: clock.New(0)}
	c := server.Config{InMemory: true, Events: true, EventHosts: hosts(hooks...), Now: f.clock.Now, ClientsNow: time.Now,
		Log: slog.New(slog.DiscardHandler)}
	if set != nil {
		set(&c)
	}
	var err error
	f.stack, err = server.Start(c)
	check.OK(t, err)
	t.Cleanup(func() { check.OK(t, f.stack.Stop(context.Background())) })
	f.blobs, err = azblob.NewClientWithNoCredential(f.stack.InProcessURL(wire.Blob, auth.DevelopmentAccount),
		&azblob.ClientOptions{ClientOptions: f.options()})
	check.OK(t, err)
	if _, err = f.blobs.CreateContainer(f.Context(), "photos", nil); !bloberror.HasCode(err,
		bloberror.ContainerAlreadyExists) {
		check.OK(t, err)
	}
	return f
}

func (f *fixture) options() policy.ClientOptions {
	return azcore.ClientOptions{Transport: &http.Client{Transport: f.stack.InProcess()},
		Retry: policy.RetryOptions{MaxRetries: -1}}
}

// subscribe adds a subscription to a hook.
func (f *fixture) subscribe(h *hook, set func(*events.Subscription)) events.Status {
	f.Helper()
	s := events.Subscription{Name: "sub", Account: auth.DevelopmentAccount}
	if h != nil {
		s.Endpoint = h.URL + "/hook?key=secret"
	}
	if set != nil {
		set(&s)
	}
	added, err := f.stack.Events().Add(f.Context(), s)
	check.OK(f, err)
	return added
}

func (f *fixture) put(name string) {
	f.Helper()
	_, err := f.blobs.UploadBuffer(f.ctx(), "photos", name, []byte("content of "+name), nil)
	check.OK(f, err)
}

// ctx gives requests a client request ID, which the SDK does not send by itself.
func (f *fixture) ctx() context.Context {
	return policy.WithHTTPHeader(f.Context(), http.Header{"X-Ms-Client-Request-Id": {uuid.NewString()}})
}

// flush waits until all events are finished.
func (f *fixture) flush() {
	f.Helper()
	ctx, cancel := context.WithTimeout(f.Context(), 2*time.Minute)
	defer cancel()
	left, err := f.stack.Events().Flush(ctx)
	if err != nil {
		f.Fatalf("flush: %v %v", err, left)
	}
}

// status returns the state of the only subscription.
func (f *fixture) status() events.Status {
	f.Helper()
	list := f.stack.Events().List()
	if len(list) != 1 {
		f.Fatalf("%d subscriptions, want 1", len(list))
	}
	return list[0]
}
