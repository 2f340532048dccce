package tablesvc

import (
	"fmt"

	"github.com/lazuli-storage/lazuli/internal/azure/changes"
	state "github.com/lazuli-storage/lazuli/internal/state/table"
	"github.com/lazuli-storage/lazuli/internal/state/table/entity"
)

// entityTypes are the types of events that a mutation can have.
func entityTypes(change state.Change) []string {
	switch change {
	case state.Insert:
		return []string{changes.EntityInserted}
	case state.Remove:
		return []string{changes.EntityDeleted}
	case state.InsertOrReplace, state.InsertOrMerge:
		return []string{changes.EntityUpdated, changes.EntityInserted}
	}
	return []string{changes.EntityUpdated}
}

// entityEvents returns the events of mutations, nil if no subscription of the account wants one of them.
func (s *Service) entityEvents(account, table string, list ...*state.Mutation) (events []*changes.Event) {
	if s.common.Changes == nil || entity.AnalyticsTable(table) {
		return nil
	}
	for i, m := range list {
		types := entityTypes(m.Change)
		if !s.common.Changes.Wants(account, types...) {
			continue
		}
		if events == nil {
			events = make([]*changes.Event, len(list))
		}
		partition, row := string(m.Partition), string(m.Row)
		events[i] = &changes.Event{Type: types[0], Subject: changes.EntitySubject(table, partition, row),
			Data: map[string]any{"table": table, "partitionKey": partition, "rowKey": row}}
	}
	return events
}

// recordEntities makes the mutations with their events, as [changes.Recorder.Record] does. events are those of
// entityEvents, and apply returns the new records.
func (s *Service) recordEntities(c *call, list []*state.Mutation, events []*changes.Event,
	apply func() ([]entity.Record, error)) error {
	if events == nil {
		_, err := apply()
		return err
	}
	var err error
	wanted := make([]*changes.Event, 0, len(events))
	for _, e := range events {
		if e != nil {
			wanted = append(wanted, e)
		}
	}
	recordErr := s.common.Changes.Record(c.Request, wanted, func() error {
		var records []entity.Record
		if records, err = apply(); err != nil {
			return azureError(err)
		}
		// Events are described after apply, inside Record: only now the new records exist, and only now the log may have
		// them.
		for i, e := range events {
			if e != nil {
				describe(e, list[i], records[i])
			}
		}
		return nil
	})
	// The error of the state first, as Record has seen it mapped to the answer.
	if err != nil {
		return err
	}
	return recordErr
}

// describe completes the event of a mutation that was made. r is nil after Remove.
func describe(e *changes.Event, m *state.Mutation, r entity.Record) {
	if m.Created {
		e.Type = changes.EntityInserted
	}
	if r != nil {
		e.Data["eTag"] = r.Timestamp().DateTimeETag()
		e.Data["version"] = fmt.Sprintf("%016x", uint64(r.Timestamp()))
	}
}

// tableEvents returns the event of a change of a table, nil if no subscription wants it.
func (s *Service) tableEvents(c *call, kind, table string) []*changes.Event {
	if entity.AnalyticsTable(table) || !s.common.Changes.Wants(c.Account, kind) {
		return nil
	}
	return []*changes.Event{{Type: kind, Subject: changes.TableSubject(table), Data: map[string]any{"table": table}}}
}
