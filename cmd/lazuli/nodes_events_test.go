package main

import (
	"context"
	"fmt"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/changes"
	"github.com/lazuli-storage/lazuli/internal/killrig"
	"github.com/lazuli-storage/lazuli/internal/server/events"
	"github.com/lazuli-storage/lazuli/internal/storage/shardmap"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// Where each shard is on three of five nodes, nodes are killed one after the other while clients change blobs, queues
// and tables of an account, which are in three shards: each change that was acknowledged has its event, in a queue
// whose shard is not that of the subscription. It runs only with LAZULI_TEST_KILL_NODES, since it takes a minute.
func TestEventsOfNodesWithAPartOfTheShards(t *testing.T) {
	const shards = 7
	placed := check.Must(shardmap.New(shards))(t)
	blob, queue := placed.Of(shardmap.Blob, auth.DevelopmentAccount), placed.Of(shardmap.Queue, auth.DevelopmentAccount)
	if table := placed.Of(shardmap.Table, auth.DevelopmentAccount); blob == queue || blob == table || queue == table {
		t.Fatal("the account is in less than three shards")
	}
	cluster := startNodesBy(t, func(ctx context.Context, folder string, command func(...string) *exec.Cmd) (
		*killrig.Cluster, error) {
		return killrig.StartCluster(ctx, folder, 5, func(serve ...string) *exec.Cmd {
			return command(append(serve, "--events", "--shards", fmt.Sprint(shards), "--cluster-copies", "3")...)
		})
	})
	ctx, to := t.Context(), cluster.ConnectionString()
	blobs := check.Must(azblob.NewClientFromConnectionString(to, nil))(t)
	received := check.Must(azqueue.NewQueueClientFromConnectionString(to, "events", nil))(t)
	orders := check.Must(azqueue.NewQueueClientFromConnectionString(to, "orders", nil))(t)
	tables := check.Must(aztables.NewServiceClientFromConnectionString(to, nil))(t)
	check.Must(received.Create(ctx, nil))(t)
	check.Must(orders.Create(ctx, nil))(t)
	check.Must(blobs.CreateContainer(ctx, "photos", nil))(t)
	check.Must(tables.CreateTable(ctx, "Orders", nil))(t)
	subscribe(t, cluster, events.BlobCreated, changes.MessagePut, changes.EntityInserted)

	var mu sync.Mutex // guards want
	want := map[string]bool{}
	kills := killNodes(t, cluster)
	until := time.Now().Add(workTime)
	write := func(change func(name string) (subject string, err error)) func() {
		return func() {
			for i := 0; time.Now().Before(until); i++ {
				if subject, err := change(fmt.Sprintf("%05d", i)); err == nil {
					mu.Lock()
					want[subject] = true
					mu.Unlock()
				}
			}
		}
	}
	var writers sync.WaitGroup
	writers.Go(write(func(name string) (string, error) {
		_, err := blobs.UploadBuffer(ctx, "photos", name, []byte(name), nil)
		return "/blobServices/default/containers/photos/blobs/" + name, err
	}))
	writers.Go(write(func(name string) (string, error) {
		put, err := orders.EnqueueMessage(ctx, name, nil)
		if err != nil {
			return "", err
		}
		return changes.MessageSubject("orders", *put.Messages[0].MessageID), nil
	}))
	writers.Go(write(func(name string) (string, error) {
		entity := fmt.Appendf(nil, `{"PartitionKey":"p","RowKey":%q}`, name)
		_, err := tables.NewClient("Orders").AddEntity(ctx, entity, nil)
		return changes.EntitySubject("Orders", "p", name), err
	}))
	writers.Wait()
	killed := kills()
	written, other := len(want), 0
	if written == 0 {
		t.Fatal("no change was acknowledged")
	}
	for deadline := time.Now().Add(nodesPatience); len(want) > 0; {
		if time.Now().After(deadline) {
			t.Fatalf("after %d kills, %d of %d acknowledged changes have no event: %v", killed, len(want), written,
				want)
		}
		for _, subject := range receiveSubjects(t, received) {
			if !want[subject] {
				other++
			}
			delete(want, subject)
		}
	}
	t.Logf("%d kills, %d acknowledged changes, each with its event; %d other events, of changes without an answer or "+
		"that came again", killed, written, other)
}
