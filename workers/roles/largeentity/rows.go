package largeentity

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"

	"github.com/lazuli-storage/lazuli/internal/sdk/emptykey"
	"github.com/lazuli-storage/lazuli/internal/sdk/entityio"
	"github.com/lazuli-storage/lazuli/tables"
)

// Key names an entity.
type Key struct {
	PartitionKey string
	RowKey       string
}

// row is an entity as it is in the table, without its pointers among the properties.
type row struct {
	tables.Entity
	// asked is the service's time when it answered.
	asked    time.Time
	pointers pointers
}

func (r *row) key() Key { return Key{r.PartitionKey, r.RowKey} }

// rows is the table.
type rows struct{ client *aztables.Client }

// get returns nil without an error if there is no such row.
func (t rows) get(ctx context.Context, k Key) (*row, error) {
	got, err := entityio.Get(ctx, t.client, k.PartitionKey, k.RowKey)
	if hasStatus(err, http.StatusNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	r, err := parseRow(got.JSON)
	if err != nil {
		return nil, err
	}
	r.ETag, r.asked = got.ETag, dateOf(got.Answer)
	return r, nil
}

func parseRow(body []byte) (*row, error) {
	r := &row{}
	err := r.UnmarshalJSON(body)
	if err == nil {
		r.pointers, err = pointersOf(r.Entity)
	}
	return r, err
}

// dateOf returns the time of the service's Date header, or the local time if the header is missing.
func dateOf(raw *http.Response) time.Time {
	if raw != nil {
		if t, err := http.ParseTime(raw.Header.Get("Date")); err == nil {
			return t
		}
	}
	return time.Now()
}

// insert fails with 409 if the row exists.
func (t rows) insert(ctx context.Context, e tables.Entity) (azcore.ETag, error) {
	body, err := json.Marshal(e)
	if err != nil {
		return "", err
	}
	got, err := t.client.AddEntity(ctx, body, nil)
	return got.ETag, err
}

// update fails with 412 or 404 if the row is not the one that etag names.
func (t rows) update(ctx context.Context, e tables.Entity, etag azcore.ETag, mode aztables.UpdateMode) (azcore.ETag,
	error) {
	ctx, partitionKey, check := emptykey.Address(ctx, e.PartitionKey)
	e.PartitionKey = partitionKey
	body, err := json.Marshal(e)
	if err != nil {
		return "", err
	}
	got, err := t.client.UpdateEntity(ctx, body, &aztables.UpdateEntityOptions{IfMatch: &etag, UpdateMode: mode})
	return got.ETag, errors.Join(check(), err)
}

func (t rows) delete(ctx context.Context, k Key, etag azcore.ETag) error {
	ctx, partitionKey, check := emptykey.Address(ctx, k.PartitionKey)
	_, err := t.client.DeleteEntity(ctx, partitionKey, k.RowKey, &aztables.DeleteEntityOptions{IfMatch: &etag})
	return errors.Join(check(), err)
}

// exists returns an error if the table does not exist. The read of one entity cannot distinguish a missing table from a
// missing entity.
func (t rows) exists(ctx context.Context) error {
	one, keys := int32(1), "PartitionKey"
	_, err := t.client.NewListEntitiesPager(&aztables.ListEntitiesOptions{Top: &one, Select: &keys}).NextPage(ctx)
	return err
}

// withPointers calls visit for every row that has pointers or is a reservation. Its fields are not filled in.
func (t rows) withPointers(ctx context.Context, visit func(*row) error) error {
	filter, columns := PointerProperty+" gt ''", "PartitionKey,RowKey,Timestamp,"+PointerProperty
	pager := t.client.NewListEntitiesPager(&aztables.ListEntitiesOptions{Filter: &filter, Select: &columns})
	for pager.More() {
		page, err := entityio.NextPage(ctx, pager)
		if err != nil {
			return err
		}
		for _, body := range page.Entities {
			r, err := parseRow(body)
			if err != nil {
				return err
			}
			r.asked = dateOf(page.Answer)
			if err := visit(r); err != nil {
				return err
			}
		}
	}
	return nil
}

func hasStatus(err error, codes ...int) bool {
	var r *azcore.ResponseError
	if !errors.As(err, &r) {
		return false
	}
	for _, c := range codes {
		if r.StatusCode == c {
			return true
		}
	}
	return false
}
