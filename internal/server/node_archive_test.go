package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"github.com/lazuli-storage/lazuli/internal/server/archive"
	"github.com/lazuli-storage/lazuli/internal/server/backup"
	"github.com/lazuli-storage/lazuli/internal/server/fsck"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/testlog"
)

// nodePlace is a place as one node reaches it.
type nodePlace struct {
	backup.Place
	down atomic.Bool
}

var errPlaceDown = errors.New("the place is down")

func (p *nodePlace) Get(ctx context.Context, name string) ([]byte, error) {
	if p.down.Load() {
		return nil, errPlaceDown
	}
	return p.Place.Get(ctx, name)
}

func (p *nodePlace) Put(ctx context.Context, name string, content []byte) error {
	if p.down.Load() {
		return errPlaceDown
	}
	return p.Place.Put(ctx, name, content)
}

func (p *nodePlace) Create(ctx context.Context, name string, content []byte) error {
	if p.down.Load() {
		return errPlaceDown
	}
	return p.Place.Create(ctx, name, content)
}

func (p *nodePlace) List(ctx context.Context, prefix string, fn func(string) error) error {
	if p.down.Load() {
		return errPlaceDown
	}
	return p.Place.List(ctx, prefix, fn)
}

// archivedCluster is a cluster of three nodes with an archive.
type archivedCluster struct {
	*testCluster
	place backup.Place
	reach [3]*nodePlace
	logs  [3]*testlog.Buffer
	ends  [3]func()
	spool int64
	fence bool
	// archives are those of the nodes that have begun.
	archives [3]*archive.Archive
}

func newArchivedCluster(t *testing.T, spool int64) *archivedCluster {
	t.Helper()
	c := &archivedCluster{testCluster: newTestCluster(t, 3), place: backup.Folder(filepath.Join(t.TempDir(), "place")),
		spool: spool}
	for i := range c.reach {
		c.reach[i], c.logs[i] = &nodePlace{Place: c.place}, &testlog.Buffer{}
		t.Cleanup(func() { c.end(i) })
	}
	return c
}

// begin starts nodes, whose archives send all the time.
func (c *archivedCluster) begin(nodes ...int) {
	c.t.Helper()
	archives := &c.archives
	for _, i := range nodes {
		log := slog.New(slog.NewTextHandler(c.logs[i], nil))
		archives[i] = archive.New(archive.Options{Place: c.reach[i], Every: 100 * time.Millisecond, Spool: c.spool,
			Fence: c.fence, Log: log})
		c.configs[i].Archive, c.configs[i].Log = archives[i], log
	}
	c.start(nodes...)
	for _, i := range nodes {
		ctx, cancel := context.WithCancel(context.Background())
		var running sync.WaitGroup
		s, a := c.nodes[i], archives[i]
		running.Go(func() {
			a.Run(ctx, s.ArchiveMoment)
		})
		c.ends[i] = sync.OnceFunc(func() { cancel(); running.Wait() })
	}
}

// end stops a node.
func (c *archivedCluster) end(i int) {
	if c.ends[i] != nil {
		c.ends[i]()
	}
	c.stop(i)
}

// sender returns the node that sends, once one does.
func (c *archivedCluster) sender() (at int) {
	c.t.Helper()
	check.Eventually(c.t, func() bool {
		at = -1
		for i, s := range c.nodes {
			if s != nil && s.config.Archive.Shard(0).Next() != nil {
				at = i
			}
		}
		return at >= 0
	}, "a node sends")
	return at
}

// awaitReach waits until the archive reaches a moment.
func (c *archivedCluster) awaitReach(at time.Time) []archive.Reach {
	c.t.Helper()
	var list []archive.Reach
	check.Eventually(c.t, func() bool {
		var err error
		list, err = archive.Reachable(c.t.Context(), c.place)
		return err == nil && len(list) > 0 && list[len(list)-1].Until.After(at)
	}, "the archive reaches %v", at)
	return list
}

// restoreInto restores a moment into a new folder.
func restoreInto(t *testing.T, p backup.Place, at time.Time) (folder string, err error) {
	t.Helper()
	m, err := archive.Open(t.Context(), p, at, t.TempDir(), nil)
	if err != nil {
		return "", err
	}
	folder = filepath.Join(t.TempDir(), "restored")
	err = backup.RestoreSource(t.Context(), m, folder, backup.RestoreOptions{
		Verify: func(ctx context.Context, path string) error {
			report, err := fsck.Check(ctx, path, fsck.Options{})
			if err == nil && !report.Clean {
				err = fmt.Errorf("not clean: %v", report.Findings)
			}
			return err
		}})
	return folder, errors.Join(err, m.Close())
}

// change is something that was made, and perhaps deleted, between its begin and its acknowledgement.
type change struct {
	name                       string // the first letter is that of the service
	began, acked, gone, vanish time.Time
}

// history holds the acknowledged changes of writers.
type history struct {
	mu   sync.Mutex
	list []*change
}

// made notes a change that fn makes.
func (h *history) made(name string, fn func()) *change {
	c := &change{name: name, began: time.Now()}
	fn()
	h.mu.Lock()
	defer h.mu.Unlock()
	c.acked = time.Now()
	h.list = append(h.list, c)
	return c
}

// check compares what a folder has with the history up to a moment: everything that was acknowledged before it, and
// nothing that began after it.
func (h *history) check(t *testing.T, folder string, at time.Time) {
	t.Helper()
	s, err := Start(Config{Location: folder, Log: slog.New(slog.DiscardHandler)})
	check.OK(t, err)
	defer func() { check.OK(t, s.Stop(context.Background())) }()
	x, has := newTenant(t, s.ConnectionString()), map[string]bool{}
	for {
		r := check.Must(x.queues.NewQueueClient("history").DequeueMessages(t.Context(), nil))(t)
		for _, m := range r.Messages {
			has["q"+*m.MessageText] = true
		}
		if len(r.Messages) == 0 {
			break
		}
	}
	for pages := x.tables.NewClient("history").NewListEntitiesPager(nil); pages.More(); {
		for _, e := range check.Must(pages.NextPage(t.Context()))(t).Entities {
			_, row, _ := bytes.Cut(e, []byte(`"RowKey":"`))
			row, _, _ = bytes.Cut(row, []byte(`"`))
			has["t"+string(row)] = true
		}
	}
	for pages := x.blobs.NewListBlobsFlatPager("history", nil); pages.More(); {
		for _, b := range check.Must(pages.NextPage(t.Context()))(t).Segment.BlobItems {
			r := check.Must(x.blobs.DownloadStream(t.Context(), "history", *b.Name, nil))(t)
			var got bytes.Buffer
			check.Must(got.ReadFrom(r.Body))(t)
			if !bytes.Equal(got.Bytes(), historyContent(*b.Name)) {
				t.Errorf("blob %s has %d other bytes", *b.Name, got.Len())
			}
			has["b"+*b.Name] = true
		}
	}
	for _, c := range h.list {
		must := c.acked.Before(at) && (c.gone.IsZero() || c.gone.After(at))
		never := c.began.After(at) || !c.vanish.IsZero() && c.vanish.Before(at)
		if must && !has[c.name] {
			t.Errorf("the state of %v lacks %s, made from %v to %v before it", at, c.name, at.Sub(c.began), at.Sub(c.acked))
		}
		if never && has[c.name] {
			t.Errorf("the state of %v has %s, made %v after it, or deleted %v before it", at, c.name, c.began.Sub(at),
				at.Sub(c.vanish))
		}
		delete(has, c.name)
	}
	for name := range has {
		t.Errorf("the state of %v has %s, which is in no history", at, name)
	}
}

// historyContent is the content of a blob of a history: small content is in the log, the rest in extents alone.
func historyContent(name string) []byte {
	size := 200
	if name[len(name)-1]%3 == 0 {
		size = 100_000
	}
	return bytes.Repeat([]byte(name), size)
}

// write writes until stop is called: messages, entities and blobs, some of which it deletes later.
func (h *history) write(t *testing.T, name string, x *tenant) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var wait sync.WaitGroup
	wait.Go(func() {
		var blobs []*change
		for n := 1; ctx.Err() == nil; n++ {
			key := fmt.Sprintf("%s-%05d", name, n)
			h.made("q"+key, func() {
				check.Must(x.queues.NewQueueClient("history").EnqueueMessage(t.Context(), key, nil))(t)
			})
			h.made("t"+key, func() {
				_, err := x.tables.NewClient("history").AddEntity(t.Context(),
					fmt.Appendf(nil, `{"PartitionKey":"p","RowKey":%q}`, key), nil)
				made(t, err)
			})
			blobs = append(blobs, h.made("b"+key, func() {
				check.Must(x.blobs.UploadBuffer(t.Context(), "history", key, historyContent(key), nil))(t)
			}))
			if len(blobs) > 3 {
				c := blobs[0]
				blobs = blobs[1:]
				c.gone = time.Now()
				_, err := x.blobs.DeleteBlob(t.Context(), "history", c.name[1:], nil)
				if err != nil {
					check.Code(t, err, "BlobNotFound")
				}
				c.vanish = time.Now()
			}
		}
	})
	return func() { cancel(); wait.Wait() }
}

// The moments of a cluster are equal to the history of acknowledged changes: while all goes well, while the place is
// gone and the logs are cut meanwhile, after the node that sends was lost with what it had not sent, and after it came
// back. The archive has no gap. With several shards, whose logs different nodes send, the same holds over all of them.
func TestArchiveOfACluster(t *testing.T) {
	if testing.Short() {
		t.Skip("starts three nodes")
	}
	t.Parallel()
	for name, shards := range map[string]int{"one shard": 1, "five shards": 5} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testArchive(t, shards)
		})
	}
}

// testArchive is TestArchiveOfACluster with a number of shards.
func testArchive(t *testing.T, shards int) {
	c := newArchivedCluster(t, 0)
	for i := range c.configs {
		c.configs[i].Shards = shards
	}
	c.begin(0, 1, 2)
	x := newTenantWith(t, c.nodes[0].ConnectionString(), patientRetries)
	_, err := x.queues.CreateQueue(t.Context(), "history", nil)
	made(t, err)
	_, err = x.tables.CreateTable(t.Context(), "history", nil)
	made(t, err)
	_, err = x.blobs.CreateContainer(t.Context(), "history", nil)
	made(t, err)
	c.awaitReach(time.Now())
	h := &history{}
	var moments []time.Time
	pass := func(n int) { // until some more was written
		h.mu.Lock()
		from := len(h.list)
		h.mu.Unlock()
		for i := range n {
			moments = append(moments, time.Now())
			check.Eventually(t, func() bool {
				h.mu.Lock()
				defer h.mu.Unlock()
				return len(h.list) >= from+(i+1)*(6+rand.IntN(9))
			}, "changes are made")
		}
		moments = append(moments, time.Now())
	}
	writers := func(round string, nodes ...int) (stop func()) {
		var stops []func()
		for _, i := range nodes {
			stops = append(stops, h.write(t, fmt.Sprint(round, i), newTenantWith(t, c.nodes[i].ConnectionString(),
				patientRetries)))
		}
		return func() {
			for _, stop := range stops {
				stop()
			}
		}
	}
	stop := writers("a", 0, 1, 2)
	pass(3)
	for _, p := range c.reach {
		p.down.Store(true)
	}
	pass(2)
	// The second snapshot cuts the log where the first one is.
	for range 2 {
		for {
			_, err := c.nodes[1].SnapshotLogs(t.Context())
			if err == nil {
				break
			}
			t.Log(err)
		}
		pass(1)
	}
	for _, p := range c.reach {
		p.down.Store(false)
	}
	pass(2)
	stop()
	c.awaitReach(time.Now())

	// What the sender has and cannot send goes with it.
	lost := c.sender()
	others := []int{(lost + 1) % 3, (lost + 2) % 3}
	c.reach[lost].down.Store(true)
	stop = writers("b", others...)
	pass(2)
	c.end(lost)
	pass(3)
	c.reach[lost].down.Store(false)
	c.begin(lost)
	pass(2)
	stop()
	for i := range c.nodes { // all that is left goes with a stop, or comes after the next start
		c.end(i)
	}
	c.begin(0, 1, 2)
	last := time.Now()
	reach := c.awaitReach(last)
	if len(reach) != 1 || reach[0].Missing != "" {
		t.Errorf("reachable: %+v", reach)
	}
	moments = append(moments, last)
	for i, at := range moments {
		if i%check.Size(3, 1) != 0 && at != last {
			continue // a restore of each moment is the most of the work
		}
		folder, err := restoreInto(t, c.place, at)
		check.OK(t, err)
		h.check(t, folder, at)
	}
	t.Logf("%d changes, %d moments, %d segments", len(h.list), len(moments), reach[0].Segments)
}

// Beyond the bound of their spools all nodes drop what waits: the archive has a gap, says so, and goes on with another
// base.
func TestArchiveGapOfACluster(t *testing.T) {
	if testing.Short() {
		t.Skip("starts three nodes")
	}
	t.Parallel()
	c := newArchivedCluster(t, 32<<10)
	c.begin(0, 1, 2)
	x := newTenantWith(t, c.nodes[0].ConnectionString(), patientRetries)
	_, err := x.tables.CreateTable(t.Context(), "gap", nil)
	made(t, err)
	add := func(row string, size int) time.Time {
		_, err := x.tables.NewClient("gap").AddEntity(t.Context(), fmt.Appendf(nil,
			`{"PartitionKey":"p","RowKey":%q,"Text":%q}`, row, bytes.Repeat([]byte("x"), size)), nil)
		made(t, err)
		return time.Now()
	}
	c.awaitReach(time.Now())
	before := add("before", 10)
	c.awaitReach(before)
	for _, p := range c.reach {
		p.down.Store(true)
	}
	var lost time.Time
	for i := range 4 {
		lost = add(fmt.Sprint("lost", i), 15_000)
	}
	for _, p := range c.reach {
		p.down.Store(false)
	}
	after := add("after", 10)
	reach := c.awaitReach(after)
	if len(reach) != 2 || reach[0].Until.After(lost) || reach[1].From.Before(lost) {
		t.Errorf("reachable: %+v, lost at %v", reach, lost)
	}
	if _, err := restoreInto(t, c.place, lost); !errors.Is(err, archive.ErrUnreachable) {
		t.Errorf("in the gap: %v", err)
	}
	for at, want := range map[time.Time]int{before: 1, reach[1].Until: 6} {
		folder := check.Must(restoreInto(t, c.place, at))(t)
		s := check.Must(Start(Config{Location: folder, Log: slog.New(slog.DiscardHandler)}))(t)
		pages := newTenant(t, s.ConnectionString()).tables.NewClient("gap").NewListEntitiesPager(nil)
		if n := len(check.Must(pages.NextPage(t.Context()))(t).Entities); n != want {
			t.Errorf("at %v: %d entities, want %d", at, n, want)
		}
		check.OK(t, s.Stop(context.Background()))
	}
}

// A standby follows the archive of a cluster and serves what that has. It takes over only by force, since the nodes
// have no fence; they are refused the archive at their next start.
func TestStandbyOfACluster(t *testing.T) {
	if testing.Short() {
		t.Skip("starts three nodes")
	}
	t.Parallel()
	c := newArchivedCluster(t, 0)
	c.begin(0, 1, 2)
	newTenantWith(t, c.nodes[0].ConnectionString(), patientRetries).fill(t, "first")
	log := slog.New(slog.DiscardHandler)
	s, err := Start(Config{Location: t.TempDir(), Log: log,
		Archive: archive.New(archive.Options{Place: c.place, Fence: true, Log: log}),
		Standby: archive.NewFollower(archive.FollowOptions{Place: c.place, Log: log,
			Sleep: func(context.Context, time.Duration) error { return nil }})}) // the nodes are stopped by then
	check.OK(t, err)
	defer func() { check.OK(t, s.Stop(context.Background())) }()
	x := newTenant(t, s.ConnectionString())
	follows := func(name string) {
		t.Helper()
		check.Eventually(t, func() bool { return x.has(t, name) == "bqt" }, "the standby has what is called %s", name)
	}
	follows("first")
	newTenantWith(t, c.nodes[1].ConnectionString(), patientRetries).fill(t, "second")
	follows("second")
	// A record without a change is a group of the archive as well.
	m := heldMoment(t, c.nodes[2])
	check.OK(t, m.Close())
	if _, err := s.Promote(t.Context(), false); !errors.Is(err, archive.ErrNoFence) {
		t.Errorf("a promotion beside a cluster: %v", err)
	}
	for i := range c.nodes {
		c.end(i)
	}
	check.Must(s.Promote(t.Context(), true))(t)
	x.fill(t, "third")
	if have := x.has(t, "first") + x.has(t, "second") + x.has(t, "third"); have != "bqtbqtbqt" {
		t.Errorf("after the promotion there is %s", have)
	}
	// Two of them, since one waits for a majority. The other one ends with the first that is refused.
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	results := make(chan error, 2)
	for i := range 2 {
		c.configs[i].Archive = archive.New(archive.Options{Place: c.place, Log: log})
		go func() {
			n, err := StartContext(ctx, c.configs[i])
			if err == nil {
				_ = n.Stop(context.Background())
			}
			results <- err
		}()
	}
	if err := <-results; !errors.Is(err, archive.ErrOwned) {
		t.Errorf("a node after the promotion: %v", err)
	}
	cancel()
	<-results
}

// A standby takes over from a cluster that runs, since its nodes have a fence: none of them acknowledges a write once
// the standby serves, and what they had acknowledged up to the moment of the promotion is there. None starts again
// without the archive.
func TestFenceOfACluster(t *testing.T) {
	if testing.Short() {
		t.Skip("starts three nodes")
	}
	t.Parallel()
	c := newArchivedCluster(t, 0)
	c.fence = true
	c.begin(0, 1, 2)
	log := slog.New(slog.DiscardHandler)
	s, err := Start(Config{Location: t.TempDir(), Log: log,
		Archive: archive.New(archive.Options{Place: c.place, Fence: true, Log: log}),
		Standby: archive.NewFollower(archive.FollowOptions{Place: c.place, Log: log,
			// Its place is taken: the nodes need not wait for their leases when they have heard of it.
			Sleep: func(context.Context, time.Duration) error {
				for i, a := range c.archives {
					check.Eventually(t, func() bool { return a.Allow() != nil }, "node %d has heard of the promotion", i)
				}
				return nil
			}})})
	check.OK(t, err)
	defer func() { check.OK(t, s.Stop(context.Background())) }()
	check.Eventually(t, func() bool {
		o, err := archive.OwnerOf(t.Context(), c.place)
		return err == nil && o.Lease > 0
	}, "the place says that the cluster has a fence")
	x := newTenant(t, s.ConnectionString())
	newTenantWith(t, c.nodes[0].ConnectionString(), patientRetries).fill(t, "first")
	check.Eventually(t, func() bool { return x.has(t, "first") == "bqt" }, "the standby follows")

	// A writer at each node, whose writes are refused in the end.
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var writers sync.WaitGroup
	type write struct{ began, acked time.Time }
	acknowledged := make([]map[string]write, len(c.nodes))
	var begun atomic.Int64 // writers whose first write was acknowledged; a promotion before that would prove nothing
	for i, node := range c.nodes {
		table := newTenantWith(t, node.ConnectionString(), policy.RetryOptions{MaxRetries: -1}).tables.NewClient("first")
		acknowledged[i] = map[string]write{}
		writers.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				row, began := fmt.Sprintf("%d-%d", i, n), time.Now()
				if _, err := table.AddEntity(ctx, fmt.Appendf(nil, `{"PartitionKey":"p","RowKey":%q}`, row), nil); err == nil {
					if acknowledged[i][row] = (write{began, time.Now()}); len(acknowledged[i]) == 1 {
						begun.Add(1)
					}
				}
			}
		})
	}
	check.Eventually(t, func() bool { return int(begun.Load()) == len(c.nodes) }, "each node acknowledges writes")
	p := check.Must(s.Promote(t.Context(), false))(t)
	served := time.Now()
	x.fill(t, "second")
	cancel()
	writers.Wait()
	have := map[string]bool{}
	for pages := x.tables.NewClient("first").NewListEntitiesPager(nil); pages.More(); {
		for _, text := range check.Must(pages.NextPage(t.Context()))(t).Entities {
			var e struct{ RowKey string }
			check.OK(t, json.Unmarshal(text, &e))
			have[e.RowKey] = true
		}
	}
	for i, rows := range acknowledged {
		if len(rows) == 0 {
			t.Errorf("node %d acknowledged nothing", i)
		}
		for row, w := range rows {
			// A client of a busy machine learns of an acknowledgement later than it was made: the write began before it.
			if w.began.After(served) {
				t.Errorf("node %d acknowledged a write that began %v after the standby served", i, w.began.Sub(served))
			}
			if w.acked.Before(p.Until) && !have[row] {
				t.Errorf("%s was acknowledged %v before the moment of the promotion, and is lost", row,
					p.Until.Sub(w.acked))
			}
		}
	}
	c.end(0)
	c.configs[0].Archive = nil
	if _, err := StartContext(t.Context(), c.configs[0]); !errors.Is(err, archive.ErrFenced) {
		t.Errorf("a node without its archive after the promotion: %v", err)
	}
}
