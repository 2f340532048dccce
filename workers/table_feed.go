package workers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"

	"github.com/lazuli-storage/lazuli/internal/azure/longpoll"
	"github.com/lazuli-storage/lazuli/workers/bindings"
)

// errNoFeed: the service logs no changes.
var errNoFeed = errors.New("the service keeps no log of a table's changes: a table trigger needs Lazuli")

// tableFeed reads the log of a table's changes; see docs/extensions.md.
type tableFeed struct{ client *aztables.Client }

// feedPage is an answer.
type feedPage struct {
	changes []tableMessage
	// position is the one to ask for next; known is false if the one that was asked for is not, and there are no changes then.
	position string
	known    bool
}

// after returns what has changed after a position, and waits for it for most at most.
func (f tableFeed) after(ctx context.Context, position string, most time.Duration) (feedPage, error) {
	var answer *http.Response
	ctx = policy.WithHTTPHeader(policy.WithCaptureResponse(ctx, &answer), feedHeader(position, most))
	got, err := f.client.NewListEntitiesPager(&aztables.ListEntitiesOptions{Top: to.Ptr[int32](1)}).NextPage(ctx)
	if err != nil {
		return feedPage{}, err
	}
	page := feedPage{position: answer.Header.Get(longpoll.PositionHeader), known: answer.Header.Get(longpoll.FeedHeader) == longpoll.FeedChanges}
	if page.position == "" {
		return page, errNoFeed
	}
	for _, e := range got.Entities {
		var c struct {
			ETag                 string `json:"odata.etag"`
			PartitionKey, RowKey string
			Change               bindings.TableChangeKind
		}
		if err := json.Unmarshal(e, &c); err != nil {
			return page, fmt.Errorf("an entry of the log of changes: %w", err)
		}
		page.changes = append(page.changes, tableMessage{PartitionKey: c.PartitionKey, RowKey: c.RowKey, ETag: c.ETag, Change: c.Change})
	}
	return page, nil
}

// feedHeader asks for what comes after a position, and to wait for it.
func feedHeader(position string, most time.Duration) http.Header {
	h := http.Header{longpoll.AfterHeader: {position}}
	if most > 0 {
		h.Set(longpoll.WaitHeader, strconv.Itoa(max(int(most/time.Second), 1)))
	}
	return h
}

// all tells of every entity of the table, as an update, a page at a time.
func (f tableFeed) all(ctx context.Context, tell func([]tableMessage) error) error {
	pager := f.client.NewListEntitiesPager(&aztables.ListEntitiesOptions{Select: to.Ptr("PartitionKey,RowKey"), Format: to.Ptr(aztables.MetadataFormatFull)})
	for pager.More() {
		got, err := pager.NextPage(ctx)
		if err != nil {
			return err
		}
		var page []tableMessage
		for _, e := range got.Entities {
			var c struct {
				ETag                 string `json:"odata.etag"`
				PartitionKey, RowKey string
			}
			if err := json.Unmarshal(e, &c); err != nil {
				return fmt.Errorf("an entity: %w", err)
			}
			page = append(page, tableMessage{PartitionKey: c.PartitionKey, RowKey: c.RowKey, ETag: c.ETag, Change: bindings.TableUpdate})
		}
		if err := tell(page); err != nil {
			return err
		}
	}
	return nil
}
