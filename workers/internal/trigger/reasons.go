package trigger

import (
	"context"
	"log/slog"
	"strconv"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"

	"github.com/lazuli-storage/lazuli/internal/sdk/poison"
	"github.com/lazuli-storage/lazuli/internal/sdk/sdkerr"
)

// reasons are the records of why the messages of a poison queue are there; see package poison. Nil has none. Errors are
// logged only: a handler of poisoned messages runs without a reason, too.
type reasons struct {
	tables *aztables.ServiceClient
	queue  string
}

// describe adds the record of a message to the metadata of the call that handles it.
func (r *reasons) describe(ctx context.Context, i *Invocation, log *slog.Logger) {
	if r == nil {
		return
	}
	record, err := poison.Read(ctx, r.tables, r.queue, i.MessageID)
	if err != nil {
		log.Warn("cannot read why the message is in the poison queue", "err", sdkerr.Short(err))
	}
	if record == nil {
		return
	}
	for name, value := range map[string]string{
		"PoisonReason": record.Reason, "PoisonLastError": record.LastError, "PoisonFunction": record.Function,
		"PoisonQueue":    record.Source,
		"PoisonAttempts": strconv.FormatInt(record.Attempts, 10), "PoisonedTime": stamp(record.Poisoned),
	} {
		i.Metadata[name] = value
	}
}

// follow moves the record of a message to its copy, of which id is the id; "" removes the record of a message that was
// handled.
func (r *reasons) follow(ctx context.Context, message, id string, log *slog.Logger) {
	if r == nil {
		return
	}
	err := func() error {
		if id != "" {
			record, err := poison.Read(ctx, r.tables, r.queue, message)
			if err != nil || record == nil {
				return err
			}
			record.ID = id
			if err := poison.Write(ctx, r.tables, *record); err != nil {
				return err
			}
		}
		return poison.Remove(ctx, r.tables, r.queue, message)
	}()
	if err != nil {
		log.Warn("cannot update why the message was in the poison queue", "err", sdkerr.Short(err))
	}
}

// stamp is a time in the metadata of a call.
func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
