package crashtest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/service"
)

// historyWorker writes block blobs that keep their versions, deletes blobs and versions, and deletes and restores the
// container with all of them.
type historyWorker struct {
	name    string
	service *service.Client
	box     *container.Client
	number  int // number of the last content
	acked   int
	// versions has the number of the content of each existing version, by blob and version id; current the id of the
	// current one, "" without one.
	versions map[string]map[string]int
	current  map[string]string
	doubt    doubt
}

// doubt is the operation in flight.
type doubt struct {
	blob string
	// put is the content that was being written, drop the version that was being deleted, demote is set for the deletion
	// of the blob itself.
	put    int
	drop   string
	demote bool
}

func newHistoryWorker(i int) *historyWorker {
	return &historyWorker{name: fmt.Sprint("history", i), versions: map[string]map[string]int{},
		current: map[string]string{}}
}

func (w *historyWorker) acknowledged() int { return w.acked }

func (w *historyWorker) connect(s *server) error {
	cred, err := service.NewSharedKeyCredential(account, key)
	if err != nil {
		return err
	}
	w.service, err = service.NewClientWithSharedKeyCredential(s.blob, cred,
		&service.ClientOptions{ClientOptions: s.options()})
	if err != nil {
		return err
	}
	w.box = w.service.NewContainerClient(w.name)
	if w.acked > 0 {
		return w.restore(context.Background())
	}
	_, err = w.box.Create(context.Background(), nil)
	return unless(err, "ContainerAlreadyExists")
}

// restore restores the container if it is deleted.
func (w *historyWorker) restore(ctx context.Context) error {
	pager := w.service.NewListContainersPager(
		&service.ListContainersOptions{Prefix: &w.name, Include: service.ListContainersInclude{Deleted: true}})
	page, err := pager.NextPage(ctx)
	if err != nil {
		return err
	}
	if len(page.ContainerItems) != 1 {
		return mismatchf("blob: %d containers %s", len(page.ContainerItems), w.name)
	}
	if c := page.ContainerItems[0]; c.Deleted != nil && *c.Deleted {
		_, err = w.service.RestoreContainer(ctx, w.name, *c.Version, nil)
	}
	return err
}

func (w *historyWorker) step(ctx context.Context, rnd *rand.Rand) error {
	name := fmt.Sprint("blob", rnd.IntN(10))
	blob := w.box.NewBlockBlobClient(name)
	w.doubt = doubt{blob: name}
	switch n := rnd.IntN(20); {
	case n == 0:
		if _, err := w.box.Delete(ctx, nil); err != nil {
			return err
		}
		if err := w.restore(ctx); err != nil {
			return err
		}
	case n < 4 && w.current[name] != "":
		w.doubt.demote = true
		if _, err := blob.Delete(ctx, nil); err != nil {
			return err
		}
		delete(w.current, name)
	case n < 8:
		for id := range w.versions[name] {
			if id == w.current[name] {
				continue
			}
			w.doubt.drop = id
			old, err := blob.WithVersionID(id)
			if err != nil {
				return err
			}
			if _, err := old.Delete(ctx, nil); err != nil {
				return err
			}
			delete(w.versions[name], id)
			break
		}
	default:
		w.number++
		if w.number%10 == 0 {
			w.number++ // other tests use large contents
		}
		w.doubt.put = w.number
		r, err := blob.Upload(ctx, streaming.NopCloser(bytes.NewReader(blobContent(name, w.number))), nil)
		if err != nil {
			return err
		}
		w.add(name, *r.VersionID, w.number)
	}
	w.doubt = doubt{}
	w.acked++
	return nil
}

func (w *historyWorker) add(name, id string, number int) {
	if w.versions[name] == nil {
		w.versions[name] = map[string]int{}
	}
	w.versions[name][id] = number
	w.current[name] = id
}

func (w *historyWorker) verify(ctx context.Context, _ bool) error {
	found := map[string]bool{}
	current := map[string]string{}
	pager := w.box.NewListBlobsFlatPager(
		&container.ListBlobsFlatOptions{Include: container.ListBlobsInclude{Versions: true}, MaxResults: to.Ptr(int32(100))})
	for pager.More() {
		page, err := pager.NextPage(ctx)
		if err != nil {
			return err
		}
		for _, item := range page.Segment.BlobItems {
			name, id := *item.Name, *item.VersionID
			if item.IsCurrentVersion != nil {
				current[name] = id
			}
			found[name+id] = true
			number, ok := w.versions[name][id]
			if !ok { // it can only be what was being written
				if name != w.doubt.blob || w.doubt.put == 0 || current[name] != id {
					return mismatchf("blob: version %s of %s/%s should not exist", id, w.name, name)
				}
				number = w.doubt.put
				w.add(name, id, number)
			}
			if err := w.compare(ctx, name, id, number); err != nil {
				return err
			}
		}
	}
	for name, ids := range w.versions {
		for id := range ids {
			switch {
			case found[name+id]:
			case name == w.doubt.blob && id == w.doubt.drop:
				delete(ids, id)
			default:
				return mismatchf("blob: version %s of %s/%s is gone", id, w.name, name)
			}
		}
		if want := w.current[name]; current[name] != want {
			if name != w.doubt.blob || !w.doubt.demote || current[name] != "" {
				return mismatchf("blob: the current version of %s/%s is %q, not %q", w.name, name, current[name], want)
			}
			delete(w.current, name)
		}
	}
	w.doubt = doubt{}
	return nil
}

func (w *historyWorker) compare(ctx context.Context, name, id string, number int) error {
	at, err := w.box.NewBlobClient(name).WithVersionID(id)
	if err != nil {
		return err
	}
	r, err := at.DownloadStream(ctx, nil)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	p, err := io.ReadAll(r.Body)
	if err == nil && !bytes.Equal(p, blobContent(name, number)) {
		err = mismatchf("blob: version %s of %s/%s is not what was acknowledged", id, w.name, name)
	}
	return err
}
