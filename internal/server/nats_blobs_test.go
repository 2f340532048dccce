package server

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/appendblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	natsd "github.com/nats-io/nats-server/v2/server"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/cluster/contentstream"
	"github.com/lazuli-storage/lazuli/internal/nats/natsserver"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/natscluster"
)

// natsBlobs is a server with blobs on an external NATS, and its client.
type natsBlobs struct {
	*container.Client
	stack *Server
}

func serveNATSBlobs(t *testing.T, dir, url string) *natsBlobs {
	t.Helper()
	s := check.Must(Start(Config{Location: dir, Accounts: auth.Development(), Log: slog.New(slog.DiscardHandler),
		NATSBlobs: true,
		NATS:      natsserver.Config{URL: url, Replicas: 3}}))(t)
	t.Cleanup(func() { _ = s.Stop(context.Background()) })
	client := check.Must(azblob.NewClientFromConnectionString(s.ConnectionString(), &azblob.ClientOptions{
		ClientOptions: policy.ClientOptions{Retry: policy.RetryOptions{MaxRetries: 20}}}))(t)
	return &natsBlobs{client.ServiceClient().NewContainerClient("files"), s}
}

func (b *natsBlobs) wantBlob(t *testing.T, name string, want []byte) {
	t.Helper()
	r, err := b.NewBlobClient(name).DownloadStream(t.Context(), nil)
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return
	}
	defer r.Body.Close()
	var got bytes.Buffer
	if _, err := got.ReadFrom(r.Body); err != nil || !bytes.Equal(got.Bytes(), want) {
		t.Errorf("%s: %d bytes, %v; want the %d bytes that were written", name, got.Len(), err, len(want))
	}
}

func noise(seed uint64, n int) []byte {
	var key [32]byte
	key[0] = byte(seed)
	b := make([]byte, n)
	_, _ = rand.NewChaCha8(key).Read(b)
	return b
}

func body(p []byte) (r streamBody) { return streamBody{bytes.NewReader(p)} }

type streamBody struct{ *bytes.Reader }

func (streamBody) Close() error { return nil }

// Two servers share the blobs of an external NATS cluster, which loses one of its three servers. A server with an empty
// folder has all content, also after the folders of all others are lost, and damage in a folder is replaced.
func TestBlobsOnAnExternalNATS(t *testing.T) {
	if testing.Short() {
		t.Skip("starts three NATS servers")
	}
	t.Parallel()
	ctx := t.Context()
	cluster := natscluster.Start(t, 3)
	dirA, dirB := t.TempDir(), t.TempDir()
	a, b := serveNATSBlobs(t, dirA, cluster.URL()), serveNATSBlobs(t, dirB, cluster.URL())
	madeBy(a.Create(ctx, nil))(t)
	want := map[string][]byte{}
	put := func(s *natsBlobs, name string, p []byte) {
		t.Helper()
		check.Must(s.NewBlockBlobClient(name).UploadBuffer(ctx, p, nil))(t)
		want[name] = p
	}
	put(a, "small", noise(1, 100))
	put(a, "large", noise(2, 3<<20+17))
	b.wantBlob(t, "small", want["small"])
	b.wantBlob(t, "large", want["large"])
	put(b, "small", noise(3, 20_000))
	a.wantBlob(t, "small", want["small"])

	blocks := b.NewBlockBlobClient("blocks")
	first, second := noise(4, 300_000), noise(5, 5)
	check.Must(blocks.StageBlock(ctx, "MDAx", body(first), nil))(t)
	check.Must(a.NewBlockBlobClient("blocks").StageBlock(ctx, "MDAy", body(second), nil))(t)
	check.Must(blocks.CommitBlockList(ctx, []string{"MDAy", "MDAx"}, &blockblob.CommitBlockListOptions{}))(t)
	want["blocks"] = append(bytes.Clone(second), first...)

	check.Must(a.NewAppendBlobClient("log").Create(ctx, nil))(t)
	for i, s := range []*natsBlobs{a, b, a} {
		at := appendblob.AppendPositionAccessConditions{AppendPosition: to.Ptr(int64(1000 * i))}
		_, err := s.NewAppendBlobClient("log").AppendBlock(ctx, body(noise(uint64(10+i), 1000)),
			&appendblob.AppendBlockOptions{AppendPositionAccessConditions: &at})
		if !bloberror.HasCode(err, bloberror.AppendPositionConditionNotMet) { // after an attempt with an unknown outcome
			check.OK(t, err)
		}
		want["log"] = append(want["log"], noise(uint64(10+i), 1000)...)
	}

	disk := make([]byte, 2<<20)
	check.Must(a.NewPageBlobClient("disk").Create(ctx, int64(len(disk)), nil))(t)
	for i, at := range []int64{0, 64 << 10} { // the second write leaves parts of the record of the first
		s, p := []*natsBlobs{a, b}[i], noise(uint64(20+i), 256<<10>>i)
		check.Must(s.NewPageBlobClient("disk").UploadPages(ctx, body(p), blob.HTTPRange{Offset: at, Count: int64(len(p))},
			nil))(t)
		copy(disk[at:], p)
	}
	want["disk"] = disk
	for name, p := range want {
		a.wantBlob(t, name, p)
		b.wantBlob(t, name, p)
	}

	cluster.Stop(cluster.WaitLeads("LAZULI_LOG_blobs"))
	put(b, "later", noise(6, 1<<20))
	a.wantBlob(t, "later", want["later"])

	// The folder of one server is lost, and later the other one too.
	check.OK(t, a.stack.Stop(ctx))
	c := serveNATSBlobs(t, t.TempDir(), cluster.URL())
	for name, p := range want {
		c.wantBlob(t, name, p)
	}
	check.OK(t, b.stack.Stop(ctx)) // what was read and found intact is not checked again for some minutes
	files := check.Must(filepath.Glob(filepath.Join(dirB, "*", "*.*")))(t)
	flipped := 0
	for _, name := range files {
		if suffix := filepath.Ext(name); suffix == ".open" || suffix == ".copy" || suffix == ".extent" {
			flipped += flip(t, name)
		}
	}
	if flipped == 0 {
		t.Fatalf("no extents among %q", files)
	}
	b = serveNATSBlobs(t, dirB, cluster.URL())
	for name, p := range want {
		b.wantBlob(t, name, p)
	}
}

// flip changes a bit in every fourth KiB of a file.
func flip(t *testing.T, path string) (flipped int) {
	t.Helper()
	f := check.Must(os.OpenFile(path, os.O_RDWR, 0))(t)
	defer f.Close()
	size := check.Must(f.Stat())(t).Size()
	for at := int64(100); at < size; at += 4096 {
		p := make([]byte, 1)
		check.Must(f.ReadAt(p, at))(t)
		p[0] ^= 1
		check.Must(f.WriteAt(p, at))(t)
		flipped++
	}
	return flipped
}

// Without a majority of the NATS servers blobs are answered 503, and served again when it is back. Nothing that was
// acknowledged is lost.
func TestBlobsWithoutAMajority(t *testing.T) {
	if testing.Short() {
		t.Skip("starts three NATS servers")
	}
	t.Parallel()
	ctx := t.Context()
	cluster := natscluster.Start(t, 3)
	a, b := serveNATSBlobs(t, t.TempDir(), cluster.URL()), serveNATSBlobs(t, t.TempDir(), cluster.URL())
	madeBy(a.Create(ctx, nil))(t)
	p := noise(1, 100_000)
	check.Must(a.NewBlockBlobClient("kept").UploadBuffer(ctx, p, nil))(t)
	cluster.Stop(0)
	cluster.Stop(1)
	once := policy.WithRetryOptions(ctx, policy.RetryOptions{MaxRetries: -1})
	var tries sync.WaitGroup // each waits for ten seconds
	tries.Go(func() {
		_, err := a.NewBlockBlobClient("refused").UploadBuffer(once, p, nil)
		wantUnavailable(t, "a write", err)
	})
	tries.Go(func() {
		_, err := b.NewBlobClient("kept").GetProperties(once, nil)
		wantUnavailable(t, "a read", err)
	})
	tries.Wait()
	cluster.Start(0)
	cluster.Start(1)
	cluster.WaitReady()
	b.wantBlob(t, "kept", p)
	check.Must(b.NewBlockBlobClient("later").UploadBuffer(ctx, p, nil))(t)
	a.wantBlob(t, "later", p)
}

func wantUnavailable(t *testing.T, what string, err error) {
	t.Helper()
	if r := new(azcore.ResponseError); !errors.As(err, &r) || r.StatusCode != http.StatusServiceUnavailable ||
		r.ErrorCode != string(bloberror.ServerBusy) {
		t.Errorf("%s without a majority: %v, want 503 ServerBusy", what, err)
	}
}

// One of the servers on an external NATS delivers events, and the other one names it.
func TestEventsOnAnExternalNATS(t *testing.T) {
	t.Parallel()
	url := natscluster.Start(t, 1).URL()
	var stacks [2]*Server
	for i := range stacks {
		stacks[i] = check.Must(Start(Config{Location: t.TempDir(), Accounts: auth.Development(),
			Log: slog.New(slog.DiscardHandler), NATSBlobs: true, Events: true,
			NATS: natsserver.Config{URL: url, Replicas: 1}}))(t)
		t.Cleanup(func() { _ = stacks[i].Stop(context.Background()) })
	}
	check.Eventually(t, func() bool {
		delivering, elsewhere := 0, 0
		for _, s := range stacks {
			if s.Events() != nil {
				delivering++
			} else if err := s.EventsElsewhere(); err != nil && !errors.Is(err, errNoEventNode) {
				elsewhere++
			}
		}
		return delivering == 1 && elsewhere == 1
	}, "not one server delivers events, and names itself")
}

// A NATS server whose messages are too small is refused at once.
func TestBlobsOnANATSWithSmallMessages(t *testing.T) {
	t.Parallel()
	n := check.Must(natsd.NewServer(
		&natsd.Options{Port: -1, JetStream: true, StoreDir: t.TempDir(), MaxPayload: 512 << 10, NoLog: true,
			NoSigs: true}))(t)
	n.Start()
	t.Cleanup(func() { n.Shutdown(); n.WaitForShutdown() })
	s, err := Start(Config{Location: t.TempDir(), Accounts: auth.Development(), Log: slog.New(slog.DiscardHandler),
		NATSBlobs: true,
		NATS:      natsserver.Config{URL: n.ClientURL(), Replicas: 1}})
	if !errors.Is(err, contentstream.ErrRefused) {
		t.Errorf("messages of 512 KiB: %v", err)
		if s != nil {
			_ = s.Stop(t.Context())
		}
	}
}

// A folder with blobs of a single server is refused.
func TestBlobsOfASingleServerOnAnExternalNATS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := check.Must(Start(Config{Location: dir, Accounts: auth.Development(), Log: slog.New(slog.DiscardHandler)}))(t)
	client := check.Must(azblob.NewClientFromConnectionString(s.ConnectionString(), nil))(t)
	check.Must(client.CreateContainer(t.Context(), "own", nil))(t)
	check.OK(t, s.Stop(t.Context()))
	s, err := Start(Config{Location: dir, Accounts: auth.Development(), Log: slog.New(slog.DiscardHandler),
		NATSBlobs: true,
		NATS:      natsserver.Config{URL: natscluster.Start(t, 1).URL(), Replicas: 1}})
	if err == nil || !errors.Is(err, store.ErrOtherLog) {
		t.Errorf("a folder with blobs of its own: %v", err)
		if s != nil {
			_ = s.Stop(t.Context())
		}
	}
}
