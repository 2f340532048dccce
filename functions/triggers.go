package functions

import (
	"context"
	"fmt"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"

	"github.com/lazuli-storage/lazuli/internal/sdk/connstr"
	"github.com/lazuli-storage/lazuli/workers"
)

// register hands a function to the runtime, which owns its trigger. HTTP triggers are served by the host itself.
func (h *Host) register(f *function) {
	b, host := f.trigger, h.project.host
	switch b.kind {
	case kindHTTPTrigger, kindEventTrigger, kindWarmup:
		// These have no listener in package workers: the host's own HTTP server, or its start, calls them.
		return
	case kindQueueTrigger:
		h.app.Queue(f.name, func(ctx context.Context, m workers.QueueMessage) error {
			inv := h.newInvocation(ctx, f, "New queue message detected on '"+b.target.Source+"'.")
			inv.fromQueue(m, b)
			_, err := h.call(ctx, inv)
			return err
		}, h.queueOptions(b, host.queues)...)
	case kindTableTrigger:
		h.app.Table(f.name, func(ctx context.Context, c workers.TableChange) error {
			inv := h.newInvocation(ctx, f, fmt.Sprintf("Change detected in table '%s' (%s).", c.Table, c.Change))
			inv.fromTable(tableData{c.Table, c.PartitionKey, c.RowKey, string(c.Change), c.ETag, plainState(c.Entity),
				plainState(c.Before)})
			_, err := h.call(ctx, inv)
			return err
		}, h.tableOptions(b, host.queues)...)
	case kindBlobTrigger:
		options := []workers.BlobOption{workers.WithConnection(b.connection), workers.WithPath(b.path),
			workers.WithConcurrency(host.blobs.maxParallel), workers.WithMaxDequeueCount(host.blobs.poisonThreshold)}
		if h.config.Lease > 0 {
			options = append(options, workers.WithLease(h.config.Lease))
		}
		if b.events {
			options = append(options, workers.WithEventGrid())
		}
		// Kept, since the endpoint for events of blobs hands them to this very function.
		f.worker = h.app.Blob(f.name, func(ctx context.Context,
			client *blob.Client) error {
			return h.callBlob(ctx, f, client)
		}, options...)
	case kindTimerTrigger:
		options := []workers.TimerOption{workers.WithConnection(connstr.DefaultConnection), workers.WithSchedule(b.schedule),
			workers.WithTimeZone(h.project.zone), workers.WithRunOnStartup(b.runOnStartup)}
		if b.monitor != nil {
			options = append(options, workers.WithMonitor(*b.monitor))
		}
		h.app.Timer(f.name, func(ctx context.Context, t workers.TimerInfo) error {
			inv := h.newInvocation(ctx, f, "Timer fired at "+time.Now().UTC().Format(time.RFC3339))
			inv.fromTimer(t, b)
			_, err := h.call(ctx, inv)
			return err
		}, options...)
	case kindOrchestrationTrigger, kindActivityTrigger, kindEntityTrigger:
		h.registerDurable(f)
	}
	// All triggers that come here read or lock something in storage, so the host has to wait for it at its start.
	h.storage = true
}

// warmUp calls the functions with a warmup trigger, once for each start of the host.
// https://learn.microsoft.com/azure/azure-functions/functions-bindings-warmup
func (h *Host) warmUp() {
	for _, f := range h.project.functions {
		if f.trigger.kind == kindWarmup {
			// Beside the start: a warmup that takes long must not delay the first request.
			h.calls.Go(func() {
				inv := h.newInvocation(h.hard, f, "The host has started.")
				inv.trigger = map[string]any{}
				_ = h.wrap(h.hard, inv, func(ctx context.Context) error { // Its end is logged.
					_, err := h.call(ctx, inv)
					return err
				})
			})
		}
	}
}

// queueOptions returns the options of a queue trigger, from the binding and from host.json.
func (h *Host) queueOptions(b *binding, q queueSettings) []workers.QueueOption {
	options := []workers.QueueOption{workers.WithConnection(b.connection), workers.WithQueueName(b.target.Source),
		workers.WithMessageEncoding(q.encoding), workers.WithExistingQueue()} // The Functions host creates none either.
	for _, o := range h.messageOptions(q) {
		options = append(options, o)
	}
	return options
}

// tableOptions returns the options of a table trigger. Its changes are messages, to which those of queues apply.
func (h *Host) tableOptions(b *binding, q queueSettings) []workers.TableOption {
	options := []workers.TableOption{workers.WithConnection(b.connection), workers.WithTable(b.target.Source),
		workers.WithExisting(b.existing)}
	if b.inOrder {
		options = append(options, workers.InOrder())
	}
	for _, o := range h.messageOptions(q) {
		options = append(options, o)
	}
	return options
}

func (h *Host) messageOptions(q queueSettings) []workers.MessageOption {
	options := []workers.MessageOption{workers.WithBatchSize(q.batchSize), workers.WithMaxDequeueCount(q.maxDequeue),
		workers.WithVisibilityTimeout(q.visibility)}
	if q.threshold >= 0 {
		options = append(options, workers.WithNewBatchThreshold(q.threshold))
	}
	if q.maxPolling > 0 {
		options = append(options, workers.WithMaxPollingInterval(q.maxPolling))
	}
	if h.config.Lease > 0 {
		options = append(options, workers.WithLease(h.config.Lease))
	}
	return options
}
