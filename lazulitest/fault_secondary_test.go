package lazulitest_test

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/service"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"
	"github.com/google/go-cmp/cmp"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/faultrule"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/lazulitest"
)

// endpoint has clients of the primary or the secondary endpoint of the development account.
type endpoint struct {
	blobs  *azblob.Client
	queue  *azqueue.QueueClient
	tables *aztables.ServiceClient
}

func newEndpoint(t *testing.T, l *lazulitest.Lazuli, suffix string) (e endpoint) {
	t.Helper()
	options := policy.ClientOptions{Retry: policy.RetryOptions{MaxRetries: -1},
		Transport: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}
	blobKey, err := azblob.NewSharedKeyCredential(auth.DevelopmentAccount, auth.DevelopmentKey)
	check.OK(t, err)
	e.blobs, err = azblob.NewClientWithSharedKeyCredential(l.BlobURL()+suffix+"/", blobKey,
		&azblob.ClientOptions{ClientOptions: options})
	check.OK(t, err)
	queueKey, err := azqueue.NewSharedKeyCredential(auth.DevelopmentAccount, auth.DevelopmentKey)
	check.OK(t, err)
	e.queue, err = azqueue.NewQueueClientWithSharedKeyCredential(l.QueueURL()+suffix+"/orders", queueKey,
		&azqueue.ClientOptions{ClientOptions: options})
	check.OK(t, err)
	tableKey, err := aztables.NewSharedKeyCredential(auth.DevelopmentAccount, auth.DevelopmentKey)
	check.OK(t, err)
	e.tables, err = aztables.NewServiceClientWithSharedKey(l.TableURL()+suffix, tableKey,
		&aztables.ClientOptions{ClientOptions: options})
	check.OK(t, err)
	return e
}

func (e endpoint) create(t *testing.T) {
	t.Helper()
	_, err := e.blobs.CreateContainer(t.Context(), "box", nil)
	check.OK(t, err)
	_, err = e.queue.Create(t.Context(), nil)
	check.OK(t, err)
	_, err = e.tables.CreateTable(t.Context(), "Orders", nil)
	check.OK(t, err)
}

// write makes a blob, a message and an entity of a name.
func (e endpoint) write(t *testing.T, name string) {
	t.Helper()
	_, err := e.blobs.UploadBuffer(t.Context(), "box", name, []byte(name), nil)
	check.OK(t, err)
	_, err = e.queue.EnqueueMessage(t.Context(), name, nil)
	check.OK(t, err)
	_, err = e.tables.NewClient("Orders").AddEntity(t.Context(), []byte(`{"PartitionKey":"p","RowKey":"`+name+`"}`), nil)
	check.OK(t, err)
}

// visible holds what lists and reads of single resources show.
func (e endpoint) visible(t *testing.T, names ...string) (list []string) {
	t.Helper()
	blobs, err := e.blobs.NewListBlobsFlatPager("box", nil).NextPage(t.Context())
	check.OK(t, err)
	for _, b := range blobs.Segment.BlobItems {
		list = append(list, "blob in the list "+*b.Name)
	}
	messages, err := e.queue.PeekMessages(t.Context(), &azqueue.PeekMessagesOptions{NumberOfMessages: ptr(int32(32))})
	check.OK(t, err)
	for _, m := range messages.Messages {
		list = append(list, "message "+*m.MessageText)
	}
	entities, err := e.tables.NewClient("Orders").NewListEntitiesPager(nil).NextPage(t.Context())
	check.OK(t, err)
	for _, entity := range entities.Entities {
		_, rest, _ := strings.Cut(string(entity), `"RowKey":"`)
		name, _, _ := strings.Cut(rest, `"`)
		list = append(list, "entity in the list "+name)
	}
	for _, name := range names {
		switch got, err := e.blobs.DownloadStream(t.Context(), "box", name, nil); {
		case err == nil:
			text, err := io.ReadAll(got.Body)
			check.OK(t, err)
			list = append(list, "blob "+string(text))
		case !bloberror.HasCode(err, bloberror.BlobNotFound):
			t.Errorf("blob %s: %v, want BlobNotFound", name, err)
		}
		switch _, err := e.tables.NewClient("Orders").GetEntity(t.Context(), "p", name, nil); {
		case err == nil:
			list = append(list, "entity "+name)
		case code(err) != "ResourceNotFound":
			t.Errorf("entity %s: %v, want ResourceNotFound", name, err)
		}
	}
	slices.Sort(list)
	return list
}

func ptr[T any](v T) *T { return &v }

// all holds what visible shows of resources that are there.
func all(names ...string) (list []string) {
	for _, name := range names {
		for _, kind := range []string{"blob in the list ", "message ", "entity in the list ", "blob ", "entity "} {
			list = append(list, kind+name)
		}
	}
	slices.Sort(list)
	return list
}

// start begins with one of everything that is an hour old ("old"), and one that is a minute old ("new").
func startWithAges(t *testing.T) (l *lazulitest.Lazuli, clock *lazulitest.Clock, primary, secondary endpoint) {
	t.Helper()
	clock = lazulitest.NewClock()
	l = lazulitest.Start(t, lazulitest.WithFakeClock(clock))
	primary, secondary = newEndpoint(t, l, ""), newEndpoint(t, l, "-secondary")
	primary.create(t)
	primary.write(t, "old")
	clock.Advance(59 * time.Minute)
	primary.write(t, "new")
	clock.Advance(time.Minute)
	return l, clock, primary, secondary
}

func minutes(n int) faultrule.Duration {
	return faultrule.Duration(n) * faultrule.Duration(time.Minute)
}

// A secondary that lags does not have what was written since the last sync time, which Get Service Stats names; the
// primary does.
func TestSecondaryLags(t *testing.T) {
	t.Parallel()
	l, clock, primary, secondary := startWithAges(t)
	if diff := cmp.Diff(all("old", "new"), secondary.visible(t, "old", "new")); diff != "" {
		t.Errorf("without a rule (-want +got):\n%s", diff)
	}
	name := l.AddFault(t, lazulitest.FaultRule{Secondary: &faultrule.Secondary{Lag: minutes(10)}})
	if diff := cmp.Diff(all("old"), secondary.visible(t, "old", "new")); diff != "" {
		t.Errorf("secondary (-want +got):\n%s", diff)
	}
	l.RequireFaultHit(t, name)
	if diff := cmp.Diff(all("old", "new"), primary.visible(t, "old", "new")); diff != "" {
		t.Errorf("primary (-want +got):\n%s", diff)
	}
	stats := func() *service.GeoReplication {
		t.Helper()
		got, err := secondary.blobs.ServiceClient().GetStatistics(t.Context(), nil)
		check.OK(t, err)
		return got.GeoReplication
	}
	if got := stats(); *got.Status != service.BlobGeoReplicationStatusLive ||
		!got.LastSyncTime.Equal(clock.Now().Add(-10*time.Minute)) {
		t.Errorf("%s, last sync time %v; want live, ten minutes before %v", *got.Status, got.LastSyncTime, clock.Now())
	}
	clock.Advance(10 * time.Minute)
	if diff := cmp.Diff(all("old", "new"), secondary.visible(t, "old", "new")); diff != "" {
		t.Errorf("ten minutes later (-want +got):\n%s", diff)
	}
	l.RemoveFault(t, name)
	l.AddFault(t, lazulitest.FaultRule{Secondary: &faultrule.Secondary{Status: "unavailable"}})
	if got := stats(); *got.Status != service.BlobGeoReplicationStatusUnavailable || got.LastSyncTime != nil &&
		!got.LastSyncTime.IsZero() {
		t.Errorf("%s, last sync time %v; want unavailable, without a time", *got.Status, got.LastSyncTime)
	}
}

// After a failover the primary endpoint lacks what the secondary did not have, takes writes, and the secondary endpoint
// is gone.
func TestAccountFailsOver(t *testing.T) {
	t.Parallel()
	l, clock, primary, secondary := startWithAges(t)
	l.AddFault(t, lazulitest.FaultRule{Secondary: &faultrule.Secondary{Lag: minutes(10), FailedOver: true}})
	if diff := cmp.Diff(all("old"), primary.visible(t, "old", "new")); diff != "" {
		t.Errorf("primary (-want +got):\n%s", diff)
	}
	clock.Advance(time.Hour)
	primary.write(t, "later")
	if diff := cmp.Diff(all("old", "later"), primary.visible(t, "old", "new", "later")); diff != "" {
		t.Errorf("primary after a write (-want +got):\n%s", diff)
	}
	if _, err := secondary.blobs.DownloadStream(t.Context(), "box", "old", nil); err == nil || code(err) != "" {
		t.Errorf("secondary: %v, want a broken connection", err)
	}
}

// A rule can concern one endpoint.
func TestRuleOfAnEndpoint(t *testing.T) {
	t.Parallel()
	l, _, primary, secondary := startWithAges(t)
	l.AddFault(t, lazulitest.FaultRule{Endpoint: "primary", Operation: "Get Blob", Error: "ServerBusy"})
	if _, err := primary.blobs.DownloadStream(t.Context(), "box", "old", nil); code(err) != "ServerBusy" {
		t.Errorf("primary: %v, want ServerBusy", err)
	}
	_, err := secondary.blobs.DownloadStream(t.Context(), "box", "old", nil)
	check.OK(t, err)
}

// The container of a list is not there either, before the secondary has it.
func TestContainerThatTheSecondaryLacks(t *testing.T) {
	t.Parallel()
	l, _, primary, secondary := startWithAges(t)
	_, err := primary.blobs.CreateContainer(t.Context(), "young", nil)
	check.OK(t, err)
	l.AddFault(t, lazulitest.FaultRule{Secondary: &faultrule.Secondary{Lag: minutes(10)}})
	if _, err := secondary.blobs.ServiceClient().NewContainerClient("young").GetProperties(t.Context(),
		nil); !bloberror.HasCode(err, bloberror.ContainerNotFound) {
		t.Errorf("%v, want ContainerNotFound", err)
	}
	page, err := secondary.blobs.NewListContainersPager(nil).NextPage(t.Context())
	check.OK(t, err)
	if len(page.ContainerItems) != 1 || *page.ContainerItems[0].Name != "box" {
		t.Errorf("%d containers, want box alone", len(page.ContainerItems))
	}
}
