package crashtest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/service"
)

// The change feed has every acknowledged change once and in order, and copies from another host end correctly.
func TestKillFeed(t *testing.T) {
	t.Parallel()
	content := bytes.Repeat([]byte("0123456789abcdef"), 40<<20/16)
	source := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"1"`)
		http.ServeContent(w, r, "", time.Unix(1e9, 0), bytes.NewReader(content))
	}))
	t.Cleanup(source.Close)
	workers := []worker{&copyWorker{source: source.URL, want: content}}
	for i := range 4 {
		workers = append(workers, &feedWorker{name: fmt.Sprint("feed", i), last: map[string]string{}})
	}
	killAgainAndAgain(t, (*kills+1)/2, workers, "--blob-change-feed", "--allow-copy-source",
		strings.TrimPrefix(source.URL, "http://"))
}

// feedWorker writes blobs and records the entity tags that the feed must contain.
type feedWorker struct {
	name string
	svc  *service.Client
	box  *container.Client
	// events are the tags of acknowledged changes, in order, and of the one change whose outcome is unknown. A deletion
	// has the tag of the deleted blob.
	events []string
	acked  int
	last   map[string]string // the tag of each existing blob
}

func (w *feedWorker) acknowledged() int { return w.acked }

func (w *feedWorker) connect(s *server) error {
	cred, err := service.NewSharedKeyCredential(account, key)
	if err != nil {
		return err
	}
	if w.svc, err = service.NewClientWithSharedKeyCredential(s.blob, cred,
		&service.ClientOptions{ClientOptions: s.options()}); err != nil {
		return err
	}
	w.box = w.svc.NewContainerClient(w.name)
	_, err = w.box.Create(context.Background(), nil)
	return unless(err, "ContainerAlreadyExists")
}

func (w *feedWorker) step(ctx context.Context, rnd *rand.Rand) error {
	name := fmt.Sprint("blob", rnd.IntN(10))
	b := w.box.NewBlockBlobClient(name)
	var tag *azcore.ETag
	switch n := rnd.IntN(4); {
	case n == 0 && w.last[name] != "":
		old := w.last[name]
		delete(w.last, name) // whatever the outcome is
		if _, err := b.Delete(ctx, nil); err != nil {
			return err
		}
		w.events, w.acked = append(w.events, old), w.acked+1
		return nil
	case n == 1 && w.last[name] != "":
		r, err := b.SetMetadata(ctx, map[string]*string{"a": to.Ptr("b")}, nil)
		if err != nil {
			delete(w.last, name)
			return err
		}
		tag = r.ETag
	default:
		r, err := b.Upload(ctx, streaming.NopCloser(strings.NewReader("x")), nil)
		if err != nil {
			delete(w.last, name)
			return err
		}
		tag = r.ETag
	}
	w.last[name] = strings.Trim(string(*tag), `"`)
	w.events, w.acked = append(w.events, w.last[name]), w.acked+1
	return nil
}

// verify waits until the feed has all changes in the right position: it is written in the background.
func (w *feedWorker) verify(ctx context.Context, _ bool) error {
	for deadline := time.Now().Add(patience); ; pause(ctx, 100*time.Millisecond) {
		feed, err := w.read(ctx)
		if err != nil {
			return err
		}
		if err = w.compare(feed); err == nil || time.Now().After(deadline) {
			return err
		}
	}
}

func (w *feedWorker) compare(feed []byte) error {
	want := map[string]int{}
	at := 0
	for _, tag := range w.events {
		i := bytes.Index(feed[at:], []byte(tag))
		if i < 0 {
			return mismatchf("the feed lacks the event %s of %s, or has it too early", tag, w.name)
		}
		at += i + len(tag)
		want[tag]++
	}
	for tag, n := range want {
		// The additional event is the deletion in flight.
		if got := bytes.Count(feed, []byte(tag)); got > n+1 || got > 2 {
			return mismatchf("the feed has %d events for %s of %s, want %d", got, tag, w.name, n)
		}
	}
	return nil
}

func (w *feedWorker) read(ctx context.Context) (feed []byte, err error) {
	box := w.svc.NewContainerClient("$blobchangefeed")
	for pager := box.NewListBlobsFlatPager(&container.ListBlobsFlatOptions{Prefix: to.Ptr("log/")}); pager.More(); {
		page, err := pager.NextPage(ctx)
		if err != nil {
			return nil, unless(err, "ContainerNotFound")
		}
		for _, item := range page.Segment.BlobItems {
			r, err := box.NewBlobClient(*item.Name).DownloadStream(ctx, nil)
			if err != nil {
				return nil, err
			}
			part, err := io.ReadAll(r.Body)
			if err != nil {
				return nil, err
			}
			feed = append(feed, part...)
		}
	}
	return feed, nil
}

// copyWorker copies from a host outside the process. A copy that is pending when the process is killed must complete
// later.
type copyWorker struct {
	source string
	want   []byte
	box    *container.Client
	acked  int
}

func (w *copyWorker) acknowledged() int { return w.acked }

func (w *copyWorker) connect(s *server) error {
	cred, err := container.NewSharedKeyCredential(account, key)
	if err != nil {
		return err
	}
	if w.box, err = container.NewClientWithSharedKeyCredential(s.blob+"/copies", cred,
		&container.ClientOptions{ClientOptions: s.options()}); err != nil {
		return err
	}
	_, err = w.box.Create(context.Background(), nil)
	return unless(err, "ContainerAlreadyExists")
}

// step begins a copy and waits until the first bytes arrive, so that kills hit all phases of a copy.
func (w *copyWorker) step(ctx context.Context, rnd *rand.Rand) error {
	b := w.box.NewBlobClient(fmt.Sprint("copy", w.acked%4))
	p, err := b.GetProperties(ctx, nil)
	if err = unless(err, "BlobNotFound"); err != nil {
		return err
	}
	if p.CopyStatus != nil && *p.CopyStatus == blob.CopyStatusTypePending {
		pause(ctx, 20*time.Millisecond)
		return ctx.Err()
	}
	if _, err := b.StartCopyFromURL(ctx, w.source+"/x", nil); err != nil {
		return err
	}
	w.acked++
	pause(ctx, time.Duration(rnd.IntN(100))*time.Millisecond)
	return ctx.Err()
}

func (w *copyWorker) verify(ctx context.Context, _ bool) error {
	for i := range min(4, w.acked) {
		b := w.box.NewBlobClient(fmt.Sprint("copy", i))
		for deadline := time.Now().Add(patience); ; pause(ctx, 50*time.Millisecond) {
			p, err := b.GetProperties(ctx, nil)
			if err != nil {
				return err
			}
			if status := *p.CopyStatus; status == blob.CopyStatusTypeSuccess {
				break
			} else if status != blob.CopyStatusTypePending || time.Now().After(deadline) {
				return mismatchf("copy %d is %s: %v", i, status, p.CopyStatusDescription)
			}
		}
		r, err := b.DownloadStream(ctx, nil)
		if err != nil {
			return err
		}
		got, err := io.ReadAll(r.Body)
		if err != nil {
			return err
		}
		if !bytes.Equal(got, w.want) {
			return mismatchf("copy %d has other content", i)
		}
	}
	return nil
}
