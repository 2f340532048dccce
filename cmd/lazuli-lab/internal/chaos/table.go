package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"

	"github.com/lazuli-storage/lazuli/internal/sdk/entityio"
)

const (
	tableName  = "chaos"
	rowsOfEach = 60
)

// row holds what an entity of the load has. Each number is that of the write that set the property; 0 means that it is
// absent.
type row struct{ Version, A, B int }

// tableClient writes the entities of a partition.
type tableClient struct {
	partition string
	table     *aztables.Client
	version   int                    // of the last write
	rows      map[string]row         // the zero row means that there is no entity
	etags     map[string]azcore.ETag // of rows whose ETag is known
	doubt     map[string]row         // what the request in progress makes of rows
}

func newTableClient(i int) *tableClient {
	return &tableClient{partition: fmt.Sprint("p", i), rows: map[string]row{}, etags: map[string]azcore.ETag{}}
}

func openTable(p *process) (*aztables.Client, error) {
	s, err := aztables.NewServiceClientFromConnectionString(p.Connection,
		&aztables.ClientOptions{ClientOptions: p.options()})
	if err != nil {
		return nil, err
	}
	return s.NewClient(tableName), nil
}

func (c *tableClient) connect(p *process) (err error) {
	c.table, err = openTable(p)
	return err
}

func (c *tableClient) setup(ctx context.Context) error {
	if _, err := c.table.CreateTable(ctx, nil); err != nil && status(err) != http.StatusConflict {
		return err
	}
	return nil
}

// text is the value of a property that write n sets. It is different for each n.
func text(n int) string {
	return strconv.Itoa(n) + ":" + strings.Repeat(strconv.Itoa(n*7919%1000), n%120)
}

// numberOf is the inverse of text; it returns -1 for what text does not return.
func numberOf(s string) int {
	head, _, _ := strings.Cut(s, ":")
	n, err := strconv.Atoi(head)
	if err != nil || text(n) != s {
		return -1
	}
	return n
}

// wireRow is an entity on the wire.
type wireRow struct {
	PartitionKey, RowKey string
	Version              int
	A, B                 string `json:",omitempty"`
	ETag                 string `json:"odata.etag,omitempty"`
}

// entity returns the request body that writes r; only those properties that are not 0.
func (c *tableClient) entity(name string, r row) []byte {
	w := wireRow{PartitionKey: c.partition, RowKey: name, Version: r.Version}
	if r.A != 0 {
		w.A = text(r.A)
	}
	if r.B != 0 {
		w.B = text(r.B)
	}
	p, err := json.Marshal(w)
	if err != nil {
		panic(err)
	}
	return p
}

func parseRow(p []byte) (name string, r row, etag azcore.ETag, err error) {
	var w wireRow
	if err := json.Unmarshal(p, &w); err != nil {
		return "", r, "", broken(Wrong, "table: entity %.200s is not JSON: %v", p, err)
	}
	r.Version = w.Version
	for _, x := range []struct {
		text string
		to   *int
	}{{w.A, &r.A}, {w.B, &r.B}} {
		if x.text == "" {
			continue
		}
		if *x.to = numberOf(x.text); *x.to < 0 {
			return "", r, "", broken(Wrong, "table: entity %s has a value that no request wrote: %.80q", w.RowKey, x.text)
		}
	}
	return w.RowKey, r, azcore.ETag(w.ETag), nil
}

// sample implements owner.
func (c *tableClient) sample(rnd *rand.Rand) []byte {
	names := slices.Sorted(maps.Keys(c.rows))
	if len(names) == 0 {
		return nil
	}
	if r := c.rows[names[rnd.IntN(len(names))]]; len(text(r.A)) >= 16 {
		return []byte(text(r.A))
	}
	return nil
}

// value makes a row of a new write with one of the two properties, or both.
func (c *tableClient) value(rnd *rand.Rand) row {
	r := row{Version: c.version}
	n := rnd.IntN(3)
	if n != 0 {
		r.A = c.version
	}
	if n != 1 {
		r.B = c.version
	}
	return r
}

// merged holds what a merge of r makes of old.
func merged(old, r row) row {
	if r.A == 0 {
		r.A = old.A
	}
	if r.B == 0 {
		r.B = old.B
	}
	return r
}

func (c *tableClient) step(ctx context.Context, rnd *rand.Rand) error {
	c.version++
	name := strconv.Itoa(rnd.IntN(rowsOfEach))
	old := c.rows[name]
	switch n := rnd.IntN(20); {
	case n < 3:
		return c.transaction(ctx, rnd)
	case n < 5:
		return c.get(ctx, name)
	case old == row{}:
		return c.insert(ctx, name, c.value(rnd))
	case n == 5:
		_, err := c.table.AddEntity(ctx, c.entity(name, c.value(rnd)), nil)
		return expect(err, "table: insert of an entity that exists", http.StatusConflict)
	case n == 6:
		stale := azcore.ETag(`W/"datetime'2001-01-01T00%3A00%3A00.0000000Z'"`)
		_, err := c.table.UpdateEntity(ctx, c.entity(name, c.value(rnd)),
			&aztables.UpdateEntityOptions{IfMatch: &stale, UpdateMode: aztables.UpdateModeReplace})
		return expect(err, "table: update under an old ETag", http.StatusPreconditionFailed)
	case n < 9:
		return c.remove(ctx, name)
	default:
		return c.update(ctx, name, c.value(rnd), n%2 == 0)
	}
}

// match is the If-Match header for a row: its ETag, or * if that is not known.
func (c *tableClient) match(name string) *azcore.ETag {
	e, ok := c.etags[name]
	if !ok {
		e = azcore.ETagAny
	}
	return &e
}

func (c *tableClient) insert(ctx context.Context, name string, r row) error {
	c.doubt = map[string]row{name: r}
	a, err := c.table.AddEntity(ctx, c.entity(name, r), nil)
	if err != nil {
		return err
	}
	c.commit()
	c.etags[name] = a.ETag
	return nil
}

func (c *tableClient) update(ctx context.Context, name string, r row, merge bool) error {
	body, mode := c.entity(name, r), aztables.UpdateModeReplace
	if merge {
		mode, r = aztables.UpdateModeMerge, merged(c.rows[name], r)
	}
	c.doubt = map[string]row{name: r}
	a, err := c.table.UpdateEntity(ctx, body, &aztables.UpdateEntityOptions{IfMatch: c.match(name), UpdateMode: mode})
	if err != nil {
		return err
	}
	c.commit()
	c.etags[name] = a.ETag
	return nil
}

func (c *tableClient) remove(ctx context.Context, name string) error {
	c.doubt = map[string]row{name: {}}
	if _, err := c.table.DeleteEntity(ctx, c.partition, name,
		&aztables.DeleteEntityOptions{IfMatch: c.match(name)}); err != nil {
		return err
	}
	c.commit()
	return nil
}

// transaction writes and deletes several entities at once.
func (c *tableClient) transaction(ctx context.Context, rnd *rand.Rand) error {
	doubt := map[string]row{}
	var actions []aztables.TransactionAction
	for range 2 + rnd.IntN(9) {
		name := strconv.Itoa(rnd.IntN(rowsOfEach))
		// Azure refuses an entity twice in one transaction.
		if _, twice := doubt[name]; twice {
			continue
		}
		r := c.value(rnd)
		a := aztables.TransactionAction{ActionType: aztables.TransactionTypeInsertReplace, Entity: c.entity(name, r)}
		switch exists := c.rows[name] != (row{}); {
		case exists && rnd.IntN(4) == 0:
			a.ActionType, r = aztables.TransactionTypeDelete, row{}
		case exists && rnd.IntN(2) == 0:
			a.ActionType, a.IfMatch, r = aztables.TransactionTypeUpdateMerge, c.match(name), merged(c.rows[name], r)
		}
		doubt[name] = r
		actions = append(actions, a)
	}
	// Before the request: if the process dies meanwhile, check finds either all of these or none.
	c.doubt = doubt
	if _, err := entityio.Submit(ctx, c.table, actions, nil); err != nil {
		return err
	}
	// Only an acknowledged transaction becomes the model.
	c.commit()
	return nil
}

func (c *tableClient) get(ctx context.Context, name string) error {
	a, err := c.table.GetEntity(ctx, c.partition, name, nil)
	if status(err) == http.StatusNotFound {
		return c.compare(name, row{}, "")
	}
	if err != nil {
		return err
	}
	_, got, _, err := parseRow(a.Value)
	if err != nil {
		return err
	}
	return c.compare(name, got, a.ETag)
}

// commit makes the request in progress part of the model.
func (c *tableClient) commit() {
	for name, r := range c.doubt {
		c.rows[name] = r
		delete(c.etags, name)
	}
	c.doubt = nil
}

// compare compares an entity with the model.
func (c *tableClient) compare(name string, got row, etag azcore.ETag) error {
	want := c.rows[name]
	var k Kind
	switch known := c.etags[name]; {
	case got == want && (known == "" || etag == "" || known == etag):
		return nil
	case got == want:
		return broken(Wrong, "table: entity %s/%s has ETag %s, acknowledged was %s", c.partition, name, etag, known)
	case got == row{}:
		k = Lost
	case want == row{}:
		k = Resurrected
	case got.Version < want.Version:
		k = Stale
	default:
		k = Wrong
	}
	return broken(k, "table: entity %s/%s is %+v, acknowledged was %+v", c.partition, name, got, want)
}

func (c *tableClient) check(ctx context.Context, out *checker, _ bool) {
	got, etags := map[string]row{}, map[string]azcore.ETag{}
	filter := "PartitionKey eq '" + c.partition + "'"
	for pager := c.table.NewListEntitiesPager(&aztables.ListEntitiesOptions{Filter: &filter}); pager.More(); {
		page, err := pager.NextPage(ctx)
		if err != nil {
			out.add(err)
			return
		}
		for _, p := range page.Entities {
			name, r, etag, err := parseRow(p)
			if err != nil {
				out.add(err)
				return
			}
			if _, twice := got[name]; twice {
				out.found(Doubled, "table: entity %s/%s is listed twice", c.partition, name)
			}
			got[name], etags[name] = r, etag
		}
	}
	// All or nothing. A part of the doubt that happened alone shows below as a difference from the model, which is then
	// still the old one.
	happened := len(c.doubt) > 0
	for name, r := range c.doubt {
		happened = happened && got[name] == r
	}
	if happened {
		c.commit()
	}
	c.doubt = nil
	names := map[string]bool{}
	for name := range c.rows {
		names[name] = true
	}
	// Names of both sides: what only the server has was resurrected, what only the model has was lost.
	for name := range got {
		names[name] = true
	}
	for name := range names {
		if err := c.compare(name, got[name], etags[name]); err != nil {
			out.add(err)
		} else if etags[name] != "" {
			// The server's ETag is adopted where the model had none, as after a write in doubt; the next change must be
			// conditional on it.
			c.etags[name] = etags[name]
		}
	}
}
