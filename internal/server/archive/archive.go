package archive

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lazuli-storage/lazuli/internal/schedule"
	"github.com/lazuli-storage/lazuli/internal/server/backup"
	"github.com/lazuli-storage/lazuli/internal/storage/extent"
)

// Options configure [New].
type Options struct {
	// Place holds the archive. It belongs to one server.
	Place backup.Place
	// Every is the interval of segments; 0 is 10 seconds.
	Every time.Duration
	// Base is the interval of bases, and Keep the time that must stay reachable; 0 are 24 hours and 7 days.
	Base, Keep time.Duration
	// Spool is the size in bytes of what waits for the place, on the disk of the data folder, from which it is dropped;
	// 0 is 4 GiB.
	Spool int64
	// Fence ends the acknowledgement of writes when it is not known for [Lease] whether the place still belongs to this
	// server, and when the newest moment in it is more than 15 seconds old. A standby can only take over from a server
	// with it. Segments are sent every 5 seconds at least, and every 2 seconds on a node of a cluster, which learns from
	// the place what another node has sent. All nodes of a cluster have the same.
	Fence bool
	// Log is for messages that a person should see; nil is slog.Default().
	Log *slog.Logger
	// Metrics, if set, gets the metrics of the archive.
	Metrics prometheus.Registerer
	// Now is the clock; nil is time.Now. It need not be that of the services. Sleep waits; nil is time.Sleep.
	Now   func() time.Time
	Sleep func(time.Duration)
}

// Content is the content of blobs.
type Content interface {
	// Stats, Records and Retain are those of an [extent.Store].
	Stats() []extent.Stat
	Records(id uint64, offset int64, limit int) (at int64, data []byte, err error)
	Retain(fn func(id uint64, size int64) bool)
	// Backup is that of an [extent.Store], which on a node of a cluster asks the others for what it lacks.
	Backup(ctx context.Context, refs func(yield func(extent.Ref) bool) error,
		held func(extent.Window) []extent.Range, emit func(extent.Content) error) error
}

// Node is the node of a cluster on which an archive is.
type Node interface {
	// Leads reports whether this node is the one that sends. It is a hint: none or two nodes may lead for some seconds.
	Leads() bool
	// Current returns once the archive of this node was given every group that any node had acknowledged before the call.
	Current(ctx context.Context) error
	// Fenced returns why a majority of nodes without [Options.Fence], or with that of another place, may exist although
	// Current has returned; nil if none can. It is called with Options.Fence.
	Fenced() error
}

// Archive sends the logs of one server to a place: those of each shard by themselves. Open comes first, then the
// databases with the [Shard.Log] of their shard, then Attach. Its methods are safe for concurrent use.
type Archive struct {
	o Options
	m metrics

	// clock is the last time that was given out: the times of all shards follow each other.
	clock atomic.Int64
	// spooled is the size of the spools of all shards.
	spooled atomic.Int64
	// turns has room for the shards that send at the same time, each of which keeps a segment in memory. based is held
	// while a base is made: the place has one lock for all shards.
	turns chan struct{}
	based sync.Mutex

	// shards are nil before Open, and keeper is the one that has the place for all of them: the only shard, or one
	// without a log.
	shards atomic.Pointer[[]*Shard]
	keeper *Shard
}

// senders is the number of shards that send at the same time.
const senders = 4

// New returns an archive that is not open.
func New(o Options) *Archive {
	o.setDefaults()
	a := &Archive{o: o, turns: make(chan struct{}, senders)}
	a.register()
	return a
}

func (o *Options) setDefaults() {
	if o.Every == 0 {
		o.Every = 10 * time.Second
	}
	if o.Base == 0 {
		o.Base = 24 * time.Hour
	}
	if o.Keep == 0 {
		o.Keep = 7 * 24 * time.Hour
	}
	if o.Spool == 0 {
		o.Spool = 4 << 30
	}
	if o.Fence {
		o.Every = min(o.Every, fencedEvery)
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Sleep == nil {
		o.Sleep = func(d time.Duration) { schedule.Sleep(context.Background(), nil, d) }
	}
}

// Open opens the folder of the archive in a data folder with a number of shards, or creates it, and takes the place.
// The databases are opened after it. Without Fence a place that does not answer is taken later. Errors: ErrOwned,
// backup.ErrNotPlace, backup.ErrShards and others that time does not repair; those of the disk.
func (a *Archive) Open(dir string, shards int) error {
	a.keeper = newShard(a, a.o)
	a.keeper.parts = shards
	return a.open(dir, a.split())
}

// OpenNode is Open on a node of a cluster, whose nodes have one archive and all shards. It does nothing if that was
// opened before.
func (a *Archive) OpenNode(dir, cluster string, shards int) error {
	if a.list() != nil {
		return nil
	}
	a.keeper = newShard(a, a.o)
	a.keeper.parts = shards
	a.keeper.beNode(cluster)
	list := a.split()
	for _, s := range list {
		s.beNode(cluster)
	}
	return a.open(dir, list)
}

// split returns the shards of which the keeper has the place.
func (a *Archive) split() (list []*Shard) {
	shards := a.keeper.parts
	if shards == 1 {
		return []*Shard{a.keeper}
	}
	for n := range shards {
		o := a.o
		o.Place, o.Log = backup.Shard(o.Place, n, shards), o.Log.With("shard", n)
		list = append(list, newShard(a, o))
	}
	return list
}

// open opens the keeper and the shards.
func (a *Archive) open(dir string, list []*Shard) error {
	err := a.keeper.openState(dir)
	for n, s := range list {
		if err == nil && s != a.keeper {
			err = s.openState(filepath.Join(dir, fmt.Sprintf("%02d", n)))
		}
		if err == nil {
			err = s.openSpool()
		}
	}
	if err == nil {
		err = a.keeper.take()
	}
	if err != nil {
		// It can be opened again, when the place answers.
		for _, s := range list {
			err = errors.Join(err, s.closeSpool())
		}
		return err
	}
	a.shards.Store(&list)
	return nil
}

// list returns the shards, none before Open.
func (a *Archive) list() []*Shard {
	if list := a.shards.Load(); list != nil {
		return *list
	}
	return nil
}

// Shards is the number of shards; 0 before Open.
func (a *Archive) Shards() int { return len(a.list()) }

// Shard returns the archive of a shard, after Open.
func (a *Archive) Shard(number int) *Shard { return a.list()[number] }

// Attach begins the use of the content, once all databases are open and before the first request is served. keys are
// the files with the keys of encryption scopes, by shard.
func (a *Archive) Attach(keys ...string) error {
	for n, s := range a.list() {
		if err := s.Attach(keys[n]); err != nil {
			return err
		}
	}
	return nil
}

// An Opener returns the state of a shard, for a base. held is what the place has of it.
type Opener func(ctx context.Context, shard int, held backup.Held) (backup.Source, error)

// Run sends segments, and makes bases from what open returns, until ctx ends. It begins after Attach.
func (a *Archive) Run(ctx context.Context, open Opener) {
	var running sync.WaitGroup
	for n, s := range a.list() {
		running.Go(func() {
			s.run(ctx, func(ctx context.Context, held backup.Held) (backup.Source, error) { return open(ctx, n, held) })
		})
	}
	running.Wait()
}

// Send sends what there is now, and reports errors to the log and the metrics.
func (a *Archive) Send(ctx context.Context) {
	for _, s := range a.list() {
		s.Send(ctx)
	}
}

// Detach sends what there is, if the place answers, and ends the use of the content. No request is served any more.
func (a *Archive) Detach(ctx context.Context) {
	var running sync.WaitGroup
	for _, s := range a.list() {
		running.Go(func() { s.Detach(ctx) })
	}
	running.Wait()
}

// Close closes the folder. What was not sent stays there.
func (a *Archive) Close() (err error) {
	list := a.list()
	if list != nil {
		a.keeper.unwatch()
	}
	for _, s := range list {
		err = errors.Join(err, s.closeSpool())
	}
	return err
}

// Allow returns why a shard allows no writes; nil if all do. See [Shard.Allow].
func (a *Archive) Allow() error {
	for _, s := range a.list() {
		if err := s.Allow(); err != nil {
			return err
		}
	}
	return nil
}

// nextTime returns a time that is later than all that were given out.
func (a *Archive) nextTime() int64 {
	for {
		last := a.clock.Load()
		if at := max(last+1, a.o.Now().UnixNano()); a.clock.CompareAndSwap(last, at) {
			return at
		}
	}
}

// passTime makes later times follow one.
func (a *Archive) passTime(at int64) {
	for {
		if last := a.clock.Load(); last >= at || a.clock.CompareAndSwap(last, at) {
			return
		}
	}
}

// waiting returns the bytes that the archive keeps in the data folder.
func (a *Archive) waiting() (n int64) {
	for _, s := range a.list() {
		n += s.waiting()
	}
	return n
}

// Sent says up to which moment an archive has sent the changes.
type Sent struct {
	// Place names the folder or container.
	Place string
	// Until is the newest moment that the place has; zero before the first.
	Until time.Time
	// Problem is why it does not send at the moment; "" if it does.
	Problem string
}

// Sent returns how far the archive is; ok is false before it is open. With several shards it is how far the last one
// is.
func (a *Archive) Sent() (s Sent, ok bool) {
	list := a.list()
	s.Place = a.o.Place.String()
	for n, of := range list {
		until, problem := of.sent()
		if n == 0 || until.Before(s.Until) {
			s.Until = until
		}
		if problem != "" && s.Problem == "" {
			s.Problem = problem
			if len(list) > 1 {
				s.Problem = fmt.Sprintf("shard %d: %s", n, problem)
			}
		}
	}
	return s, len(list) > 0
}

// metrics are the metrics of an archive.
type metrics struct {
	segments, bytes, failures, gaps prometheus.Counter
}

func (a *Archive) register() {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	a.m = metrics{
		segments: counter("lazuli_archive_segments_total", "Segments of the log that were sent to the archive."),
		bytes:    counter("lazuli_archive_bytes_total", "Bytes of these segments, without bases."),
		failures: counter("lazuli_archive_failures_total", "Segments and bases that could not be sent; they are sent again."),
		gaps:     counter("lazuli_archive_gaps_total", "Times at which the archive had to begin again with another base."),
	}
	if a.o.Metrics == nil {
		return
	}
	gauge := func(name, help string, value func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value)
	}
	// The shard that is farthest behind counts: a moment can be restored once the archive has it of all shards.
	a.o.Metrics.MustRegister(a.m.segments, a.m.bytes, a.m.failures, a.m.gaps, shardMetrics{a},
		gauge("lazuli_archive_lag_seconds", "Age of the newest moment that the archive has; 0 before the first.",
			func() float64 { return a.age(a.list()...) }),
		gauge("lazuli_archive_refuses_writes",
			"1 while archive-fence refuses writes: the archive may belong to another server, or is too far behind.",
			func() float64 {
				if a.Allow() != nil {
					return 1
				}
				return 0
			}),
		gauge("lazuli_archive_waiting_bytes", "Bytes in the data folder that wait for the archive.",
			func() float64 { return float64(a.waiting()) }),
		gauge("lazuli_archive_base_timestamp_seconds",
			"Time of the newest base of the archive, in seconds since 1970; 0 without one: nothing can be restored.",
			a.baseTime))
}

// age returns the age in seconds of the newest moment that the archive has of all of the shards, 0 before the first.
func (a *Archive) age(list ...*Shard) (seconds float64) {
	for _, of := range list {
		until, _ := of.sent()
		if until.IsZero() {
			return 0
		}
		seconds = max(seconds, a.o.Now().Sub(until).Seconds())
	}
	return seconds
}

// baseTime returns the time of the newest base of the shard whose base is the oldest, in seconds; 0 if one has none.
func (a *Archive) baseTime() (seconds float64) {
	for n, of := range a.list() {
		base := of.position.Load().Base
		if base.IsZero() {
			return 0
		}
		if at := float64(base.UnixMilli()) / 1000; n == 0 || at < seconds {
			seconds = at
		}
	}
	return seconds
}

// shardMetrics are the metrics of each shard of a folder with more than one.
type shardMetrics struct{ *Archive }

var (
	shardLag = prometheus.NewDesc("lazuli_archive_shard_lag_seconds",
		"Age of the newest moment that the archive has of a shard, with more than one; 0 before the first.",
		[]string{"shard"}, nil)
	shardWaiting = prometheus.NewDesc("lazuli_archive_shard_waiting_bytes",
		"Bytes of a shard in the data folder that wait for the archive, with more than one shard.", []string{"shard"}, nil)
)

// Describe implements prometheus.Collector.
func (m shardMetrics) Describe(out chan<- *prometheus.Desc) { out <- shardLag; out <- shardWaiting }

// Collect implements prometheus.Collector.
func (m shardMetrics) Collect(out chan<- prometheus.Metric) {
	list := m.list()
	if len(list) < 2 {
		return
	}
	for n, of := range list {
		name := strconv.Itoa(n)
		out <- prometheus.MustNewConstMetric(shardLag, prometheus.GaugeValue, m.age(of), name)
		out <- prometheus.MustNewConstMetric(shardWaiting, prometheus.GaugeValue, float64(of.waiting()), name)
	}
}
