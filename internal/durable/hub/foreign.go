package hub

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"

	"github.com/lazuli-storage/lazuli/internal/durable/record"
)

// A hub of DTFx (DurableTask.AzureStorage, also below the Durable Functions extension) has tables, queues and
// containers with the names of ours, and other messages: neither engine reads the queues of the other, and each moves
// what it finds there into its poison queue. Such a hub is recognised before anything is written to it, and can be
// read.
//
// taskhub.json of a hub that this engine makes names the engine. Where it does not, as in hubs of earlier builds, the
// tables decide:
//
//	<hub>Partitions            DTFx, with partitions in a table; such a hub may have no taskhub.json
//	<hub>History               ours if a row has the column Event, which DTFx does not write
//	<hub>Entities              ours if there is no row: this engine makes the table before the others
//
// A hub of DTFx is not continued in place, although its format is known: its histories are those of other code, whose
// workers would meet numbers of tasks and forms of payloads that they have not written.

// The engines of hubs.
const (
	EngineLazuli = "Lazuli"
	EngineDTFx   = "DurableTask.AzureStorage"
)

// firstRow returns the first row of a table that matches a filter; nil without one. exists says whether there is a
// table.
func (b *Backend) firstRow(ctx context.Context, table, filter string) (row map[string]json.RawMessage, exists bool,
	err error) {
	o := &aztables.ListEntitiesOptions{Top: to.Ptr(int32(1))}
	if filter != "" {
		o.Filter = &filter
	}
	for pages := b.options.Storage.Tables.NewClient(table).NewListEntitiesPager(o); pages.More(); {
		page, err := pages.NextPage(ctx)
		if s, _ := record.HTTPStatus(err); s == 404 || s == 409 { // It does not exist, or is being deleted.
			return nil, false, nil
		}
		if err != nil {
			return nil, false, fmt.Errorf("durable: read the table %s: %w", table, err)
		}
		if len(page.Entities) > 0 {
			return row, true, json.Unmarshal(page.Entities[0], &row)
		}
	}
	return nil, true, nil
}

// findEngine returns the engine of a hub whose taskhub.json names none, described says that it has the file. It returns
// "" if there is no hub.
func (b *Backend) findEngine(ctx context.Context, described bool) (string, error) {
	_, partitions, err := b.firstRow(ctx, b.names.Partitions(), "")
	if err != nil {
		return "", err
	}
	if partitions {
		return EngineDTFx, nil
	}
	// The filter leaves out our sentinel, which has no EventType: the row is one of an event.
	row, history, err := b.firstRow(ctx, b.names.History(), "EventType ne ''")
	if err != nil {
		return "", err
	}
	if row != nil {
		if row["Event"] != nil {
			return EngineLazuli, nil
		}
		return EngineDTFx, nil
	}
	if !history && !described {
		return "", nil
	}
	_, entities, err := b.firstRow(ctx, b.names.Entities(), "")
	switch {
	case err != nil:
		return "", err
	case !entities:
		return EngineDTFx, nil
	case described:
		return EngineLazuli, nil
	}
	return "", nil // The hub is being made, or deleted.
}

// foreign returns ErrForeignHub with the hub and its engine.
func (b *Backend) foreign(engine string) error {
	return fmt.Errorf("%w: %q is one of %s (DTFx, or Durable Functions in .NET); it can be read with lazuli durable ls and "+
		"show, and nothing is written to it; choose another hub", record.ErrForeignHub, b.options.Hub, engine)
}
