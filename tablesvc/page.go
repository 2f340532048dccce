package tablesvc

import (
	"cmp"
	"slices"
	"strings"
	"sync"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/budget"
	state "github.com/lazuli-storage/lazuli/internal/state/table"
	"github.com/lazuli-storage/lazuli/internal/state/table/entity"
	"github.com/lazuli-storage/lazuli/internal/state/table/filter"
)

// Limits of one answer, in addition to [maxResults].
// https://learn.microsoft.com/rest/api/storageservices/query-timeout-and-pagination
const maxPageBytes = budget.Answer

// query is a parsed Query Entities.
type query struct {
	filter filter.Filter
	limit  int
	form   entity.Form
	atom   bool
	// from is the decoded continuation token, nil without one.
	from *state.Position
}

// parseQuery parses the options of a query.
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
	q.from, err = resume(c.Query.Get("nextpartitionkey"), c.Query.Get("nextrowkey"))
	return q, err
}

// resume parses a continuation token; it returns nil without one. Tokens are keys, so a token from another table is
// also valid.
func resume(partition, row string) (*state.Position, error) {
	if partition == "" && row == "" {
		return nil, nil
	}
	var from state.Position
	var err error
	if from.Partition, err = decodeToken(partition); err == nil && row != "" {
		from.Row, err = decodeToken(row)
	}
	if err != nil {
		return nil, err
	}
	for _, key := range [...]string{from.Partition, from.Row} {
		if entity.CheckKey(key) != nil {
			return nil, errToken
		}
	}
	return &from, nil
}

// knownOptions returns an error for options of OData that the Table service does not have.
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

// maxSelected bounds the names in $select, each of which is looked for in every entity. An entity has up to 255
// properties.
const maxSelected = 1000

// selection parses $select and returns its names in the order of Azure's answers: the keys and Timestamp, then the
// others sorted. Nil selects all properties.
func (c *call) selection(f *entity.Form) ([]string, error) {
	if !c.Query.Has("$select") {
		return nil, nil
	}
	if c.version < versionUpsert {
		return nil, errInvalidInput.WithMessage("$select is supported from version 2011-08-18 on.")
	}
	f.HasSelect, f.SelectText = true, c.Query.Get("$select")
	var names []string
	seen := make(map[string]bool)
	for name := range strings.SplitSeq(f.SelectText, ",") {
		switch name = strings.TrimSpace(name); {
		case name == "*":
			return nil, nil
		case strings.HasPrefix(name, "odata.") || strings.Contains(name, "@"):
			// not a property: JSON would have it as metadata
		case name != "" && !seen[name]:
			seen[name] = true
			names = append(names, name)
		}
	}
	if len(names) > maxSelected {
		return nil, errInvalidInput.WithMessage("$select names too many properties.")
	}
	system := []string{"Timestamp", "RowKey", "PartitionKey"} // in reverse order
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(slices.Index(system, b), slices.Index(system, a)),
			entity.CompareStrings([]byte(a), []byte(b)))
	})
	return names, nil
}

// page is the answer to a query.
type page struct {
	body []byte
	// next is the position at which the next page begins, nil after the last page.
	next *state.Position

	plan              filter.Plan
	scanned, returned int
}

// buffers pools the bodies of answers.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// maxPooled is the capacity in bytes up to which a buffer is kept.
const maxPooled = maxPageBytes + 1<<20

func putBuffer(b *[]byte) {
	if cap(*b) <= maxPooled {
		buffers.Put(b)
	}
}

// read runs a query and renders its answer, appended to buf.
func (s *Service) read(c *call, q *query, buf []byte) (page, error) {
	w := pageWriter{query: q, work: c.Work(), start: buf, counts: c.Admit != nil}
	next, err := s.state.Scan(c.Account, c.table, state.Query{Filter: q.filter, Scope: c.scope(), From: q.from}, &w)
	if err == nil {
		err = w.err
	}
	if err != nil {
		return page{}, err
	}
	for _, n := range w.returned {
		if err := c.admit(c.table, []byte(n.partition), n.entities); err != nil {
			return page{}, err
		}
	}
	w.page.next = next
	if q.limit == 0 { // an empty page, and the last
		w.page.next = nil
	}
	w.page.body = w.end()
	return w.page, nil
}

// pageWriter renders the entities of a query that match. It is the [state.Visitor] of one page.
type pageWriter struct {
	query *query
	page  page
	work  *budget.Work
	err   error // the end of the request's context
	json  *entity.JSONList
	start []byte // the page is appended to it
	buf   []byte
	// returned are the entities of the page by partition, if counts is set.
	returned []partitionCount
	counts   bool
}

// partitionCount is a number of entities of one partition.
type partitionCount struct {
	partition string
	entities  int
}

// count adds an entity to w.returned.
func (w *pageWriter) count(partition []byte) {
	if n := len(w.returned); n > 0 && w.returned[n-1].partition == string(partition) {
		w.returned[n-1].entities++
		return
	}
	w.returned = append(w.returned, partitionCount{string(partition), 1})
}

// Begin implements [state.Visitor].
func (w *pageWriter) Begin(plan filter.Plan) {
	w.page, w.returned = page{plan: plan}, w.returned[:0]
	if w.query.atom {
		w.buf = w.query.form.AppendAtomListStart(w.start)
	} else {
		w.json = w.query.form.List()
		w.buf = w.query.form.AppendJSONListStart(w.start)
	}
}

// Visit implements [state.Visitor].
func (w *pageWriter) Visit(e *filter.Entity) (more bool) {
	p := &w.page
	// The page is full, and there is one more entity, so the answer has a continuation.
	if p.returned == w.query.limit {
		return false
	}
	// A text is checked and copied, 16 bytes in about a unit.
	if err := w.work.Spend(20 + len(e.Record)/16 + w.query.filter.Work(e)); budget.EndsPage(err) {
		if p.scanned > 0 { // otherwise the next page would begin here again
			return false
		}
	} else if err != nil {
		w.err = err
		return false
	}
	if !p.plan.Exact && !w.query.filter.Match(e) {
		p.scanned++
		return true
	}
	mark := len(w.buf)
	switch {
	case w.query.atom:
		w.buf = w.query.form.AppendAtomEntity(w.buf, e.PartitionKey, e.RowKey, e.Record)
	default:
		if p.returned > 0 {
			w.buf = append(w.buf, ',')
		}
		w.buf = w.json.Append(w.buf, e.PartitionKey, e.RowKey, e.Record)
	}
	// The entity begins the next page instead. A page has at least one, however large, or clients would never come past
	// it.
	if len(w.buf) > maxPageBytes && p.returned > 0 {
		w.buf = w.buf[:mark]
		return false
	}
	p.scanned++
	p.returned++
	if w.counts {
		w.count(e.PartitionKey)
	}
	return true
}

// end returns the finished page.
func (w *pageWriter) end() []byte {
	if w.query.atom {
		return w.query.form.AppendAtomListEnd(w.buf)
	}
	return w.query.form.AppendJSONListEnd(w.buf)
}

// headers returns the headers of an answer with this page.
func (p *page) headers() []wire.Detail {
	if p.next == nil {
		return nil
	}
	h := []wire.Detail{{Name: "x-ms-continuation-NextPartitionKey", Value: encodeToken(p.next.Partition)}}
	if p.next.Row != "" {
		h = append(h, wire.Detail{Name: "x-ms-continuation-NextRowKey", Value: encodeToken(p.next.Row)})
	}
	return h
}
