package durable

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

	"github.com/lazuli-storage/lazuli/internal/sdk/sdkerr"
	"github.com/lazuli-storage/lazuli/workers"
)

// leases keep each partition with one process. They save work only: an owner that was deposed and does not know it is
// stopped by the ETag of the history that it tries to write.
type leases struct {
	container  *container.Client
	names      names
	partitions int
	worker     string
	duration   time.Duration
	clock      workers.Clock
	log        *slog.Logger
	// gained and lost are called when a partition comes and goes.
	gained, lost func(partition int)
	// found, unless it is nil, is called with the name of each blob in the folder of the leases, from time to time.
	found func(name string)

	// early, with room for one, ends the pause before the next balance.
	early chan struct{}

	mu   sync.Mutex     // guards held
	held map[int]string // lease ID by partition
}

// ownerKey is the metadata of a lease blob that names its owner, for balancing and for people. The lease alone decides.
const ownerKey = "Owner"

// create makes the lease blobs that do not exist.
func (l *leases) create(ctx context.Context) error {
	for i := range l.partitions {
		content, _ := json.Marshal(map[string]any{"PartitionId": l.names.control(i), "Owner": nil, "Token": nil, "Epoch": 0})
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

func (l *leases) blob(i int) *blockblob.Client {
	return l.container.NewBlockBlobClient(l.names.lease(i))
}

func (l *leases) client(i int, id string) *azlease.BlobClient {
	c, err := azlease.NewBlobClient(l.blob(i), &azlease.BlobClientOptions{LeaseID: to.Ptr(id)})
	if err != nil {
		panic("durable: a lease client of a blob client: " + err.Error())
	}
	return c
}

// run takes, renews and balances leases until ctx is done; then it releases them.
func (l *leases) run(ctx context.Context) {
	for {
		l.balance(ctx)
		// Processes that started together must not act at the same times.
		pause := l.duration/3 - time.Duration(rand.Int64N(int64(l.duration/10)))
		if !l.pause(ctx, pause) {
			break
		}
		l.renew(ctx)
	}
	l.release()
}

// pause waits for d, or until balanceEarly is called. It returns false if ctx is done.
func (l *leases) pause(ctx context.Context, d time.Duration) bool {
	timer := l.clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C():
	case <-l.early:
	case <-ctx.Done():
		return false
	}
	return true
}

// balanceEarly makes run look for free partitions at once. A lease that a test's clock ended while it was being taken
// would stay free until the clock goes on.
func (l *leases) balanceEarly() {
	select {
	case l.early <- struct{}{}:
	default:
	}
}

// owns reports whether this process has the partition's lease, as far as it knows.
func (l *leases) owns(i int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held[i] != ""
}

func (l *leases) ids() map[int]string {
	l.mu.Lock()
	defer l.mu.Unlock()
	ids := make(map[int]string, len(l.held))
	for i, id := range l.held {
		ids[i] = id
	}
	return ids
}

func (l *leases) renew(ctx context.Context) {
	for i, id := range l.ids() {
		_, err := l.client(i, id).RenewLease(ctx, nil)
		var r *azcore.ResponseError
		switch {
		case err == nil:
		case errors.As(err, &r) && (r.StatusCode == http.StatusConflict || r.StatusCode == http.StatusNotFound ||
			r.StatusCode == http.StatusPreconditionFailed):
			l.drop(i, "another process has taken the partition")
		case ctx.Err() == nil:
			l.log.Warn("cannot renew the lease of a partition; trying again", "partition", i, "err", sdkerr.Short(err))
		}
	}
}

func (l *leases) drop(i int, reason string) {
	l.mu.Lock()
	delete(l.held, i)
	l.mu.Unlock()
	l.log.Info("partition lost", "partition", i, "reason", reason)
	l.lost(i)
}

func (l *leases) take(ctx context.Context, i int, broken bool) bool {
	c, err := azlease.NewBlobClient(l.blob(i), nil)
	if err != nil {
		return false
	}
	if broken {
		if _, err := c.BreakLease(ctx, &azlease.BlobBreakOptions{BreakPeriod: to.Ptr(int32(0))}); err != nil {
			return false
		}
	}
	got, err := c.AcquireLease(ctx, int32(l.duration/time.Second), nil)
	if err != nil {
		if !bloberror.HasCode(err, bloberror.LeaseAlreadyPresent) && ctx.Err() == nil {
			l.log.Warn("cannot acquire a partition", "partition", i, "err", sdkerr.Short(err))
		}
		return false
	}
	// The lease protects the name of its owner, which only those who balance read.
	_, err = l.blob(i).SetMetadata(ctx, map[string]*string{ownerKey: to.Ptr(l.worker)},
		&blob.SetMetadataOptions{AccessConditions: &blob.AccessConditions{
			LeaseAccessConditions: &blob.LeaseAccessConditions{LeaseID: got.LeaseID}}})
	if err != nil {
		return false // Taken again by another process; the lease ends by itself otherwise.
	}
	l.mu.Lock()
	l.held[i] = *got.LeaseID
	l.mu.Unlock()
	l.log.Info("partition acquired", "partition", i, "stolen", broken)
	l.gained(i)
	return true
}

// balance takes every free partition, and one from the process with most if this one has fewer than its share.
func (l *leases) balance(ctx context.Context) {
	owners := map[string][]int{}
	free := []int{}
	pager := l.container.NewListBlobsFlatPager(
		&azblob.ListBlobsFlatOptions{Prefix: to.Ptr(leaseFolder), Include: azblob.ListBlobsInclude{Metadata: true}})
	for pager.More() {
		page, err := pager.NextPage(ctx)
		if err != nil {
			if ctx.Err() == nil {
				l.log.Warn("cannot list the partitions", "err", sdkerr.Short(err))
			}
			return
		}
		for _, b := range page.Segment.BlobItems {
			if l.found != nil {
				l.found(*b.Name)
			}
			var i int
			if _, err := fmt.Sscanf((*b.Name)[len(leaseFolder):], l.names.lower()+"-control-%d", &i); err != nil ||
				i >= l.partitions {
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
		if l.owns(i) {
			l.drop(i, "the lease has ended")
		}
		l.take(ctx, i, false)
	}
	mine := len(l.ids())
	most := ""
	for owner, list := range owners {
		if owner != l.worker && len(list) > len(owners[most]) {
			most = owner
		}
	}
	// With a difference of one, two processes would take the partition from each other without an end.
	if victims := owners[most]; most != "" && len(victims) > mine+1 {
		l.take(ctx, victims[rand.IntN(len(victims))], true)
	}
}

// releaseTimeout is the time limit for releasing leases at a stop; leases also expire.
const releaseTimeout = 5 * time.Second

func (l *leases) release() {
	ctx, cancel := context.WithTimeout(context.Background(), releaseTimeout)
	defer cancel()
	for i, id := range l.ids() {
		l.mu.Lock()
		delete(l.held, i)
		l.mu.Unlock()
		l.lost(i)
		_, _ = l.client(i, id).ReleaseLease(ctx, nil)
	}
}
