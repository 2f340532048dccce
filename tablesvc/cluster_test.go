package tablesvc

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"

	"github.com/lazuli-storage/lazuli/internal/azure/longpoll"
	"github.com/lazuli-storage/lazuli/internal/service/tablehost"
	"github.com/lazuli-storage/lazuli/internal/storage/replog"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/natscluster"
)

// onLog makes a service a node of a cluster.
func onLog(t *testing.T, c *natscluster.Cluster, server int) func(*tablehost.Config) {
	t.Helper()
	log, err := replog.Open(t.Context(),
		replog.Config{Conn: c.Conn(t, server), Name: "tables", Replicas: c.Size(), Node: fmt.Sprint("n", server),
			Timeout: time.Minute, Log: slog.New(slog.DiscardHandler)})
	check.OK(t, err)
	return func(c *tablehost.Config) {
		c.Store.Relaxed, c.Store.Log = false, log
		c.Board = longpoll.NewBoard()
	}
}

// startNodes starts two nodes of a cluster that share a server.
func startNodes(t *testing.T) (a, b *fixture) {
	t.Helper()
	c := natscluster.Start(t, 1)
	return start(t, onLog(t, c, 0)), start(t, onLog(t, c, 0))
}

func TestNodesShareTablesAndEntities(t *testing.T) {
	t.Parallel()
	a, b := startNodes(t)
	for i := range 5 { // the table is deleted and created again: neither node may use the id of the old one
		table := a.table("shared")
		other := b.sdk.NewClient("shared")
		entity := fmt.Appendf(nil, `{"PartitionKey":"p","RowKey":"r","n":%d}`, i)
		added, err := table.AddEntity(ctx, entity, nil)
		check.OK(t, err)
		read, err := other.GetEntity(ctx, "p", "r", nil)
		check.OK(t, err)
		if read.ETag != added.ETag {
			t.Errorf("one node wrote ETag %s, the other one read %s", added.ETag, read.ETag)
		}
		_, err = other.UpdateEntity(ctx, entity,
			&aztables.UpdateEntityOptions{IfMatch: &read.ETag, UpdateMode: aztables.UpdateModeReplace})
		check.OK(t, err)
		_, err = table.UpdateEntity(ctx, entity,
			&aztables.UpdateEntityOptions{IfMatch: &added.ETag, UpdateMode: aztables.UpdateModeReplace})
		check.Code(t, err, "412 UpdateConditionNotSatisfied")
		_, err = b.sdk.DeleteTable(ctx, "shared", nil)
		check.OK(t, err)
		_, err = table.GetEntity(ctx, "p", "r", nil)
		check.Code(t, err, "404 ResourceNotFound")
		_, err = table.AddEntity(ctx, entity, nil)
		check.Code(t, err, "404 TableNotFound")
	}
}

// Timestamps do not go back when a node whose clock is behind changes an entity, or writes one that another node has
// deleted.
func TestETagsDifferAlthoughClocksDiffer(t *testing.T) {
	t.Parallel()
	c := natscluster.Start(t, 1)
	ahead := func(c *tablehost.Config) { c.Now = func() time.Time { return time.Now().Add(10 * time.Minute) } }
	a, b := start(t, onLog(t, c, 0), ahead), start(t, onLog(t, c, 0))
	table, other := a.table("shared"), b.sdk.NewClient("shared")
	entity := []byte(`{"PartitionKey":"p","RowKey":"r"}`)
	var last time.Time
	later := func(etag azcore.ETag, err error) {
		t.Helper()
		check.OK(t, err)
		text, err := url.PathUnescape(strings.Split(string(etag), "'")[1])
		check.OK(t, err)
		at, err := time.Parse(time.RFC3339Nano, text)
		check.OK(t, err)
		if !at.After(last) {
			t.Errorf("ETag of %v after %v", at, last)
		}
		last = at
	}
	for range 3 {
		added, err := table.AddEntity(ctx, entity, nil)
		later(added.ETag, err)
		updated, err := other.UpdateEntity(ctx, entity, &aztables.UpdateEntityOptions{UpdateMode: aztables.UpdateModeReplace})
		later(updated.ETag, err)
		_, err = table.DeleteEntity(ctx, "p", "r", nil)
		check.OK(t, err)
		again, err := other.AddEntity(ctx, entity, nil)
		later(again.ETag, err)
		_, err = other.DeleteEntity(ctx, "p", "r", nil)
		check.OK(t, err)
	}
}

func TestNodesShareServiceProperties(t *testing.T) {
	t.Parallel()
	a, b := startNodes(t)
	for age := int32(1); age < 4; age++ {
		rule := &aztables.CorsRule{AllowedOrigins: ptr("*"), AllowedMethods: ptr("GET"), MaxAgeInSeconds: &age,
			AllowedHeaders: ptr(""), ExposedHeaders: ptr("")}
		_, err := a.sdk.SetProperties(ctx, aztables.ServiceProperties{Cors: []*aztables.CorsRule{rule}}, nil)
		check.OK(t, err)
		got, err := b.sdk.GetProperties(ctx, nil)
		check.OK(t, err)
		if len(got.Cors) != 1 || *got.Cors[0].MaxAgeInSeconds != age {
			t.Errorf("the other node has %d CORS rules, want one of age %d", len(got.Cors), age)
		}
		a, b = b, a
	}
}

func ptr[T any](v T) *T { return &v }

// The log of changes has one order on all nodes, and a request that waits on one node ends when another one writes.
func TestNodesShareTheLogOfChanges(t *testing.T) {
	t.Parallel()
	a, b := startNodes(t)
	table := a.table("shared")
	changes := func(f *fixture, after string, wait time.Duration) (position string, rows []string) {
		r, err := f.try("GET", "/shared()",
			headers{longpoll.AfterHeader, after, longpoll.WaitHeader, strconv.Itoa(int(wait.Seconds()))}, "")
		if err != nil || r.status != http.StatusOK {
			t.Errorf("changes: %d %v %s", r.status, err, r.body)
			return after, nil
		}
		var page struct{ Value []struct{ RowKey string } }
		check.OK(t, json.Unmarshal([]byte(r.body), &page))
		for _, c := range page.Value {
			rows = append(rows, c.RowKey)
		}
		return r.header.Get(longpoll.PositionHeader), rows
	}
	position, _ := changes(b, "none", 0)
	waited := make(chan string)
	go func() {
		_, rows := changes(b, position, 30*time.Second)
		waited <- strings.Join(rows, " ")
	}()
	_, err := table.AddEntity(ctx, []byte(`{"PartitionKey":"p","RowKey":"1"}`), nil)
	check.OK(t, err)
	if got := <-waited; got != "1" {
		t.Errorf("the request that waited on another node got the changes %q", got)
	}
	for i := 2; i < 10; i++ {
		n := []*fixture{a, b}[i%2]
		_, err := n.sdk.NewClient("shared").AddEntity(ctx, fmt.Appendf(nil, `{"PartitionKey":"p","RowKey":"%d"}`, i), nil)
		check.OK(t, err)
	}
	for _, n := range []*fixture{a, b} {
		if _, rows := changes(n, position, 0); strings.Join(rows, "") != "123456789" {
			t.Errorf("changes %q", rows)
		}
	}
}

// Two nodes set different sections of the service properties at the same time: neither takes back what the other one
// has set.
func TestNodesSetDifferentServiceProperties(t *testing.T) {
	t.Parallel()
	a, b := startNodes(t)
	set := func(f *fixture, section string) {
		r, err := f.try("PUT", "/?restype=service&comp=properties", nil,
			"<StorageServiceProperties>"+section+"</StorageServiceProperties>")
		if err != nil || r.status != http.StatusAccepted {
			t.Errorf("set: status %d, %v", r.status, err)
		}
	}
	for n := 1; n <= 20; n++ {
		var both sync.WaitGroup
		both.Go(func() {
			set(a,
				fmt.Sprintf(
					"<Cors><CorsRule><AllowedOrigins>*</AllowedOrigins><AllowedMethods>GET</AllowedMethods><AllowedHeaders/><ExposedHeaders/><MaxAgeInSeconds>%d</MaxAgeInSeconds></CorsRule></Cors>", n))
		})
		both.Go(func() {
			set(b,
				fmt.Sprintf(
					"<HourMetrics><Version>1.0</Version><Enabled>false</Enabled><RetentionPolicy><Enabled>true</Enabled><Days>%d</Days></RetentionPolicy></HourMetrics>", n))
		})
		both.Wait()
		for name, f := range map[string]*fixture{"the first": a, "the second": b} {
			got, err := f.try("GET", "/?restype=service&comp=properties", nil, "")
			check.OK(t, err)
			if text := string(got.body); !strings.Contains(text, fmt.Sprintf("<MaxAgeInSeconds>%d<", n)) ||
				!strings.Contains(text, fmt.Sprintf("<Days>%d<", n)) {
				t.Fatalf("round %d, %s node: %s", n, name, text)
			}
		}
	}
}
