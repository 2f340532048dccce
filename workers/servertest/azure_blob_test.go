package servertest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"

	"github.com/lazuli-storage/lazuli/internal/fault"
	"github.com/lazuli-storage/lazuli/internal/test/testaccount"
	"github.com/lazuli-storage/lazuli/workers"
)

// blobBench is an account with a container and what handlers of its blobs did.
type blobBench struct {
	*testing.T
	*testaccount.Account
	container, host string

	mu   sync.Mutex
	seen []string // "name=content"
}

func newBlobBench(t *testing.T) *blobBench {
	a := testaccount.Open(t)
	return &blobBench{T: t, Account: a, container: a.Container("in"), host: fmt.Sprint("test", time.Now().UnixNano())}
}

func (b *blobBench) upload(name, content string) {
	b.Helper()
	if _, err := b.Blobs.UploadBuffer(context.Background(), b.container, name, []byte(content), nil); err != nil {
		b.Fatal(err)
	}
}

// app makes an instance with a function for *.txt; handle may be nil.
func (b *blobBench) app(handle workers.BlobHandler) *workers.App {
	app := workers.New(workers.Config{ConnectionString: b.ConnectionString, HostID: b.host,
		Logger: slog.New(slog.NewTextHandler(b.Output(), nil))})
	if handle == nil {
		handle = b.record
	}
	app.Blob("texts", handle, workers.WithPath(b.container+"/{name}.txt"),
		workers.WithMaxPollingInterval(100*time.Millisecond))
	return app
}

func (b *blobBench) record(ctx context.Context, c *blob.Client) error {
	got, err := c.DownloadStream(ctx, nil)
	if err != nil {
		return err
	}
	defer got.Body.Close()
	content, err := io.ReadAll(got.Body)
	if err != nil {
		return err
	}
	ic, _ := workers.FromContext(ctx)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.seen = append(b.seen, fmt.Sprintf("%s=%s", ic.TriggerMetadata["name"], content))
	return nil
}

func (b *blobBench) count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.seen)
}

func (b *blobBench) wantSeen(want ...string) {
	b.Helper()
	eventually(b, fmt.Sprintf("%d blobs were handled", len(want)), func() bool { return b.count() >= len(want) })
	b.mu.Lock()
	defer b.mu.Unlock()
	got := slices.Sorted(slices.Values(b.seen))
	slices.Sort(want)
	if !slices.Equal(got, want) {
		b.Errorf("handled %q, want %q", got, want)
	}
}

// receipts returns how many receipts there are.
func (b *blobBench) receipts() (n int) {
	b.Helper()
	prefix := "blobreceipts/" + b.host + "/"
	for pager := b.Blobs.NewListBlobsFlatPager("azure-webjobs-hosts",
		&azblob.ListBlobsFlatOptions{Prefix: to.Ptr(prefix)}); pager.More(); {
		page, err := pager.NextPage(context.Background())
		if err != nil {
			b.Fatal(err)
		}
		n += len(page.Segment.BlobItems)
	}
	return n
}

func TestBlobTrigger(t *testing.T) {
	t.Parallel()
	b := newBlobBench(t)
	b.upload("old.txt", "1")
	b.upload("folder/old.txt", "2")
	b.upload("other.bin", "never")
	app := b.app(nil)
	start(t, app)
	b.wantSeen("old=1", "folder/old=2")
	b.upload("new ü?#.txt", "3")
	b.wantSeen("old=1", "folder/old=2", "new ü?#=3")
	b.upload("old.txt", "changed")
	b.wantSeen("old=1", "folder/old=2", "new ü?#=3", "old=changed")

	// A blob that goes takes its receipt along; one of the same name is new.
	if _, err := b.Blobs.DeleteBlob(t.Context(), b.container, "old.txt", nil); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the receipt is gone", func() bool { return b.receipts() == 2 })
	b.upload("old.txt", "1")
	b.wantSeen("old=1", "folder/old=2", "new ü?#=3", "old=changed", "old=1")

	// What was handled is not handled again after a restart; what came meanwhile is. The receipt is put after the message:
	// an app that stops in between puts the message again.
	eventually(t, "all blobs have receipts", func() bool { return b.receipts() == 3 })
	if err := app.Stop(context.Background()); err != nil {
		t.Fatal(err)
	}
	b.upload("meanwhile.txt", "4")
	start(t, b.app(nil))
	eventually(t, "all blobs have receipts again", func() bool { return b.receipts() == 4 })
	b.wantSeen("old=1", "folder/old=2", "new ü?#=3", "old=changed", "old=1", "meanwhile=4")
}

func TestBlobTriggerMetadata(t *testing.T) {
	t.Parallel()
	b := newBlobBench(t)
	b.upload("a.txt", "x")
	metadata := make(chan map[string]string, 1)
	start(t, b.app(func(ctx context.Context, c *blob.Client) error {
		ic, _ := workers.FromContext(ctx)
		metadata <- ic.TriggerMetadata
		return nil
	}))
	got := <-metadata
	p, err := b.Blobs.ServiceClient().NewContainerClient(b.container).NewBlobClient("a.txt").GetProperties(t.Context(),
		nil)
	if err != nil {
		t.Fatal(err)
	}
	if got["BlobTrigger"] != b.container+"/a.txt" || got["name"] != "a" || got["Uri"] == "" ||
		got["ETag"] != string(*p.ETag) || got["DequeueCount"] != "1" {
		t.Errorf("metadata %v", got)
	}
}

func TestBlobTriggerFailure(t *testing.T) {
	t.Parallel()
	b := newBlobBench(t)
	b.upload("bad.txt", "x")
	app := b.app(func(context.Context, *blob.Client) error { return errors.New("no") })
	start(t, app)
	eventually(t, "the message is poison", func() bool { return app.Stats()[0].Poisoned == 1 })
	if s := app.Stats()[0]; s.Failed != 5 {
		t.Errorf("stats %+v, want five attempts", s)
	}
}

// A blob that is deleted or changed between its message and its handler: skipped, and the change handled on its own.
func TestBlobTriggerStaleMessages(t *testing.T) {
	b := newBlobBench(t)
	b.upload("a.txt", "first")
	b.upload("b.txt", "first")
	// The scan's first message finds both blobs already different.
	change := func(fault.Name) error {
		b.upload("a.txt", "second")
		_, err := b.Blobs.DeleteBlob(context.Background(), b.container, "b.txt", nil)
		return err
	}
	defer fault.Activate(fault.NewPlan(fault.Rule{Point: "workers/before-blob-message", On: 1, Do: change}))()
	app := b.app(nil)
	start(t, app)
	eventually(t, "three messages are done with", func() bool { return app.Stats()[0].Succeeded == 3 })
	b.wantSeen("a=second")
	eventually(t, "the receipts are those of the blobs that are left", func() bool { return b.receipts() == 1 })
}

// Stopped between the message and the receipt, the scan puts the message again: twice, but not never.
func TestBlobTriggerFailureAtEveryPoint(t *testing.T) {
	for point, most := range map[fault.Name]int{"workers/before-blob-message": 1, "workers/after-blob-message": 2,
		"workers/after-blob-receipt": 1} {
		b := newBlobBench(t)
		b.upload("a.txt", "x")
		off := fault.Activate(fault.NewPlan(fault.Rule{Point: point, On: 1, Do: fault.Fail(fault.ErrInjected)}))
		app := b.app(nil)
		start(t, app)
		eventually(t, "the blob is handled and has a receipt", func() bool { return b.count() >= most && b.receipts() == 1 })
		if err := app.Stop(context.Background()); err != nil {
			t.Error(err)
		}
		off()
		if n := b.count(); n < 1 || n > most {
			t.Errorf("%s: handled %d times, want at most %d", point, n, most)
		}
	}
}

func TestBlobTriggerOnTwoInstances(t *testing.T) {
	t.Parallel()
	b := newBlobBench(t)
	var want []string
	for i := range 40 {
		b.upload(fmt.Sprintf("%02d.txt", i), "x")
		want = append(want, fmt.Sprintf("%02d=x", i))
	}
	start(t, b.app(nil))
	start(t, b.app(nil))
	b.wantSeen(want...)
}

func TestBlobRegistration(t *testing.T) {
	t.Parallel()
	app := workers.New(workers.Config{ConnectionString: "UseDevelopmentStorage=true"})
	app.Blob("b", nil, workers.WithPath("c/{name"))
	err := app.Start(t.Context())
	for _, says := range []string{"handler is nil", "not closed"} {
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("Start returned %v, want it to say %q", err, says)
		}
	}
}

// Two programs with one host ID and one function name, and different paths: each handles the blobs of its own path, and
// neither removes the other's receipts.
func TestBlobTriggersWithOneNameAndTwoPaths(t *testing.T) {
	t.Parallel()
	b := newBlobBench(t)
	b.upload("a.txt", "1")
	b.upload("b.csv", "2")
	start(t, b.app(nil))
	other := workers.New(workers.Config{ConnectionString: b.ConnectionString, HostID: b.host,
		Logger: slog.New(slog.DiscardHandler)})
	other.Blob("texts", b.record, workers.WithPath(b.container+"/{name}.csv"),
		workers.WithMaxPollingInterval(100*time.Millisecond))
	start(t, other)
	eventually(t, "both blobs were handled", func() bool { return b.count() >= 2 })
	eventually(t, "both blobs have receipts", func() bool { return b.receipts() == 2 })
	b.upload("c.csv", "3")
	eventually(t, "the new blob has a receipt", func() bool { return b.receipts() == 3 })
	eventually(t, "all were handled", func() bool { return b.count() >= 3 })
	if b.count() != 3 {
		t.Errorf("handled %q", b.seen)
	}
}
