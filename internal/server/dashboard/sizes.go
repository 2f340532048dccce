package dashboard

import (
	"context"
	"net/http"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/service"

	"github.com/lazuli-storage/lazuli/internal/sdk/ptr"
)

// What is counted of a container or table, at most: 50,000 items, and as many as a second allows.
const (
	countedItems = 50_000
	countedSpan  = time.Second
)

// size has the items and bytes of a container or table. More means that it has more than was counted.
type size struct {
	Items int    `json:"items"`
	Bytes int64  `json:"bytes"`
	More  bool   `json:"more"`
	Count string `json:"count"` // for people: "50,000+"
	Text  string `json:"size"`  // of the bytes, "" for a table
}

// counting runs a listing until it ends, or enough is counted. page adds a page and reports whether there are more.
func counting(ctx context.Context, s *size, page func(context.Context) (more bool, err error)) error {
	end := time.Now().Add(countedSpan)
	for s.More = true; s.More && s.Items < countedItems && time.Now().Before(end); {
		var err error
		if s.More, err = page(ctx); err != nil {
			return err
		}
	}
	s.Count = atLeast(s.Items, s.More)
	return nil
}

// containerSize counts the blobs of a container, or those below ?path=, without snapshots and versions. Directories are
// not counted.
func (d *dashboard) containerSize(w http.ResponseWriter, r *http.Request, client *service.Client) error {
	pages := client.NewContainerClient(r.PathValue("container")).NewListBlobsFlatPager(
		&container.ListBlobsFlatOptions{MaxResults: to.Ptr[int32](5000), Prefix: ptr.Text(r.URL.Query().Get("path")),
			Include: container.ListBlobsInclude{Metadata: true}})
	var s size
	err := counting(r.Context(), &s, func(ctx context.Context) (bool, error) {
		got, err := pages.NextPage(ctx)
		if err != nil {
			return false, err
		}
		for _, b := range got.Segment.BlobItems {
			// A directory of a hierarchical container is a blob with this metadata, and has no size of its own.
			if ptr.Value(b.Metadata["hdi_isfolder"]) == "true" {
				continue
			}
			s.Items++
			if b.Properties != nil {
				s.Bytes += ptr.Value(b.Properties.ContentLength)
			}
		}
		return pages.More(), nil
	})
	if err != nil {
		return err
	}
	// A plus sign: counting ended at its limit, and the number is a lower bound.
	if s.Text = sizeText(s.Bytes); s.More {
		s.Text += "+"
	}
	return writeJSON(w, http.StatusOK, s)
}

// tableSize counts the entities of a table.
func (d *dashboard) tableSize(w http.ResponseWriter, r *http.Request, client *aztables.ServiceClient) error {
	pages := client.NewClient(r.PathValue("table")).NewListEntitiesPager(
		&aztables.ListEntitiesOptions{Select: to.Ptr("PartitionKey"), Format: to.Ptr(aztables.MetadataFormatNone)})
	var s size
	err := counting(r.Context(), &s, func(ctx context.Context) (bool, error) {
		got, err := pages.NextPage(ctx)
		if err != nil {
			return false, err
		}
		s.Items += len(got.Entities)
		return pages.More(), nil
	})
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, s)
}
