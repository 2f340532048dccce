package functions

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/lazuli-storage/lazuli/functions/internal/jsonvalue"
	"github.com/lazuli-storage/lazuli/workers"
)

// callManually calls a function with an input from outside, as the admin API does.
func (h *Host) callManually(ctx context.Context, f *function, input json.RawMessage) error {
	inv := h.newInvocation(ctx, f, "This function was programmatically called via the host APIs.")
	text := ""
	if jsonvalue.Present(input) != nil {
		text = jsonvalue.Text(input)
	}
	switch f.trigger.kind {
	case kindQueueTrigger:
		inv.data.Set("QueueTrigger", text)
		inv.addInput([]byte(text), f.trigger.binary)
	case kindTimerTrigger:
		now := jsonvalue.Time(time.Now())
		var t workers.TimerInfo
		t.ScheduleStatus.Last, t.ScheduleStatus.Next, t.ScheduleStatus.LastUpdated = now, now, now
		inv.fromTimer(t, f.trigger)
	case kindEventTrigger:
		if err := inv.fromEvent(json.RawMessage(text)); err != nil {
			return err
		}
	case kindTableTrigger:
		v := tableData{Table: f.trigger.target.Source}
		if err := json.Unmarshal([]byte(text), &v); err != nil {
			return fmt.Errorf("want a change as a JSON object: %w", err)
		}
		inv.fromTable(v)
	case kindBlobTrigger:
		// As with the admin API of Azure, the input is the path of a blob that exists, and not its content.
		container, name, err := splitPath(text)
		if err != nil {
			return err
		}
		storage, err := h.blobClient(f.trigger)
		if err != nil {
			return err
		}
		client := storage.ServiceClient().NewContainerClient(container).NewBlobClient(name)
		properties, err := client.GetProperties(ctx, nil)
		if err != nil {
			return err
		}
		content, err := download(ctx, client, "")
		if err != nil {
			return err
		}
		inv.fromBlob(container+"/"+name, client.URL(), properties, content, f.trigger)
	}
	// Through the middleware, as package workers does for its own triggers.
	return h.wrap(ctx, inv, func(ctx context.Context) error {
		_, err := h.call(ctx, inv)
		return err
	})
}
