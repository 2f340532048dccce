package tabletrigger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"

	"github.com/lazuli-storage/lazuli/internal/azure/longpoll"
	"github.com/lazuli-storage/lazuli/internal/sdk/entityio"
	"github.com/lazuli-storage/lazuli/workers/bindings"
	"github.com/lazuli-storage/lazuli/workers/internal/queues"
)

// ErrNoFeed means that the service has no change log.
var ErrNoFeed = errors.New("the service has no change log of tables: a table trigger needs Lazuli")

// Feed reads the change log of a table; see docs/extensions.md.
type Feed struct{ client *aztables.Client }

// NewFeed returns the change log of a table.
func NewFeed(service *aztables.ServiceClient, table string) Feed {
	return Feed{service.NewClient(table)}
}

// Page is a page of the change log.
type Page struct {
	changes []message
	// position is the position after the page. known is false if the service does not know the requested position; changes
	// is empty then.
	Position string
	Known    bool
}

// After returns the changes after a position, for which it waits at most most.
func (f Feed) After(ctx context.Context, position string, most time.Duration) (Page, error) {
	var answer *http.Response
	ctx = policy.WithHTTPHeader(policy.WithCaptureResponse(ctx, &answer), queues.FeedHeader(position, most))
	// A service without a change log takes this for a query of the table, of which one entity is enough.
	got, err := f.client.NewListEntitiesPager(&aztables.ListEntitiesOptions{Top: to.Ptr[int32](1)}).NextPage(ctx)
	if err != nil {
		return Page{}, err
	}
	page := Page{Position: answer.Header.Get(longpoll.PositionHeader),
		Known: answer.Header.Get(longpoll.FeedHeader) == longpoll.FeedChanges}
	if page.Position == "" {
		return page, ErrNoFeed
	}
	for _, e := range got.Entities {
		var c struct {
			ETag                 string `json:"odata.etag"`
			PartitionKey, RowKey string
			Change               bindings.TableChangeKind
		}
		if err := json.Unmarshal(e, &c); err != nil {
			return page, fmt.Errorf("an entry of the change log: %w", err)
		}
		page.changes = append(page.changes,
			message{PartitionKey: c.PartitionKey, RowKey: c.RowKey, ETag: c.ETag, Change: c.Change})
	}
	return page, nil
}

// loggedChange is a change with the states around it.
type loggedChange struct {
	bindings.TableChange
	// position is the one after the change; empty if the change comes from reading the whole table.
	position string
}

// states returns what after does, with the states of entities. They are read from the answer itself: the SDK's values
// have lost which numbers are doubles.
func (f Feed) states(ctx context.Context, position string, most time.Duration) (changes []loggedChange,
	page Page, err error) {
	var answer *http.Response
	header := queues.FeedHeader(position, most)
	header.Set(longpoll.StatesHeader, longpoll.StatesInclude)
	ctx = policy.WithHTTPHeader(policy.WithCaptureResponse(ctx, &answer), header)
	if _, err := f.client.NewListEntitiesPager(&aztables.ListEntitiesOptions{Top: to.Ptr[int32](1)}).NextPage(
		ctx); err != nil {
		return nil, page, err
	}
	// A service that does not know the extension answers with an ordinary page of entities.
	page = Page{Position: answer.Header.Get(longpoll.PositionHeader),
		Known: answer.Header.Get(longpoll.FeedHeader) == longpoll.FeedChanges}
	if page.Position == "" || answer.Header.Get(longpoll.StatesHeader) != longpoll.StatesInclude {
		return nil, page, ErrNoFeed
	}
	var body struct {
		Value []struct {
			ETag                 string `json:"odata.etag"`
			PartitionKey, RowKey string
			Change               bindings.TableChangeKind
			Position             string
			Before, After        json.RawMessage
		}
	}
	raw, err := runtime.Payload(answer)
	if err == nil {
		err = json.Unmarshal(raw, &body)
	}
	if err != nil {
		return nil, page, fmt.Errorf("the log of changes: %w", err)
	}
	for _, c := range body.Value {
		changes = append(changes, loggedChange{bindings.TableChange{PartitionKey: c.PartitionKey, RowKey: c.RowKey,
			Change: c.Change, ETag: c.ETag, Entity: c.After, Before: c.Before}, c.Position})
	}
	return changes, page, nil
}

// everything passes the entities of the table to put, as updates, a page at a time.
func (f Feed) everything(ctx context.Context, put func([]loggedChange) error) error {
	var token tableToken
	for {
		page, next, err := f.page(ctx, token)
		if err == nil {
			err = put(page)
		}
		if err != nil || next.atEnd() {
			return err
		}
		token = next
	}
}

// tableToken is a continuation token of Query Entities. The zero value stands for the start of the table, and after a
// page for its end.
type tableToken struct{ PartitionKey, RowKey *string }

func (t tableToken) atEnd() bool { return t == tableToken{} }

// page returns a page of the entities of the table, as updates, and the token of the next page.
func (f Feed) page(ctx context.Context, token tableToken) (page []loggedChange, next tableToken, err error) {
	o := &aztables.ListEntitiesOptions{NextPartitionKey: token.PartitionKey, NextRowKey: token.RowKey}
	got, err := entityio.NextPage(ctx, f.client.NewListEntitiesPager(o))
	if err != nil {
		return nil, next, err
	}
	for _, e := range got.Entities {
		c := loggedChange{TableChange: bindings.TableChange{Change: bindings.TableUpdate, Entity: e}}
		var keys struct {
			ETag                 string `json:"odata.etag"`
			PartitionKey, RowKey string
		}
		if err := json.Unmarshal(e, &keys); err != nil {
			return nil, next, fmt.Errorf("an entity: %w", err)
		}
		c.PartitionKey, c.RowKey, c.ETag = keys.PartitionKey, keys.RowKey, keys.ETag
		page = append(page, c)
	}
	return page, tableToken{got.Next.NextPartitionKey, got.Next.NextRowKey}, nil
}

// all passes every entity of the table to put, as updates, a page at a time.
func (f Feed) all(ctx context.Context, put func([]message) error) error {
	// The keys and the ETag are what a message has; the properties would be read for nothing.
	pager := f.client.NewListEntitiesPager(
		&aztables.ListEntitiesOptions{Select: to.Ptr("PartitionKey,RowKey"), Format: to.Ptr(aztables.MetadataFormatFull)})
	for pager.More() {
		got, err := pager.NextPage(ctx)
		if err != nil {
			return err
		}
		var page []message
		for _, e := range got.Entities {
			var c struct {
				ETag                 string `json:"odata.etag"`
				PartitionKey, RowKey string
			}
			if err := json.Unmarshal(e, &c); err != nil {
				return fmt.Errorf("an entity: %w", err)
			}
			page = append(page, message{PartitionKey: c.PartitionKey, RowKey: c.RowKey, ETag: c.ETag,
				Change: bindings.TableUpdate})
		}
		if err := put(page); err != nil {
			return err
		}
	}
	return nil
}

// HasTableCode reports whether an error of the service has a code.
func HasTableCode(err error, code aztables.TableErrorCode) bool {
	var r *azcore.ResponseError
	return errors.As(err, &r) && r.ErrorCode == string(code)
}
