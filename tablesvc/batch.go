package tablesvc

import (
	"bytes"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/frontend"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	state "github.com/lazuli-storage/lazuli/internal/state/table"
	"github.com/lazuli-storage/lazuli/internal/state/table/entity"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// entityGroupTransaction is Entity Group Transaction: all of its changes happen in one transaction of the store, or
// none. A failed change is answered inside a 202, by one part that says which change failed.
// https://learn.microsoft.com/rest/api/storageservices/performing-entity-group-transactions
func (s *Service) entityGroupTransaction(c *call) error {
	m := writeMemories.Get().(*writeMemory)
	body, err := c.ReadBodyInto(m.body, maxBody)
	if err != nil {
		return err
	}
	b, err := readBatch(c.Header("Content-Type"), body)
	if err != nil {
		return err
	}
	w := newBatchWriter(c, len(b.changes), m.answer)
	if b.query != nil {
		a, f := s.batchQuery(c, b.query)
		w.single(b.query, f, a)
	} else if err := s.changeSet(c, b.changes, w, m); err != nil {
		return err
	}
	for range b.extra {
		w.single(&part{}, c.format, c.failure(c.format, errInvalidInput, -1))
	}
	m.answer = w.end()
	err = c.Body(http.StatusAccepted, "multipart/mixed; boundary="+w.boundary, m.answer)
	// ReadBodyInto may have taken larger memory. The answer is sent, so that nothing refers to it any more.
	m.body = body
	m.release()
	return err
}

// step is one parsed change of a transaction.
type step struct {
	part     *part
	mutation *state.Mutation
	*head
}

// head has the lines before the body of a change. Changes with the same lines share it.
type head struct {
	request writeRequest // without the body
	format  format
	form    entity.Form
	prefer  string
}

// changeSet carries out a change set and writes its answer. It returns only errors that are not the client's.
func (s *Service) changeSet(c *call, parts []part, w *batchWriter, m *writeMemory) error {
	if len(parts) == 0 { // the answer is empty too
		w.beginChanges()
		w.endChanges()
		return nil
	}
	results, steps, err := s.transact(c, parts, m)
	if err == nil {
		w.beginChanges()
		var at ticks.Ticks
		var tag string // of at, which the entities mostly have in common
		for i := range steps {
			if r := results[i]; r != nil && (tag == "" || r.Timestamp() != at) {
				at = r.Timestamp()
				tag = at.DateTimeETag()
			}
			st := &steps[i]
			var before *part
			if i > 0 {
				before = steps[i-1].part
			}
			w.changeLike(before, st.part, st.format, st.answer(&w.room, results[i], tag))
		}
		w.endChanges()
		return nil
	}
	// A change that failed is answered within the 202, by one part that stands for all. Errors that name no change are
	// those of the whole request.
	var failed *state.MutationError
	var e *wire.Error
	if !errors.As(err, &failed) || !errors.As(azureError(failed.Err), &e) {
		return err
	}
	p := &parts[min(failed.Index, len(parts)-1)]
	f := p.format(c)
	index := failed.Index
	if len(parts) == 1 { // Azure numbers changes only if there are several
		index = -1
	}
	w.beginChanges()
	w.change(p, f, c.failure(f, e, index))
	w.endChanges()
	return nil
}

// transact parses and carries out all changes. A client's error is wrapped in a [state.MutationError].
func (s *Service) transact(c *call, parts []part, m *writeMemory) ([]entity.Record, []step, error) {
	steps, name, err := readSteps(c, parts, m)
	if err != nil {
		return nil, nil, err
	}
	mutations := make([]*state.Mutation, len(steps))
	for i := range steps {
		mutations[i] = steps[i].mutation
	}
	if err := c.admit(name, mutations[0].Partition, len(mutations)); err != nil {
		return nil, nil, err
	}
	var results []entity.Record
	events := s.entityEvents(c.Account, name, mutations...)
	err = s.recordEntities(c, mutations, events, func() (_ []entity.Record, err error) {
		results, err = s.state.WriteAll(c.Account, name, mutations, c.Now)
		return results, err
	})
	if err == nil {
		s.changed(c.Account, name, mutations...)
	}
	return results, steps, err
}

// readSteps parses all changes and checks that they are of one partition and of different entities. It returns the
// table.
func readSteps(c *call, parts []part, m *writeMemory) (steps []step, name string, err error) {
	steps = make([]step, len(parts))
	mutations := make([]state.Mutation, len(parts))
	size := 0
	for i := range parts {
		size += len(parts[i].body)
	}
	room := m.reserve(len(parts), size)
	var rows rowSet
	for i := range parts {
		// Azure names the last change within the limit: https://github.com/microsoft/AzureStorageExplorer/issues/5585
		if i == maxChanges {
			return nil, "", &state.MutationError{Index: i - 1, Err: errBatchSize}
		}
		st := &steps[i]
		st.mutation = &mutations[i]
		// Most transactions have the same kind of change a hundred times, with the same lines before the bodies.
		if i > 0 && parts[i].sameHead(&parts[i-1]) {
			st.head = steps[i-1].head
		} else if st.head, err = readHead(c, &parts[i]); err != nil {
			return nil, "", &state.MutationError{Index: i, Err: err}
		}
		if err := st.readBody(c, &parts[i], room); err != nil {
			return nil, "", &state.MutationError{Index: i, Err: err}
		}
		table := st.request.address.table
		if i == 0 {
			name = table
		}
		// The records lie one behind the other in the same memory. One that did not fit has memory of its own.
		room = room[:min(len(room)+len(st.mutation.Record), cap(room))]
		switch {
		case !strings.EqualFold(table, name):
			err = errInvalidInput.WithMessage("All commands in a batch must operate on the same table.")
		case string(st.mutation.Partition) != string(steps[0].mutation.Partition):
			err = errPartitions
		case !rows.add(mutations[:i+1]):
			err = errDuplicateRow
		}
		if err != nil {
			return nil, "", &state.MutationError{Index: i, Err: err}
		}
	}
	return steps, name, nil
}

// rowSet finds the second change of a row. Most transactions have their rows in ascending order: then a comparison with
// the last one is enough, and there is no map.
type rowSet struct{ rows map[string]bool }

// add adds the row of the last mutation to those of the others, and reports whether it was not among them.
func (s *rowSet) add(list []state.Mutation) bool {
	last := len(list) - 1
	row := list[last].Row
	if s.rows == nil {
		if last == 0 || bytes.Compare(list[last-1].Row, row) < 0 {
			return true
		}
		s.rows = make(map[string]bool, maxChanges)
		for i := range list[:last] {
			s.rows[string(list[i].Row)] = true
		}
	}
	if s.rows[string(row)] {
		return false
	}
	s.rows[string(row)] = true
	return true
}

// readHead parses what stands before the body of a change, and checks that the caller may make it.
func readHead(c *call, p *part) (*head, error) {
	path, query := p.target(c)
	a, err := parsePath(path)
	if err != nil {
		return nil, err
	}
	if option(query, "comp") != "" {
		return nil, errInvalidInput
	}
	h := new(head)
	// Headers of the part count, not those of the batch: each part is a request of its own.
	accept, _ := p.get("Accept")
	if h.format, err = acceptedFormat(c.version, option(query, "$format"), accept); err != nil {
		return nil, err
	}
	ch, need, err := p.change(a.level)
	if err != nil {
		return nil, err
	}
	// Before the body is parsed: a caller without the permission must not learn what is wrong with its entity.
	if err := c.checkPart(a.table, need); err != nil {
		return nil, err
	}
	w := writeRequest{change: ch, address: a, version: c.version}
	w.contentType, _ = p.get("Content-Type")
	w.ifMatch, w.hasIfMatch = p.get("If-Match")
	_, w.hasIfNoneMatch = p.get("If-None-Match")
	prefer, _ := p.get("Prefer")
	h.request, h.prefer = w, c.preference(prefer)
	h.form = entity.Form{Metadata: h.format.metadata, Base: c.Base, Account: c.Account, Table: a.table}
	return h, nil
}

// readBody parses the change of a part whose head was parsed. room is as in [entity.Rules].
func (st *step) readBody(c *call, p *part, room []byte) error {
	st.part = p
	w := st.request
	w.body, w.room = p.body, room
	if err := w.mutation(st.mutation); err != nil {
		return err
	}
	// A SAS may have a range of keys, and each part must be within it.
	return c.checkScope(st.mutation.Partition, st.mutation.Row)
}

// change returns the change that a part asks for and the permission that it needs, as operations.go does for requests.
func (p *part) change(level frontend.Level) (state.Change, auth.Need, error) {
	method := p.method
	// X-HTTP-Method is for clients that can only POST; on another method it would say two things.
	if override, ok := p.get("X-HTTP-Method"); ok {
		if method != http.MethodPost {
			return 0, auth.Need{}, errMethodOverrideVerb
		}
		method = override
	}
	_, conditional := p.get("If-Match")
	switch {
	case level == onService:
		return 0, auth.Need{}, errMethodNotAllowed
	case method == http.MethodPost && level == onTable:
		return state.Insert, needInsert, nil
	// The methods below need an entity; for other levels the answer is the one at the end.
	case level != onEntity:
	case method == http.MethodPut && conditional:
		return state.Update, needUpdate, nil
	case method == http.MethodPut:
		return state.InsertOrReplace, needUpsert, nil
	case (method == "MERGE" || method == http.MethodPatch) && conditional:
		return state.Merge, needUpdate, nil
	case method == "MERGE" || method == http.MethodPatch:
		return state.InsertOrMerge, needUpsert, nil
	case method == http.MethodDelete:
		return state.Remove, needDelete, nil
	}
	return 0, auth.Need{}, errInvalidInput
}

// checkPart returns an error if the caller of a transaction does not have the permission that one of its parts needs.
func (c *call) checkPart(table string, need auth.Need) error {
	c.BatchTable = table
	if only, limited := c.caller.Table(); limited && !strings.EqualFold(only, table) {
		return auth.ErrAuthorizationFailure
	}
	if err := c.checkAnalytics(table, need); err != nil {
		return err
	}
	return c.caller.At(table).Check(wire.Table, need)
}

// format returns the format of a part's errors.
func (p *part) format(c *call) format {
	_, query, _ := strings.Cut(p.uri, "?")
	accept, _ := p.get("Accept")
	f, err := acceptedFormat(c.version, option(query, "$format"), accept)
	if err != nil {
		return defaultFormat(c.version)
	}
	return f
}

// answer returns the answer to a change that succeeded. tag is the entity tag of r.
func (st *step) answer(room *answerMemory, r entity.Record, tag string) answer {
	switch st.mutation.Change {
	case state.Insert:
		return room.insert(st.form, st.prefer, st.format, inserted{st.mutation, r, tag})
	case state.Remove:
		return answer{status: http.StatusNoContent}
	}
	return answer{status: http.StatusNoContent, etag: tag}
}

// failure returns the answer to a part that failed. index is its number, or negative for none.
func (c *call) failure(f format, e *wire.Error, index int) answer {
	message := c.Message(e)
	if index >= 0 {
		message = strconv.Itoa(index) + ":" + message
	}
	return answer{status: e.Status, contentType: f.contentType(""), body: f.errorBody(e.Code, message),
		uncontrolled: e != errBatchSize && !cacheControlled(e) || e.Is(errTableNotFound), unpreferred: e.Is(errTableNotFound)}
}

// batchQuery carries out the single query of a batch.
func (s *Service) batchQuery(c *call, p *part) (answer, format) {
	a, f, err := s.tryBatchQuery(c, p)
	if err == nil {
		return a, f
	}
	var e *wire.Error
	if !errors.As(azureError(err), &e) {
		s.front.Log.Error("query in a batch failed", "service", "table", "account", c.Account, "request_id", c.ID, "err", err)
		e = wire.ErrInternal
	}
	f = p.format(c)
	return c.failure(f, e, -1), f
}

func (s *Service) tryBatchQuery(c *call, p *part) (answer, format, error) {
	q, err := c.inner(p)
	if err != nil {
		return answer{}, format{}, err
	}
	if err := c.checkPart(q.table, needQuery); err != nil {
		return answer{}, format{}, err
	}
	// comp= asks for another operation, which a batch cannot hold.
	if q.Comp != "" {
		return answer{}, q.format, errInvalidInput
	}
	switch q.level {
	case onEntity:
		body, at, err := s.readOne(q, nil)
		return answer{status: http.StatusOK, contentType: q.format.contentType("entry"), body: body,
			etag: at.DateTimeETag()}, q.format, err
	case onTable, onPartition:
		options, err := q.parseQuery()
		if err != nil {
			return answer{}, q.format, err
		}
		page, err := s.read(q, &options, nil)
		return answer{status: http.StatusOK, contentType: q.format.contentType("feed"), body: page.body,
			headers: page.headers()}, q.format, err
	}
	return answer{}, q.format, errInvalidInput
}

// inner returns the call of a part that is a query. It has the caller, the version and the id of the batch.
func (c *call) inner(p *part) (*call, error) {
	path, query := p.target(c)
	hr := c.HTTP.Clone(c.HTTP.Context())
	// A copy with the part's own headers: the batch's conditions and content type are not the query's.
	hr.Method, hr.Header = http.MethodGet, make(http.Header, len(p.header))
	for _, h := range p.header {
		hr.Header.Add(h.Name, h.Value)
	}
	hr.RequestURI = strings.TrimSuffix(c.URIPath, c.RawPath) + path
	if query != "" {
		hr.RequestURI += "?" + query
	}
	r, err := c.Inner(hr, c.Out)
	if err != nil {
		return nil, err
	}
	// The path of a part may name another account, for which the caller was not authenticated.
	if r.Account != c.Account {
		return nil, auth.ErrAuthorizationFailure
	}
	// One request for log, limits and throttling.
	r.ID, r.Version, r.Admit = c.ID, c.Version, c.Admit
	q := &call{Request: r, caller: c.caller, version: c.version}
	if q.address, err = parsePath(r.RawPath); err != nil {
		return nil, err
	}
	q.format, err = acceptedFormat(q.version, r.Query.Get("$format"), r.Header("Accept"))
	return q, err
}
