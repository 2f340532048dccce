package functions

import (
	"cmp"
	"encoding/json"
	"net/url"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"

	"github.com/lazuli-storage/lazuli/functions/internal/entity"
	"github.com/lazuli-storage/lazuli/functions/internal/jsonvalue"
	"github.com/lazuli-storage/lazuli/internal/sdk/blobpath"
	"github.com/lazuli-storage/lazuli/workers"
)

// fromQueue returns the trigger data of a queue message.
// https://learn.microsoft.com/azure/azure-functions/functions-bindings-storage-queue-trigger#message-metadata
func (inv *invocation) fromQueue(m workers.QueueMessage, b *binding) {
	d := &inv.data
	d.Set("QueueTrigger", string(m.Body))
	d.Set("DequeueCount", m.DequeueCount)
	for name, text := range map[string]string{"ExpirationTime": m.ExpirationTime, "InsertionTime": m.InsertionTime,
		"NextVisibleTime": m.NextVisibleTime} {
		if t, err := time.Parse(time.RFC3339, text); err == nil {
			d.Set(name, t)
		}
	}
	d.Set("Id", m.Id)
	d.Set("PopReceipt", m.PopReceipt)
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
	d.AddPayload(cmp.Or(string(v.Entity), string(v.Before)))
	for name, value := range map[string]string{"Table": v.Table, "PartitionKey": v.PartitionKey, "RowKey": v.RowKey,
		"Change": v.Change, "ETag": v.ETag} {
		d.Set(name, value)
	}
	inv.trigger = v
}

// plainState is plainEntity for a state that may be missing.
func plainState(text json.RawMessage) json.RawMessage {
	if text == nil {
		return nil
	}
	return entity.Plain(text)
}

// fromBlob returns the trigger data of a blob.
// https://learn.microsoft.com/azure/azure-functions/functions-bindings-storage-blob-trigger#metadata
func (inv *invocation) fromBlob(path, address string, p blob.GetPropertiesResponse, text []byte, b *binding) {
	d := &inv.data
	d.Set("BlobTrigger", path)
	if u, err := url.Parse(address); err == nil {
		d.Set("Uri", plainURI(u))
	}
	d.Set("Properties", blobProperties(p))
	metadata := map[string]string{}
	for k, v := range p.Metadata {
		if v != nil {
			metadata[k] = *v
		}
	}
	d.Set("Metadata", metadata)
	if pattern, err := blobpath.Parse(b.path); err == nil {
		_, name, _ := strings.Cut(path, "/")
		// The names in the trigger's path, such as {name}, are there for the expressions of the other bindings.
		values, _ := pattern.Match(name)
		for k, v := range values {
			d.Set(k, v)
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
	return jsonvalue.Wire(*t)
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
	inv.data.Set("TimerTrigger", v)
	inv.trigger = v
}
