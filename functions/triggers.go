package functions

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"

	"github.com/lazuli-storage/lazuli/internal/sdk/blobpath"
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
			inv := h.newInvocation(ctx, f, "New queue message detected on '"+b.target.source+"'.")
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
	options := []workers.QueueOption{workers.WithConnection(b.connection), workers.WithQueueName(b.target.source),
		workers.WithMessageEncoding(q.encoding), workers.WithExistingQueue()} // The Functions host creates none either.
	for _, o := range h.messageOptions(q) {
		options = append(options, o)
	}
	return options
}

// tableOptions returns the options of a table trigger. Its changes are messages, to which those of queues apply.
func (h *Host) tableOptions(b *binding, q queueSettings) []workers.TableOption {
	options := []workers.TableOption{workers.WithConnection(b.connection), workers.WithTable(b.target.source),
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

// fromQueue returns the trigger data of a queue message.
// https://learn.microsoft.com/azure/azure-functions/functions-bindings-storage-queue-trigger#message-metadata
func (inv *invocation) fromQueue(m workers.QueueMessage, b *binding) {
	d := &inv.data
	d.set("QueueTrigger", string(m.Body))
	d.set("DequeueCount", m.DequeueCount)
	for name, text := range map[string]string{"ExpirationTime": m.ExpirationTime, "InsertionTime": m.InsertionTime,
		"NextVisibleTime": m.NextVisibleTime} {
		if t, err := time.Parse(time.RFC3339, text); err == nil {
			d.set(name, t)
		}
	}
	d.set("Id", m.Id)
	d.set("PopReceipt", m.PopReceipt)
	inv.addInput(m.Body, b.binary)
	if b.client {
		inv.trigger = queueReference(m)
	}
}

// queueReference makes of a message what a language worker makes a QueueMessage of.
func queueReference(m workers.QueueMessage) *QueueReference {
	r := &QueueReference{MessageID: m.Id, PopReceipt: m.PopReceipt, MessageText: string(m.Body),
		DequeueCount: int64(m.DequeueCount)}
	for text, to := range map[string]**time.Time{m.NextVisibleTime: &r.NextVisibleOn, m.InsertionTime: &r.InsertedOn,
		m.ExpirationTime: &r.ExpiresOn} {
		if t, err := time.Parse(time.RFC3339, text); err == nil {
			*to = &t
		}
	}
	return r
}

// tableData is the value of a table trigger. Entity is null after a deletion; Before is the entity before the change,
// for triggers that are called in order.
type tableData struct {
	Table, PartitionKey, RowKey, Change, ETag string
	Entity, Before                            json.RawMessage
}

// fromTable returns the trigger data of a change of an entity, whose properties expressions can name.
func (inv *invocation) fromTable(v tableData) {
	d := &inv.data
	d.addPayload(cmp.Or(string(v.Entity), string(v.Before)))
	for name, value := range map[string]string{"Table": v.Table, "PartitionKey": v.PartitionKey, "RowKey": v.RowKey,
		"Change": v.Change, "ETag": v.ETag} {
		d.set(name, value)
	}
	inv.trigger = v
}

// plainState is plainEntity for a state that may be missing.
func plainState(text json.RawMessage) json.RawMessage {
	if text == nil {
		return nil
	}
	return plainEntity(text)
}

// callBlob calls a function for a blob in the state that triggered it.
func (h *Host) callBlob(ctx context.Context, f *function, client *blob.Client) error {
	inv := h.newInvocation(ctx, f, "")
	etag, path := "", ""
	if ic, ok := workers.FromContext(ctx); ok {
		etag, path = ic.TriggerMetadata["ETag"], ic.TriggerMetadata["BlobTrigger"]
	}
	inv.reason = "New blob detected(" + path + ")"
	// The ETag of the message says for which state the function is called. Another state has a message of its own.
	properties, err := client.GetProperties(ctx, nil)
	if err == nil {
		var text []byte
		// A function that binds a client reads the blob itself, which may be larger than what fits in memory.
		if !f.trigger.client {
			text, err = download(ctx, client, etag)
		}
		if err == nil {
			inv.fromBlob(path, client.URL(), properties, text, f.trigger)
		}
	}
	switch {
	case missing(err), bloberror.HasCode(err, bloberror.ConditionNotMet):
		return nil // Deleted, or changed again: that change has its own message.
	case errors.Is(err, errTooLarge):
		// No later attempt would find it smaller.
		return workers.Permanent(err)
	case err != nil:
		return err
	}
	_, err = h.call(ctx, inv)
	return err
}

// fromBlob returns the trigger data of a blob.
// https://learn.microsoft.com/azure/azure-functions/functions-bindings-storage-blob-trigger#metadata
func (inv *invocation) fromBlob(path, address string, p blob.GetPropertiesResponse, text []byte, b *binding) {
	d := &inv.data
	d.set("BlobTrigger", path)
	if u, err := url.Parse(address); err == nil {
		d.set("Uri", plainURI(u))
	}
	d.set("Properties", blobProperties(p))
	metadata := map[string]string{}
	for k, v := range p.Metadata {
		if v != nil {
			metadata[k] = *v
		}
	}
	d.set("Metadata", metadata)
	if pattern, err := blobpath.Parse(b.path); err == nil {
		_, name, _ := strings.Cut(path, "/")
		// The names in the trigger's path, such as {name}, are there for the expressions of the other bindings.
		values, _ := pattern.Match(name)
		for k, v := range values {
			d.set(k, v)
		}
	}
	if b.client {
		container, name, _ := strings.Cut(path, "/")
		inv.trigger = &BlobReference{b.connection, container, name}
		return
	}
	inv.addInput(text, b.binary)
}

// uri is an address in the metadata of a trigger. Unlike text, language workers get it as JSON: .NET's reads a Uri so.
type uri string

// plainURI is the address of a blob as .NET writes it: without a query, and with the slashes of the blob's name, which
// the client for Go escapes.
func plainURI(u *url.URL) uri {
	u.RawQuery = ""
	u.RawPath = strings.ReplaceAll(u.EscapedPath(), "%2F", "/")
	return uri(u.String())
}

// blobProperties are the members of .NET's BlobProperties that functions use.
func blobProperties(p blob.GetPropertiesResponse) any {
	return map[string]any{
		"ContentLength": p.ContentLength, "ContentType": p.ContentType, "ContentEncoding": p.ContentEncoding,
		"ContentLanguage": p.ContentLanguage, "ContentDisposition": p.ContentDisposition, "CacheControl": p.CacheControl,
		"ContentHash": p.ContentMD5, "LastModified": utc(p.LastModified), "CreatedOn": utc(p.CreationTime),
		"BlobType":   blobType(p.BlobType),
		"AccessTier": p.AccessTier, "BlobSequenceNumber": p.BlobSequenceNumber, "VersionId": p.VersionID, "ETag": p.ETag,
	}
}

func utc(t *time.Time) any {
	if t == nil {
		return nil
	}
	return wireValue(*t)
}

// blobType is the number that .NET's enumeration has for the type.
func blobType(t *blob.BlobType) int {
	switch {
	case t == nil || *t == blob.BlobTypeBlockBlob:
		return 0
	case *t == blob.BlobTypePageBlob:
		return 1
	}
	return 2
}

// timerData is a timer's value, as .NET writes TimerInfo.
type timerData struct {
	Schedule       struct{ AdjustForDST bool }
	ScheduleStatus struct{ Last, Next, LastUpdated string }
	IsPastDue      bool
}

func (inv *invocation) fromTimer(t workers.TimerInfo, b *binding) {
	var v timerData
	v.Schedule.AdjustForDST = strings.Contains(strings.TrimSpace(b.schedule), " ") // A cron expression, not an interval.
	v.ScheduleStatus.Last, v.ScheduleStatus.Next, v.ScheduleStatus.LastUpdated = t.ScheduleStatus.Last,
		t.ScheduleStatus.Next, t.ScheduleStatus.LastUpdated
	v.IsPastDue = t.IsPastDue
	inv.data.set("TimerTrigger", v)
	inv.trigger = v
}

// callManually calls a function with an input from outside, as the admin API does.
func (h *Host) callManually(ctx context.Context, f *function, input json.RawMessage) error {
	inv := h.newInvocation(ctx, f, "This function was programmatically called via the host APIs.")
	text := ""
	if present(input) != nil {
		text = rawText(input)
	}
	switch f.trigger.kind {
	case kindQueueTrigger:
		inv.data.set("QueueTrigger", text)
		inv.addInput([]byte(text), f.trigger.binary)
	case kindTimerTrigger:
		now := dotNetTime(time.Now())
		var t workers.TimerInfo
		t.ScheduleStatus.Last, t.ScheduleStatus.Next, t.ScheduleStatus.LastUpdated = now, now, now
		inv.fromTimer(t, f.trigger)
	case kindEventTrigger:
		if err := inv.fromEvent(json.RawMessage(text)); err != nil {
			return err
		}
	case kindTableTrigger:
		v := tableData{Table: f.trigger.target.source}
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
		storage, err := h.blobs(f.trigger)
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
