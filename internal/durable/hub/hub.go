package hub

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2/queueerror"
	"github.com/microsoft/durabletask-go/backend"

	"github.com/lazuli-storage/lazuli/internal/durable/inflight"
	"github.com/lazuli-storage/lazuli/internal/durable/lease"
	"github.com/lazuli-storage/lazuli/internal/durable/record"
)

// New returns a backend. It sends no request.
func New(options Options) (*Backend, error) {
	o, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	n := record.Names{Hub: o.Hub}
	p := record.Payloads{Container: o.Storage.Blobs.ServiceClient().NewContainerClient(n.LargeMessages())}
	b := &Backend{options: o, names: n, clock: o.Clock, log: o.Logger.With("hub", o.Hub), payloads: p,
		instances: record.Instances{Table: o.Storage.Tables.NewClient(n.Instances()), Payloads: p, Hub: o.Hub,
			Key: record.PartitionKey},
		histories: record.Histories{Table: o.Storage.Tables.NewClient(n.History()), Payloads: p},
		sessions:  inflight.NewSessions(), inWork: inWork{list: map[string]*work{}},
		holder: inflight.NewHolder(o.Visibility), cache: record.NewCache(o.CacheEvents), watches: inflight.NewWatches(),
		parking: inflight.NewParking(o.Clock), life: context.Background()}
	b.late = inflight.NewLateRows(b.sessions)
	b.workItems, b.poison, b.shared = b.queue(n.WorkItems()), b.queue(n.Poison()), b.queue(n.Shared())
	b.activities = newActivities(b)
	b.entities = newEntities(b, record.EntityStore{Table: o.Storage.Tables.NewClient(n.Entities()), Payloads: p,
		Last: &atomic.Int64{}})
	return b, nil
}

func (b *Backend) queue(name string) inflight.Queue {
	client := b.options.Storage.Queues.NewQueueClient(name)
	return inflight.NewQueue(client, b.options.Visibility, b.clock)
}

// hubInfo is the blob taskhub.json.
type hubInfo struct {
	TaskHubName    string
	CreatedAt      time.Time
	PartitionCount int
	Engine         string `json:",omitempty"` // EngineLazuli; hubs of earlier builds and of other engines have none
}

// CreateTaskHub implements backend.Backend. It creates the missing resources, and returns backend.ErrTaskHubExists if
// the hub exists.
func (b *Backend) CreateTaskHub(ctx context.Context) error {
	err := b.open(ctx)
	existed := err == nil
	if err != nil && !errors.Is(err, backend.ErrTaskHubNotFound) {
		return err
	}
	s := b.options.Storage
	for _, name := range []string{b.names.Leases(), b.names.LargeMessages()} {
		if _, err := s.Blobs.CreateContainer(ctx, name, nil); err != nil &&
			!bloberror.HasCode(err, bloberror.ContainerAlreadyExists) {
			return fmt.Errorf("durable: create the container %s: %w", name, err)
		}
	}
	// The table of the entities first: without it the others would look like those of another engine.
	for _, t := range []string{b.names.Entities(), b.names.Instances(), b.names.History()} {
		if _, err := s.Tables.CreateTable(ctx, t, nil); err != nil {
			if _, code := record.HTTPStatus(err); code != "TableAlreadyExists" {
				return fmt.Errorf("durable: create the table %s: %w", t, err)
			}
		}
	}
	if !existed {
		if err := b.writeInfo(ctx); err != nil {
			return err
		}
		// Of two processes that make the hub at once, one has written the file. Its number of partitions counts for both.
		if err := b.open(ctx); err != nil {
			return err
		}
	}
	for _, q := range append([]inflight.Queue{b.workItems}, b.control...) {
		if _, err := q.Client.Create(ctx, nil); err != nil && !queueerror.HasCode(err, queueerror.QueueAlreadyExists) {
			return fmt.Errorf("durable: create a queue: %w", err)
		}
	}
	if err := b.leases.Create(ctx); err != nil {
		return err
	}
	b.opened.Store(true)
	if existed {
		return backend.ErrTaskHubExists
	}
	return nil
}

func (b *Backend) infoBlob() *blockblob.Client {
	leases := b.options.Storage.Blobs.ServiceClient().NewContainerClient(b.names.Leases())
	return leases.NewBlockBlobClient(record.HubInfoBlob)
}

func (b *Backend) writeInfo(ctx context.Context) error {
	text, err := json.Marshal(hubInfo{b.options.Hub, b.clock.Now().UTC(), b.options.Partitions, EngineLazuli})
	if err != nil {
		return err
	}
	_, err = b.infoBlob().UploadBuffer(ctx, text, &blockblob.UploadBufferOptions{AccessConditions: &blob.AccessConditions{
		ModifiedAccessConditions: &blob.ModifiedAccessConditions{IfNoneMatch: to.Ptr(azcore.ETagAny)}}})
	if err != nil && !bloberror.HasCode(err, bloberror.BlobAlreadyExists, bloberror.ConditionNotMet) {
		return fmt.Errorf("durable: write %s: %w", record.HubInfoBlob, err)
	}
	return nil
}

// open reads the description of the hub. It returns backend.ErrTaskHubNotFound if the hub does not exist.
func (b *Backend) open(ctx context.Context) error {
	buffer := make([]byte, 4096)
	n, err := b.infoBlob().DownloadBuffer(ctx, buffer, nil)
	if bloberror.HasCode(err, bloberror.BlobNotFound, bloberror.ContainerNotFound, bloberror.ContainerBeingDeleted) {
		// A hub of DTFx may have no such file, and nothing may be written to it.
		if engine, err := b.findEngine(ctx, false); err != nil {
			return err
		} else if engine == EngineDTFx {
			return b.foreign(engine)
		}
		return backend.ErrTaskHubNotFound
	}
	if err != nil {
		return fmt.Errorf("durable: read %s: %w", record.HubInfoBlob, err)
	}
	var info hubInfo
	err = json.Unmarshal(buffer[:n], &info)
	if err == nil && (info.PartitionCount < 1 || info.PartitionCount > 16) {
		err = fmt.Errorf("%d partitions", info.PartitionCount)
	}
	if err != nil {
		return fmt.Errorf("durable: the blob %s/%s does not describe a hub: %w", b.names.Leases(), record.HubInfoBlob, err)
	}
	if info.Engine != EngineLazuli {
		if engine, err := b.findEngine(ctx, true); err != nil {
			return err
		} else if engine == EngineDTFx {
			return b.foreign(engine)
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	// A hub that is open already keeps its queues and leases.
	if len(b.control) == info.PartitionCount {
		return nil
	}
	b.control = nil
	for i := range info.PartitionCount {
		b.control = append(b.control, b.queue(b.names.Control(i)))
	}
	b.leases = &lease.Leases{Container: b.options.Storage.Blobs.ServiceClient().NewContainerClient(b.names.Leases()),
		Names: b.names, Partitions: info.PartitionCount,
		Worker: b.options.Worker, Duration: b.options.LeaseDuration, Clock: b.clock, Log: b.log,
		Early: make(chan struct{}, 1), Held: map[int]string{}}
	if b.apps != nil {
		b.leases.Found = b.apps.found
	}
	return nil
}

// DeleteTaskHub implements backend.Backend. On Azure, creating a hub with the same name fails for about 30 seconds
// afterwards.
func (b *Backend) DeleteTaskHub(ctx context.Context) error {
	found := b.open(ctx)
	if found != nil && !errors.Is(found, backend.ErrTaskHubNotFound) {
		return found
	}
	b.opened.Store(false)
	s := b.options.Storage
	var errs []error
	ignore := func(err error) {
		if err != nil && !record.IsNotFound(err) {
			errs = append(errs, err)
		}
	}
	for _, q := range append([]inflight.Queue{b.workItems, b.poison, b.shared}, b.control...) {
		_, err := q.Client.Delete(ctx, nil)
		ignore(err)
	}
	for _, t := range []string{b.names.Instances(), b.names.History(), b.names.Entities()} {
		_, err := s.Tables.DeleteTable(ctx, t, nil)
		ignore(err)
	}
	for _, name := range []string{b.names.LargeMessages(), b.names.Leases()} {
		_, err := s.Blobs.DeleteContainer(ctx, name, nil)
		ignore(err)
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("durable: delete the hub %s: %w", b.options.Hub, err)
	}
	return found
}
