package tablesvc

import (
	"net/url"
	"strings"

	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
	"github.com/lazuli-storage/lazuli/tablesvc/internal/entity"
)

// change is what a mutation does to its entity.
type change uint8

const (
	insert          change = iota // must not be there
	update                        // must be there, is replaced
	merge                         // must be there, keeps what it does not name
	insertOrReplace               // is replaced, be it there or not
	insertOrMerge                 // is merged into, be it there or not
	remove                        // must be there, goes
)

// mutation is one change of one entity.
type mutation struct {
	change         change
	partition, row []byte // UTF-8
	record         entity.Record
	condition      condition
}

// condition is If-Match. The zero value is none.
type condition struct {
	kind conditionKind
	etag ticks.Ticks
}

type conditionKind uint8

const (
	unconditional conditionKind = iota
	anyVersion                  // *: it must be there, in any version
	oneVersion                  // it must have the etag
	noVersion                   // a well-formed tag that no entity has
)

// parseIfMatch reads If-Match. A tag is W/"datetime'...'" with the colons encoded or not; anything else between
// quotes can match no entity; what has not even quotes is an error.
// https://learn.microsoft.com/rest/api/storageservices/table-service-error-codes
func parseIfMatch(s string) (condition, error) {
	s = strings.TrimSpace(s)
	if s == "*" {
		return condition{kind: anyVersion}, nil
	}
	tag, ok := strings.CutPrefix(strings.TrimPrefix(s, "W/"), `"`)
	if ok {
		tag, ok = strings.CutSuffix(tag, `"`)
	}
	if !ok || strings.Contains(tag, `"`) {
		return condition{}, errInvalidInput.WithMessage("The etag value '" + s + "' specified in one of the request headers " +
			"is not valid. Please make sure only one etag value is specified and is valid.")
	}
	if text, err := url.PathUnescape(tag); err == nil {
		if text, ok := strings.CutPrefix(text, "datetime'"); ok {
			if t, ok := ticks.Parse(strings.TrimSuffix(text, "'")); ok {
				return condition{kind: oneVersion, etag: t}, nil
			}
		}
	}
	return condition{kind: noVersion}, nil
}

// holds evaluates the condition on an entity that is there.
func (c condition) holds(r entity.Record) bool {
	switch c.kind {
	case oneVersion:
		return r.Timestamp() == c.etag
	case noVersion:
		return false
	}
	return true
}

// next is the state machine of an entity: what becomes of old, nil if it is not there, when the mutation is applied at
// the time at. The result is nil for an entity that goes. Neither old nor the mutation is changed.
//
//	                 | not there    | there, condition holds | there, it does not
//	-----------------+--------------+------------------------+---------------------
//	insert           | created      | EntityAlreadyExists    | (has no condition)
//	update           | not found    | replaced               | condition not met
//	merge            | not found    | merged                 | condition not met
//	insertOrReplace  | created      | replaced               | (has no condition)
//	insertOrMerge    | created      | merged                 | (has no condition)
//	remove           | not found    | gone                   | condition not met
func (m *mutation) next(old entity.Record, at ticks.Ticks) (entity.Record, error) {
	switch {
	case old == nil:
		switch m.change {
		case update, merge, remove:
			return nil, errNotFound
		}
		return stamped(m.record, at), nil
	case m.change == insert:
		return nil, errEntityAlreadyExists
	case !m.condition.holds(old):
		return nil, errUpdateCondition
	}
	at = max(at, old.Timestamp()+1)
	switch m.change {
	case remove:
		return nil, nil
	case merge, insertOrMerge:
		merged := old.Merge(m.record).Sorted()
		merged.SetTimestamp(at)
		if err := entity.CheckSize(m.partition, m.row, merged); err != nil {
			return nil, err
		}
		return merged, nil
	}
	return stamped(m.record, at), nil
}

// stamped returns r with the timestamp, in place where r has it already: closures of Update may run twice.
func stamped(r entity.Record, at ticks.Ticks) entity.Record {
	if r.Timestamp() != at {
		r = append(make(entity.Record, 0, len(r)), r...)
		r.SetTimestamp(at)
	}
	return r
}

// apply carries the mutation out and returns the entity's new record, nil for one that went.
func (m *mutation) apply(tx *store.Tx, log *changeLog, table uint64, at ticks.Ticks) (entity.Record, error) {
	key := entity.AppendKey(make([]byte, 0, entity.TableIDLen+1+len(m.partition)+len(m.row)), table, m.partition, m.row)
	old := entity.Record(tx.Get(bucketEntities, key))
	r, err := m.next(old, at)
	if err != nil {
		return nil, err
	}
	change := loggedChange{kind: changeUpdate, at: at, partition: m.partition, row: m.row}
	if r == nil {
		change.kind = changeDelete
		tx.Delete(bucketEntities, key)
	} else {
		change.at = r.Timestamp()
		if old == nil {
			change.kind = changeInsert
		}
		tx.Put(bucketEntities, key, r)
	}
	return r, log.note(tx, table, change)
}
