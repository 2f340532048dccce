package tablesvc

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/lazuli-storage/lazuli/internal/azure/longpoll"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// maxChangePage is how many changes are answered at once.
const maxChangePage = 1000

// changeEntry is a change as an answer has it. It looks like an entity, so that clients of the Table service can read it.
type changeEntry struct {
	ETag         string `json:"odata.etag,omitempty"` // of the entity after the change; absent for one that went
	PartitionKey string
	RowKey       string
	Timestamp    string
	Change       string // insert, update or delete
}

// queryChanges is the extension of Query Entities that answers with what has changed after a position, be it by waiting for it: see
// [longpoll.AfterHeader]. From the first such request on the table's changes are logged. A position is not known if it is empty,
// of another table with the same name, or so old that its changes are gone: the answer then has no changes, a position to begin at,
// and FeedEverything, by which the client knows that it has to read the table.
func (s *Service) queryChanges(c *call) error {
	if _, limited := c.caller.EntityRange(); limited { // the log is not ordered by keys
		return wire.ErrAuthorizationPermissionMismatch
	}
	var (
		changes []loggedChange
		at      string
		known   bool
	)
	look := func() (bool, error) {
		var err error
		changes, at, known, err = s.changesAfter(c, c.Header(longpoll.AfterHeader))
		return len(changes) > 0 || !known, err
	}
	most, asked := longpoll.ParseWait(c.Header(longpoll.WaitHeader))
	var err error
	if asked && s.common.Board != nil {
		c.Set(longpoll.WaitHeader, strconv.Itoa(int(most/time.Second)))
		s.common.Limit.Outside(func() { _, err = s.common.Board.Wait(c.HTTP.Context(), boardKey(c.Account, c.table), most, nil, look) })
	} else {
		_, err = look()
	}
	if err != nil {
		return err
	}
	page := struct {
		Value []changeEntry `json:"value"`
	}{make([]changeEntry, 0, len(changes))}
	for i := range changes {
		ch := &changes[i]
		e := changeEntry{PartitionKey: string(ch.partition), RowKey: string(ch.row), Timestamp: ch.at.String(), Change: ch.kind.String()}
		if ch.kind != changeDelete {
			e.ETag = ch.at.DateTimeETag()
		}
		page.Value = append(page.Value, e)
	}
	body, err := json.Marshal(page)
	if err != nil {
		return err
	}
	c.Set(longpoll.PositionHeader, at)
	c.Set(longpoll.FeedHeader, longpoll.FeedChanges)
	if !known {
		c.Set(longpoll.FeedHeader, longpoll.FeedEverything)
	}
	return c.Body(http.StatusOK, "application/json;odata=minimalmetadata;streaming=true;charset=utf-8", body)
}

func boardKey(account, table string) string { return longpoll.Key(account, strings.ToLower(table)) }

// changesAfter reads a page of a table's log, and begins to log if nobody did.
func (s *Service) changesAfter(c *call, position string) (changes []loggedChange, at string, known bool, err error) {
	now := ticks.Of(s.now())
	var table uint64
	var w watchRecord
	var begun bool
	read := func(tx *store.Tx) (err error) {
		if table, err = idOf(tx, c.Account, c.table); err != nil {
			return err
		}
		if b := tx.Get(bucketWatched, tableIDKey(table)); b != nil {
			w, err = decodeWatch(b)
			begun = err == nil && !w.lapsed(now)
		}
		return err
	}
	if err := s.db.View(read); err != nil {
		return nil, "", false, err
	}
	if !begun || now.Time().Sub(w.asked.Time()) > askedEvery {
		s.changes.on.Store(true)
		err := s.db.Update(func(tx *store.Tx) (err error) {
			if table, err = idOf(tx, c.Account, c.table); err == nil {
				w, err = s.changes.watch(tx, table, now)
			}
			return err
		})
		if err != nil {
			return nil, "", false, err
		}
	}
	after, ok := parsePosition(position, table)
	if !ok || after >= w.next || after+1 < w.first {
		return nil, formatPosition(table, w.next-1), false, nil
	}
	err = s.db.View(func(tx *store.Tx) error {
		changes = changes[:0]
		prefix := tableIDKey(table)
		cur := tx.Cursor(bucketChanges)
		for k, v := cur.Seek(changeKey(table, after+1)); len(k) == len(prefix)+8 && string(k[:len(prefix)]) == string(prefix) && len(changes) < maxChangePage; k, v = cur.Next() {
			ch, err := decodeChange(k, v)
			if err != nil {
				return err
			}
			changes = append(changes, ch)
		}
		return nil
	})
	if n := len(changes); n > 0 {
		after = changes[n-1].number
	}
	return changes, formatPosition(table, after), true, err
}

// A position names the table's id, so that one of a table that was deleted and made anew is not taken for one of ours.
func formatPosition(table, number uint64) string {
	return strconv.FormatUint(table, 36) + "-" + strconv.FormatUint(number, 36)
}

func parsePosition(text string, table uint64) (number uint64, ok bool) {
	id, n, _ := strings.Cut(text, "-")
	of, err := strconv.ParseUint(id, 36, 64)
	if err != nil || of != table {
		return 0, false
	}
	number, err = strconv.ParseUint(n, 36, 64)
	return number, err == nil && number < 1<<63
}
