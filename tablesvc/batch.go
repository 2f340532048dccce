package tablesvc

import (
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/frontend"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/tablesvc/internal/entity"
)

// entityGroupTransaction is Entity Group Transaction: all of its changes in one transaction of the store, or none. A
// failure of a change is answered inside of a 202, by one part that says which change failed.
// https://learn.microsoft.com/rest/api/storageservices/performing-entity-group-transactions
func (s *Service) entityGroupTransaction(c *call) error {
	body, err := c.ReadBody(maxBody)
	if err != nil {
		return err
	}
	b, err := readBatch(c.Header("Content-Type"), body)
	if err != nil {
		return err
	}
	w := newBatchWriter(c, len(b.changes))
	if b.query != nil {
		a, f := s.batchQuery(c, b.query)
		w.single(b.query, f, a)
	} else if err := s.changeSet(c, b.changes, w); err != nil {
		return err
	}
	for range b.extra {
		w.single(&part{}, c.format, c.failure(c.format, errInvalidInput, -1))
	}
	return c.Body(http.StatusAccepted, "multipart/mixed; boundary="+w.boundary, w.bytes())
}

// step is one change of a transaction, read.
type step struct {
	part     *part
	mutation mutation
	format   format
	form     entity.Form
	prefer   string
}

// stepError says which change of a transaction failed.
type stepError struct {
	step int
	err  error
}

func (e *stepError) Error() string { return "change " + strconv.Itoa(e.step) + ": " + e.err.Error() }
func (e *stepError) Unwrap() error { return e.err }

// changeSet carries out a change set and writes its answer. Its error is one that is not the client's.
func (s *Service) changeSet(c *call, parts []part, w *batchWriter) error {
	if len(parts) == 0 { // answered in kind
		w.beginChanges()
		w.endChanges()
		return nil
	}
	results, steps, err := s.transact(c, parts)
	if err == nil {
		w.beginChanges()
		for i := range steps {
			st := &steps[i]
			w.change(st.part, st.format, st.answer(results[i]))
		}
		w.endChanges()
		return nil
	}
	var failed *stepError
	var e *wire.Error
	if !errors.As(err, &failed) || !errors.As(err, &e) {
		return err
	}
	p := &parts[min(failed.step, len(parts)-1)]
	f := p.format(c)
	index := failed.step
	if len(parts) == 1 { // Azure numbers changes only where there are several
		index = -1
	}
	w.beginChanges()
	w.change(p, f, c.failure(f, e, index))
	w.endChanges()
	return nil
}

// transact reads and carries out all changes. A client's error is wrapped in a stepError.
func (s *Service) transact(c *call, parts []part) ([]entity.Record, []step, error) {
	steps := make([]step, len(parts))
	var name string
	rows := make(map[string]bool, len(parts))
	for i := range parts {
		if i == maxChanges { // Azure blames the last that would do: https://github.com/microsoft/AzureStorageExplorer/issues/5585
			return nil, nil, &stepError{i - 1, errBatchSize}
		}
		st := &steps[i]
		table, err := st.read(c, &parts[i])
		if err != nil {
			return nil, nil, &stepError{i, err}
		}
		if i == 0 {
			name = table
		}
		switch row := string(st.mutation.row); {
		case !strings.EqualFold(table, name):
			return nil, nil, &stepError{i, errInvalidInput.WithMessage("All commands in a batch must operate on the same table.")}
		case string(st.mutation.partition) != string(steps[0].mutation.partition):
			return nil, nil, &stepError{i, errPartitions}
		case rows[row]:
			return nil, nil, &stepError{i, errDuplicateRow}
		default:
			rows[row] = true
		}
	}
	at := s.tick()
	for i := range steps {
		if r := steps[i].mutation.record; r != nil {
			r.SetTimestamp(at)
		}
	}
	var results []entity.Record
	err := s.db.Update(func(tx *store.Tx) error {
		id, err := idOf(tx, c.Account, name)
		if err != nil {
			return &stepError{0, err}
		}
		results = make([]entity.Record, len(steps))
		for i := range steps {
			if results[i], err = steps[i].mutation.apply(tx, &s.changes, id, at); err != nil {
				return &stepError{i, err}
			}
		}
		return nil
	})
	if err == nil {
		s.common.Board.Touch(boardKey(c.Account, name))
	}
	return results, steps, err
}

// read parses one change and checks that the caller may make it.
func (st *step) read(c *call, p *part) (table string, err error) {
	path, query := p.target(c)
	a, err := parsePath(path)
	if err != nil {
		return "", err
	}
	if option(query, "comp") != "" {
		return "", errInvalidInput
	}
	accept, _ := p.get("Accept")
	if st.format, err = acceptedFormat(c.version, option(query, "$format"), accept); err != nil {
		return "", err
	}
	ch, need, err := p.change(a.level)
	if err != nil {
		return "", err
	}
	if err := c.mayCall(a.table, need); err != nil {
		return "", err
	}
	w := writeRequest{change: ch, address: a, version: c.version, body: p.body}
	w.contentType, _ = p.get("Content-Type")
	w.ifMatch, w.hasIfMatch = p.get("If-Match")
	_, w.hasIfNoneMatch = p.get("If-None-Match")
	if st.mutation, err = w.mutation(); err != nil {
		return "", err
	}
	st.part = p
	prefer, _ := p.get("Prefer")
	st.prefer = c.preference(prefer)
	st.form = entity.Form{Metadata: st.format.metadata, Base: c.Base, Account: c.Account, Table: a.table}
	return a.table, c.mayTouch(st.mutation.partition, st.mutation.row)
}

// change finds what a part does, as the rows of the operations table do for requests.
func (p *part) change(level frontend.Level) (change, auth.Need, error) {
	method := p.method
	if override, ok := p.get("X-HTTP-Method"); ok {
		if method != http.MethodPost {
			return 0, auth.Need{}, errMethodOverrideVerb
		}
		method = override
	}
	_, conditional := p.get("If-Match")
	switch {
	case method == http.MethodPost && level == onTable:
		return insert, needInsert, nil
	case level != onEntity:
	case method == http.MethodPut && conditional:
		return update, needUpdate, nil
	case method == http.MethodPut:
		return insertOrReplace, needUpsert, nil
	case (method == "MERGE" || method == http.MethodPatch) && conditional:
		return merge, needUpdate, nil
	case method == "MERGE" || method == http.MethodPatch:
		return insertOrMerge, needUpsert, nil
	case method == http.MethodDelete:
		return remove, needDelete, nil
	}
	return 0, auth.Need{}, errInvalidInput
}

// mayCall checks the caller of a transaction against the need of one of its parts.
func (c *call) mayCall(table string, need auth.Need) error {
	if only, limited := c.caller.Table(); limited && !strings.EqualFold(only, table) {
		return auth.ErrAuthorizationFailure
	}
	if err := c.mayAnalytics(table, need); err != nil {
		return err
	}
	return c.caller.At(table).Check(wire.Table, need)
}

// format is the format of a part's errors.
func (p *part) format(c *call) format {
	_, query, _ := strings.Cut(p.uri, "?")
	accept, _ := p.get("Accept")
	f, err := acceptedFormat(c.version, option(query, "$format"), accept)
	if err != nil {
		return defaultFormat(c.version)
	}
	return f
}

// answer is the answer to a change that succeeded.
func (st *step) answer(r entity.Record) answer {
	switch st.mutation.change {
	case insert:
		return insertAnswer(st.form, st.prefer, st.format, &st.mutation, r)
	case remove:
		return answer{status: http.StatusNoContent}
	}
	return answer{status: http.StatusNoContent, headers: []wire.Detail{{Name: "ETag", Value: r.Timestamp().DateTimeETag()}}}
}

// failure is the answer to a part that failed; index, if not negative, says which.
func (c *call) failure(f format, e *wire.Error, index int) answer {
	message := c.Message(e)
	if index >= 0 {
		message = strconv.Itoa(index) + ":" + message
	}
	return answer{status: e.Status, contentType: f.contentType(""), body: f.errorBody(e.Code, message)}
}

// batchQuery carries out the one query of a batch.
func (s *Service) batchQuery(c *call, p *part) (answer, format) {
	a, f, err := s.tryBatchQuery(c, p)
	if err == nil {
		return a, f
	}
	var e *wire.Error
	if !errors.As(err, &e) {
		s.front.Log.Error("query in a batch failed", "account", c.Account, "request_id", c.ID, "err", err)
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
	if err := c.mayCall(q.table, needQuery); err != nil {
		return answer{}, format{}, err
	}
	if q.Comp != "" {
		return answer{}, q.format, errInvalidInput
	}
	switch q.level {
	case onEntity:
		body, at, err := s.readOne(q, nil)
		return answer{status: http.StatusOK, contentType: q.format.contentType("entry"), body: body,
			headers: []wire.Detail{{Name: "ETag", Value: at.DateTimeETag()}}}, q.format, err
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

// inner makes a call of a part that is a query. It has the caller, the version and the id of the batch.
func (c *call) inner(p *part) (*call, error) {
	path, query := p.target(c)
	hr := c.HTTP.Clone(c.HTTP.Context())
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
	if r.Account != c.Account {
		return nil, auth.ErrAuthorizationFailure
	}
	r.ID, r.Version = c.ID, c.Version
	q := &call{Request: r, caller: c.caller, version: c.version}
	if q.address, err = parsePath(r.RawPath); err != nil {
		return nil, err
	}
	q.format, err = acceptedFormat(q.version, r.Query.Get("$format"), r.Header("Accept"))
	return q, err
}
