package server

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/lease"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/longpoll"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/storage/datadir"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// tenant is one account, with something of every service in it.
type tenant struct {
	blobs  *azblob.Client
	queues *azqueue.ServiceClient
	tables *aztables.ServiceClient
}

func newTenant(t testing.TB, connection string) *tenant {
	t.Helper()
	return newTenantWith(t, connection, policy.RetryOptions{})
}

func newTenantWith(t testing.TB, connection string, retry policy.RetryOptions) *tenant {
	t.Helper()
	var x tenant
	var err error
	o := policy.ClientOptions{Retry: retry}
	x.blobs, err = azblob.NewClientFromConnectionString(connection, &azblob.ClientOptions{ClientOptions: o})
	check.OK(t, err)
	x.queues, err = azqueue.NewServiceClientFromConnectionString(connection, &azqueue.ClientOptions{ClientOptions: o})
	check.OK(t, err)
	x.tables, err = aztables.NewServiceClientFromConnectionString(connection, &aztables.ClientOptions{ClientOptions: o})
	check.OK(t, err)
	return &x
}

// made ends the test unless something was created, perhaps by an attempt whose outcome the client does not know.
func made(t *testing.T, err error) {
	t.Helper()
	if !bloberror.HasCode(err, "ContainerAlreadyExists", "QueueAlreadyExists", "TableAlreadyExists",
		"EntityAlreadyExists") {
		check.OK(t, err)
	}
}

// madeBy is made for a call whose answer is not used.
func madeBy[V any](_ V, err error) func(*testing.T) {
	return func(t *testing.T) {
		t.Helper()
		made(t, err)
	}
}

// fill makes a container, a queue and a table of a name.
func (x *tenant) fill(t *testing.T, name string) {
	t.Helper()
	ctx := t.Context()
	_, err := x.blobs.CreateContainer(ctx, name, nil)
	made(t, err)
	_, err = x.blobs.UploadBuffer(ctx, name, "blob", []byte(name), nil)
	check.OK(t, err)
	_, err = x.queues.CreateQueue(ctx, name, nil)
	made(t, err)
	_, err = x.queues.NewQueueClient(name).EnqueueMessage(ctx, name, nil)
	check.OK(t, err)
	_, err = x.tables.CreateTable(ctx, name, nil)
	made(t, err)
	_, err = x.tables.NewClient(name).AddEntity(ctx, []byte(`{"PartitionKey":"p","RowKey":"r","V":"`+name+`"}`), nil)
	made(t, err)
}

// has lists the services in which there is something of a name: "bqt".
func (x *tenant) has(t testing.TB, name string) (found string) {
	t.Helper()
	ctx := t.Context()
	look := func(letter string, err error) {
		t.Helper()
		var e *azcore.ResponseError
		switch {
		case err == nil:
			found += letter
		case !errors.As(err, &e) || e.StatusCode != 404:
			t.Fatal(err)
		}
	}
	resp, err := x.blobs.DownloadStream(ctx, name, "blob", nil)
	if err == nil {
		text, err := io.ReadAll(resp.Body)
		check.OK(t, err)
		if string(text) != name {
			t.Errorf("blob of %s has %q", name, text)
		}
	}
	look("b", err)
	_, err = x.queues.NewQueueClient(name).PeekMessage(ctx, nil)
	look("q", err)
	_, err = x.tables.NewClient(name).GetEntity(ctx, "p", "r", nil)
	look("t", err)
	return found
}

const otherKey = "b3RoZXIga2V5IG9mIGEgdGVzdA=="

func startState(t *testing.T, c Config) (s *Server, dev, other *tenant) {
	t.Helper()
	key, err := auth.ParseKey(otherKey)
	check.OK(t, err)
	devKey, err := auth.ParseKey(auth.DevelopmentKey)
	check.OK(t, err)
	c.Accounts, err = auth.NewAccounts(auth.Account{Name: auth.DevelopmentAccount, Keys: []auth.Key{devKey}},
		auth.Account{Name: "other", Keys: []auth.Key{key}})
	check.OK(t, err)
	c.Log = slog.New(slog.DiscardHandler)
	s, err = Start(c)
	check.OK(t, err)
	t.Cleanup(func() { check.OK(t, s.Stop(context.Background())) })
	return s, newTenant(t, s.ConnectionString()), newTenant(t, s.ConnectionStringOf("other", otherKey))
}

func TestReset(t *testing.T) {
	t.Parallel()
	s, dev, other := startState(t, Config{InMemory: true})
	fill := func() {
		for _, x := range []*tenant{dev, other} {
			x.fill(t, "test1")
			x.fill(t, "keep")
		}
	}
	fill()
	_, err := dev.tables.SetProperties(t.Context(),
		aztables.ServiceProperties{Cors: []*aztables.CorsRule{{AllowedOrigins: to.Ptr("*"),
			AllowedMethods: to.Ptr("GET"), AllowedHeaders: to.Ptr("*"), ExposedHeaders: to.Ptr("*"),
			MaxAgeInSeconds: to.Ptr(int32(1))}}}, nil)
	check.OK(t, err)
	leased, err := lease.NewContainerClient(dev.blobs.ServiceClient().NewContainerClient("test1"), nil)
	check.OK(t, err)
	_, err = leased.AcquireLease(t.Context(), -1, nil)
	check.OK(t, err)
	reset := func(scope Scope, want int) {
		t.Helper()
		deleted, err := s.Reset(t.Context(), scope)
		check.OK(t, err)
		if n := deleted[wire.Blob] + deleted[wire.Queue] + deleted[wire.Table]; n != want {
			t.Errorf("%+v: %v deleted, want %d", scope, deleted, want)
		}
	}
	want := func(devTest, devKeep, otherTest string) {
		t.Helper()
		if a, b, c := dev.has(t, "test1"), dev.has(t, "keep"), other.has(t, "test1"); a != devTest || b != devKeep ||
			c != otherTest {
			t.Errorf("test1 has %q, keep %q, the other account %q; want %q, %q, %q", a, b, c, devTest, devKeep, otherTest)
		}
	}
	reset(Scope{Account: auth.DevelopmentAccount, Services: []wire.Service{wire.Queue}, Prefix: "test"}, 1)
	want("bt", "bqt", "bqt")
	reset(Scope{Account: auth.DevelopmentAccount, Prefix: "test"}, 2) // the lease does not hold it up
	want("", "bqt", "bqt")
	reset(Scope{Account: auth.DevelopmentAccount}, 3)
	want("", "", "bqt")
	props, err := dev.tables.GetProperties(t.Context(), nil)
	check.OK(t, err)
	if len(props.Cors) != 0 {
		t.Error("the service properties are still there")
	}
	reset(Scope{}, 6)
	want("", "", "")
	fill() // names are free at once
	want("bqt", "bqt", "bqt")
	if _, err := s.Reset(t.Context(), Scope{Account: "nobody"}); !errors.Is(err, ErrUnknownAccount) {
		t.Errorf("an unknown account: %v", err)
	}
}

// A snapshot is the state between two requests; requests that come while it is made or restored are served after it.
func TestSnapshotAndRestore(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, dev, _ := startState(t, Config{Location: dir, Relaxed: true})
	ctx := t.Context()
	dev.fill(t, "before")
	got, err := dev.queues.NewQueueClient("before").DequeueMessage(ctx,
		&azqueue.DequeueMessageOptions{VisibilityTimeout: to.Ptr(int32(3600))})
	check.OK(t, err)
	check.OK(t, s.Save(ctx, "one", false))
	dev.fill(t, "after")
	_, err = dev.queues.NewQueueClient("before").DeleteMessage(ctx, *got.Messages[0].MessageID,
		*got.Messages[0].PopReceipt, nil)
	check.OK(t, err)

	stop := make(chan struct{})
	var clients sync.WaitGroup
	for range 4 {
		clients.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if resp, err := dev.blobs.DownloadStream(ctx, "before", "blob", nil); err != nil {
					t.Error("while a snapshot is restored:", err)
					return
				} else if text, err := io.ReadAll(resp.Body); err != nil || string(text) != "before" {
					t.Errorf("while a snapshot is restored: %q, %v", text, err)
					return
				}
			}
		})
	}
	check.OK(t, s.Restore(ctx, "one"))
	close(stop)
	clients.Wait()

	if a, b := dev.has(t, "before"), dev.has(t, "after"); a != "bqt" || b != "" {
		t.Errorf("before has %q, after %q; want all and nothing", a, b)
	}
	// Receipts are those of the snapshot: the deletion is undone, and the message can be deleted with the same receipt.
	_, err = dev.queues.NewQueueClient("before").DeleteMessage(ctx, *got.Messages[0].MessageID,
		*got.Messages[0].PopReceipt, nil)
	check.OK(t, err)
	check.OK(t, s.Stop(context.Background()))
	s, dev, _ = startState(t, Config{Location: dir, Relaxed: true})
	if dev.has(t, "before") != "bqt" {
		t.Error("what was restored is not there after a restart")
	}
	if list, err := s.Snapshots(); err != nil || len(list) != 1 {
		t.Errorf("snapshots %v, %v", list, err)
	}
}

// A position in a table's log from after the snapshot is unknown once the snapshot is restored, however many changes
// follow. What follows the table reads it again.
func TestRestoreInvalidatesPositions(t *testing.T) {
	t.Parallel()
	s, dev, _ := startState(t, Config{Location: t.TempDir(), Relaxed: true})
	ctx := t.Context()
	table := dev.tables.NewClient("followed")
	_, err := table.CreateTable(ctx, nil)
	check.OK(t, err)
	insert := func(row string) {
		_, err := table.AddEntity(ctx, []byte(`{"PartitionKey":"p","RowKey":"`+row+`"}`), nil)
		check.OK(t, err)
	}
	after := func(position string) (next string, known bool) {
		var answer *http.Response
		header := http.Header{longpoll.AfterHeader: {position}}
		_, err := table.NewListEntitiesPager(nil).NextPage(
			policy.WithHTTPHeader(policy.WithCaptureResponse(ctx, &answer), header))
		check.OK(t, err)
		return answer.Header.Get(longpoll.PositionHeader), answer.Header.Get(longpoll.FeedHeader) == longpoll.FeedChanges
	}
	shared, _ := after("")
	check.OK(t, s.Save(ctx, "one", false))
	insert("lost")
	lost, known := after(shared)
	if !known || lost == shared {
		t.Fatalf("the position after a change is %q, known: %v", lost, known)
	}
	check.OK(t, s.Restore(ctx, "one"))
	insert("1")
	insert("2")
	if _, known := after(lost); known {
		t.Error("the position of a lost change is known")
	}
	if _, known := after(shared); !known {
		t.Error("the position of the snapshot is unknown")
	}
}

func TestSnapshotRefusals(t *testing.T) {
	t.Parallel()
	memory, _, _ := startState(t, Config{InMemory: true})
	if err := memory.Save(t.Context(), "x", false); !errors.Is(err, datadir.ErrTemporary) {
		t.Errorf("in memory: %v", err)
	}
	s, dev, _ := startState(t, Config{Location: t.TempDir(), Relaxed: true})
	dev.fill(t, "things")
	// A request that does not end holds a snapshot up, for as long as its caller has patience, and is not interrupted.
	check.OK(t, s.gate.enter(t.Context()))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := s.Save(ctx, "x", false); !errors.Is(err, ErrBusy) {
		t.Errorf("while a request is under way: %v", err)
	}
	s.gate.leave()
	if dev.has(t, "things") != "bqt" {
		t.Error("requests do not pass after a snapshot that was given up")
	}
	check.OK(t, s.Save(t.Context(), "x", false))
}
