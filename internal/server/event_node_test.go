package server

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/changes"
	"github.com/lazuli-storage/lazuli/internal/server/events"
	"github.com/lazuli-storage/lazuli/internal/state/blob/replica"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/workers"
)

// One node delivers the events of requests to all nodes, and another one takes over when it is gone. It stops a node.
func testNodesDeliverEvents(t *testing.T, nodes [3]*Server, jump func(time.Duration)) {
	ctx := t.Context()
	retry := workers.WithClientRetry(patientRetries)
	var storages [3]*workers.Storage
	for i, s := range nodes {
		storages[i] = check.Must(workers.OpenStorage(s.ConnectionString(), retry))(t)
	}
	worker := func(among ...int) (found int) {
		check.Eventually(t, func() bool {
			for _, i := range among {
				if nodes[i].Events() != nil {
					found = i
					return true
				}
			}
			return false
		}, "a node that delivers events")
		return found
	}
	first := worker(0, 1, 2)
	others := slices.DeleteFunc([]int{0, 1, 2}, func(i int) bool { return i == first })

	madeBy(storages[0].Queues.CreateQueue(ctx, "events", nil))(t)
	madeBy(storages[0].Queues.CreateQueue(ctx, "orders", nil))(t)
	madeBy(storages[0].Blobs.CreateContainer(ctx, "photos", nil))(t)
	check.Must(nodes[first].Events().Add(ctx,
		events.Subscription{Name: "all", Account: auth.DevelopmentAccount, EndpointType: events.StorageQueue,
			Endpoint:           "events",
			IncludedEventTypes: []string{events.BlobCreated, changes.MessagePut}}))(t)

	// Another node refuses what would be unknown to the node that delivers, and names that node.
	for _, i := range others {
		check.Eventually(t, func() bool {
			err := nodes[i].EventsElsewhere()
			return err != nil &&
				!errors.Is(err, errNoEventNode)
		}, "the name of the node that delivers events")
		if want := fmt.Sprintf("node n%d delivers the events of the cluster: use its admin listener",
			first); nodes[i].EventsElsewhere().Error() != want {
			t.Errorf("node %d: %v, want %s", i, nodes[i].EventsElsewhere(), want)
		}
		log := nodes[i].services.Load().list()[0].blobs.State.EventLog()
		if err := log.Subscribe(auth.DevelopmentAccount, "other", []byte("{}"),
			func(uint64) []byte { return nil }); !errors.Is(err, replica.ErrNotWorker) {
			t.Errorf("node %d, a subscription: %v", i, err)
		}
		if err := log.Set(auth.DevelopmentAccount, "all", nil, []byte("{}")); !errors.Is(err,
			replica.ErrNotWorker) {
			t.Errorf("node %d, progress: %v", i, err)
		}
	}
	want := map[string]bool{}
	change := func(name string, i int) {
		t.Helper()
		check.Must(storages[i].Blobs.UploadBuffer(ctx, "photos", name, []byte(name), nil))(t)
		want["/blobServices/default/containers/photos/blobs/"+name] = true
		put := check.Must(storages[i].Queues.NewQueueClient("orders").EnqueueMessage(ctx, name, nil))(t)
		want["/queueServices/default/queues/orders/messages/"+*put.Messages[0].MessageID] = true
	}
	got := map[string]bool{}
	delivered := func(i int) {
		t.Helper()
		check.Eventually(t, func() bool {
			list, err := storages[i].Queues.NewQueueClient("events").DequeueMessages(ctx,
				&azqueue.DequeueMessagesOptions{NumberOfMessages: to.Ptr[int32](32), VisibilityTimeout: to.Ptr[int32](3600)})
			if err != nil {
				return false
			}
			for _, m := range list.Messages {
				var e struct {
					Subject string
					Data    struct{ Unconfirmed bool }
				}
				text := check.Must(base64.StdEncoding.DecodeString(*m.MessageText))(t)
				check.OK(t, json.Unmarshal(text, &e))
				if e.Data.Unconfirmed || !want[e.Subject] {
					t.Errorf("got %s", text)
				}
				got[e.Subject] = true
			}
			return len(got) == len(want)
		}, "the events of all nodes")
	}
	for _, i := range others { // the recorder of their queues follows the subscriptions
		check.Eventually(t, func() bool {
			return nodes[i].services.Load().recorder.Wants(auth.DevelopmentAccount, changes.MessagePut)
		}, "a node that records changes of queues")
	}
	for i := range nodes {
		change(fmt.Sprint("before-", i), i)
	}
	delivered(others[0])

	check.OK(t, nodes[first].Stop(ctx))
	for n, i := range others {
		change(fmt.Sprint("meanwhile-", n), i)
	}
	jump(time.Minute) // the stopped node's term ends
	second := worker(others...)
	for n, i := range others {
		change(fmt.Sprint("after-", n), i)
	}
	delivered(second)
	if list := nodes[second].Events().List(); len(list) != 1 || list[0].Name != "all" {
		t.Errorf("subscriptions of the second node: %+v", list)
	}
}
