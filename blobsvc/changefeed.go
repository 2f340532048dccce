package blobsvc

import (
	"encoding/binary"
	"fmt"
	"net/url"
	"strings"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/avro"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// The change feed: what happened to blobs, in order, as Avro files in the container $blobchangefeed. An event is recorded in the
// transaction that brings the change about, in the changes bucket under the next number, so none is lost and none is made up.
// The writer (changefeed_write.go) moves events from there to the files, adding to a file and removing what was added in one
// transaction, so each is there once.
// https://learn.microsoft.com/azure/storage/blobs/storage-blob-change-feed

// ChangeFeedContainer is written by the system alone.
const ChangeFeedContainer = "$blobchangefeed"

// Event is one entry of the feed, as the changes bucket has it.
type Event struct {
	kind                            event
	at                              ticks.Ticks
	api, requestID, clientRequestID string
	base, container, blob           string
	etag                            ticks.Ticks
	contentType, blobType, tier     string
	length                          int64
	snapshot, version               ticks.Ticks
	copyID                          string // of events that were recorded by a version without details
	EventDetails
	account string // not stored: the key has it
	seq     uint64 // not stored: the key has it
}

// eventNames are the types of events that the feed has. What only writes a part of a blob's content is in none, as on Azure.
var eventNames = map[event]string{
	eventCreated:    "BlobCreated",
	eventStarted:    "BlobAsyncOperationInitiated",
	eventProperties: "BlobPropertiesUpdated",
	eventTier:       "BlobTierChanged",
	eventSnapshot:   "BlobSnapshotCreated",
	eventDeleted:    "BlobDeleted",
}

// maxEventRequestID is how much of a client's request id is kept.
const maxEventRequestID = 256

// recordEvent adds an event to the feed, if the account has one.
func (s *Service) recordEvent(tx *store.Tx, c *call, e event, slot uint64, b *Blob) {
	if !s.managed(c).ChangeFeed || eventNames[e] == "" || c.container == LogsContainer || c.container == ChangeFeedContainer {
		c.before = previousState{}
		return
	}
	f := Event{kind: e, at: c.now(), api: c.Operation, requestID: c.ID, clientRequestID: c.ClientID, base: c.Base, container: c.container,
		blob: c.blob, etag: b.Changed, contentType: b.Headers.ContentType, blobType: b.Kind.String(), length: b.Length, version: b.Version, EventDetails: c.details(tx, e, b)}
	f.clientRequestID = f.clientRequestID[:min(len(f.clientRequestID), maxEventRequestID)]
	f.tier, _ = b.AccessTier(slot)
	if b.IsSnapshot(slot) {
		f.snapshot = ticks.Ticks(slot)
	}
	tx.Put(changesBucket, changeKey(c.Account, nextID(tx)), f.encode())
}

// changeKey is the key of an event. Numbers are given in the order of commits.
func changeKey(account string, seq uint64) []byte {
	return binary.BigEndian.AppendUint64(append([]byte(account), 0), seq)
}

func parseChangeKey(k []byte) (account string, seq uint64, err error) {
	n := len(k) - 9
	if n < 1 || k[n] != 0 {
		return "", 0, errKey
	}
	return string(k[:n]), binary.BigEndian.Uint64(k[n+1:]), nil
}

// texts are the fields that are strings, in the order in which they are stored.
func (f *Event) texts() [10]*string {
	return [...]*string{&f.api, &f.requestID, &f.clientRequestID, &f.base, &f.container, &f.blob, &f.contentType, &f.blobType, &f.tier, &f.copyID}
}

func (f *Event) encode() []byte {
	e := newEncoder(256)
	e.b = append(e.b, byte(f.kind))
	for _, s := range f.texts() {
		e.string(*s)
	}
	for _, n := range [...]int64{int64(f.at), int64(f.etag), f.length, int64(f.snapshot), int64(f.version)} {
		e.uvarint(uint64(n))
	}
	f.EventDetails.encode(&e)
	return e.b
}

func decodeFeedEvent(k, v []byte) (f Event, err error) {
	if f.account, f.seq, err = parseChangeKey(k); err != nil {
		return f, err
	}
	d := newDecoder(v)
	f.kind = event(d.byte())
	for _, s := range f.texts() {
		*s = d.string()
	}
	f.at, f.etag, f.length, f.snapshot, f.version = ticks.Ticks(d.uint()), ticks.Ticks(d.uint()), int64(d.uint()), ticks.Ticks(d.uint()), ticks.Ticks(d.uint())
	if d.more() {
		f.EventDetails.decode(&d)
	} else if f.copyID != "" {
		f.async = []Tag{{"CopyId", f.copyID}, {"WasAsyncOperation", "true"}}
	}
	return f, d.err()
}

// id is the event's own: the request's, with the event's number in place of its last digits.
func (f *Event) id() string {
	head := f.requestID
	if len(head) < 24 {
		head = "00000000-0000-0000-0000-"
	}
	return fmt.Sprintf("%s%012x", head[:24], f.seq&(1<<48-1))
}

// url is the blob's address, as the client that changed it wrote it; without a host for what no client did.
func (f *Event) url() string {
	return f.base + "/" + f.container + "/" + strings.ReplaceAll(url.PathEscape(f.blob), "%2F", "/")
}

// feedSchema is the Avro schema of the feed's records.
const feedSchema = `{"type":"record","name":"BlobChangeEvent","namespace":"com.microsoft.azure.storage","fields":[` +
	`{"name":"schemaVersion","type":"int"},{"name":"topic","type":"string"},{"name":"subject","type":"string"},` +
	`{"name":"eventType","type":"string"},{"name":"eventTime","type":"string"},{"name":"id","type":"string"},` +
	`{"name":"data","type":{"type":"record","name":"BlobChangeEventData","fields":[` +
	`{"name":"api","type":"string"},{"name":"clientRequestId","type":"string"},{"name":"requestId","type":"string"},` +
	`{"name":"etag","type":"string"},{"name":"contentType","type":"string"},{"name":"contentLength","type":"long"},` +
	`{"name":"blobType","type":"string"},{"name":"blobVersion","type":["null","string"]},{"name":"containerVersion","type":["null","string"]},` +
	`{"name":"blobTier","type":["null","string"]},{"name":"url","type":"string"},{"name":"sequencer","type":"string"},` +
	`{"name":"previousInfo","type":["null",{"type":"map","values":"string"}]},{"name":"snapshot","type":["null","string"]},` +
	`{"name":"blobPropertiesUpdated","type":["null",{"type":"map","values":{"type":"map","values":"string"}}]},` +
	`{"name":"asyncOperationInfo","type":["null",{"type":"map","values":"string"}]},` +
	`{"name":"blobTagsUpdated","type":["null",{"type":"map","values":{"type":"map","values":"string"}}]},` +
	`{"name":"restorePointMarker","type":["null",{"type":"map","values":"string"}]}]}}]}`

// feedSchemaVersion is the version of the documented schema that has all of these fields.
const feedSchemaVersion = 5

// appendAvro appends the event as a record of feedSchema.
func (f *Event) appendAvro(b []byte) []byte {
	text := func(s string) { b = avro.AppendString(b, s) }
	some := func(s string) {
		if s == "" {
			b = avro.AppendLong(b, 0)
			return
		}
		b = avro.AppendLong(b, 1)
		text(s)
	}
	iso := func(t ticks.Ticks) string {
		if t == 0 {
			return ""
		}
		return t.ISO()
	}
	b = avro.AppendLong(b, feedSchemaVersion)
	text("/subscriptions/00000000-0000-0000-0000-000000000000/resourceGroups/lazuli/providers/Microsoft.Storage/storageAccounts/" + f.account)
	text("/blobServices/default/containers/" + f.container + "/blobs/" + f.blob)
	text(eventNames[f.kind])
	text(f.at.ISO())
	text(f.id())
	text(f.api)
	text(f.clientRequestID)
	text(f.requestID)
	text(f.etag.HexETag())
	text(f.contentType)
	b = avro.AppendLong(b, f.length)
	text(f.blobType)
	some(iso(f.version))
	some(f.containerVersion())
	some(f.tier)
	text(f.url())
	text(fmt.Sprintf("%016x%016x%016x", 1, 0, f.seq))
	b = appendOptionalMap(b, f.previous)
	some(iso(f.snapshot))
	b = f.appendProperties(b)
	b = appendOptionalMap(b, f.async)
	b = f.appendTags(b)
	return avro.AppendLong(b, 0) // restorePointMarker: nothing is restored to a point in time
}
