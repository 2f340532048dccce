package server

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2/sas"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/longpoll"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/cluster/forward"
	"github.com/lazuli-storage/lazuli/internal/storage/replog"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// logs returns the states of a log on all nodes that run.
func (c *testCluster) logs(name string) (list []replog.Status) {
	for _, n := range c.nodes {
		if n != nil {
			r, _ := n.services.Load().logs()[name].Replication()
			list = append(list, r)
		}
	}
	return list
}

// forwarded returns what became of the requests that nodes wanted to pass on.
func (c *testCluster) forwarded(log string) (sum forward.Stats) {
	for _, n := range c.nodes {
		if n != nil {
			s := n.services.Load().forward.Stats()[log]
			sum.Passed, sum.Kept, sum.Unknown = sum.Passed+s.Passed, sum.Kept+s.Kept, sum.Unknown+s.Unknown
		}
	}
	return sum
}

// home returns the node that is the home of a log in the eyes of all nodes that run.
func (c *testCluster) home(log string) (at int) {
	c.t.Helper()
	check.Eventually(c.t, func() bool {
		at = -1
		for _, n := range c.nodes {
			if n == nil {
				continue
			}
			home := n.services.Load().forward.HomeOf(log)
			for i := range c.configs {
				if c.configs[i].Cluster.Node == home && (at < 0 || at == i) {
					at = i
					home = ""
				}
			}
			if home != "" || at < 0 || c.nodes[at] == nil {
				return false
			}
		}
		return true
	}, "all nodes know the home of the %s", log)
	return at
}

// Changes go through the home of each log, whichever node a client asks, so that no node overtakes another one.
func TestHomes(t *testing.T) {
	if testing.Short() {
		t.Skip("starts three nodes")
	}
	t.Parallel()
	c := newTestCluster(t, 3)
	c.start(0, 1, 2)
	madeBy(c.tenant(0).tables.CreateTable(t.Context(), "people", nil))(t)
	madeBy(c.tenant(0).queues.CreateQueue(t.Context(), "work", nil))(t)
	madeBy(c.tenant(0).blobs.CreateContainer(t.Context(), "box", nil))(t)
	t.Run("few appends are overtaken", c.testFewConflicts)
	t.Run("a message wakes at another node", c.testForwardedWait)
	t.Run("identity", c.testForwardedIdentity)
	t.Run("large content stays", c.testLargeContentStays)
	t.Run("status", func(t *testing.T) {
		status := check.Must(c.nodes[0].ClusterStatus(t.Context()))(t)
		for _, n := range status.Nodes {
			want := c.configs[c.home("tables")].Cluster.Node
			if log, ok := LogOf(n.Report, "tables"); !ok || log.Home != want {
				t.Errorf("node %s says that the home of the tables is %q, want %q", n.Name, log.Home, want)
			}
		}
	})
	t.Run("a home that is lost", c.testLostHome)
}

func (c *testCluster) tenant(i int) *tenant {
	c.t.Helper()
	return newTenantWith(c.t, c.nodes[i].ConnectionString(), patientRetries)
}

// testFewConflicts writes through all nodes, until the homes have stayed what they were for a round of writes. On a
// slow machine the lead of a stream moves, and nodes that do not answer in time are passed over: then appends are
// overtaken, as they should be.
func (c *testCluster) testFewConflicts(t *testing.T) {
	logs := []string{"tables", "queues", "blobs"}
	const rounds, writers, each = 3, 4, 15
	written := 0
	for undisturbed := false; !undisturbed && written < rounds; written++ {
		before, homes, sent := map[string][]replog.Status{}, map[string]int{}, map[string]forward.Stats{}
		for _, log := range logs {
			homes[log], before[log], sent[log] = c.home(log), c.logs(log), c.forwarded(log)
		}
		c.writeEverywhere(t, written, writers, each)
		undisturbed = true
		for _, log := range logs {
			now, at := c.forwarded(log), c.home(log)
			still := at == homes[log] && now.Kept == sent[log].Kept && now.Unknown == sent[log].Unknown
			undisturbed = undisturbed && still
			var appends, conflicts uint64
			for i, now := range c.logs(log) {
				a, o := now.Appends-before[log][i].Appends, now.Conflicts-before[log][i].Conflicts
				t.Logf("%s, node %d, home %d: %d appends, %d overtaken", log, i, at, a, o)
				appends, conflicts = appends+a, conflicts+o
			}
			// Without homes most are overtaken.
			if still && conflicts*3 > appends {
				t.Errorf("%s: %d appends were made, and %d more were overtaken", log, appends, conflicts)
			}
			if passed := now.Passed - sent[log].Passed; still && passed < writers*each {
				t.Errorf("%s: %d requests were passed on", log, passed)
			}
		}
		if !undisturbed {
			t.Logf("round %d: homes have moved, or did not answer in time", written+1)
		}
	}
	for i := range c.nodes { // all is there, at every node
		page := check.Must(c.tenant(i).tables.NewClient("people").NewListEntitiesPager(nil).NextPage(t.Context()))(t)
		if n := len(page.Entities); n != written*len(c.nodes)*writers*each {
			t.Errorf("node %d has %d entities", i, n)
		}
	}
}

// writeEverywhere inserts rows and blobs and passes messages on, through all nodes at once.
func (c *testCluster) writeEverywhere(t *testing.T, round, writers, each int) {
	var wait sync.WaitGroup
	for i := range c.nodes {
		x := c.tenant(i)
		table, queue := x.tables.NewClient("people"), x.queues.NewQueueClient("work")
		for w := range writers {
			wait.Go(func() {
				for n := range each {
					row := fmt.Sprint(round, "-", i, "-", w, "-", n)
					_, err := table.AddEntity(t.Context(), fmt.Appendf(nil, `{"PartitionKey":"p","RowKey":%q}`, row), nil)
					// Where the machine is slow, an outcome can be unknown: then the SDK has inserted it already.
					if !bloberror.HasCode(err, "EntityAlreadyExists") {
						check.OK(t, err)
					}
					check.Must(x.blobs.UploadBuffer(t.Context(), "box", row, []byte(row), nil))(t)
					check.Must(queue.EnqueueMessage(t.Context(), row, nil))(t)
					// For the same reason a message may have been received by an answer that was lost.
					for _, m := range check.Must(queue.DequeueMessage(t.Context(), nil))(t).Messages {
						_, err := queue.DeleteMessage(t.Context(), *m.MessageID, *m.PopReceipt, nil)
						if !bloberror.HasCode(err, "MessageNotFound") {
							check.OK(t, err)
						}
					}
				}
			})
		}
	}
	wait.Wait()
}

// testForwardedWait waits for a message at one node, which a client puts at another one.
func (c *testCluster) testForwardedWait(t *testing.T) {
	home := c.home("queues")
	waits, puts := (home+1)%3, (home+2)%3
	queue := c.tenant(puts).queues.NewQueueClient("waits")
	check.Must(queue.Create(t.Context(), nil))(t)
	messages := c.signed(t, waits, "waits")
	get := func() *http.Response {
		r := check.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, messages, nil))(t)
		r.Header.Set(longpoll.WaitHeader, "50")
		return check.Must(http.DefaultClient.Do(r))(t)
	}
	began, answered := time.Now(), make(chan *http.Response, 1)
	go func() { answered <- get() }()
	check.Eventually(t, func() bool { return c.nodes[home].services.Load().board.Waiting() > 0 }, "the request waits")
	check.Must(queue.EnqueueMessage(t.Context(), "hello", nil))(t)
	r := <-answered
	defer r.Body.Close()
	var b bytes.Buffer
	_, err := b.ReadFrom(r.Body)
	check.OK(t, err)
	if r.StatusCode != http.StatusOK || !strings.Contains(b.String(), "hello") {
		t.Errorf("%d, %s", r.StatusCode, b.String())
	}
	if took := time.Since(began); took > 45*time.Second {
		t.Errorf("the message came after %v", took)
	}
	// The wait ends when the services of the node that was asked are to be closed.
	go func() { answered <- get() }()
	check.Eventually(t, func() bool { return c.nodes[home].services.Load().board.Waiting() > 0 }, "the request waits")
	c.nodes[waits].services.Load().board.Release()
	r = <-answered
	defer r.Body.Close()
	if r.StatusCode != http.StatusOK {
		t.Errorf("a wait that was released: %d", r.StatusCode)
	}
}

// signed returns the URL of the messages of a queue at a node, with a shared access signature.
func (c *testCluster) signed(t *testing.T, node int, queue string) string {
	t.Helper()
	key := check.Must(azqueue.NewSharedKeyCredential(auth.DevelopmentAccount, auth.DevelopmentKey))(t)
	signature := check.Must(sas.QueueSignatureValues{Protocol: sas.ProtocolHTTPSandHTTP, QueueName: queue,
		ExpiryTime: time.Now().Add(time.Hour), Permissions: "p"}.SignWithSharedKey(key))(t)
	return c.nodes[node].URL(wire.Queue, auth.DevelopmentAccount) + "/" + queue + "/messages?" + signature.Encode()
}

// testForwardedIdentity sends requests whose credential the home refuses, and one with it.
func (c *testCluster) testForwardedIdentity(t *testing.T) {
	away := (c.home("tables") + 1) % 3
	before := c.forwarded("tables")
	wrong := check.Must(aztables.NewSharedKeyCredential("devstoreaccount1", "d3Jvbmc="))(t)
	client := check.Must(aztables.NewServiceClientWithSharedKey(c.nodes[away].URL(wire.Table, "devstoreaccount1"), wrong,
		&aztables.ClientOptions{ClientOptions: once}))(t)
	_, err := client.NewClient("people").AddEntity(t.Context(), []byte(`{"PartitionKey":"p","RowKey":"forged"}`), nil)
	check.Code(t, err, "403 AuthenticationFailed")
	// The answer is the home's: that of a conflict has its code, phrase and content.
	table := c.tenant(away).tables.NewClient("people")
	same := []byte(`{"PartitionKey":"p","RowKey":"twice"}`)
	_, err = table.AddEntity(t.Context(), same, nil)
	if !bloberror.HasCode(err, "EntityAlreadyExists") { // by an attempt of the SDK whose outcome is unknown
		check.OK(t, err)
	}
	_, err = table.AddEntity(t.Context(), same, nil)
	check.Code(t, err, "409 EntityAlreadyExists")
	var e *azcore.ResponseError
	if !errors.As(err, &e) || e.RawResponse.Header.Get("x-ms-request-id") == "" {
		t.Errorf("the answer has the headers %v", e.RawResponse.Header)
	}
	// On a slow machine a home can be silent for too long.
	if now := c.forwarded("tables"); now.Kept == before.Kept && now.Unknown == before.Unknown &&
		now.Passed-before.Passed != 3 {
		t.Errorf("%d requests were passed on, want 3", now.Passed-before.Passed)
	}
}

// testLargeContentStays uploads more than is passed on.
func (c *testCluster) testLargeContentStays(t *testing.T) {
	away := (c.home("blobs") + 1) % 3
	before := c.forwarded("blobs")
	content := random(7, forward.MaxBody+1)
	check.Must(c.tenant(away).blobs.UploadBuffer(t.Context(), "box", "large", content, &azblob.UploadBufferOptions{
		BlockSize: 1 << 20}))(t)
	for i := range c.nodes {
		got := make([]byte, len(content))
		check.Must(c.tenant(i).blobs.DownloadBuffer(t.Context(), "box", "large", got, nil))(t)
		if !bytes.Equal(got, content) {
			t.Errorf("node %d has another content", i)
		}
	}
	if now := c.forwarded("blobs"); now.Kept == before.Kept || now.Passed != before.Passed {
		t.Errorf("%+v, before %+v", now, before)
	}
}

// testLostHome stops the home of the tables while clients of the other nodes write. What was acknowledged is there, and
// the others go on.
func (c *testCluster) testLostHome(t *testing.T) {
	home := c.home("tables")
	stop := make(chan struct{})
	var wait sync.WaitGroup
	acknowledged := make([][]string, 3)
	var longest [3]time.Duration
	for i := range c.nodes {
		if i == home {
			continue
		}
		table := check.Must(aztables.NewServiceClientFromConnectionString(c.nodes[i].ConnectionString(),
			&aztables.ClientOptions{ClientOptions: once}))(t).NewClient("people")
		wait.Go(func() {
			last := time.Now()
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				row := fmt.Sprint("lost-", i, "-", n)
				_, err := table.AddEntity(t.Context(), fmt.Appendf(nil, `{"PartitionKey":"q","RowKey":%q}`, row), nil)
				if err == nil {
					acknowledged[i] = append(acknowledged[i], row)
					longest[i] = max(longest[i], time.Since(last))
					last = time.Now()
				}
			}
		})
	}
	c.stop(home)
	next := c.home("tables")
	check.Eventually(t, func() bool {
		_, err := c.tenant(next).tables.NewClient("people").AddEntity(t.Context(),
			[]byte(`{"PartitionKey":"q","RowKey":"after"}`), nil)
		return err == nil || bloberror.HasCode(err, "EntityAlreadyExists")
	}, "the others go on")
	close(stop)
	wait.Wait()
	t.Logf("the longest waits were %v", longest)
	for i := range c.nodes {
		if i == home {
			continue
		}
		for _, rows := range acknowledged {
			for _, row := range rows {
				var err error
				check.Eventually(t, func() bool {
					_, err = c.tenant(i).tables.NewClient("people").GetEntity(t.Context(), "q", row, nil)
					return err == nil || bloberror.HasCode(err, "ResourceNotFound", "TableNotFound")
				}, "node %d answers", i)
				check.OK(t, err)
			}
		}
	}
}
