package sidecar_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/microsoft/durabletask-go/api"
	"github.com/microsoft/durabletask-go/backend"
	"github.com/microsoft/durabletask-go/client"
	"github.com/microsoft/durabletask-go/task"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/lazuli-storage/lazuli/internal/durable/hub"
	"github.com/lazuli-storage/lazuli/internal/durable/sidecar"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/lazulitest"
)

// serve starts a server and returns a client of it.
func serve(t *testing.T, o sidecar.Options) *client.TaskHubGrpcClient {
	t.Helper()
	return client.NewTaskHubGrpcClient(dial(t, o), backend.DefaultLogger())
}

// dial starts a server and returns a connection to it.
func dial(t *testing.T, o sidecar.Options, options ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	return dialTo(t, lazulitest.Start(t).Account(t), o, options...)
}

// dialTo is dial for a server whose hubs are in an account.
func dialTo(t *testing.T, a *lazulitest.Account, o sidecar.Options, options ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	o.Durable.Storage, o.Logger = a.Storage, slog.New(slog.DiscardHandler)
	s, err := sidecar.New(o)
	if err != nil {
		t.Fatal(err)
	}
	l, err := s.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	conn, err := grpc.NewClient(l.Addr().String(),
		append(options, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		s.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return conn
}

func hello(name string) *task.TaskRegistry {
	r := task.NewTaskRegistry()
	_ = r.AddOrchestratorN("hello", func(*task.OrchestrationContext) (any, error) { return "hello from " + name, nil })
	return r
}

// Hubs are apart: a worker gets the work of the hub that its metadata names.
func TestHubsAreApart(t *testing.T) {
	t.Parallel()
	c := serve(t, sidecar.Options{})
	for _, hub := range []string{"one", "two"} {
		ctx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(t.Context(), "taskhub", hub), check.Patience)
		defer cancel()
		if err := c.StartWorkItemListener(ctx, hello(hub)); err != nil {
			t.Fatal(err)
		}
		id, err := c.ScheduleNewOrchestration(ctx, "hello", api.WithInstanceID("same"))
		if err != nil {
			t.Fatal(err)
		}
		m, err := c.WaitForOrchestrationCompletion(ctx, id, api.WithFetchPayloads(true))
		if err != nil || m.SerializedOutput != `"hello from `+hub+`"` {
			t.Errorf("%s: %+v, %v", hub, m, err)
		}
		if _, err := c.ScheduleNewOrchestration(ctx, "hello", api.WithInstanceID("same")); err != nil {
			t.Errorf("%s: the ID of an instance that has ended: %v", hub, err)
		}
	}
	ctx := metadata.AppendToOutgoingContext(t.Context(), "taskhub", "a/b")
	if _, err := c.ScheduleNewOrchestration(ctx, "hello"); status.Code(err) != codes.InvalidArgument {
		t.Errorf("a hub that cannot be: %v", err)
	}
}

// Names of task hubs of the scheduler can have characters that tables cannot; they are apart all the same.
func TestNamesOfHubs(t *testing.T) {
	t.Parallel()
	c := serve(t, sidecar.Options{})
	for _, hub := range []string{"my-hub", "my.hub", "a", "7th_hub", strings.Repeat("long-", 12)} {
		ctx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(t.Context(), "taskhub", hub), check.Patience)
		defer cancel()
		if err := c.StartWorkItemListener(ctx, hello(hub)); err != nil {
			t.Fatal(err)
		}
		id, err := c.ScheduleNewOrchestration(ctx, "hello", api.WithInstanceID("same"))
		if err != nil {
			t.Fatal(err)
		}
		m, err := c.WaitForOrchestrationCompletion(ctx, id, api.WithFetchPayloads(true))
		if err != nil || m.SerializedOutput != `"hello from `+hub+`"` {
			t.Errorf("%s: %+v, %v", hub, m, err)
		}
	}
	for _, hub := range []string{"-x", "a b", strings.Repeat("x", 65), "é"} {
		ctx := metadata.AppendToOutgoingContext(t.Context(), "taskhub", hub)
		if _, err := c.ScheduleNewOrchestration(ctx, "hello"); err == nil {
			t.Errorf("the hub %q was accepted", hub)
		}
	}
	if _, err := sidecar.New(sidecar.Options{Durable: hub.Options{Hub: "a b"}}); err == nil {
		t.Error("a default hub that cannot be was accepted")
	}
}

func TestHubsOfAList(t *testing.T) {
	t.Parallel()
	c := serve(t, sidecar.Options{Hubs: []string{"default", "my-hub"}})
	for hub, want := range map[string]codes.Code{"": codes.OK, "Default": codes.OK, "MY-hub": codes.OK,
		"myhub": codes.NotFound} {
		ctx := metadata.AppendToOutgoingContext(t.Context(), "taskhub", hub)
		if _, err := c.ScheduleNewOrchestration(ctx, "hello"); status.Code(err) != want {
			t.Errorf("%q: %v, want %v", hub, err, want)
		}
	}
}

// A hub that is deleted beside a connected worker, and one whose storage is deleted, work again without a new worker.
func TestWorkersSurviveTheDeletionOfTheirHub(t *testing.T) {
	t.Parallel()
	account := lazulitest.Start(t).Account(t)
	conn := dialTo(t, account, sidecar.Options{})
	c := client.NewTaskHubGrpcClient(conn, backend.DefaultLogger())
	ctx, cancel := context.WithTimeout(t.Context(), check.Patience)
	defer cancel()
	if err := c.StartWorkItemListener(ctx, hello("the worker")); err != nil {
		t.Fatal(err)
	}
	for round, destroy := range []func(){
		func() {},
		func() {
			if err := conn.Invoke(ctx, "/TaskHubSidecarService/DeleteTaskHub", &emptypb.Empty{},
				&emptypb.Empty{}); err != nil {
				t.Fatal(err)
			}
		},
		func() { // As the reset of a server does.
			for _, table := range names(t, account) {
				if _, err := account.Tables.DeleteTable(ctx, table, nil); err != nil {
					t.Fatal(err)
				}
			}
			for _, queue := range []string{"workitems", "control-00", "control-01", "control-02", "control-03"} {
				if _, err := account.Queues.DeleteQueue(ctx, "default-"+queue, nil); err != nil {
					t.Fatal(err)
				}
			}
			for _, container := range []string{"leases", "largemessages"} {
				if _, err := account.Blobs.DeleteContainer(ctx, "default-"+container, nil); err != nil {
					t.Fatal(err)
				}
			}
		},
	} {
		destroy()
		id, err := c.ScheduleNewOrchestration(ctx, "hello", api.WithInstanceID("same")) // None is left of the round before.
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		m, err := c.WaitForOrchestrationCompletion(ctx, id, api.WithFetchPayloads(true))
		if err != nil || m.SerializedOutput != `"hello from the worker"` {
			t.Errorf("round %d: %+v, %v", round, m, err)
		}
	}
}

// names returns the account's tables.
func names(t *testing.T, account *lazulitest.Account) (list []string) {
	t.Helper()
	for pager := account.Tables.NewListTablesPager(nil); pager.More(); {
		page, err := pager.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, table := range page.Tables {
			list = append(list, *table.Name)
		}
	}
	return list
}

// Tokens of an issuer are accepted beside the server's own, and every caller can ask for its health.
func TestVerifiedTokensAndHealth(t *testing.T) {
	t.Parallel()
	conn := dial(t, sidecar.Options{Token: "open sesame", Verify: func(_ context.Context, token string) error {
		if token != "of the issuer" {
			return errors.New("refused")
		}
		return nil
	}})
	for token, want := range map[string]codes.Code{"": codes.Unauthenticated, "Bearer of nobody": codes.Unauthenticated,
		"of the issuer": codes.Unauthenticated, "Bearer of the issuer": codes.OK, "Bearer open sesame": codes.OK} {
		ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", token)
		err := conn.Invoke(ctx, "/TaskHubSidecarService/Hello", &emptypb.Empty{}, &emptypb.Empty{})
		if status.Code(err) != want {
			t.Errorf("with %q: %v, want %v", token, err, want)
		}
	}
	answer, err := healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{})
	if err != nil || answer.Status != healthpb.HealthCheckResponse_SERVING {
		t.Errorf("health: %v, %v", answer, err)
	}
}

func TestHubsAreBounded(t *testing.T) {
	t.Parallel()
	c := serve(t, sidecar.Options{MaxHubs: 2})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if err := c.StartWorkItemListener(ctx, hello("hello")); err != nil {
		t.Fatal(err)
	}
	in := func(hub string) error {
		_, err := c.ScheduleNewOrchestration(metadata.AppendToOutgoingContext(t.Context(), "taskhub", hub), "hello")
		return err
	}
	// invented names close the hubs without workers, and no others
	for _, hub := range []string{"one", "two", "three", "one", "four"} {
		if err := in(hub); err != nil {
			t.Errorf("hub %s: %v", hub, err)
		}
	}
	id, err := c.ScheduleNewOrchestration(t.Context(), "hello")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.WaitForOrchestrationCompletion(t.Context(), id); err != nil {
		t.Errorf("the hub with workers: %v", err)
	}
	other := metadata.AppendToOutgoingContext(ctx, "taskhub", "five")
	if err := c.StartWorkItemListener(other, hello("hello")); err != nil {
		t.Fatal(err)
	}
	if id, err = c.ScheduleNewOrchestration(other, "hello"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.WaitForOrchestrationCompletion(other, id); err != nil {
		t.Fatal(err)
	}
	if err := in("six"); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a hub more than can have workers: %v", err)
	}
}

func TestTokenIsDemanded(t *testing.T) {
	t.Parallel()
	c := serve(t, sidecar.Options{Token: "open sesame"})
	for token, want := range map[string]codes.Code{"": codes.Unauthenticated, "Bearer wrong": codes.Unauthenticated,
		"Bearer open sesame": codes.OK} {
		ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", token)
		if _, err := c.ScheduleNewOrchestration(ctx, "hello"); status.Code(err) != want {
			t.Errorf("with %q: %v, want %v", token, err, want)
		}
		stream, cancel := context.WithCancel(ctx)
		if err := c.StartWorkItemListener(stream, hello("x")); want != codes.OK && status.Code(err) != want {
			t.Errorf("fetching work with %q: %v, want %v", token, err, want)
		}
		cancel()
	}
}

// A call without the token is refused before its message is received, and metadata is bounded: no caller can have a
// server keep large messages.
func TestMessagesOfStrangersAreNotReceived(t *testing.T) {
	t.Parallel()
	conn := dial(t, sidecar.Options{Token: "open sesame"})
	ctx, cancel := context.WithTimeout(t.Context(), check.Patience)
	defer cancel()
	for _, method := range []string{"StartInstance", "QueryInstances", "GetWorkItems", "Unknown"} {
		stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true},
			"/TaskHubSidecarService/"+method)
		if err == nil {
			err = stream.RecvMsg(&emptypb.Empty{})
		}
		if status.Code(err) != codes.Unauthenticated {
			t.Errorf("%s without a message: %v", method, err)
		}
	}
	long := metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer open sesame", "taskhub",
		strings.Repeat("x", 1<<20))
	if err := conn.Invoke(long, "/TaskHubSidecarService/StartInstance", &emptypb.Empty{}, &emptypb.Empty{}); err == nil ||
		!strings.Contains(err.Error(), "header list size") {
		t.Errorf("a MiB of metadata: %v", err)
	}
}

func TestListenerBeyondLoopbackNeedsToken(t *testing.T) {
	t.Parallel()
	s, err := sidecar.New(sidecar.Options{Durable: hub.Options{Storage: lazulitest.Start(t).Account(t).Storage}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	for _, address := range []string{"0.0.0.0:0", ":0", "192.0.2.1:0", "example.net:4001"} {
		if _, err := s.Listen(address); !errors.Is(err, sidecar.ErrUnsafe) {
			t.Errorf("%s: %v", address, err)
		}
	}
}
