package lease

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	azlease "github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/lease"

	"github.com/lazuli-storage/lazuli/internal/durable/record"
	"github.com/lazuli-storage/lazuli/internal/sdk/sdkerr"
	"github.com/lazuli-storage/lazuli/workers"
)

// Leases keep each partition with one process. They save work only: an owner that was deposed and does not know it is
// stopped by the ETag of the history that it tries to write.
type Leases struct {
	Container  *container.Client
	Names      record.Names
	Partitions int
	Worker     string
	Duration   time.Duration
	Clock      workers.Clock
	Log        *slog.Logger
	// gained and lost are called when a partition comes and goes.
	Gained, Lost func(partition int)
	// Found, unless it is nil, is called with the name of each blob in the folder of the leases, from time to time.
	Found func(name string)

	// Early, with room for one, ends the pause before the next balance.
	Early chan struct{}

	mu   sync.Mutex     // guards held
	Held map[int]string // lease ID by partition
}

// ownerKey is the metadata of a lease blob that names its owner, for balancing and for people. The lease alone decides.
const ownerKey = "Owner"

// Create makes the lease blobs that do not exist.
func (l *Leases) Create(ctx context.Context) error {
	for i := range l.Partitions {
		content, _ := json.Marshal(map[string]any{"PartitionId": l.Names.Control(i), "Owner": nil, "Token": nil,
			"Epoch": 0})
		_, err := l.blob(i).UploadBuffer(ctx, content,
			&blockblob.UploadBufferOptions{AccessConditions: &blob.AccessConditions{
				ModifiedAccessConditions: &blob.ModifiedAccessConditions{IfNoneMatch: to.Ptr(azcore.ETagAny)}}})
		if err != nil && !bloberror.HasCode(err, bloberror.BlobAlreadyExists, bloberror.ConditionNotMet,
			bloberror.LeaseIDMissing) {
			return fmt.Errorf("durable: create the lease blob of partition %d: %w", i, err)
		}
	}
	return nil
}

func (l *Leases) blob(i int) *blockblob.Client {
	return l.Container.NewBlockBlobClient(l.Names.Lease(i))
}

func (l *Leases) client(i int, id string) *azlease.BlobClient {
	c, err := azlease.NewBlobClient(l.blob(i), &azlease.BlobClientOptions{LeaseID: to.Ptr(id)})
	if err != nil {
		panic("durable: a lease client of a blob client: " + err.Error())
	}
	return c
}

// Run takes, renews and balances leases until ctx is done; then it releases them.
func (l *Leases) Run(ctx context.Context) {
	for {
		l.balance(ctx)
		// Processes that started together must not act at the same times.
		pause := l.Duration/3 - time.Duration(rand.Int64N(int64(l.Duration/10)))
		if !l.pause(ctx, pause) {
			break
		}
		l.renew(ctx)
	}
	l.release()
}

// pause waits for d, or until BalanceEarly is called. It returns false if ctx is done.
func (l *Leases) pause(ctx context.Context, d time.Duration) bool {
	timer := l.Clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C():
	case <-l.Early:
	case <-ctx.Done():
		return false
	}
	return true
}

// BalanceEarly makes run look for free partitions at once. A lease that a test's clock ended while it was being taken
// would stay free until the clock goes on.
func (l *Leases) BalanceEarly() {
	select {
	case l.Early <- struct{}{}:
	default:
	}
}

// Owns reports whether this process has the partition's lease, as far as it knows.
func (l *Leases) Owns(i int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Held[i] != ""
}

func (l *Leases) IDs() map[int]string {
	l.mu.Lock()
	defer l.mu.Unlock()
	ids := make(map[int]string, len(l.Held))
	for i, id := range l.Held {
		ids[i] = id
	}
	return ids
}

func (l *Leases) renew(ctx context.Context) {
	for i, id := range l.IDs() {
		_, err := l.client(i, id).RenewLease(ctx, nil)
		var r *azcore.ResponseError
		switch {
		case err == nil:
		case errors.As(err, &r) && (r.StatusCode == http.StatusConflict || r.StatusCode == http.StatusNotFound ||
			r.StatusCode == http.StatusPreconditionFailed):
			l.drop(i, "another process has taken the partition")
		case ctx.Err() == nil:
			l.Log.Warn("cannot renew the lease of a partition; trying again", "partition", i, "err", sdkerr.Short(err))
		}
	}
}

func (l *Leases) drop(i int, reason string) {
	l.mu.Lock()
	delete(l.Held, i)
	l.mu.Unlock()
	l.Log.Info("partition lost", "partition", i, "reason", reason)
	l.Lost(i)
}

func (l *Leases) take(ctx context.Context, i int, broken bool) {
	c, err := azlease.NewBlobClient(l.blob(i), nil)
	if err != nil {
		return
	}
	if broken {
		if _, err := c.BreakLease(ctx, &azlease.BlobBreakOptions{BreakPeriod: to.Ptr(int32(0))}); err != nil {
			return
		}
	}
	got, err := c.AcquireLease(ctx, int32(l.Duration/time.Second), nil)
	if err != nil {
		if !bloberror.HasCode(err, bloberror.LeaseAlreadyPresent) && ctx.Err() == nil {
			l.Log.Warn("cannot acquire a partition", "partition", i, "err", sdkerr.Short(err))
		}
		return
	}
	// The lease protects the name of its owner, which only those who balance read.
	_, err = l.blob(i).SetMetadata(ctx, map[string]*string{ownerKey: to.Ptr(l.Worker)},
		&blob.SetMetadataOptions{AccessConditions: &blob.AccessConditions{
			LeaseAccessConditions: &blob.LeaseAccessConditions{LeaseID: got.LeaseID}}})
	if err != nil {
		return // Taken again by another process; the lease ends by itself otherwise.
	}
	l.mu.Lock()
	l.Held[i] = *got.LeaseID
	l.mu.Unlock()
	l.Log.Info("partition acquired", "partition", i, "stolen", broken)
	l.Gained(i)
}

// balance takes every free partition, and one from the process with most if this one has fewer than its share.
func (l *Leases) balance(ctx context.Context) {
	owners := map[string][]int{}
	free := []int{}
	pager := l.Container.NewListBlobsFlatPager(
		&azblob.ListBlobsFlatOptions{Prefix: to.Ptr(record.LeaseFolder), Include: azblob.ListBlobsInclude{Metadata: true}})
	for pager.More() {
		page, err := pager.NextPage(ctx)
		if err != nil {
			if ctx.Err() == nil {
				l.Log.Warn("cannot list the partitions", "err", sdkerr.Short(err))
			}
			return
		}
		for _, b := range page.Segment.BlobItems {
			if l.Found != nil {
				l.Found(*b.Name)
			}
			var i int
			if _, err := fmt.Sscanf((*b.Name)[len(record.LeaseFolder):], l.Names.Lower()+"-control-%d", &i); err != nil ||
				i >= l.Partitions {
				continue
			}
			owner := ""
			if o := b.Metadata[ownerKey]; o != nil {
				owner = *o
			}
			if b.Properties.LeaseState != nil && *b.Properties.LeaseState == azlease.StateTypeLeased {
				owners[owner] = append(owners[owner], i)
			} else {
				free = append(free, i)
			}
		}
	}
	for _, i := range free {
		// Another process may have had the partition since: its work here ends before it is taken again.
		if l.Owns(i) {
			l.drop(i, "the lease has ended")
		}
		l.take(ctx, i, false)
	}
	mine := len(l.IDs())
	most := ""
	for owner, list := range owners {
		if owner != l.Worker && len(list) > len(owners[most]) {
			most = owner
		}
	}
	// With a difference of one, two processes would take the partition from each other without an end.
	if victims := owners[most]; most != "" && len(victims) > mine+1 {
		l.take(ctx, victims[rand.IntN(len(victims))], true)
	}
}

// ReleaseTimeout is the time limit for releasing leases at a stop; leases also expire.
const ReleaseTimeout = 5 * time.Second

func (l *Leases) release() {
	ctx, cancel := context.WithTimeout(context.Background(), ReleaseTimeout)
	defer cancel()
	for i, id := range l.IDs() {
		l.mu.Lock()
		delete(l.Held, i)
		l.mu.Unlock()
		l.Lost(i)
		_, _ = l.client(i, id).ReleaseLease(ctx, nil)
	}
}
