package tablesvc

import (
	"net/http"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/tablesvc/internal/entity"
)

// maxBody bounds the body of a request in bytes. An entity has 1 MiB by Azure's formula; escapes make its JSON larger.
const maxBody = 4 << 20

// The values of Prefer, from version 2011-08-18 on.
// https://learn.microsoft.com/rest/api/storageservices/setting-the-prefer-header-to-manage-response-echo-on-insert-operations
const (
	preferContent   = "return-content"
	preferNoContent = "return-no-content"
)

// writeRequest is a change of an entity as a request states it, alone or in a batch.
type writeRequest struct {
	change      change
	address     address
	version     wire.Version
	contentType string
	body        []byte
	// The conditional headers: If-None-Match is only ever refused.
	ifMatch                    string
	hasIfMatch, hasIfNoneMatch bool
}

// mutation parses and validates the request. Its errors are the client's.
func (w *writeRequest) mutation() (mutation, error) {
	m := mutation{change: w.change}
	if w.hasIfNoneMatch && w.change != insert {
		return m, errIfNoneMatch
	}
	switch w.change {
	case update, merge, remove:
		if !w.hasIfMatch {
			return m, wire.MissingHeader("If-Match")
		}
		var err error
		if m.condition, err = parseIfMatch(w.ifMatch); err != nil {
			return m, err
		}
	case insertOrReplace, insertOrMerge:
		if w.version < versionUpsert {
			return m, wire.MissingHeader("If-Match")
		}
	}
	if w.change == remove {
		return m, m.setKeys(w.address)
	}
	p, err := w.parse()
	if err != nil {
		return m, err
	}
	m.record = p.Record
	if w.change != insert {
		m.record = m.record.Sorted() // Azure keeps the client's order in inserts alone
		// The keys are those of the address; the body's are ignored, as OData has it.
		if err := m.setKeys(w.address); err != nil {
			return m, err
		}
		if err := entity.CheckSize(m.partition, m.row, m.record); err != nil {
			return m, err
		}
		return m, nil
	}
	if p.PartitionKey == nil || p.RowKey == nil {
		return m, entity.ErrPropertiesNeedValue
	}
	m.partition, m.row = p.PartitionKey, p.RowKey
	return m, nil
}

func (m *mutation) setKeys(a address) error {
	m.partition, m.row = []byte(a.partition), []byte(a.row)
	for _, key := range [...][]byte{m.partition, m.row} {
		if err := entity.CheckKey(key); err != nil {
			return err
		}
	}
	return nil
}

func (w *writeRequest) parse() (entity.Parsed, error) {
	atom, err := atomBody(w.version, w.contentType)
	if err != nil {
		return entity.Parsed{}, err
	}
	rules := entity.Rules{Dash: w.version < versionNoDash}
	if atom {
		return entity.ParseAtom(w.body, rules)
	}
	return entity.ParseJSON(w.body, rules)
}

// write parses the request, carries it out in a transaction of its own, and returns what it did and the entity's new
// record.
func (s *Service) write(c *call, ch change) (mutation, entity.Record, error) {
	w := writeRequest{change: ch, address: c.address, version: c.version, contentType: c.Header("Content-Type"),
		ifMatch: c.Header("If-Match"), hasIfMatch: c.HasHeader("If-Match"), hasIfNoneMatch: c.HasHeader("If-None-Match")}
	if ch != remove {
		var err error
		if w.body, err = c.ReadBody(maxBody); err != nil {
			return mutation{}, nil, err
		}
	}
	m, err := w.mutation()
	if err != nil {
		return m, nil, err
	}
	if err := c.mayTouch(m.partition, m.row); err != nil {
		return m, nil, err
	}
	at := s.tick()
	if m.record != nil {
		m.record.SetTimestamp(at)
	}
	var result entity.Record
	err = s.db.Update(func(tx *store.Tx) error {
		id, err := idOf(tx, c.Account, c.table)
		if err != nil {
			return err
		}
		result, err = m.apply(tx, &s.changes, id, at)
		return err
	})
	if err == nil {
		s.common.Board.Touch(boardKey(c.Account, c.table))
	}
	return m, result, err
}

// insertEntity is Insert Entity.
// https://learn.microsoft.com/rest/api/storageservices/insert-entity
func (s *Service) insertEntity(c *call) error {
	m, r, err := s.write(c, insert)
	if err != nil {
		return err
	}
	a := insertAnswer(c.form(), c.preference(c.Header("Prefer")), c.format, &m, r)
	for _, h := range a.headers {
		c.Set(h.Name, h.Value)
	}
	if a.body == nil {
		c.Set("Content-Length", "0")
		return c.Status(http.StatusNoContent)
	}
	return c.Body(a.status, a.contentType, a.body)
}

// answer is what a request is answered with, alone or in a batch. A nil body is none.
type answer struct {
	status      int
	headers     []wire.Detail
	contentType string
	body        []byte
}

// insertAnswer is the answer to an insert: the entity, or just where it is.
func insertAnswer(f entity.Form, prefer string, as format, m *mutation, r entity.Record) answer {
	location := f.Base + "/" + string(entity.AppendAddress(nil, f.Table, m.partition, m.row))
	etag := wire.Detail{Name: "ETag", Value: r.Timestamp().DateTimeETag()}
	if prefer == preferNoContent {
		return answer{status: http.StatusNoContent,
			headers: []wire.Detail{{Name: "Location", Value: location}, {Name: "DataServiceId", Value: location}, etag}}
	}
	a := answer{status: http.StatusCreated, headers: []wire.Detail{{Name: "Location", Value: location}, etag},
		contentType: as.contentType("entry")}
	if as.atom {
		a.body = f.AppendAtom(nil, m.partition, m.row, r)
	} else {
		a.body = f.AppendJSON(nil, m.partition, m.row, r)
	}
	return a
}

// form is how the entities of the named table are rendered for this request.
func (c *call) form() entity.Form {
	return entity.Form{Metadata: c.format.metadata, Base: c.Base, Account: c.Account, Table: c.table}
}

// updateEntity is Update Entity.
// https://learn.microsoft.com/rest/api/storageservices/update-entity2
func (s *Service) updateEntity(c *call) error { return s.change(c, update) }

// mergeEntity is Merge Entity.
// https://learn.microsoft.com/rest/api/storageservices/merge-entity
func (s *Service) mergeEntity(c *call) error { return s.change(c, merge) }

// insertOrReplaceEntity is Insert Or Replace Entity.
// https://learn.microsoft.com/rest/api/storageservices/insert-or-replace-entity
func (s *Service) insertOrReplaceEntity(c *call) error { return s.change(c, insertOrReplace) }

// insertOrMergeEntity is Insert Or Merge Entity.
// https://learn.microsoft.com/rest/api/storageservices/insert-or-merge-entity
func (s *Service) insertOrMergeEntity(c *call) error { return s.change(c, insertOrMerge) }

// change answers all changes but inserts: with the new entity tag and nothing else.
func (s *Service) change(c *call, ch change) error {
	_, r, err := s.write(c, ch)
	if err != nil {
		return err
	}
	c.Set("ETag", r.Timestamp().DateTimeETag())
	c.Set("Content-Length", "0")
	return c.Status(http.StatusNoContent)
}

// deleteEntity is Delete Entity.
// https://learn.microsoft.com/rest/api/storageservices/delete-entity1
func (s *Service) deleteEntity(c *call) error {
	if _, _, err := s.write(c, remove); err != nil {
		return err
	}
	c.Set("Content-Length", "0")
	return c.Status(http.StatusNoContent)
}
