package queuesvc_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/frontend"
	"github.com/lazuli-storage/lazuli/internal/httpserver"
	"github.com/lazuli-storage/lazuli/internal/nats/natsserver"
	"github.com/lazuli-storage/lazuli/internal/service"
	"github.com/lazuli-storage/lazuli/internal/service/queuehost"
	state "github.com/lazuli-storage/lazuli/internal/state/queue"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/clock"
	"github.com/lazuli-storage/lazuli/queuesvc"
)

// childVariable makes the test binary a front-end instead: its value is the JSON of a childConfig.
const childVariable = "LAZULI_TEST_QUEUE_FRONTEND"

// childConfig says what a front-end in a process of its own serves.
type childConfig struct {
	NATS    natsserver.Config
	Folder  string // of queues.db
	Address string
}

func TestMain(m *testing.M) {
	if config := os.Getenv(childVariable); config != "" {
		go func() { // a test that is killed itself leaves no process behind
			_, _ = io.Copy(io.Discard, os.Stdin)
			os.Exit(1)
		}()
		if err := runChild(config); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	check.FilesInMemory()
	check.MoreParallel(8)
	os.Exit(m.Run())
}

// runChild serves until the process is asked to end. It prints the address once it serves.
func runChild(config string) error {
	var c childConfig
	if err := json.Unmarshal([]byte(config), &c); err != nil {
		return err
	}
	n, err := natsserver.Start(c.NATS)
	if err != nil {
		return err
	}
	defer n.Close()
	f, err := newFrontend(n, c.Folder, c.Address, time.Now)
	if err != nil {
		return err
	}
	fmt.Println(f.address)
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	<-stop
	return f.close()
}

// testFrontend is a Queue service with a listener.
type testFrontend struct {
	service *queuesvc.Service
	address string // host:port
	server  *http.Server
}

func newFrontend(n *natsserver.Server, folder, address string, now func() time.Time) (*testFrontend, error) {
	options, err := state.StoreOptions(context.Background(), n, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	s, err := service.Open(queuesvc.New, &queuehost.Config{Path: filepath.Join(folder, "queues.db"), Store: options,
		Common: frontend.Common{Accounts: auth.Development(), Now: now,
			Log: slog.New(slog.DiscardHandler)}})
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	f := &testFrontend{service: s, address: l.Addr().String(),
		server: httpserver.New(s.Handler(), slog.New(slog.DiscardHandler), 0)}
	go func() { _ = httpserver.Serve(f.server, l, httpserver.Options{}) }()
	return f, nil
}

func (f *testFrontend) close() error { return errors.Join(f.server.Close(), f.service.Close()) }

func (f *testFrontend) url() string { return "http://" + f.address + "/" + auth.DevelopmentAccount }

// fixture is one service in memory with a clock.
type fixture struct {
	*testFrontend
	clock *clock.Clock
	sdk   *azqueue.ServiceClient
}

// start starts a service that the test's end stops.
func start(t testing.TB) *fixture {
	t.Helper()
	n, err := natsserver.Start(natsserver.Config{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Close)
	c := clock.New(0)
	f, err := newFrontend(n, t.TempDir(), "127.0.0.1:0", c.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.close() })
	return &fixture{f, c, sdkClient(t, f.url())}
}

// sdkClient is the official SDK's client, without retries.
func sdkClient(t testing.TB, url string) *azqueue.ServiceClient {
	t.Helper()
	key, err := azqueue.NewSharedKeyCredential(auth.DevelopmentAccount, auth.DevelopmentKey)
	if err != nil {
		t.Fatal(err)
	}
	client, err := azqueue.NewServiceClientWithSharedKeyCredential(url, key, &azqueue.ClientOptions{
		ClientOptions: policy.ClientOptions{Retry: policy.RetryOptions{MaxRetries: -1}}})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// queue makes a queue and returns its client.
func (f *fixture) queue(t testing.TB, name string) *azqueue.QueueClient {
	t.Helper()
	q := f.sdk.NewQueueClient(name)
	if _, err := q.Create(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	return q
}

// wantCode fails unless err is the service's error with this status and code.
func wantCode(t testing.TB, err error, status int, code string) {
	t.Helper()
	var e *azcore.ResponseError
	if !errors.As(err, &e) || e.StatusCode != status || e.ErrorCode != code {
		t.Errorf("got %v, want %d %s", err, status, code)
	}
}

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func ptr[T any](v T) *T { return &v }
