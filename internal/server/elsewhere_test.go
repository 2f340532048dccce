package server

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/sas"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/cluster"
	"github.com/lazuli-storage/lazuli/internal/server/archive"
	"github.com/lazuli-storage/lazuli/internal/server/backup"
	"github.com/lazuli-storage/lazuli/internal/server/fsck"
	"github.com/lazuli-storage/lazuli/internal/storage/shardmap"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// spreadShards are the shards of spreadNodes, each on three of five nodes.
const spreadShards = 5

// spreadNodes is a cluster in which no node has all shards.
type spreadNodes struct {
	shardNodes
	free atomic.Int64 // of all disks, in tests that say so
}

func newSpreadNodes(t *testing.T) *spreadNodes {
	t.Helper()
	c := &spreadNodes{shardNodes: shardNodes{testCluster: newTestCluster(t, 5)}}
	for i := range c.configs {
		c.names, c.configs[i].Accounts = shardAccounts(t)
		c.configs[i].Shards, c.configs[i].Cluster.Copies = spreadShards, shardmap.Copies
	}
	return c
}

// hosts returns the table of hosts of the cluster, as a node knows it.
func (c *spreadNodes) hosts() *shardmap.Hosts {
	for _, n := range c.nodes {
		if n != nil {
			return n.services.Load().node.Hosts()
		}
	}
	return nil
}

// without returns a node that runs and does not have the account of a service.
func (c *spreadNodes) without(svc wire.Service, account string) int {
	c.t.Helper()
	for i, n := range c.nodes {
		if n != nil && n.services.Load().of(svc, account) == nil {
			return i
		}
	}
	c.t.Fatalf("all nodes have %s of %s", svc, account)
	return 0
}

// Each shard is on three nodes of five; all nodes serve all accounts, and a node keeps nothing of the shards that it
// does not have.
func TestShardOnThreeOfFiveNodes(t *testing.T) {
	if testing.Short() {
		t.Skip("starts five nodes")
	}
	t.Parallel()
	c := newSpreadNodes(t)
	c.free.Store(1 << 40)
	for i := range c.configs {
		c.configs[i].Events = true
		c.configs[i].ManagedAccounts, c.configs[i].AccountGrace = true, time.Millisecond
		c.configs[i].FreeSpace = func(string) (int64, error) { return c.free.Load(), nil }
	}
	c.start(0, 1, 2, 3, 4)
	for i, name := range c.names {
		c.of(i%5, name).fill(t, "first"+name)
	}
	c.have("first", 0, 1, 2, 3, 4)
	c.complete(0, 1, 2, 3, 4)
	t.Run("places", c.testPlaces)
	t.Run("content", c.testSpreadContent)
	t.Run("a request of the server", c.testSystem)
	t.Run("metrics", c.testSpreadMetrics)
	t.Run("a copy to another node", c.testSpreadCopy)
	t.Run("status", c.testSpreadStatus)
	t.Run("a front-end", c.testSpreadFront)
	t.Run("events", c.testSpreadEvents)
	t.Run("added accounts", c.testSpreadAccounts)
	t.Run("full disks", c.testSpreadFull)
	t.Run("backups", c.testSpreadBackup)
	t.Run("what needs all shards", c.testSpreadRefused)
	t.Run("a lost node", c.testSpreadLost)
}

// testPlaces checks that each stream is on the nodes of its shard, and on no other one.
func (c *spreadNodes) testPlaces(t *testing.T) {
	hosts := c.hosts()
	streams := fiveNodes{c.testCluster}.servers()
	delete(streams, cluster.LayoutStream)
	for n := range spreadShards {
		for _, log := range logNames(spreadShards)[3*n : 3*n+3] {
			for _, stream := range []string{"LAZULI_LOG_" + log, "LAZULI_SNAPSHOT_" + log} {
				var at []string
				for _, i := range streams[stream] {
					at = append(at, c.configs[i].Cluster.Node)
				}
				if slices.Sort(at); !slices.Equal(at, hosts.Shards[n]) {
					t.Errorf("stream %s is on %v, and shard %d on %v", stream, at, n, hosts.Shards[n])
				}
			}
		}
	}
	if len(streams) != 6*spreadShards {
		t.Errorf("the streams are %v", streams)
	}
	for i, n := range c.nodes {
		open, name := n.services.Load(), c.configs[i].Cluster.Node
		var has []int
		for _, of := range open.list() {
			has = append(has, of.Number)
		}
		if want := hosts.Of(name); !slices.Equal(has, want) || len(has) == spreadShards {
			t.Errorf("node %s has opened the shards %v, want %v", name, has, want)
		}
		for number := range spreadShards {
			of := n.dir.Shard(number)
			for _, path := range []string{of.Tables(), of.QueueState(), of.Blobs(), of.Extents()} {
				if _, err := os.Stat(path); (err == nil) != hosts.On(name, number) {
					t.Errorf("node %s, %s: %v", name, path, err)
				}
			}
		}
	}
}

// testSpreadContent uploads content that is too large for a log, through nodes that do not have the account.
func (c *spreadNodes) testSpreadContent(t *testing.T) {
	const each = 1 << 20
	for i, name := range c.names {
		blobs := c.of(c.without(wire.Blob, name), name).blobs
		check.Must(blobs.UploadBuffer(t.Context(), "first"+name, "large", random(uint64(i), each), nil))(t)
	}
	c.complete(0, 1, 2, 3, 4)
	total := int64(0)
	for i, n := range c.nodes {
		want := int64(0)
		for _, name := range c.names {
			if n.services.Load().of(wire.Blob, name) != nil {
				want += each
			}
		}
		have := int64(0)
		for number := range spreadShards {
			have += folderSize(n.dir.Shard(number).Extents())
		}
		if have < want || have > want+want/4 {
			t.Errorf("node %d has %d bytes of content, want %d", i, have, want)
		}
		total += have
	}
	if want := int64(3 * each * len(c.names)); total > want+want/4 {
		t.Errorf("the nodes have %d bytes of content, and three copies are %d", total, want)
	}
	for i, name := range c.names {
		for node := range c.nodes {
			got := make([]byte, each)
			check.Must(c.of(node, name).blobs.DownloadBuffer(t.Context(), "first"+name, "large", got, nil))(t)
			if !bytes.Equal(got, random(uint64(i), each)) {
				t.Errorf("node %d: %s has other content", node, name)
			}
		}
	}
}

// testSystem sends requests without a credential: those of the process itself are answered at another node, too, and a
// client's are refused there.
func (c *spreadNodes) testSystem(t *testing.T) {
	name := c.names[0]
	n := c.nodes[c.without(wire.Blob, name)]
	inside := n.InProcessURL(wire.Blob, name) + "/first" + name + "/blob"
	for url, transport := range map[string]http.RoundTripper{inside: n.InProcess(),
		n.URL(wire.Blob, name) + "/first" + name + "/blob": http.DefaultTransport} {
		r := check.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil))(t)
		r.Header.Set("X-Ms-Version", "2021-12-02")
		resp := check.Must(transport.RoundTrip(r))(t)
		body := check.Must(io.ReadAll(resp.Body))(t)
		check.OK(t, resp.Body.Close())
		if served := resp.StatusCode == http.StatusOK && string(body) == "first"+name; served != (url == inside) {
			t.Errorf("%s: %s, %s", url, resp.Status, body)
		}
	}
}

// testSpreadMetrics reads through a node that does not have the account, which counts that as passed on.
func (c *spreadNodes) testSpreadMetrics(t *testing.T) {
	name := c.names[0]
	at := c.without(wire.Blob, name)
	passed := func() (requests, measured float64) {
		metrics := prometheus.NewRegistry()
		metrics.MustRegister(clusterMetrics{c.nodes[at], spreadShards})
		for _, family := range check.Must(metrics.Gather())(t) {
			for _, m := range family.GetMetric() {
				labels := map[string]string{}
				for _, l := range m.GetLabel() {
					labels[l.GetName()] = l.GetValue()
				}
				switch {
				case labels["service"] != wire.Blob.String():
				case family.GetName() == "lazuli_shard_forwarded_requests_total" && labels["result"] == "passed":
					requests += m.GetCounter().GetValue()
				case family.GetName() == "lazuli_shard_forwarded_duration_seconds":
					measured += float64(m.GetHistogram().GetSampleCount())
				}
			}
		}
		return requests, measured
	}
	requests, measured := passed()
	check.Must(c.of(at, name).blobs.DownloadStream(t.Context(), "first"+name, "blob", nil))(t)
	if nowRequests, nowMeasured := passed(); nowRequests <= requests || nowMeasured <= measured {
		t.Errorf("%v requests, of which %v are measured, after %v and %v", nowRequests, nowMeasured, requests, measured)
	}
}

// testSpreadCopy copies to an account whose nodes do not have the source.
func (c *spreadNodes) testSpreadCopy(t *testing.T) {
	for _, to := range c.names[1:] {
		from := c.names[0]
		at := -1 // a node that has the target and not the source
		for i, n := range c.nodes {
			if open := n.services.Load(); open.of(wire.Blob, to) != nil && open.of(wire.Blob, from) == nil {
				at = i
			}
		}
		if at < 0 {
			continue
		}
		source := c.of(at, from).blobs.ServiceClient().NewContainerClient("first" + from).NewBlockBlobClient("blob")
		signed := check.Must(source.GetSASURL(sas.BlobPermissions{Read: true}, time.Now().Add(time.Hour), nil))(t)
		box := c.of(at, to).blobs.ServiceClient().NewContainerClient("first" + to)
		check.Must(box.NewBlockBlobClient("copy").UploadBlobFromURL(t.Context(), signed,
			&blockblob.UploadBlobFromURLOptions{}))(t)
		r := check.Must(c.of(0, to).blobs.DownloadStream(t.Context(), "first"+to, "copy", nil))(t)
		if text := check.Must(io.ReadAll(r.Body))(t); string(text) != "first"+from {
			t.Errorf("the copy is %q", text)
		}
		return
	}
	t.Error("no account is on other nodes than the first one")
}

func (c *spreadNodes) testSpreadStatus(t *testing.T) {
	var status *cluster.Status
	check.Eventually(t, func() bool {
		status = check.Must(c.nodes[1].ClusterStatus(t.Context()))(t)
		return Incomplete(status) == ""
	}, "the cluster is complete")
	for n, s := range ShardStatuses(status) {
		names := c.hosts().Shards[n]
		if s.Nodes != strings.Join(names, ", ") || s.Missing != "" {
			t.Errorf("shard %d on %v: %+v", n, names, s)
		}
		for _, home := range []string{s.Tables, s.Queues, s.Blobs} {
			if !slices.Contains(names, home) {
				t.Errorf("shard %d on %v has the home %q", n, names, home)
			}
		}
	}
	for _, n := range status.Nodes {
		l, ok := nodeLogs(status, n.Report)
		if !ok || l.Missing == nil || *l.Missing != 0 || len(n.Report.Details) != 3*len(c.hosts().Of(n.Name)) {
			t.Errorf("node %s: %+v, and it reports of %d logs", n.Name, l, len(n.Report.Details))
		}
	}
}

// testSpreadFront serves all accounts at a process without data.
func (c *spreadNodes) testSpreadFront(t *testing.T) {
	front := c.startFront("f1")
	check.Eventually(t, func() bool { return len(front.forward.Serving()) == 5 }, "the front-end knows all nodes")
	for i, name := range c.names {
		x := newTenantWith(t, connectionOf(front, name, otherKey), patientRetries)
		x.fill(t, "front"+name)
		if got := x.has(t, "first"+name); got != "bqt" {
			t.Errorf("the front-end has %q of %s", got, name)
		}
		if got := c.of(i%5, name).has(t, "front"+name); got != "bqt" {
			t.Errorf("node %d has %q of what %s has made at the front-end", i%5, got, name)
		}
	}
}

// testSpreadFull fills the disks: also a node that does not have an account says so, and serves what needs no room.
func (c *spreadNodes) testSpreadFull(t *testing.T) {
	name := c.names[0]
	asked := c.nodes[c.without(wire.Blob, name)]
	c.of(0, name).fill(t, "full"+name)
	c.free.Store(20 << 20)
	// Without retries: an SDK repeats a refusal that it takes for a passing one.
	x := newTenant(t, asked.ConnectionStringOf(name, otherKey))
	check.Eventually(t, func() bool {
		_, blob := x.blobs.UploadBuffer(t.Context(), "full"+name, "new", []byte("x"), nil)
		_, queue := x.queues.NewQueueClient("full"+name).EnqueueMessage(t.Context(), "x", nil)
		_, table := x.tables.NewClient("full"+name).AddEntity(t.Context(), []byte(`{"PartitionKey":"q","RowKey":"q"}`), nil)
		for _, err := range []error{blob, queue, table} {
			if status, _ := codeOf(err); status != http.StatusInsufficientStorage {
				return false
			}
		}
		return true
	}, "the node says that the disks are full")
	check.Eventually(t, func() bool {
		for _, n := range c.nodes {
			if !n.space.Full() {
				return false
			}
		}
		return true
	}, "all disks are full")
	wantSpaceRules(t, x, "full"+name)
	c.free.Store(1 << 40)
	check.Eventually(t, func() bool {
		_, err := x.blobs.UploadBuffer(t.Context(), "full"+name, "new", []byte("x"), nil)
		return err == nil
	}, "there is room again")
}

func (c *spreadNodes) testSpreadRefused(t *testing.T) {
	if _, err := c.nodes[0].Backup(t.Context(), true, backup.Held{}); !errors.Is(err, ErrSpread) ||
		!errors.Is(err, ErrCannotHold) {
		t.Errorf("a backup with held writes: error %v", err)
	}
	for i, n := range c.nodes { // also an account of which the node has a part
		if _, err := n.Reset(t.Context(), Scope{Account: c.names[0]}); !errors.Is(err, ErrSpread) {
			t.Errorf("a reset at node %d: error %v", i, err)
		}
	}
	for name, change := range map[string]func(*Config){
		"faults":  func(o *Config) { o.Faults = true },
		"archive": func(o *Config) { o.Archive = archive.New(archive.Options{Place: backup.Folder(t.TempDir())}) },
	} {
		o := c.configs[0]
		o.Location = t.TempDir()
		change(&o)
		if _, err := StartContext(t.Context(), o); !errors.Is(err, ErrSpread) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// testSpreadLost stops a node: the others serve everything. It comes back with its folder, and with an empty one.
func (c *spreadNodes) testSpreadLost(t *testing.T) {
	const lost = 2
	folder, others := c.configs[lost].Location, []int{0, 1, 3, 4}
	c.stop(lost)
	if r := check.Must(fsck.Check(t.Context(), folder, fsck.Options{}))(t); !r.Clean {
		t.Errorf("fsck of a node: %v", r.Findings)
	}
	for i, name := range c.names {
		c.of(others[i%4], name).fill(t, "second"+name)
	}
	c.have("second", others...)
	c.start(lost)
	c.complete(0, 1, 2, 3, 4)
	c.have("second", lost)

	c.stop(lost)
	check.Eventually(t, func() bool {
		return c.nodes[0].RemoveNode(t.Context(), c.configs[lost].Cluster.Node) == nil
	}, "the node is removed")
	for i, name := range c.names {
		c.of(others[i%4], name).fill(t, "third"+name)
	}
	c.configs[lost].Location = c.t.TempDir()
	c.start(lost)
	c.complete(0, 1, 2, 3, 4)
	c.testPlaces(t)
	// What the new folder has is all that it needs: another node of each of its shards goes.
	c.stop(0)
	for _, word := range []string{"first", "second", "third"} {
		c.have(word, 1, lost, 3, 4)
	}
	for _, of := range c.nodes[lost].services.Load().list() {
		if missing, known := of.blobs.State.Membership.Behind(); missing != 0 {
			t.Errorf("shard %d of the new folder lacks %d bytes (%t)", of.Number, missing, known)
		}
	}
	if t.Failed() {
		t.Log(fmt.Sprint(c.hosts().Shards))
	}
}
