package tablepages

import (
	"cmp"
	"context"
	"encoding/json"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"

	"github.com/lazuli-storage/lazuli/internal/sdk/ptr"
	"github.com/lazuli-storage/lazuli/internal/server/dashboard/frame"
)

// partitionRow is a partition with its number of entities.
type partitionRow struct {
	Key     string
	Count   int
	AtLeast bool // counting ended before the partition did
}

// The bounds of a page of partitions, and of the count of the largest ones.
const (
	countedEntities = 5_000
	countedMost     = 100_000
	countedTime     = 3 * time.Second
)

// partitionsPage holds partitions of a table with the number of their entities.
type partitionsPage struct {
	Table              string
	Rows               []partitionRow
	Found, Total, Most int
	More, Largest      bool
	Next               template.URL
}

func (partitionsPage) Template() string { return "partitions" }

// partitions counts the entities per partition: in the order of the keys, a page at a time, or with ?largest=1 the
// largest ones among the first entities of the table, which takes longer.
func (d *tablePages) partitions(w http.ResponseWriter, r *http.Request, service *aztables.ServiceClient) error {
	account, name, q := r.PathValue("account"), r.PathValue("table"), r.URL.Query()
	c := partitionCounter{client: service.NewClient(name), entities: countedEntities, partitions: frame.PageSize}
	largest := q.Get("largest") != ""
	if largest {
		c.entities, c.partitions = countedMost, countedMost
	} else if q.Has("after") {
		c.filter = after(q.Get("after"))
	}
	if err := c.count(r.Context()); err != nil {
		return err
	}
	data := partitionsPage{Table: name, Found: len(c.rows), Total: c.total, More: c.more, Largest: largest}
	if largest {
		slices.SortStableFunc(c.rows, func(a, b partitionRow) int { return cmp.Compare(b.Count, a.Count) })
		c.rows = c.rows[:min(len(c.rows), frame.PageSize)]
	} else if c.more {
		last := c.rows[len(c.rows)-1]
		more := true
		if last.AtLeast { // the rest of the table may be this partition
			var err error
			if more, err = c.exists(r.Context(), after(last.Key)); err != nil {
				return err
			}
		}
		if more {
			data.Next = entityAfter(last.Key)
		}
	}
	most := 1
	for _, row := range c.rows {
		most = max(most, row.Count)
	}
	data.Rows, data.Most = c.rows, most
	return d.Show(w, r, "Partitions of "+name, frame.CrumbsOf(account, "tables", name), data)
}

// after is the filter for the partitions after a key.
func after(pk string) string { return "PartitionKey gt '" + strings.ReplaceAll(pk, "'", "''") + "'" }

// partitionCounter counts the entities of a table per partition, up to a number of entities and of partitions.
type partitionCounter struct {
	client               *aztables.Client
	filter               string
	entities, partitions int

	rows  []partitionRow
	total int
	more  bool // the table goes on
}

// exists reports whether an entity matches a filter.
func (c *partitionCounter) exists(ctx context.Context, filter string) (bool, error) {
	got, err := c.client.NewListEntitiesPager(
		&aztables.ListEntitiesOptions{Filter: &filter, Select: to.Ptr("PartitionKey"), Top: to.Ptr(int32(1))}).NextPage(ctx)
	return len(got.Entities) > 0, err
}

func (c *partitionCounter) count(ctx context.Context) error {
	o := &aztables.ListEntitiesOptions{Select: to.Ptr("PartitionKey"), Format: to.Ptr(aztables.MetadataFormatNone),
		Filter: ptr.Text(c.filter)}
	pager := c.client.NewListEntitiesPager(o)
	for began := time.Now(); pager.More(); {
		// The count reads entities: a limit of entities and one of time keep a page from reading a table of a hundred
		// million.
		if c.total >= c.entities || time.Since(began) > countedTime {
			c.more = true
			break
		}
		got, err := pager.NextPage(ctx)
		if err != nil {
			return err
		}
		for _, text := range got.Entities {
			var e struct{ PartitionKey string }
			if err := json.Unmarshal(text, &e); err != nil {
				return err
			}
			n := len(c.rows)
			// Entities come in the order of their keys, so a partition's are together and only the last row grows.
			if n > 0 && c.rows[n-1].Key == e.PartitionKey {
				c.rows[n-1].Count++
			} else if n == c.partitions {
				c.more = true
				return nil
			} else {
				c.rows = append(c.rows, partitionRow{Key: e.PartitionKey, Count: 1})
			}
			c.total++
		}
	}
	if n := len(c.rows); c.more && n > 0 {
		// The scan ended within a partition: its number is a lower bound.
		c.rows[n-1].AtLeast = true
	}
	c.more = c.more && len(c.rows) > 0
	return nil
}

// entityAfter is the query string of the partitions after a key, which may be empty.
func entityAfter(pk string) template.URL {
	return template.URL("?" + url.Values{"after": {pk}}.Encode())
}
