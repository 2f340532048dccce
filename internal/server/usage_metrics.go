package server

import (
	"context"
	"io/fs"
	"net/http"
	"path/filepath"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/sdk/queuetool"
	"github.com/lazuli-storage/lazuli/internal/state/blob/maintain"
)

const (
	// usageLifetime is for how long the figures that take work are served again.
	usageLifetime = 10 * time.Second
	// usageTimeout bounds the time in which queues are asked.
	usageTimeout = 5 * time.Second
	// maxQueueSeries bounds the queues with metrics of their own, over all accounts.
	maxQueueSeries = 1000
)

var (
	storageBytes = prometheus.NewDesc("lazuli_storage_bytes",
		"Size on disk, by part: tables, blobs (metadata), content, queues.", []string{"part"}, nil)
	diskFree     = prometheus.NewDesc("lazuli_disk_free_bytes", "Free space of the disk with the data folder.", nil, nil)
	commitGroups = prometheus.NewDesc("lazuli_commit_groups_total",
		"Groups of writes that were committed with one sync, by database.", []string{"database"}, nil)
	commitWrites = prometheus.NewDesc("lazuli_commit_updates_total",
		"Writes in the committed groups; divided by the groups, the size of a group.", []string{"database"}, nil)
	compactions  = prometheus.NewDesc("lazuli_compactions_total", "Compactions of blob content.", nil, nil)
	compactBytes = prometheus.NewDesc("lazuli_compaction_bytes_total",
		"Bytes that compactions freed, and that they copied for that.", []string{"result"}, nil)
	tierBytes = prometheus.NewDesc("lazuli_content_tier_bytes",
		"Bytes of content with a tier: local (in files of the data folder), chunks (parts that were fetched), waiting "+
			"(those of local that are not in the tier yet), remote (in the tier alone).", []string{"where"}, nil)
	tierTraffic = prometheus.NewDesc("lazuli_content_tier_traffic_bytes_total",
		"Bytes that were copied to the tier, and that were fetched for readers.", []string{"direction"}, nil)
	tierCalls = prometheus.NewDesc("lazuli_content_tier_operations_total",
		"Extents copied, fetches, chunks that were found in the cache (hits), calls that failed, and objects removed.",
		[]string{"operation"}, nil)
	tierFailing = prometheus.NewDesc("lazuli_content_tier_failing",
		"1 while content cannot be copied to the tier, or it does not answer.", nil, nil)
	queueDepth = prometheus.NewDesc("lazuli_queue_messages", "Messages of a queue, visible and hidden.",
		[]string{"account", "queue"}, nil)
	queueAge = prometheus.NewDesc("lazuli_queue_oldest_age_seconds",
		"Age of the first visible message of a queue; absent if none is visible.", []string{"account", "queue"}, nil)
	queuesHidden = prometheus.NewDesc("lazuli_queues_without_metrics",
		"Queues beyond the first 1000, which have no metrics of their own.", nil, nil)

	eventsDelivered = prometheus.NewDesc("lazuli_events_total",
		"Events of storage accounts by what became of them: delivered, dead-lettered, dropped.",
		[]string{"account", "subscription", "result"}, nil)
	eventsFailed = prometheus.NewDesc("lazuli_event_failed_attempts_total", "Attempts to deliver events that failed.",
		[]string{"account", "subscription"}, nil)
	eventsPending = prometheus.NewDesc("lazuli_events_pending",
		"Events that were read from the log and are not delivered: at most 256.", []string{"account", "subscription"}, nil)
	eventsAge = prometheus.NewDesc("lazuli_events_oldest_age_seconds",
		"Age of the oldest pending event; 0 if none is pending.", []string{"account", "subscription"}, nil)
)

// usageCollector exports what the services use, and what waits in them.
type usageCollector struct {
	s *Server

	mu     sync.Mutex // guards the next fields; held while they are renewed
	at     time.Time
	queues []queueFigures
	hidden int
	bytes  int64 // of the queues' files
}

type queueFigures struct {
	account string
	queuetool.Queue
}

// Describe implements prometheus.Collector.
func (c *usageCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{storageBytes, diskFree, commitGroups, commitWrites, compactions, compactBytes,
		tierBytes, tierTraffic, tierCalls, tierFailing,
		queueDepth, queueAge, queuesHidden,
		eventsDelivered, eventsFailed, eventsPending, eventsAge} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *usageCollector) Collect(ch chan<- prometheus.Metric) {
	open := c.s.services.Load()
	if open == nil {
		return
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	count := func(d *prometheus.Desc, v int64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
	}
	open.collectUsage(gauge, count)
	if n, ok := c.s.space.Free(); ok {
		gauge(diskFree, float64(n))
	}
	c.collectQueues(gauge)
	c.collectEvents(gauge, count)
}

// collectUsage exports what the databases and the content of all shards use.
func (o *services) collectUsage(gauge func(*prometheus.Desc, float64, ...string),
	count func(*prometheus.Desc, int64, ...string)) {
	var tables, groups, updates int64
	var blobs maintain.Usage
	for _, of := range o.list() {
		n, err := of.tables.State.Size()
		u, failed := of.blobs.State.Maintenance.Usage()
		if err != nil || failed != nil {
			return // a sum without a shard would look as if something had been deleted
		}
		g, w := of.tables.State.Commits()
		tables, groups, updates = tables+n, groups+g, updates+w
		blobs.Add(u)
	}
	gauge(storageBytes, float64(tables), "tables")
	count(commitGroups, groups, "tables")
	count(commitWrites, updates, "tables")
	gauge(storageBytes, float64(blobs.Metadata), "blobs")
	gauge(storageBytes, float64(blobs.Content), "content")
	count(commitGroups, blobs.Groups, "blobs")
	count(commitWrites, blobs.Updates, "blobs")
	count(compactions, blobs.Compactions)
	count(compactBytes, blobs.Freed, "freed")
	count(compactBytes, blobs.Moved, "copied")
	if t := blobs.Tier; t != nil {
		gauge(tierBytes, float64(t.Local), "local")
		gauge(tierBytes, float64(t.Chunks), "chunks")
		gauge(tierBytes, float64(t.Waiting), "waiting")
		gauge(tierBytes, float64(t.Remote), "remote")
		count(tierTraffic, t.CopiedBytes, "copied")
		count(tierTraffic, t.FetchedBytes, "fetched")
		count(tierCalls, t.Copied, "copy")
		count(tierCalls, t.Fetched, "fetch")
		count(tierCalls, t.Hits, "hit")
		count(tierCalls, t.Failures, "failure")
		count(tierCalls, t.Removed, "remove")
		failing := 0.
		if t.Failing != "" {
			failing = 1
		}
		gauge(tierFailing, failing)
	}
}

func (c *usageCollector) collectQueues(gauge func(*prometheus.Desc, float64, ...string)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.at) > usageLifetime {
		c.renew()
		c.at = time.Now()
	}
	gauge(storageBytes, float64(c.bytes), "queues")
	gauge(queuesHidden, float64(c.hidden))
	now := c.s.now()
	for _, q := range c.queues {
		gauge(queueDepth, float64(q.Messages), q.account, q.Name)
		if !q.Oldest.IsZero() {
			gauge(queueAge, max(0, now.Sub(q.Oldest).Seconds()), q.account, q.Name)
		}
	}
}

// renew asks all queues. Those that cannot be read have no figures. c.mu is held.
func (c *usageCollector) renew() {
	ctx, cancel := context.WithTimeout(context.Background(), usageTimeout)
	defer cancel()
	c.queues, c.hidden = nil, 0
	options :=
		&azqueue.ClientOptions{ClientOptions: azcore.ClientOptions{Transport: &http.Client{Transport: c.s.InProcess()},
			Retry: policy.RetryOptions{MaxRetries: -1}}}
	open := c.s.services.Load()
	if open == nil {
		return
	}
	for _, account := range c.s.config.Accounts.Names() {
		// Of thousands of accounts most have no queue, and a look costs less than a request.
		of := open.of(wire.Queue, account)
		if of == nil { // the nodes that have them say how long they are
			continue
		}
		if has, err := of.queues.HasQueues(account); err == nil && !has {
			continue
		}
		client, err := azqueue.NewServiceClientWithNoCredential(c.s.InProcessURL(wire.Queue, account), options)
		if err != nil {
			continue
		}
		list, left, err := queuetool.ListSome(ctx, client, "", maxQueueSeries-len(c.queues))
		if err != nil {
			c.s.config.Log.Debug("metrics of queues", "account", account, "err", err)
		}
		c.hidden += left
		for _, q := range list {
			if q.Unavailable == "" {
				c.queues = append(c.queues, queueFigures{account, q})
			}
		}
	}
	c.bytes = 0
	if c.s.config.NATS.URL == "" {
		c.bytes = folderSize(c.s.dir.Queues())
	}
	for _, of := range open.list() {
		if n, err := of.queues.State.Database().Size(); err == nil {
			c.bytes += n
		}
	}
}

// folderSize is the size of the files in a folder in bytes. Files that go meanwhile are not counted.
func folderSize(dir string) (n int64) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if info, err := d.Info(); err == nil {
				n += info.Size()
			}
		}
		return nil
	})
	return n
}

func (c *usageCollector) collectEvents(gauge func(*prometheus.Desc, float64, ...string),
	count func(*prometheus.Desc, int64, ...string)) {
	m := c.s.Events()
	if m == nil {
		return
	}
	for _, s := range m.List() {
		count(eventsDelivered, s.Delivered, s.Account, s.Name, "delivered")
		count(eventsDelivered, s.DeadLettered, s.Account, s.Name, "dead-lettered")
		count(eventsDelivered, s.Dropped, s.Account, s.Name, "dropped")
		count(eventsFailed, s.Failed, s.Account, s.Name)
		gauge(eventsPending, float64(s.Pending), s.Account, s.Name)
		age := 0.
		if !s.Oldest.IsZero() {
			age = max(0, c.s.now().Sub(s.Oldest).Seconds())
		}
		gauge(eventsAge, age, s.Account, s.Name)
	}
}
