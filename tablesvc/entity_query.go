package tablesvc

import (
	"net/http"
	"time"

	"github.com/lazuli-storage/lazuli/internal/azure/longpoll"
	state "github.com/lazuli-storage/lazuli/internal/state/table"
	"github.com/lazuli-storage/lazuli/internal/state/table/entity"
	"github.com/lazuli-storage/lazuli/internal/state/table/filter"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// queryEntities is Query Entities of a table or of one of its partitions.
// https://learn.microsoft.com/rest/api/storageservices/query-entities
//
// With [longpoll.WaitHeader], an extension, a query whose filter names one entity waits until the entity matches.
func (s *Service) queryEntities(c *call) error {
	if c.level == onTable && c.HasHeader(longpoll.AfterHeader) {
		return s.queryChanges(c)
	}
	q, err := c.parseQuery()
	if err != nil {
		return err
	}
	// A page may have megabytes; its buffer is used again by the next query.
	buf := buffers.Get().(*[]byte)
	defer putBuffer(buf)
	var p page
	err = s.waitForEntity(c, &q, func() (found bool, err error) {
		p, err = s.read(c, &q, (*buf)[:0])
		if err == nil {
			// The body may have grown into another array. Kept even when the wait goes on, so that the next attempt has it.
			*buf = p.body
		}
		return p.returned > 0, err
	})
	if err != nil {
		return err
	}
	for _, h := range p.headers() {
		c.Set(h.Name, h.Value)
	}
	if c.explains() {
		c.explain(p.plan, p.scanned, p.returned)
	}
	return c.Body(http.StatusOK, c.format.contentType("feed"), p.body)
}

// elsewhere is the interval at which a waiting query looks for changes that other nodes of a cluster have made.
const elsewhere = time.Second

// waitForEntity calls read, again and again while the request waits for the entity that its filter names to match.
func (s *Service) waitForEntity(c *call, q *query, read func() (found bool, err error)) error {
	if c.HasHeader(longpoll.WaitHeader) {
		if plan := q.filter.Plan(0); plan.Kind == filter.PointQuery && len(plan.Ranges) == 1 {
			key := entityBoardKey(c.Account, c.table, plan.Ranges[0].Start)
			return s.common.Wait(c.Request, key, func() time.Duration { return elsewhere }, read)
		}
	}
	_, err := read()
	return err
}

// queryEntity is Query Entities of a single entity by its keys.
func (s *Service) queryEntity(c *call) error {
	buf := buffers.Get().(*[]byte)
	defer putBuffer(buf)
	body, at, err := s.readOne(c, (*buf)[:0])
	if err != nil {
		return err
	}
	*buf = body
	c.Set("ETag", at.DateTimeETag())
	if c.explains() {
		c.explain(filter.Plan{Kind: filter.PointQuery,
			Ranges: []filter.Range{{Start: entity.AppendKey(nil, 0, c.partition, c.row), Point: true}}, Exact: true}, 1, 1)
	}
	return c.Body(http.StatusOK, c.format.contentType("entry"), body)
}

// readOne renders the entity that the address names, appended to buf, and returns its Timestamp. An entity that $filter
// does not match is not found.
func (s *Service) readOne(c *call, buf []byte) (body []byte, at ticks.Ticks, err error) {
	f := c.form()
	if f.Select, err = c.selection(&f); err != nil {
		return nil, 0, err
	}
	if err := c.knownOptions(); err != nil {
		return nil, 0, err
	}
	wanted, err := parseFilter(c.Query.Get("$filter"))
	if err != nil {
		return nil, 0, err
	}
	// Keys that no entity can have are an error of the request, not a missing entity.
	for _, key := range [...]string{c.partition, c.row} {
		if err := entity.CheckKey(key); err != nil {
			return nil, 0, err
		}
	}
	partition, row := []byte(c.partition), []byte(c.row)
	if err := c.checkScope(partition, row); err != nil {
		return nil, 0, err
	}
	if err := c.admit(c.table, partition, 1); err != nil {
		return nil, 0, err
	}
	matches := true
	// The record belongs to the transaction: it is rendered inside, and only bytes leave.
	err = s.state.ViewEntity(c.Account, c.table, partition, row, func(r entity.Record) {
		if matches = wanted.Match(&filter.Entity{PartitionKey: partition, RowKey: row, Record: r}); !matches {
			return
		}
		at = r.Timestamp()
		if c.format.atom {
			body = f.AppendAtom(buf, partition, row, r)
		} else {
			body = f.AppendJSON(buf, partition, row, r)
		}
	})
	if err == nil && !matches {
		err = state.ErrEntityNotFound
	}
	return body, at, hideTable(err)
}
