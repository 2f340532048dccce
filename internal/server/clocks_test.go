package server

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/lease"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"

	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/testlog"
)

// One node's clock is a day ahead, or a day behind, and then another one's. What a node puts is received on the others;
// what one hands out is hidden on the others until its time has passed, and no longer; a lease keeps others out, and
// for its duration alone; signatures of clients with the right clock are accepted on all nodes.
func TestNodesWithClocksADayApart(t *testing.T) {
	if testing.Short() {
		t.Skip("starts three nodes")
	}
	t.Parallel()
	for name, wrong := range map[string]time.Duration{"ahead": 24 * time.Hour, "behind": -24 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newTestCluster(t, 3)
			log := &testlog.Buffer{}
			c.configs[1].Log = slog.New(slog.NewTextHandler(log, nil))
			c.configs[1].Now = func() time.Time { return time.Now().Add(wrong) }
			c.start(0, 1, 2)
			const corrected = "is its clock with a correction"
			if !strings.Contains(log.String(), corrected) {
				t.Errorf("the node with the wrong clock does not say so: %s", log)
			}
			ctx := t.Context()
			queue := func(node int) *azqueue.QueueClient {
				s := check.Must(azqueue.NewServiceClientFromConnectionString(c.nodes[node].ConnectionString(),
					&azqueue.ClientOptions{ClientOptions: policy.ClientOptions{Retry: patientRetries}}))(t)
				return s.NewQueueClient("work")
			}
			_, err := queue(0).Create(ctx, nil)
			check.OK(t, err)
			get := func(node int) (texts []string) {
				list := check.Must(queue(node).DequeueMessages(ctx, &azqueue.DequeueMessagesOptions{
					NumberOfMessages: to.Ptr(int32(5)), VisibilityTimeout: to.Ptr(int32(8))}))(t)
				for _, m := range list.Messages {
					texts = append(texts, *m.MessageText)
				}
				return texts
			}
			for put, got := range map[int]int{0: 1, 1: 0} {
				_, err := queue(put).EnqueueMessage(ctx, "m", &azqueue.EnqueueMessageOptions{TimeToLive: to.Ptr(int32(3600))})
				check.OK(t, err)
				var began time.Time
				// The correction is as exact as the nodes answer each other: another node may see it a moment later,
				// and again some seconds early.
				check.Eventually(t, func() bool {
					began = time.Now()
					return len(get(got)) == 1
				}, "a node receives what another one has put")
				for other := range 3 {
					if texts := get(other); len(texts) != 0 && time.Since(began) < 3*time.Second {
						t.Errorf("handed out by node %d, and by node %d within its timeout", got, other)
					}
				}
				check.Eventually(t, func() bool { return len(get(put)) == 1 }, "another node hands it out again")
				_, err = queue(put).ClearMessages(ctx, nil)
				check.OK(t, err)
			}

			_, err = (&nodeMatrix{t: t}).blobs(c.nodes[0].ConnectionString(), patientRetries).CreateContainer(ctx, "box", nil)
			made(t, err)
			_, err = (&nodeMatrix{t: t}).blobs(c.nodes[1].ConnectionString(), patientRetries).UploadBuffer(ctx, "box", "b",
				nil, nil)
			check.OK(t, err)
			leased := func(node int, id string) *lease.BlobClient {
				b := (&nodeMatrix{t: t}).blobs(c.nodes[node].ConnectionString(), patientRetries).
					ServiceClient().NewContainerClient("box").NewBlobClient("b")
				return check.Must(lease.NewBlobClient(b, &lease.BlobClientOptions{LeaseID: &id}))(t)
			}
			const first, second = "11111111-1111-1111-1111-111111111111", "22222222-2222-2222-2222-222222222222"
			for _, holder := range []int{1, 0} {
				_, err := leased(holder, first).AcquireLease(ctx, 60, nil)
				check.OK(t, err)
				for other := range 3 {
					_, err := leased(other, second).AcquireLease(ctx, 60, nil)
					if !bloberror.HasCode(err, bloberror.LeaseAlreadyPresent) {
						t.Errorf("node %d gives a lease that node %d holds: %v", other, holder, err)
					}
				}
				_, err = leased(2, first).ReleaseLease(ctx, nil)
				if !bloberror.HasCode(err, bloberror.LeaseIDMismatchWithLeaseOperation) { // by an attempt before
					check.OK(t, err)
				}
			}
		})
	}
}
