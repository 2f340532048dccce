package tablesvc

import (
	"net/http"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	state "github.com/lazuli-storage/lazuli/internal/state/table"
	"github.com/lazuli-storage/lazuli/internal/state/table/entity"
)

// maxBody bounds the body of a request in bytes. An entity has 1 MiB by Azure's formula; escapes make its JSON larger.
const maxBody = 4 << 20

// The values of Prefer, from version 2011-08-18 on.
// https://learn.microsoft.com/rest/api/storageservices/setting-the-prefer-header-to-manage-response-echo-on-insert-operations
const (
	preferContent   = "return-content"
	preferNoContent = "return-no-content"
)

// writeRequest is the change of an entity that a request asks for, alone or in a batch.
type writeRequest struct {
	change      state.Change
	address     address
	version     wire.Version
	contentType string
	body        []byte
	room        []byte // see entity.Rules
	// The conditional headers. If-None-Match is always refused.
	ifMatch                    string
	hasIfMatch, hasIfNoneMatch bool
}

// mutation parses and validates the request into m, which is empty. Its errors are the client's.
func (w *writeRequest) mutation(m *state.Mutation) error {
	m.Change = w.change
	if err := w.condition(m); err != nil {
		return err
	}
	if w.change == state.Remove {
		return w.setKeys(m)
	}
	p, err := w.parse()
	if err != nil {
		return err
	}
	m.Record = p.Record
	if w.change == state.Insert {
		if p.PartitionKey == nil || p.RowKey == nil {
			return entity.ErrPropertiesNeedValue
		}
		m.Partition, m.Row = p.PartitionKey, p.RowKey
		return nil
	}
	m.Record = m.Record.Sorted() // Azure keeps the client's order only for inserts
	if err := w.setKeys(m); err != nil {
		return err
	}
	if err := entity.CheckSize(m.Partition, m.Row, m.Record); err != nil {
		return err
	}
	return nil
}

// condition parses the conditional headers. Changes without a condition of their own need the version that introduced
// them.
func (w *writeRequest) condition(m *state.Mutation) (err error) {
	if w.hasIfNoneMatch && w.change != state.Insert {
		return errIfNoneMatch
	}
	switch w.change {
	case state.Update, state.Merge, state.Remove:
		if !w.hasIfMatch {
			return wire.MissingHeader("If-Match")
		}
		m.Condition, err = parseIfMatch(w.ifMatch)
	case state.InsertOrReplace, state.InsertOrMerge:
		if w.version < versionUpsert {
			return wire.MissingHeader("If-Match")
		}
	}
	return err
}

// setKeys takes the keys from the address. Those in the body are ignored, as in OData.
func (w *writeRequest) setKeys(m *state.Mutation) error {
	m.Partition, m.Row = []byte(w.address.partition), []byte(w.address.row)
	for _, key := range [...][]byte{m.Partition, m.Row} {
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
	rules := entity.Rules{Dash: w.version < versionNoDash, Room: w.room}
	if atom {
		return entity.ParseAtom(w.body, rules)
	}
	return entity.ParseJSON(w.body, rules)
}

// admit takes entities from the rates of a fault rule, and fails if a rate is exceeded.
func (c *call) admit(table string, partition []byte, entities int) error {
	if c.Admit == nil {
		return nil
	}
	return c.Admit(table, string(partition), entities)
}

// write parses the request and carries it out. It returns the mutation and the entity's new record, which are valid
// until mem is released.
func (s *Service) write(c *call, change state.Change, mem *writeMemory) (*state.Mutation, entity.Record, error) {
	h := c.Headers()
	w := writeRequest{change: change, address: c.address, version: c.version, contentType: h.Get("Content-Type"),
		ifMatch: h.Get("If-Match"), hasIfMatch: h.Has("If-Match"), hasIfNoneMatch: h.Has("If-None-Match")}
	if change != state.Remove {
		var err error
		if w.body, err = c.ReadBodyInto(mem.body, maxBody); err != nil {
			return nil, nil, err
		}
		mem.body, w.room = w.body, mem.reserve(1, len(w.body))
	}
	m := &state.Mutation{}
	if err := w.mutation(m); err != nil {
		return nil, nil, err
	}
	// Keys may come from the body, so the range of a SAS is checked after it was parsed, and before anything is written.
	if err := c.checkScope(m.Partition, m.Row); err != nil {
		return nil, nil, err
	}
	if err := c.admit(c.table, m.Partition, 1); err != nil {
		return nil, nil, err
	}
	var r entity.Record
	var err error
	if events := s.entityEvents(c.Account, c.table, m); events == nil {
		r, err = s.state.Write(c.Account, c.table, m, c.Now)
	} else {
		err = s.recordEntities(c, []*state.Mutation{m}, events, func() ([]entity.Record, error) {
			r, err = s.state.Write(c.Account, c.table, m, c.Now)
			return []entity.Record{r}, err
		})
	}
	// Waiting queries are woken after the commit: woken before, they would read the old entity and wait on.
	if err == nil {
		s.changed(c.Account, c.table, m)
	}
	return m, r, err
}

// insertEntity is Insert Entity.
// https://learn.microsoft.com/rest/api/storageservices/insert-entity
func (s *Service) insertEntity(c *call) error {
	mem := writeMemories.Get().(*writeMemory)
	m, r, err := s.write(c, state.Insert, mem)
	if err != nil {
		return err
	}
	room := answerMemory{body: mem.answer}
	a := room.insert(c.form(), c.preference(c.Headers().Get("Prefer")), c.format,
		inserted{m, r, r.Timestamp().DateTimeETag()})
	location := string(a.location)
	c.Set("Location", location)
	if a.located {
		c.Set("DataServiceId", location)
	}
	c.Set("ETag", a.etag)
	if a.body == nil {
		c.Set("Content-Length", "0")
		err = c.Status(http.StatusNoContent)
	} else {
		err = c.Body(a.status, a.contentType, a.body)
	}
	// The answer is sent, so that nothing refers to the memory any more.
	mem.answer = room.body
	mem.release()
	return err
}

// answer is the answer to a request, alone or in a batch. Without content, body is nil.
type answer struct {
	status int
	// location is the address of an entity that was inserted; located says that it is in DataServiceId as well.
	location []byte
	located  bool
	etag     string // "" for none
	// headers are those of a page.
	headers     []wire.Detail
	contentType string
	body        []byte
	// uncontrolled leaves Cache-Control out of the part of a batch.
	uncontrolled bool
	// unpreferred leaves Preference-Applied out of it.
	unpreferred bool
}

// answerMemory is memory for the answers to inserts. Each of them is valid until the next.
type answerMemory struct{ location, body []byte }

// inserted is an entity that was inserted, with its tag.
type inserted struct {
	mutation *state.Mutation
	record   entity.Record
	tag      string
}

// insert returns the answer to an insert: the entity, or only its location.
func (room *answerMemory) insert(f entity.Form, prefer string, as format, e inserted) answer {
	m := e.mutation
	room.location = append(append(room.location[:0], f.Base...), '/')
	room.location = entity.AppendAddress(room.location, f.Table, m.Partition, m.Row)
	if prefer == preferNoContent {
		return answer{status: http.StatusNoContent, location: room.location, located: true, etag: e.tag}
	}
	if as.atom {
		room.body = f.AppendAtom(room.body[:0], m.Partition, m.Row, e.record)
	} else {
		room.body = f.AppendJSON(room.body[:0], m.Partition, m.Row, e.record)
	}
	return answer{status: http.StatusCreated, location: room.location, etag: e.tag, contentType: as.contentType("entry"),
		body: room.body}
}

// form returns the form in which the entities of the call's table are rendered.
func (c *call) form() entity.Form {
	return entity.Form{Metadata: c.format.metadata, Base: c.Base, Account: c.Account, Table: c.table}
}

// updateEntity is Update Entity.
// https://learn.microsoft.com/rest/api/storageservices/update-entity2
func (s *Service) updateEntity(c *call) error { return s.change(c, state.Update) }

// mergeEntity is Merge Entity.
// https://learn.microsoft.com/rest/api/storageservices/merge-entity
func (s *Service) mergeEntity(c *call) error { return s.change(c, state.Merge) }

// insertOrReplaceEntity is Insert Or Replace Entity.
// https://learn.microsoft.com/rest/api/storageservices/insert-or-replace-entity
func (s *Service) insertOrReplaceEntity(c *call) error { return s.change(c, state.InsertOrReplace) }

// insertOrMergeEntity is Insert Or Merge Entity.
// https://learn.microsoft.com/rest/api/storageservices/insert-or-merge-entity
func (s *Service) insertOrMergeEntity(c *call) error { return s.change(c, state.InsertOrMerge) }

// change serves all changes but inserts and deletions. It answers with the new entity tag.
func (s *Service) change(c *call, change state.Change) error {
	mem := writeMemories.Get().(*writeMemory)
	_, r, err := s.write(c, change, mem)
	if err != nil {
		return err
	}
	tag := r.Timestamp().DateTimeETag()
	mem.release()
	if c.preference(c.Headers().Get("Prefer")) == preferNoContent {
		c.Set("Preference-Applied", preferNoContent)
	}
	c.Set("ETag", tag)
	c.Set("Content-Length", "0")
	return c.Status(http.StatusNoContent)
}

// deleteEntity is Delete Entity.
// https://learn.microsoft.com/rest/api/storageservices/delete-entity1
func (s *Service) deleteEntity(c *call) error {
	if _, _, err := s.write(c, state.Remove, nil); err != nil { // which has no body
		return err
	}
	c.Set("Content-Length", "0")
	return c.Status(http.StatusNoContent)
}
