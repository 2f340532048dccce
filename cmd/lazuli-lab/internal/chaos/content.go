package chaos

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"

	"github.com/lazuli-storage/lazuli/internal/server/backup"
	"github.com/lazuli-storage/lazuli/internal/state/blob/maintain"
	"github.com/lazuli-storage/lazuli/internal/state/blob/replica"
	"github.com/lazuli-storage/lazuli/internal/storage/datadir"
	"github.com/lazuli-storage/lazuli/internal/storage/tier"
)

// With a tier, more content is stored than may stay on the disk, whose bound is the least that a server takes.
const (
	tierCacheMiB = "64"
	// contentBlobs is about the number of blobs of a client, contentBytes the size of the largest of them.
	contentBlobs = 80
	contentBytes = 2 << 20
)

// tierFlags are the options of a server with a tier in a folder.
func tierFlags(folder string) []string { return []string{"--content-tier", folder} }

// withTier adds the options of the tier to the commands that need them.
func withTier(command func(args ...string) *exec.Cmd, folder string) func(args ...string) *exec.Cmd {
	return func(args ...string) *exec.Cmd {
		switch args[0] {
		case "serve":
			args = append(slices.Clone(args), append(tierFlags(folder), "--content-cache", tierCacheMiB)...)
		case "fsck":
			args = append(slices.Clone(args), tierFlags(folder)...)
		}
		return command(args...)
	}
}

// storedContent is a blob whose write was acknowledged. Its bytes follow from its seed; no name is used twice.
type storedContent struct {
	name string
	seed uint64
}

func (b storedContent) bytes() []byte {
	r := rand.New(rand.NewPCG(b.seed, 5))
	p := make([]byte, 1+r.IntN(contentBytes))
	_, _ = rand.NewChaCha8([32]byte{byte(b.seed), byte(b.seed >> 8), byte(b.seed >> 16), byte(b.seed >> 24)}).Read(p)
	return p
}

// contentClient stores large blobs, reads and deletes them.
type contentClient struct {
	number     int
	containers []*container.Client // by node
	next       uint64
	have       []storedContent
}

func (c *contentClient) name() string { return fmt.Sprint("content", c.number) }

func (c *contentClient) connect(p *process) error {
	to, err := openContainer(p, c.name())
	c.containers = []*container.Client{to}
	return err
}

func (c *contentClient) setup(ctx context.Context) error {
	_, err := c.containers[0].Create(ctx, nil)
	return err
}

func (c *contentClient) step(ctx context.Context, rnd *rand.Rand) error {
	to := c.containers[rnd.IntN(len(c.containers))]
	switch n := rnd.IntN(10); {
	case len(c.have) == 0, n < 5 && len(c.have) < contentBlobs:
		c.next++
		b := storedContent{fmt.Sprint(c.next), uint64(c.number)<<24 | c.next}
		_, err := to.NewBlockBlobClient(b.name).Upload(ctx, streaming.NopCloser(bytes.NewReader(b.bytes())), nil)
		if err == nil {
			c.have = append(c.have, b)
		}
		return err
	case n < 8:
		return c.read(ctx, to, c.have[rnd.IntN(len(c.have))])
	default:
		// A deletion whose answer is lost may have happened, so the name is forgotten before.
		i := rnd.IntN(len(c.have))
		b := c.have[i]
		c.have = slices.Delete(c.have, i, i+1)
		_, err := to.NewBlobClient(b.name).Delete(ctx, nil)
		return err
	}
}

func (c *contentClient) read(ctx context.Context, from *container.Client, b storedContent) error {
	r, err := from.NewBlobClient(b.name).DownloadStream(ctx, nil)
	if err == nil {
		var got []byte
		got, err = io.ReadAll(r.Body)
		_ = r.Body.Close()
		if want := b.bytes(); err == nil && !bytes.Equal(got, want) || err != nil && !bytes.HasPrefix(want, got) {
			return broken(Wrong, "blob %s/%s has %d bytes, which are not those that were written", c.name(), b.name, len(got))
		}
	}
	if status(err) == http.StatusNotFound {
		return broken(Lost, "blob %s/%s: %v", c.name(), b.name, err)
	}
	return err
}

func (c *contentClient) check(ctx context.Context, out *checker, _ bool) {
	for i, b := range c.have {
		out.add(c.read(ctx, c.containers[i%len(c.containers)], b))
	}
}

// use stores, reads and deletes through nodes that fail, until ctx ends. What it finds it adds to out.
func (c *contentClient) use(ctx context.Context, rnd *rand.Rand, think time.Duration, out *checker) {
	for ctx.Err() == nil {
		if err := c.step(ctx, rnd); errors.As(err, new(*Finding)) {
			out.add(err)
		}
		pause(ctx, time.Duration(rnd.Int64N(int64(think))))
	}
}

// Tier counts the objects of a tier after a run.
type Tier struct {
	// Objects are needed at the end. Removed were not, and are gone; Unneeded were not, and are left, which is a failure.
	Objects, Removed, Unneeded int
}

// sweep lets a day go by on the clock of the tier of a stopped server, which removes what nothing needs, and reads all
// objects.
func (r *run) sweep(ctx context.Context) error {
	objects, err := backup.OpenObjects(r.tier, "")
	if err != nil {
		return err
	}
	now, shard := time.Now(), datadir.ShardOf(r.data, 0)
	options := &tier.Options{Objects: objects, Dir: filepath.Join(r.data, datadir.TierFolder),
		Now: func() time.Time { return now }}
	// First, since an extent that nothing refers to keeps its object until compaction deletes it.
	if _, _, err := maintain.CompactFolder(ctx, shard.Blobs(), shard.Extents(), options, 0, nil); err != nil {
		return err
	}
	node, err := replica.Open(replica.Config{Path: shard.Blobs(), Extents: shard.Extents(), Grace: -1, Tier: options})
	if err != nil {
		return err
	}
	t := &Tier{}
	err = node.Tier.Copy(ctx)
	// A sweep removes what an earlier one, at least a day before, has found without an extent.
	for range 2 {
		removed, e := node.Tier.Sweep(ctx)
		t.Removed, err = t.Removed+removed, errors.Join(err, e)
		now = now.Add(25 * time.Hour)
	}
	if err == nil {
		t.Unneeded, err = node.Tier.Check(ctx, true, func(id uint64, problem string) {
			r.failed(r.report.Rounds, []*Finding{{Kind: Wrong, What: fmt.Sprintf("extent %x: %s", id, problem)}})
		})
	}
	for _, x := range node.Extents.Stats() {
		if x.Sum != "" {
			t.Objects++
		}
	}
	r.report.Tier = t
	if t.Unneeded > 0 {
		r.failed(r.report.Rounds, []*Finding{{Kind: Unclean, What: fmt.Sprintf("%d objects that nothing needs are left "+
			"after a day", t.Unneeded)}})
	}
	return errors.Join(err, node.Close())
}
