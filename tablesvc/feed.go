package tablesvc

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/lazuli-storage/lazuli/internal/azure/longpoll"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	state "github.com/lazuli-storage/lazuli/internal/state/table"
	"github.com/lazuli-storage/lazuli/internal/state/table/entity"
)

// changeEntry is a change in an answer. It looks like an entity, so that clients of the Table service can parse it.
type changeEntry struct {
	ETag         string `json:"odata.etag,omitempty"` // of the entity after the change; absent for a deletion
	PartitionKey string
	RowKey       string
	Timestamp    string
	Change       string // insert, update or delete
	Position     string // after the change
	// Before and After are the entity around the change, if the request asks for states.
	Before json.RawMessage `json:",omitempty"`
	After  json.RawMessage `json:",omitempty"`
}

// queryChanges is an extension of Query Entities: it answers with the changes after a position, and can wait for them;
// see [longpoll.AfterHeader] and [state.Store.Changes]. FeedEverything tells the client that its position is unknown
// and that it has to read the table.
func (s *Service) queryChanges(c *call) error {
	if c.scope() != nil { // the log is not ordered by keys
		return wire.ErrAuthorizationPermissionMismatch
	}
	// The log of changes costs every writer of the table. A token that only reads may read a log that there is, and not
	// begin or prolong one.
	keep := c.caller.Holds(needAnyWrite) == nil
	var f state.Feed
	err := s.common.Wait(c.Request, boardKey(c.Account, c.table), nil, func() (done bool, err error) {
		f, err = s.state.Changes(c.Account, c.table, c.Header(longpoll.AfterHeader), s.now(), keep)
		return len(f.Changes) > 0 || !f.Known, err
	})
	if errors.Is(err, state.ErrNotLogged) {
		return wire.ErrAuthorizationPermissionMismatch
	}
	if err != nil {
		return err
	}
	states := c.Header(longpoll.StatesHeader) == longpoll.StatesInclude
	form := entity.Form{Metadata: entity.MinimalMetadata, Account: c.Account, Table: c.table}
	page := struct {
		Value []changeEntry `json:"value"`
	}{make([]changeEntry, 0, len(f.Changes))}
	for i := range f.Changes {
		ch := &f.Changes[i]
		e := changeEntry{PartitionKey: string(ch.Partition), RowKey: string(ch.Row), Timestamp: ch.At.String(),
			Change: ch.Kind.String(), Position: ch.Position()}
		if ch.Kind != state.Deleted {
			e.ETag = ch.At.DateTimeETag()
		}
		if states && ch.Before != nil {
			e.Before = form.AppendJSONEntity(nil, ch.Partition, ch.Row, ch.Before)
		}
		if states && ch.After != nil {
			e.After = form.AppendJSONEntity(nil, ch.Partition, ch.Row, ch.After)
		}
		page.Value = append(page.Value, e)
	}
	body, err := json.Marshal(page)
	if err != nil {
		return err
	}
	c.Set(longpoll.PositionHeader, f.Position)
	if states {
		c.Set(longpoll.StatesHeader, longpoll.StatesInclude)
	}
	c.Set(longpoll.FeedHeader, longpoll.FeedChanges)
	if !f.Known {
		c.Set(longpoll.FeedHeader, longpoll.FeedEverything)
	}
	return c.Body(http.StatusOK, "application/json;odata=minimalmetadata;streaming=true;charset=utf-8", body)
}

func boardKey(account, table string) string { return longpoll.Key(account, strings.ToLower(table)) }

// entityBoardKey is the key of an entity's changes; key is that of package entity for table 0.
func entityBoardKey(account, table string, key []byte) string {
	return boardKey(account, table) + "\x00" + string(key)
}

// changed wakes the requests that wait for changes of the table or of the entities.
func (s *Service) changed(account, table string, list ...*state.Mutation) {
	if !s.common.Board.Watched() {
		return
	}
	s.common.Board.Touch(boardKey(account, table))
	var room [128]byte
	for _, m := range list {
		s.common.Board.Touch(entityBoardKey(account, table, entity.AppendKey(room[:0], 0, m.Partition, m.Row)))
	}
}
