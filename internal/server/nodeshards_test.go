package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/sas"

	"github.com/lazuli-storage/lazuli/internal/azure/changes"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/cluster/peering"
	"github.com/lazuli-storage/lazuli/internal/server/accounts"
	"github.com/lazuli-storage/lazuli/internal/server/backup"
	"github.com/lazuli-storage/lazuli/internal/server/events"
	"github.com/lazuli-storage/lazuli/internal/server/fsck"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// shardNodes is a cluster of three nodes with four shards.
type shardNodes struct {
	*testCluster
	names []string // of the accounts, which are spread over all shards
}

const nodeShards = 4

// of returns a client of an account at a node.
func (c *shardNodes) of(node int, account string) *tenant {
	c.t.Helper()
	return newTenantWith(c.t, c.nodes[node].ConnectionStringOf(account, otherKey), patientRetries)
}

// complete waits until nodes have everything.
func (c *shardNodes) complete(nodes ...int) {
	c.t.Helper()
	for _, i := range nodes {
		var lacks error
		defer func() {
			if lacks != nil { // the test ends here, and says what was waited for alone
				c.t.Logf("node %d: %v", i, lacks)
			}
		}()
		check.Eventually(c.t, func() bool {
			lacks = c.nodes[i].Complete(c.t.Context())
			return lacks == nil
		}, "node %d is complete", i)
	}
}

// have checks that nodes have, of each account, what was made with a word.
func (c *shardNodes) have(word string, nodes ...int) {
	c.t.Helper()
	for _, i := range nodes {
		for _, name := range c.names {
			x := c.of(i, name)
			if got := x.has(c.t, word+name); got != "bqt" {
				c.t.Errorf("node %d has %q of %s, which %s has made", i, got, word, name)
			}
			r := check.Must(x.blobs.DownloadStream(c.t.Context(), word+name, "blob", nil))(c.t)
			text := check.Must(io.ReadAll(r.Body))(c.t)
			check.OK(c.t, r.Body.Close())
			if string(text) != word+name {
				c.t.Errorf("node %d: the blob of %s is %q", i, name, text)
			}
		}
	}
}

// Accounts on all shards are served by all nodes, through the homes of the shards' logs, whatever node a client asks;
// a node that is lost, or comes back with an empty folder, takes nothing away.
func TestShardsOfNodes(t *testing.T) {
	if testing.Short() {
		t.Skip("starts three nodes")
	}
	t.Parallel()
	c := &shardNodes{testCluster: newTestCluster(t, 3)}
	for i := range c.configs {
		c.names, c.configs[i].Accounts = shardAccounts(t) // each node changes its own
		c.configs[i].Shards, c.configs[i].Events = nodeShards, true
		c.configs[i].ManagedAccounts, c.configs[i].AccountGrace = true, time.Millisecond
	}
	c.start(0, 1, 2)
	for i, name := range c.names {
		c.of(i%3, name).fill(t, "first"+name)
	}
	c.have("first", 0, 1, 2)
	t.Run("homes", c.testHomes)
	t.Run("content", c.testContent)
	t.Run("a copy to another shard", c.testCopy)
	t.Run("events", c.testEvents)
	t.Run("a front-end", c.testFront)
	t.Run("an account that is added and removed", c.testAddedAccounts)
	t.Run("a backup", c.testBackup)
	t.Run("another number of shards", c.testOtherNumber)
	t.Run("a lost node", c.testLostNode)
}

// testHomes checks that each shard has its logs, whose homes get the changes, and that the status shows them.
func (c *shardNodes) testHomes(t *testing.T) {
	for n := range nodeShards {
		of := c.nodes[0].services.Load().list()[n]
		for _, kind := range logKinds {
			name := of.Log(kind)
			c.home(name)
			if list := c.logs(name); len(list) != 3 || list[0].Applied == 0 {
				t.Errorf("nothing was written to the log of the %s", name)
			}
		}
		if c.forwarded(of.Log("tables")).Passed == 0 {
			t.Errorf("no request was passed on to the home of the tables of shard %d", n)
		}
	}
	c.complete(0, 1, 2)
	status := check.Must(c.nodes[1].ClusterStatus(t.Context()))(t)
	list := ShardStatuses(status)
	if len(list) != nodeShards {
		t.Fatalf("the status has the shards %+v", list)
	}
	for n, s := range list {
		want := c.configs[c.home(c.nodes[1].services.Load().list()[n].Log("blobs"))].Cluster.Node
		if s.Shard != n || s.Blobs != want || s.Missing != "" {
			t.Errorf("shard %d: %+v, and the home of its blobs is %s", n, s, want)
		}
	}
	if len(LogsOf(status)) != 3*nodeShards {
		t.Errorf("logs %v", LogsOf(status))
	}
}

// testContent uploads content that is too large for a log. On each node one shard alone stores it.
func (c *shardNodes) testContent(t *testing.T) {
	const each = 1 << 20
	for i, name := range c.names {
		blobs := c.of(i%3, name).blobs
		check.Must(blobs.UploadBuffer(t.Context(), "first"+name, "large", random(uint64(i), each), nil))(t)
	}
	c.complete(0, 1, 2)
	for i, n := range c.nodes {
		placed := map[int]int{}
		for _, name := range c.names {
			placed[n.services.Load().of(wire.Blob, name).Number]++
		}
		for _, of := range n.services.Load().list() {
			want := int64(placed[of.Number]) * each
			if size := folderSize(of.Extents()); size < want || size > want+each/2 {
				t.Errorf("node %d, shard %d: %d bytes of content, want %d", i, of.Number, size, want)
			}
		}
	}
	for i, name := range c.names {
		got := make([]byte, each)
		check.Must(c.of((i+1)%3, name).blobs.DownloadBuffer(t.Context(), "first"+name, "large", got, nil))(t)
		if !bytes.Equal(got, random(uint64(i), each)) {
			t.Errorf("%s has other content at another node", name)
		}
	}
}

func (c *shardNodes) testCopy(t *testing.T) {
	from, to := apart(t, c.nodes[0])
	source := c.of(1, from).blobs.ServiceClient().NewContainerClient("first" + from).NewBlockBlobClient("blob")
	signed := check.Must(source.GetSASURL(sas.BlobPermissions{Read: true}, time.Now().Add(time.Hour), nil))(t)
	box := c.of(1, to).blobs.ServiceClient().NewContainerClient("first" + to)
	check.Must(box.NewBlockBlobClient("copy").UploadBlobFromURL(t.Context(), signed,
		&blockblob.UploadBlobFromURLOptions{}))(t)
	r := check.Must(c.of(2, to).blobs.DownloadStream(t.Context(), "first"+to, "copy", nil))(t)
	if text := check.Must(io.ReadAll(r.Body))(t); string(text) != "first"+from {
		t.Errorf("the copy is %q", text)
	}
}

// testEvents subscribes each account at the node that delivers the events of its shard, and makes an event of each
// service through another one.
func (c *shardNodes) testEvents(t *testing.T) {
	ctx := t.Context()
	for _, name := range c.names {
		c.subscribe(t, name)
	}
	for i, name := range c.names {
		// All nodes learn of a subscription within a second, before their clients' changes are answered.
		x := c.of(i%3, name)
		check.Eventually(t, func() bool {
			return c.nodes[i%3].services.Load().recorder.Wants(name, changes.MessagePut)
		}, "node %d knows the subscription", i%3)
		check.Must(x.queues.NewQueueClient("first"+name).EnqueueMessage(ctx, name, nil))(t)
		check.Must(x.tables.NewClient("first"+name).UpsertEntity(ctx, []byte(`{"PartitionKey":"p","RowKey":"event"}`),
			nil))(t)
		check.Must(x.blobs.UploadBuffer(ctx, "first"+name, "event", []byte("x"), nil))(t)
	}
	for _, name := range c.names {
		check.Eventually(t, func() bool {
			p, err := c.of(1, name).queues.NewQueueClient("events").GetProperties(ctx, nil)
			return err == nil && *p.ApproximateMessagesCount >= 3
		}, "the events of %s", name)
	}
}

// subscribe makes a subscription of an account at the node that delivers its events, which the others name.
func (c *shardNodes) subscribe(t *testing.T, name string) {
	t.Helper()
	madeBy(c.of(0, name).queues.CreateQueue(t.Context(), "events", nil))(t)
	s := events.Subscription{Name: "all", Account: name, EndpointType: events.StorageQueue, Endpoint: "events",
		IncludedEventTypes: []string{changes.MessagePut, changes.EntityInserted, events.BlobCreated}}
	check.Eventually(t, func() bool {
		for _, n := range c.nodes {
			m := n.Events()
			if m == nil {
				continue
			}
			_, err := m.Add(t.Context(), s)
			if err == nil || errors.Is(err, events.ErrExists) {
				return true
			}
			if !errors.Is(err, events.ErrNotHere) {
				t.Log(err) // an election, perhaps
				continue
			}
			if err := m.Remove(name, "all"); !errors.Is(err, events.ErrNotHere) {
				t.Errorf("a node that does not deliver the events removes a subscription: %v", err)
			}
		}
		return false
	}, "a node that delivers the events of %s", name)
}

// A front-end knows the number of shards, and serves all accounts.
func (c *shardNodes) testFront(t *testing.T) {
	front := c.startFront("f1")
	check.Eventually(t, func() bool { return len(front.forward.Serving()) == 3 }, "the front-end knows all nodes")
	for i, name := range c.names {
		x := newTenantWith(t, connectionOf(front, name, otherKey), patientRetries)
		x.fill(t, "front"+name)
		if got := c.of(i%3, name).has(t, "front"+name); got != "bqt" {
			t.Errorf("node %d has %q of what %s has made at the front-end", i%3, got, name)
		}
	}
	if homes := front.forward.Homes(); homes["blobs-s03"] == "" || len(homes) != 3*nodeShards {
		t.Errorf("the front-end knows the homes %v", homes)
	}
}

// testAddedAccounts adds accounts at one node, and removes them at another one with what they have in all shards: data
// and event subscriptions, which only one node for each shard may remove.
func (c *shardNodes) testAddedAccounts(t *testing.T) {
	retried := func(change func() error) { // without a leader of the log a change fails
		check.Eventually(t, func() bool { return change() == nil }, "the log takes the change")
	}
	var added []string
	for i := range 6 {
		name := fmt.Sprintf("new%02d", i)
		added = append(added, name)
		retried(func() error {
			_, err := c.nodes[i%3].AccountManager().Add(name, []string{otherKey}, nil)
			if errors.Is(err, accounts.ErrExists) { // by an attempt that had no answer
				err = nil
			}
			return err
		})
		for _, n := range c.nodes {
			check.Eventually(t, func() bool { return allowed(t, n, name, otherKey) == "ok" }, "the account is served")
		}
		c.of((i+1)%3, name).fill(t, "things")
		c.subscribe(t, name)
	}
	for i, name := range added {
		retried(func() error {
			err := c.nodes[(i+2)%3].AccountManager().Remove(name, true)
			if errors.Is(err, accounts.ErrNotFound) || errors.Is(err, accounts.ErrRemoving) {
				err = nil
			}
			return err
		})
	}
	for _, n := range c.nodes {
		check.Eventually(t, func() bool {
			list, _, err := n.AccountManager().List("new", "", 100)
			return err == nil && len(list) == 0
		}, "nothing is left of the removed accounts")
		for _, of := range n.services.Load().list() {
			for _, s := range check.Must(of.blobs.State.EventLog().List())(t) {
				if slices.Contains(added, s.Account) {
					t.Errorf("shard %d has a subscription of a removed account", of.Number)
				}
			}
		}
	}
}

// testBackup restores a backup that a node has made while it serves. The folder is that of a single server with as many
// shards.
func (c *shardNodes) testBackup(t *testing.T) {
	ctx, place := t.Context(), backup.Folder(filepath.Join(t.TempDir(), "backups"))
	made := check.Must(backup.Make(ctx, place, func(context.Context, backup.Held) (backup.Source, error) {
		return heldMoment(t, c.nodes[1]), nil
	}, backup.Options{}))(t)
	folder := filepath.Join(t.TempDir(), "restored")
	check.OK(t, backup.Restore(ctx, place, check.Must(backup.Read(ctx, place, made.Name))(t), folder,
		backup.RestoreOptions{Verify: func(ctx context.Context, path string) error {
			r, err := fsck.Check(ctx, path, fsck.Options{})
			if err == nil && (!r.Clean || r.Shards != nodeShards) {
				t.Errorf("fsck of what was restored: %d shards, %v", r.Shards, r.Findings)
			}
			return err
		}}))
	_, tenants := startShards(t, Config{Location: folder})
	for name, x := range tenants {
		if got := x.has(t, "first"+name); got != "bqt" {
			t.Errorf("%s has %q in what was restored", name, got)
		}
	}
}

// A node with another number of shards is refused, with the number that it should have, and nothing of the cluster
// counts on it.
func (c *shardNodes) testOtherNumber(t *testing.T) {
	lost := c.configs[2]
	c.stop(2)
	for _, shards := range []int{1, 3} {
		other := lost
		other.Location, other.Shards = t.TempDir(), shards
		_, err := StartContext(t.Context(), other)
		want := fmt.Sprintf("%d here, and %d in cluster", shards, nodeShards)
		if !errors.Is(err, peering.ErrShards) || !strings.Contains(err.Error(), want) {
			t.Errorf("%d shards: %v", shards, err)
		}
	}
	c.start(2)
	c.complete(0, 1, 2)
}

// testLostNode stops a node, writes at the others, and lets it come back: with its folder, and with an empty one.
func (c *shardNodes) testLostNode(t *testing.T) {
	const lost = 2
	folder := c.configs[lost].Location
	c.stop(lost)
	if r := check.Must(fsck.Check(t.Context(), folder, fsck.Options{}))(t); !r.Clean || r.Shards != nodeShards {
		t.Errorf("fsck of a node: %d shards, %v", r.Shards, r.Findings)
	}
	for i, name := range c.names {
		c.of(i%2, name).fill(t, "second"+name)
	}
	c.start(lost)
	c.complete(0, 1, 2)
	c.have("second", lost)

	c.stop(lost)
	check.Eventually(t, func() bool {
		return c.nodes[0].RemoveNode(t.Context(), c.configs[lost].Cluster.Node) == nil
	}, "the node is removed")
	for i, name := range c.names {
		c.of(i%2, name).fill(t, "third"+name)
	}
	c.configs[lost].Location = c.t.TempDir() // it runs longer than this part of the test
	c.start(lost)
	c.complete(0, 1, 2)
	for _, word := range []string{"first", "second", "third"} {
		c.have(word, lost)
	}
	// The other two go, one after the other, and what the new folder has is all there.
	c.stop(0)
	c.have("third", 1, lost)
	for n := range nodeShards {
		of := c.nodes[lost].services.Load().list()[n]
		usage := check.Must(of.blobs.State.Maintenance.Usage())(t)
		if missing, _ := of.blobs.State.Membership.Behind(); missing != 0 || usage.Content == 0 {
			t.Errorf("shard %d of the new folder lacks %d bytes, and has %+v", n, missing, usage)
		}
	}
}

// One shard is no other cluster than before there were shards: same ID, same streams.
func TestOneShardOfNodes(t *testing.T) {
	t.Parallel()
	if n := peering.Shards("abcdefgh1234"); n != 1 {
		t.Errorf("%d shards of a cluster of an earlier release", n)
	}
	if n := peering.Shards("abcdefgh1234-converted"); n != 1 {
		t.Errorf("%d shards of a converted cluster", n)
	}
	if n := peering.Shards("abcdefgh1234-shards4"); n != 4 {
		t.Errorf("%d shards, want 4", n)
	}
	names := logNames(2)
	slices.Sort(names)
	if want := "blobs blobs-s01 queues queues-s01 tables tables-s01"; strings.Join(names, " ") != want {
		t.Errorf("the logs %v, want %s", names, want)
	}
	var text bytes.Buffer
	for _, svc := range []wire.Service{wire.Blob, wire.DataLake, wire.Queue, wire.Table} {
		fmt.Fprint(&text, logOf[svc], " ")
	}
	if text.String() != "blobs blobs queues tables " {
		t.Errorf("%s", text.String())
	}
}
