package tablesvc

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/tablesvc/internal/entity"
	"github.com/lazuli-storage/lazuli/tablesvc/internal/filter"
)

// Limits of one answer beside [maxResults].
// https://learn.microsoft.com/rest/api/storageservices/query-timeout-and-pagination
const (
	maxPageBytes = 4 << 20
	maxQueryTime = 5 * time.Second
	// clockEvery is how many entities are visited between two looks at the clock.
	clockEvery = 256
)

// query is a parsed Query Entities.
type query struct {
	filter filter.Filter
	limit  int
	form   entity.Form
	atom   bool
	// from is where to go on: the keys of a continuation token, decoded. resume says that there is one.
	from struct {
		partition, row string
		resume         bool
	}
}

// parseQuery reads the options of a query.
func (c *call) parseQuery() (q query, err error) {
	q = query{form: c.form(), atom: c.format.atom}
	q.form.Now = c.Now
	if q.filter, err = parseFilter(c.Query.Get("$filter")); err != nil {
		return q, err
	}
	if c.level == onPartition {
		q.filter = q.filter.InPartition(c.partition)
	}
	if q.limit, err = c.top(); err != nil {
		return q, err
	}
	if q.form.Select, err = c.selection(&q.form); err != nil {
		return q, err
	}
	if err = c.knownOptions(); err != nil {
		return q, err
	}
	return q, q.resume(c.Query.Get("nextpartitionkey"), c.Query.Get("nextrowkey"))
}

// resume reads a continuation token. That of another table is as good as one of this: it is a key.
func (q *query) resume(partition, row string) (err error) {
	if partition == "" && row == "" {
		return nil
	}
	q.from.resume = true
	if q.from.partition, err = decodeToken(partition); err == nil && row != "" {
		q.from.row, err = decodeToken(row)
	}
	for _, key := range [...]string{q.from.partition, q.from.row} {
		if entity.CheckKey(key) != nil {
			return errToken
		}
	}
	return err
}

// knownOptions refuses the options of OData that the Table service does not have.
func (c *call) knownOptions() error {
	for _, p := range c.Query {
		if strings.HasPrefix(p.Name, "$") {
			switch p.Name {
			case "$filter", "$top", "$select", "$format":
			default:
				return wire.ErrNotImplemented
			}
		}
	}
	return nil
}

// selection reads $select and returns its names in the order in which Azure answers them: the keys and Timestamp, then the
// others sorted. Nil means everything.
func (c *call) selection(f *entity.Form) ([]string, error) {
	if !c.Query.Has("$select") {
		return nil, nil
	}
	if c.version < versionUpsert {
		return nil, errInvalidInput.WithMessage("$select is supported from version 2011-08-18 on.")
	}
	f.HasSelect, f.SelectText = true, c.Query.Get("$select")
	var names []string
	for name := range strings.SplitSeq(f.SelectText, ",") {
		switch name = strings.TrimSpace(name); {
		case name == "*":
			return nil, nil
		case strings.HasPrefix(name, "odata.") || strings.Contains(name, "@"): // no property: in JSON it would be taken for metadata
		case name != "" && !slices.Contains(names, name):
			names = append(names, name)
		}
	}
	system := []string{"Timestamp", "RowKey", "PartitionKey"} // the last come first
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(slices.Index(system, b), slices.Index(system, a)), entity.CompareStrings([]byte(a), []byte(b)))
	})
	return names, nil
}

// page is the answer to a query.
type page struct {
	body []byte
	// next are the keys of the first entity that is not in the page and was not looked at; more says that there is one.
	nextPartition, nextRow string
	more                   bool

	plan              filter.Plan
	scanned, returned int
}

// buffers are the bodies of answers, used again.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// maxPooled is the capacity in bytes up to which a buffer is kept.
const maxPooled = maxPageBytes + 1<<20

func putBuffer(b *[]byte) {
	if cap(*b) <= maxPooled {
		buffers.Put(b)
	}
}

// read runs a query and renders its answer, appended to buf.
func (s *Service) read(c *call, q *query, buf []byte) (p page, err error) {
	start := s.now()
	err = s.viewTable(c.Account, c.table, func(tx *store.Tx, id uint64) error {
		p = page{plan: c.confine(q.filter.Plan(id), id)}
		ranges := p.plan.Ranges
		if q.from.resume {
			ranges = after(ranges, entity.AppendKey(nil, id, q.from.partition, q.from.row))
		}
		w := walker{Service: s, query: q, page: &p, deadline: start.Add(c.queryTime()), buf: buf}
		w.begin()
		if q.limit > 0 {
			w.walk(tx, ranges)
		}
		p.body = w.end()
		return nil
	})
	return p, err
}

// queryTime is for how long a query may read: up to the timeout that the request gives.
func (c *call) queryTime() time.Duration {
	if end, ok := c.HTTP.Context().Deadline(); ok {
		return min(maxQueryTime, time.Until(end))
	}
	return maxQueryTime
}

// after drops from sorted ranges what is before key.
func after(ranges []filter.Range, key []byte) []filter.Range {
	for len(ranges) > 0 && bytes.Compare(ranges[0].End, key) <= 0 {
		ranges = ranges[1:]
	}
	if len(ranges) > 0 && bytes.Compare(ranges[0].Start, key) < 0 {
		ranges = slices.Clone(ranges)
		ranges[0].Start, ranges[0].Point = key, false
	}
	return ranges
}

// walker visits the entities of a query and renders those that match.
type walker struct {
	*Service
	query    *query
	page     *page
	deadline time.Time
	buf      []byte
	entity   filter.Entity
}

func (w *walker) walk(tx *store.Tx, ranges []filter.Range) {
	var cur *store.Cursor
	for _, r := range ranges {
		if r.Point {
			if v := tx.Get(bucketEntities, r.Start); v != nil && !w.visit(r.Start, v) {
				return
			}
			continue
		}
		if cur == nil {
			cur = tx.Scan(bucketEntities)
		}
		for k, v := cur.Seek(r.Start); k != nil && bytes.Compare(k, r.End) < 0; k, v = cur.Next() {
			if !w.visit(k, v) {
				return
			}
		}
	}
}

// visit takes one entity. It returns false if the page ended before it.
func (w *walker) visit(k, v []byte) bool {
	p := w.page
	if p.returned == w.query.limit || p.scanned%clockEvery == clockEvery-1 && w.now().After(w.deadline) {
		return w.stop(k)
	}
	_, partition, row, ok := entity.SplitKey(k)
	if !ok {
		return true
	}
	e := &w.entity
	e.PartitionKey, e.RowKey, e.Record = entity.DecodeKeyPart(partition), entity.DecodeKeyPart(row), entity.Record(v)
	if !p.plan.Exact && !w.query.filter.Match(e) {
		p.scanned++
		return true
	}
	mark := len(w.buf)
	f := &w.query.form
	switch {
	case w.query.atom:
		w.buf = f.AppendAtomEntity(w.buf, e.PartitionKey, e.RowKey, e.Record)
	default:
		if p.returned > 0 {
			w.buf = append(w.buf, ',')
		}
		w.buf = f.AppendJSONEntity(w.buf, e.PartitionKey, e.RowKey, e.Record)
	}
	if len(w.buf) > maxPageBytes && p.returned > 0 {
		w.buf = w.buf[:mark]
		return w.stop(k)
	}
	p.scanned++
	p.returned++
	return true
}

func (w *walker) stop(k []byte) bool {
	if _, partition, row, ok := entity.SplitKey(k); ok {
		w.page.nextPartition, w.page.nextRow = string(entity.DecodeKeyPart(partition)), string(entity.DecodeKeyPart(row))
		w.page.more = true
	}
	return false
}

func (w *walker) begin() {
	if w.query.atom {
		w.buf = w.query.form.AppendAtomListStart(w.buf)
	} else {
		w.buf = w.query.form.AppendJSONListStart(w.buf)
	}
}

func (w *walker) end() []byte {
	if w.query.atom {
		return w.query.form.AppendAtomListEnd(w.buf)
	}
	return w.query.form.AppendJSONListEnd(w.buf)
}

// headers are those of an answer with this page.
func (p *page) headers() []wire.Detail {
	if !p.more {
		return nil
	}
	h := []wire.Detail{{Name: "x-ms-continuation-NextPartitionKey", Value: encodeToken(p.nextPartition)}}
	if p.nextRow != "" {
		h = append(h, wire.Detail{Name: "x-ms-continuation-NextRowKey", Value: encodeToken(p.nextRow)})
	}
	return h
}
