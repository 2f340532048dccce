package bench

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
)

const (
	entitySize    = 1 << 10 // JSON bytes of one entity
	partitionRows = 1000    // preloaded entities per partition
	batchSize     = 100     // entities per transaction: the most that the protocol allows
)

func tableWorkloads() []*Workload {
	prepare := func(e *env) error { return e.needEntities(e.preload.Entities) }
	return []*Workload{{
		Name: "entity-insert", About: "Insert Entity, 1 KiB of JSON with 6 properties, one new partition per 1,000 " +
			"inserts of a connection",
		Bytes: entitySize, prepare: prepare,
		worker: func(e *env, i int) worker { return newInserter(e, i) },
	}, {
		Name: "point-get", About: "Get Entity by both keys, uniformly random among the preloaded entities",
		prepare: prepare,
		worker:  func(e *env, i int) worker { return newPointGetter(e, i) },
	}, {
		Name: "query-1000", About: "Query Entities on one partition of 1,000 entities of 1 KiB: a full page",
		Items: partitionRows, Unit: "entities", Bytes: partitionRows * entitySize,
		prepare: func(e *env) error { return e.needEntities(max(e.preload.Entities, partitionRows)) },
		worker:  func(e *env, i int) worker { return newPager(e, i) },
	}, {
		Name: "egt-100", About: "Entity Group Transaction of 100 inserts of 1 KiB into a new partition",
		Items: batchSize, Unit: "entities", Bytes: batchSize * entitySize,
		prepare: prepare,
		worker:  func(e *env, i int) worker { return newBatcher(e, fmt.Sprintf("e%05d", i)) },
	}, {
		Name: "table-scan", About: "pages of 1,000 entities through the whole table by continuation token", Extra: true,
		Items: partitionRows, Unit: "entities", Bytes: partitionRows * entitySize,
		prepare: func(e *env) error { return e.needEntities(max(e.preload.Entities, 2*partitionRows)) },
		worker:  func(e *env, _ int) worker { return newScanner(e) },
	}}
}

// needEntities makes sure that the run's table exists and holds at least n entities, rounded up to full transactions.
func (e *env) needEntities(n int) error {
	// Once a run: workloads that need more entities add to the same table.
	if e.entities == nil {
		set := &entitySet{table: "bench" + e.run}
		if err := e.once(newTable(set.table)); err != nil {
			return fmt.Errorf("creating table %s: %w", set.table, err)
		}
		e.entities = set
		drop := NewRequest(Table, "DELETE", "drop", 204)
		drop.Path = []byte("/Tables('" + set.table + "')")
		// Registered as soon as the table exists, so that an interrupt of the load removes it, too.
		e.onCleanup(drop)
	}
	// Counted in whole transactions, which are what the load sends.
	first := e.entities.n / batchSize
	batches := (n+batchSize-1)/batchSize - first
	if batches <= 0 {
		return nil
	}
	err := load(e, "transactions of 100 entities", batches,
		func(conn int) *batcher { return newBatcher(e, "p000000") },
		func(c *Conn, b *batcher, i int) error {
			row := (first + i) * batchSize
			b.partition(appendPadded(b.key[:0], 'p', row/partitionRows, 6))
			b.rows(row % partitionRows)
			return b.send(c)
		})
	// Also after an error, when it may be fewer: the run ends then.
	e.entities.n = (first + batches) * batchSize
	return err
}

// appendPadded appends a letter and n as decimal with at least width digits.
func appendPadded(dst []byte, letter byte, n, width int) []byte {
	dst = append(dst, letter)
	var tmp [20]byte
	digits := strconv.AppendInt(tmp[:0], int64(n), 10)
	for range width - len(digits) {
		dst = append(dst, '0')
	}
	return append(dst, digits...)
}

// entityJSON makes an entity of entitySize bytes with the given keys and reports where the keys stand, so that they can
// be overwritten by others of the same length.
func entityJSON(rng *rand.Rand, partition, row string) (body []byte, partitionAt, rowAt int) {
	b := []byte(`{"PartitionKey":"`)
	partitionAt = len(b)
	b = append(b, partition+`","RowKey":"`...)
	rowAt = len(b)
	b = append(b, row+`"`...)
	b = fmt.Appendf(b,
		`,"Name":"employee %06d","Age":%d,"Active":true,"Score":%d.5,"Hired@odata.type":"Edm.DateTime","Hired":"2019-07-0%dT08:30:00Z","Notes":"`,
		rng.IntN(1e6), 20+rng.IntN(50), rng.IntN(1e4), 1+rng.IntN(9))
	for len(b) < entitySize-2 {
		b = append(b, "abcdefghijklmnopqrstuvwxyz ABCDEFGHIJKLMNOPQRSTUVWXYZ 0123456789"[rng.IntN(64)])
	}
	return append(b, `"}`...), partitionAt, rowAt
}

// inserter inserts one entity at a time.
type inserter struct {
	req             *Request
	partAt, rowAt   int
	conn, n         int
	partBuf, rowBuf []byte
}

func newInserter(e *env, conn int) *inserter {
	w := &inserter{conn: conn}
	w.req = NewRequest(Table, "POST", "insert", 204, Field{"Content-Type", "application/json"},
		Field{"Prefer", "return-no-content"})
	w.req.Path = []byte("/" + e.entities.table)
	w.req.Body, w.partAt, w.rowAt = entityJSON(e.rand(conn), "i00000-000000", "r0000000")
	return w
}

func (w *inserter) do(c *Conn) error {
	w.partBuf = append(appendPadded(w.partBuf[:0], 'i', w.conn, 5), '-')
	w.partBuf = appendPadded(w.partBuf, 'n', w.n/partitionRows, 5)
	w.rowBuf = appendPadded(w.rowBuf[:0], 'r', w.n, 7)
	copy(w.req.Body[w.partAt:], w.partBuf)
	copy(w.req.Body[w.rowAt:], w.rowBuf)
	w.n++
	_, err := c.Do(w.req)
	return err
}

// pointGetter reads single entities by key.
type pointGetter struct {
	req *Request
	rng *rand.Rand
	set *entitySet
}

func newPointGetter(e *env, conn int) *pointGetter {
	return &pointGetter{req: NewRequest(Table, "GET", "get", 200), rng: e.rand(conn), set: e.entities}
}

func (w *pointGetter) do(c *Conn) error {
	i := w.rng.IntN(w.set.n)
	p := append(w.req.Path[:0], '/')
	p = append(p, w.set.table...)
	p = append(p, "(PartitionKey='"...)
	p = appendPadded(p, 'p', i/partitionRows, 6)
	p = append(p, "',RowKey='"...)
	p = appendPadded(p, 'r', i%partitionRows, 3)
	w.req.Path = append(p, "')"...)
	_, err := c.Do(w.req)
	return err
}

// pager reads whole partitions.
type pager struct {
	req        *Request
	rng        *rand.Rand
	partitions int
}

func newPager(e *env, conn int) *pager {
	w := &pager{req: NewRequest(Table, "GET", "page", 200), rng: e.rand(conn), partitions: e.entities.n / partitionRows}
	w.req.Path = []byte("/" + e.entities.table + "()")
	w.req.Query = []Param{{Name: "$filter"}}
	return w
}

func (w *pager) do(c *Conn) error {
	v := append(w.req.Query[0].Value[:0], "PartitionKey eq '"...)
	v = appendPadded(v, 'p', w.rng.IntN(w.partitions), 6)
	w.req.Query[0].Value = append(v, '\'')
	res, err := c.Do(w.req)
	if err == nil && res.Size < partitionRows*entitySize*9/10 {
		return fmt.Errorf("short page")
	}
	return err
}

// scanner pages through the whole table, again and again.
type scanner struct{ req *Request }

func newScanner(e *env) *scanner {
	w := &scanner{req: NewRequest(Table, "GET", "page", 200)}
	w.req.Path = []byte("/" + e.entities.table + "()")
	return w
}

func (w *scanner) do(c *Conn) error {
	res, err := c.Do(w.req)
	if err != nil {
		return err
	}
	nextPartition, nextRow := res.Header("x-ms-continuation-NextPartitionKey"), res.Header("x-ms-continuation-NextRowKey")
	w.req.Query = w.req.Query[:0]
	if len(nextPartition) > 0 {
		w.req.Query = append(w.req.Query, Param{"NextPartitionKey", bytes.Clone(nextPartition)})
	}
	if len(nextRow) > 0 {
		w.req.Query = append(w.req.Query, Param{"NextRowKey", bytes.Clone(nextRow)})
	}
	return nil
}

// batcher sends Entity Group Transactions of batchSize inserts: one body, in which only keys are overwritten.
type batcher struct {
	req             *Request
	partAt, rowAt   []int
	prefix          string
	n, partitionLen int
	key, rowBuf     []byte
}

const batchBoundary, changeBoundary = "batch_5f0c4a1e", "changeset_77bd1c02"

var errPartial = errors.New("transaction answered 202 with fewer results than operations")

// newBatcher makes transactions whose partition keys begin with prefix and count up; 6 digits are appended.
func newBatcher(e *env, prefix string) *batcher {
	w := &batcher{prefix: prefix}
	w.req = NewRequest(Table, "POST", "batch", 202, Field{"Content-Type", "multipart/mixed; boundary=" + batchBoundary})
	w.req.Path, w.req.Keep = []byte("/$batch"), true
	part := prefix + "-000000"
	if prefix == "p000000" { // the preloading form: the caller sets the whole key
		part = prefix
	}
	w.partitionLen = len(part)
	ep := e.target.Stack.Endpoints[Table]
	scheme := map[bool]string{false: "http", true: "https"}[ep.TLS]
	rng := e.rand(len(prefix))
	b := fmt.Appendf(nil, "--%s\r\nContent-Type: multipart/mixed; boundary=%s\r\n\r\n", batchBoundary, changeBoundary)
	for i := range batchSize {
		entity, partAt, rowAt := entityJSON(rng, part, fmt.Sprintf("r%03d", i))
		b = fmt.Appendf(b, "--%s\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n",
			changeBoundary)
		b = fmt.Appendf(b, "POST %s://%s%s/%s HTTP/1.1\r\nContent-Type: application/json\r\nAccept: "+
			"application/json;odata=minimalmetadata\r\n"+
			"Prefer: return-no-content\r\nDataServiceVersion: 3.0\r\nContent-Length: %d\r\n\r\n", scheme, ep.Host, ep.Base,
			e.entities.table, len(entity))
		w.partAt, w.rowAt = append(w.partAt, len(b)+partAt), append(w.rowAt, len(b)+rowAt)
		b = append(append(b, entity...), "\r\n"...)
	}
	w.req.Body = fmt.Appendf(b, "--%s--\r\n--%s--\r\n", changeBoundary, batchBoundary)
	return w
}

// partition overwrites the partition key in all entities.
func (w *batcher) partition(key []byte) {
	w.key = key
	for _, at := range w.partAt {
		copy(w.req.Body[at:at+w.partitionLen], key)
	}
}

// rows numbers the row keys from first on.
func (w *batcher) rows(first int) {
	for i, at := range w.rowAt {
		w.rowBuf = appendPadded(w.rowBuf[:0], 'r', first+i, 3)
		copy(w.req.Body[at:], w.rowBuf)
	}
}

func (w *batcher) do(c *Conn) error {
	key := append(append(w.key[:0], w.prefix...), '-')
	w.partition(appendPadded(key, 'n', w.n, 5))
	w.n++
	return w.send(c)
}

func (w *batcher) send(c *Conn) error {
	res, err := c.Do(w.req)
	if err != nil {
		return err
	}
	if bytes.Count(res.Body, []byte("HTTP/1.1 204")) != batchSize {
		if v := textAfter(res.Body, `"code":"`); v != nil {
			return &StatusError{Method: "POST", Status: 202, Code: string(v)}
		}
		return errPartial
	}
	return nil
}
