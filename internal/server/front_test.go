package server

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azdatalake"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azdatalake/filesystem"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/longpoll"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/cluster"
	"github.com/lazuli-storage/lazuli/internal/cluster/peering"
	"github.com/lazuli-storage/lazuli/internal/sdk/connstr"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// startFront starts a front-end of the cluster, which has no data.
func (c *testCluster) startFront(name string) *Front {
	c.t.Helper()
	f := check.Must(StartFront(c.t.Context(), Config{Log: slog.New(slog.DiscardHandler), DataLake: "127.0.0.1:0",
		Cluster: &peering.Config{Node: name, Front: true, Peers: c.configs[0].Cluster.Peers}}))(c.t)
	c.t.Cleanup(func() { _ = f.Stop(context.Background()) })
	return f
}

// connectionOf returns the connection string of an account at a front-end, which knows no accounts itself.
func connectionOf(f *Front, account, key string) string {
	return connstr.Settings{Account: account, Key: connstr.NewSecret(key), BlobEndpoint: f.URL(wire.Blob, account),
		QueueEndpoint: f.URL(wire.Queue, account), TableEndpoint: f.URL(wire.Table, account)}.Reveal()
}

// Clients of a front-end have everything that the nodes serve, with bodies of any size in both directions.
func TestFront(t *testing.T) {
	if testing.Short() {
		t.Skip("starts three nodes")
	}
	t.Parallel()
	c := newTestCluster(t, 3)
	for i := range c.configs {
		c.configs[i].ManagedAccounts, c.configs[i].Accounts = true, auth.Development()
	}
	f := make(chan *Front)
	go func() { f <- c.startFront("f1") }() // it may be there before the nodes
	c.start(0, 1, 2)
	front := <-f
	check.Eventually(t, func() bool { return len(front.forward.Serving()) == 3 }, "the front-end knows all nodes")
	x := frontTest{c, front, newTenant(t, connectionOf(front, auth.DevelopmentAccount, auth.DevelopmentKey))}
	t.Run("status", x.testStatus)
	t.Run("tables", x.testTables)
	t.Run("queues", x.testQueues)
	t.Run("blobs", x.testBlobs)
	t.Run("an account that was added, and the Data Lake", x.testAddedAccount)
	t.Run("a home that is lost", x.testLostHome)
	t.Run("no majority", x.testNoMajority)
}

type frontTest struct {
	cluster *testCluster
	front   *Front
	*tenant
}

func (x frontTest) testStatus(t *testing.T) {
	check.OK(t, x.front.Ready())
	for _, n := range x.cluster.nodes {
		if v := n.member.Load().View(); v.Connected != 2 || !v.Majority {
			t.Errorf("a node counts %d others, with the front-end", v.Connected)
		}
		if voters := n.member.Load().Voters(); voters != 3 {
			t.Errorf("%d voters", voters)
		}
	}
	for _, ask := range []func(context.Context) (*cluster.Status, error){x.cluster.nodes[1].ClusterStatus,
		x.front.ClusterStatus} {
		s := check.Must(ask(t.Context()))(t)
		if len(s.Nodes) != 3 || len(s.Fronts) != 1 || s.Fronts[0].Name != "f1" || s.Fronts[0].Report == nil ||
			!slices.Equal(s.Fronts[0].Report.Serving, []string{"n0", "n1", "n2"}) {
			t.Errorf("status %+v, %+v", s.Nodes, s.Fronts)
		}
		if text := Incomplete(s); text != "" {
			t.Log(text)
		}
	}
	if _, err := x.front.Layout(); err != ErrFront { //nolint:errorlint // itself
		t.Errorf("the layout at a front-end: %v", err)
	}
	if _, err := x.front.Moment(t.Context()); err != ErrFront { //nolint:errorlint // itself
		t.Errorf("a backup of a front-end: %v", err)
	}
}

func (x frontTest) testTables(t *testing.T) {
	madeBy(x.tables.CreateTable(t.Context(), "people", nil))(t)
	table := x.tables.NewClient("people")
	for n := range 20 {
		entity := fmt.Appendf(nil, `{"PartitionKey":"p","RowKey":"%d"}`, n)
		madeBy(table.AddEntity(t.Context(), entity, nil))(t)
		// Read your own write, at whichever node.
		check.Must(table.GetEntity(t.Context(), "p", fmt.Sprint(n), nil))(t)
	}
	_, err := table.AddEntity(t.Context(), []byte(`{"PartitionKey":"p","RowKey":"1"}`), nil)
	check.Code(t, err, "409 EntityAlreadyExists")
	page := check.Must(table.NewListEntitiesPager(nil).NextPage(t.Context()))(t)
	if len(page.Entities) != 20 {
		t.Errorf("%d entities", len(page.Entities))
	}
	wrong := check.Must(aztables.NewSharedKeyCredential(auth.DevelopmentAccount, "d3Jvbmc="))(t)
	client := check.Must(aztables.NewServiceClientWithSharedKey(x.front.URL(wire.Table, auth.DevelopmentAccount), wrong,
		&aztables.ClientOptions{ClientOptions: once}))(t)
	_, err = client.NewClient("people").AddEntity(t.Context(), []byte(`{"PartitionKey":"p","RowKey":"forged"}`), nil)
	check.Code(t, err, "403 AuthenticationFailed")
}

func (x frontTest) testQueues(t *testing.T) {
	queue := x.queues.NewQueueClient("work")
	check.Must(queue.Create(t.Context(), nil))(t)
	at := x.cluster.signed(t, 0, "work")
	at = x.front.URL(wire.Queue, auth.DevelopmentAccount) + at[strings.Index(at, "/work/"):]
	answered := make(chan string, 1)
	go func() {
		r := check.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, at, nil))(t)
		r.Header.Set(longpoll.WaitHeader, "20")
		w := check.Must(http.DefaultClient.Do(r))(t)
		defer w.Body.Close()
		answered <- string(check.Must(io.ReadAll(w.Body))(t))
	}()
	home := x.cluster.home("queues")
	check.Eventually(t, func() bool { return x.cluster.nodes[home].services.Load().board.Waiting() > 0 },
		"the request waits at the home")
	check.Must(queue.EnqueueMessage(t.Context(), "hello", nil))(t)
	if text := <-answered; !strings.Contains(text, "hello") {
		t.Errorf("the wait was answered %s", text)
	}
}

func (x frontTest) testBlobs(t *testing.T) {
	madeBy(x.blobs.CreateContainer(t.Context(), "box", nil))(t)
	blocks := random(1, 8<<20+3)
	check.Must(x.blobs.UploadBuffer(t.Context(), "box", "blocks", blocks, &azblob.UploadBufferOptions{BlockSize: 1 << 20,
		Concurrency: 4}))(t)
	one := random(2, 32<<20)
	box := x.blobs.ServiceClient().NewContainerClient("box")
	check.Must(box.NewBlockBlobClient("one").Upload(t.Context(), streaming.NopCloser(bytes.NewReader(one)), nil))(t)
	large := bytes.Repeat(one, 2)
	check.Must(x.blobs.UploadBuffer(t.Context(), "box", "large", large, &azblob.UploadBufferOptions{
		BlockSize: 16 << 20}))(t)
	for name, want := range map[string][]byte{"blocks": blocks, "one": one, "large": large} {
		r := check.Must(x.blobs.DownloadStream(t.Context(), "box", name, nil))(t)
		got := check.Must(io.ReadAll(r.Body))(t)
		check.OK(t, r.Body.Close())
		if !bytes.Equal(got, want) {
			t.Errorf("%s: %d bytes came back, want %d with the same content", name, len(got), len(want))
		}
	}
	for _, n := range x.cluster.nodes { // as one that a node has taken
		got := make([]byte, len(blocks))
		check.Must(newTenant(t, n.ConnectionString()).blobs.DownloadBuffer(t.Context(), "box", "blocks", got, nil))(t)
		if !bytes.Equal(got, blocks) {
			t.Error("a node has another content")
		}
	}
}

func (x frontTest) testAddedAccount(t *testing.T) {
	keys := check.Must(x.cluster.nodes[0].AccountManager().Add("lake", nil,
		map[string]string{"hierarchical-namespace": "true"}))(t)
	key := check.Must(azdatalake.NewSharedKeyCredential("lake", keys[0]))(t)
	// By the host of the endpoint, as on Azure, at the address of the blobs.
	transport := &http.Transport{DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, x.front.Addr(wire.Blob))
	}}
	defer transport.CloseIdleConnections()
	fs := check.Must(filesystem.NewClientWithSharedKeyCredential("http://lake.dfs.localhost/files", key,
		&filesystem.ClientOptions{ClientOptions: policy.ClientOptions{Transport: &http.Client{Transport: transport}}}))(t)
	// Other nodes serve the account when they have applied it.
	check.Eventually(t, func() bool {
		_, err := fs.Create(t.Context(), nil)
		return err == nil || bloberror.HasCode(err, "ContainerAlreadyExists")
	}, "the account is served")
	file := fs.NewFileClient("a/b")
	check.Must(file.Create(t.Context(), nil))(t)
	content, at := random(3, 3<<20), int64(0)
	for part := range slices.Chunk(content, 1<<20) {
		check.Must(file.AppendData(t.Context(), at, streaming.NopCloser(bytes.NewReader(part)), nil))(t)
		at += int64(len(part))
	}
	check.Must(file.FlushData(t.Context(), at, nil))(t)
	got := make([]byte, len(content))
	check.Must(file.DownloadBuffer(t.Context(), got, nil))(t)
	if !bytes.Equal(got, content) {
		t.Error("the file has another content")
	}
}

// testLostHome stops the home of the blobs while clients of the front-end upload. Nothing is wrong afterwards, and the
// SDK's retries are enough.
func (x frontTest) testLostHome(t *testing.T) {
	home := x.cluster.home("blobs")
	client := check.Must(azblob.NewClientFromConnectionString(connectionOf(x.front, auth.DevelopmentAccount,
		auth.DevelopmentKey), &azblob.ClientOptions{ClientOptions: policy.ClientOptions{Retry: policy.RetryOptions{
		MaxRetries: 20, RetryDelay: 200 * time.Millisecond, MaxRetryDelay: time.Second}}}))(t)
	content := random(4, 4<<20)
	var wait sync.WaitGroup
	begun := make(chan struct{}, 4)
	for i := range 4 {
		wait.Go(func() {
			for n := range 4 {
				_, err := client.UploadBuffer(t.Context(), "box", fmt.Sprint(i, "-", n), content,
					&azblob.UploadBufferOptions{BlockSize: 1 << 20})
				check.OK(t, err)
				if n == 0 {
					begun <- struct{}{}
				}
			}
		})
	}
	<-begun
	x.cluster.stop(home)
	wait.Wait()
	for i := range 4 {
		for n := range 4 {
			got := make([]byte, len(content))
			check.Must(client.DownloadBuffer(t.Context(), "box", fmt.Sprint(i, "-", n), got, nil))(t)
			if !bytes.Equal(got, content) {
				t.Errorf("%d-%d has another content", i, n)
			}
		}
	}
	check.OK(t, x.front.Ready())
}

// testNoMajority stops one more node: no node serves, which the front-end says at once.
func (x frontTest) testNoMajority(t *testing.T) {
	stopped := 0
	for i, n := range x.cluster.nodes {
		if n != nil && stopped == 0 {
			x.cluster.stop(i)
			stopped++
		}
	}
	check.Eventually(t, func() bool { return x.front.Ready() != nil }, "the front-end is not ready")
	client := check.Must(azblob.NewClientFromConnectionString(connectionOf(x.front, auth.DevelopmentAccount,
		auth.DevelopmentKey), &azblob.ClientOptions{ClientOptions: once}))(t)
	_, err := client.UploadBuffer(t.Context(), "box", "late", []byte("x"), nil)
	check.Code(t, err, "503 ServerBusy")
}
