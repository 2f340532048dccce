package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"

	"github.com/lazuli-storage/lazuli/internal/server/backup"
	"github.com/lazuli-storage/lazuli/internal/server/fsck"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/tier"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// badObjects is an object store that can be away, or change bits.
type badObjects struct {
	tier.Objects
	down, flip atomic.Bool
}

var errObjectsDown = errors.New("the store is down")

func newBadObjects(t *testing.T) *badObjects {
	return &badObjects{Objects: check.Must(backup.OpenObjects(filepath.Join(t.TempDir(), "objects"), ""))(t)}
}

func (o *badObjects) Create(ctx context.Context, name string, content io.ReaderAt, size int64) error {
	if o.down.Load() {
		return errObjectsDown
	}
	return o.Objects.Create(ctx, name, content, size)
}

func (o *badObjects) Range(ctx context.Context, name string, off int64, p []byte) error {
	if o.down.Load() {
		return errObjectsDown
	}
	err := o.Objects.Range(ctx, name, off, p)
	if o.flip.Load() {
		for i := 500; i < len(p); i += 1000 {
			p[i] ^= 1
		}
	}
	return err
}

// tierBlobs are blobs that clients write and read.
type tierBlobs struct {
	t      *testing.T
	random *rand.ChaCha8
	bytes  map[string][]byte
}

func newTierBlobs(t *testing.T) *tierBlobs {
	return &tierBlobs{t, rand.NewChaCha8([32]byte{7}), map[string][]byte{}}
}

// sendingOnce returns a client that sends each request once.
func sendingOnce(t *testing.T, connection string) *azblob.Client {
	t.Helper()
	return check.Must(azblob.NewClientFromConnectionString(connection, &azblob.ClientOptions{
		ClientOptions: azcore.ClientOptions{Retry: policy.RetryOptions{MaxRetries: -1}}}))(t)
}

func (b *tierBlobs) put(client *azblob.Client, name string, size int) {
	b.t.Helper()
	p := make([]byte, size)
	_, _ = b.random.Read(p)
	check.Eventually(b.t, func() bool {
		_, err := client.UploadBuffer(b.t.Context(), "box", name, p, nil)
		if withoutLog(err) {
			return false
		}
		check.OK(b.t, err)
		return true
	}, "%s is stored", name)
	b.bytes[name] = p
}

// withoutLog reports whether an answer says that the node has no majority at the moment, as in an election, which a
// busy machine may have at any time. That is no matter of the tier.
func withoutLog(err error) bool {
	var answer *azcore.ResponseError
	return errors.As(err, &answer) && answer.StatusCode == http.StatusServiceUnavailable &&
		!strings.Contains(answer.Error(), "object store")
}

func download(ctx context.Context, client *azblob.Client, name string) ([]byte, error) {
	r, err := client.DownloadStream(ctx, "box", name, nil)
	if err != nil {
		return nil, err
	}
	defer r.Body.Close()
	return io.ReadAll(r.Body)
}

// read reads all blobs whose names begin with prefix: each is equal, or fails with a status, of which it returns the
// number. No answer of the tier takes longer than 5 s.
func (b *tierBlobs) read(client *azblob.Client, when, prefix string, status int) (failed int) {
	b.t.Helper()
	for name, want := range b.bytes {
		if !strings.HasPrefix(name, prefix) {
			continue
		}
		var got []byte
		var err error
		slow := 0
		check.Eventually(b.t, func() bool {
			began := time.Now()
			got, err = download(b.t.Context(), client, name)
			if withoutLog(err) {
				return false
			}
			// An election can hold an answer up as well, but hardly three in a row.
			d := time.Since(began)
			if d > 5*time.Second {
				if slow++; slow == 3 {
					b.t.Fatalf("%s: %s was answered after %v: %v", when, name, d, err)
				}
				return false
			}
			return true
		}, "%s: %s is answered", when, name)
		var answer *azcore.ResponseError
		switch {
		case err == nil && bytes.Equal(got, want):
		case status > 0 && errors.As(err, &answer) && answer.StatusCode == status:
			failed++
		default:
			b.t.Fatalf("%s: %s: %d bytes, %v", when, name, len(got), err)
		}
	}
	return failed
}

// contentOnDisk returns the size of the files of content of a data folder.
func contentOnDisk(t *testing.T, folder string) (size int64) {
	t.Helper()
	check.OK(t, filepath.WalkDir(folder, func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() && (strings.Contains(path, "extents") || strings.Contains(path, "/tier/")) {
			if info, err := e.Info(); err == nil {
				size += info.Size()
			}
		}
		return nil // files go while they are looked at
	}))
	return size
}

// Three nodes with a tier hold at most a tenth of the content on each disk and serve all of it. One that is killed does
// not matter to the others, and finds all when it is back. Without the store all nodes write and read what they have,
// and answer 503 for the rest within 5 s; a bit that changed there is a 500.
func TestContentTierOfNodes(t *testing.T) {
	if testing.Short() {
		t.Skip("starts three nodes")
	}
	t.Parallel()
	const size = 200 << 10
	blobs, cache := check.Size(96, 192), check.Size[int64](7<<18, 7<<19)
	objects, c, b := newBadObjects(t), newTestCluster(t, 3), newTierBlobs(t)
	for i := range c.configs {
		c.configs[i].Tier = &tier.Options{Objects: objects, Cache: cache, Least: 1}
	}
	c.start(0, 1, 2)
	client := func(i int) *azblob.Client { return sendingOnce(t, c.nodes[i].ConnectionString()) }
	settled := func(nodes ...int) {
		t.Helper()
		for _, i := range nodes {
			check.Eventually(t, func() bool {
				s := c.nodes[i].ContentTier()
				return s != nil && s.Waiting == 0 && s.Failing == "" && s.Local+s.Chunks <= cache &&
					contentOnDisk(t, c.configs[i].Location) <= int64(blobs*size/10)
			}, "node %d has more than a tenth of %d bytes on its disk, or is not done", i, blobs*size)
		}
	}
	again := check.Must(azblob.NewClientFromConnectionString(c.nodes[0].ConnectionString(), nil))(t)
	madeBy(again.CreateContainer(t.Context(), "box", nil))(t)
	for i := range blobs {
		b.put(client(i%3), fmt.Sprint("blob", i), size)
	}
	settled(0, 1, 2)
	for i := range c.nodes {
		b.read(client(i), fmt.Sprint("node ", i), "", 0)
	}
	c.stop(2)
	for i := range 8 {
		b.put(client(i%2), fmt.Sprint("two nodes", i), size)
	}
	settled(0, 1)
	b.read(client(0), "two nodes", "", 0)

	// What a stopped node has on its disk, fsck compares with the store.
	r := check.Must(fsck.Check(t.Context(), c.configs[2].Location, fsck.Options{Tier: c.configs[2].Tier}))(t)
	if !r.Clean || r.Blobs.RemoteExtents == 0 {
		t.Errorf("fsck of a node: %+v", r)
	}
	c.start(2)
	settled(2)
	b.read(client(2), "the node is back", "", 0)

	objects.down.Store(true)
	for i := range c.nodes {
		b.put(client(i), fmt.Sprint("away", i), size)
	}
	for i := range c.nodes {
		if n := b.read(client(i), "without the store", "away", http.StatusServiceUnavailable); n > 0 {
			t.Errorf("node %d: %d of the newest blobs were not read", i, n)
		}
		if b.read(client(i), "without the store", "", http.StatusServiceUnavailable) == 0 {
			t.Errorf("node %d: every read was served: the test shows nothing", i)
		}
	}
	objects.down.Store(false)
	// For a second after a failure the store is not asked.
	for i := range c.nodes {
		check.Eventually(t, func() bool {
			return b.read(client(i), "the store is back", "", http.StatusServiceUnavailable) == 0
		}, "node %d asks the store again", i)
	}
	objects.flip.Store(true)
	for i := range c.nodes {
		if b.read(client(i), "with changed bits", "blob", http.StatusInternalServerError) == 0 {
			t.Errorf("node %d: every read was served: the test shows nothing", i)
		}
	}
	objects.flip.Store(false)
	settled(0, 1, 2)
	b.read(client(1), "in the end", "", 0)
	place := check.Must(backup.Open(filepath.Join(t.TempDir(), "backups"), ""))(t)
	var made backup.Result
	check.Eventually(t, func() bool { // A node of a busy machine is not ready at any time.
		var err error
		made, err = backup.Make(t.Context(), place, func(ctx context.Context, _ backup.Held) (backup.Source, error) {
			return c.nodes[0].Moment(ctx)
		}, backup.Options{})
		again := errors.Is(err, ErrNotReady) || errors.Is(err, store.ErrUnavailable)
		if err != nil && !again {
			t.Fatal(err)
		}
		return err == nil
	}, "a backup of a node is made")
	then := filepath.Join(t.TempDir(), "then")
	check.OK(t, backup.Restore(t.Context(), place, made.Manifest, then,
		backup.RestoreOptions{Verify: func(context.Context, string) error { return nil }}))
	r = check.Must(fsck.Check(t.Context(), then, fsck.Options{}))(t)
	if !r.Clean || int(r.Blobs.Blobs) != len(b.bytes) {
		t.Errorf("the restored folder: %+v", r)
	}
}

// A bit that changes in an object of each shard is an error, and never a wrong byte.
func TestABitFlipsInEachShard(t *testing.T) {
	t.Parallel()
	objects := newBadObjects(t)
	names, accounts := shardAccounts(t)
	s := check.Must(Start(Config{Location: t.TempDir(), Shards: tierShards, Accounts: accounts,
		Log:  slog.New(slog.DiscardHandler),
		Tier: &tier.Options{Objects: objects, Cache: tierShards << 21, Least: 1}}))(t)
	defer func() { check.OK(t, s.Stop(context.Background())) }()
	for shard := range tierShards {
		b, client := newTierBlobs(t), check.Must(tierClient(s, names, shard))(t)
		check.Must(client.CreateContainer(t.Context(), "box", nil))(t)
		for i := range 12 {
			b.put(client, fmt.Sprint("blob", i), 512<<10)
		}
		check.Eventually(t, func() bool {
			u, err := s.services.Load().list()[shard].blobs.State.Maintenance.Usage()
			return err == nil && u.Tier.Remote > 2<<20
		}, "content of shard %d is only in the store", shard)
		objects.flip.Store(true)
		if n := b.read(client, "with changed bits", "", http.StatusInternalServerError); n == 0 {
			t.Errorf("shard %d: every read was served: the test shows nothing", shard)
		}
		objects.flip.Store(false)
		b.read(client, "after the bits were right again", "", 0)
	}
}
