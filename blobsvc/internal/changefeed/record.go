package changefeed

import (
	"github.com/lazuli-storage/lazuli/blobsvc/internal/avro"
	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// schema is the Avro schema of the feed's records.
const schema = `{"type":"record","name":"BlobChangeEvent","namespace":"com.microsoft.azure.storage","fields":[` +
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

// schemaVersion is the version of the documented schema that has all of these fields.
const schemaVersion = 5

// appendRecord appends an event as a record of schema.
func appendRecord(b []byte, f *record.Event) []byte {
	b = avro.AppendLong(b, schemaVersion)
	for _, s := range [...]string{
		f.Topic(), f.Subject(), f.Type(), f.At.ISO(), f.ID(), f.Operation, f.ClientRequestID, f.RequestID, f.ETag.HexETag(),
		f.ContentType,
	} {
		b = avro.AppendString(b, s)
	}
	b = avro.AppendLong(b, f.Length)
	b = avro.AppendString(b, f.BlobType)
	b = appendOptional(b, iso(f.Version))
	b = appendOptional(b, f.ContainerVersion())
	b = appendOptional(b, f.Tier)
	b = avro.AppendString(b, f.URL())
	b = avro.AppendString(b, f.Sequencer())
	b = appendOptionalMap(b, f.Previous)
	b = appendOptional(b, iso(f.Snapshot))
	b = appendProperties(b, f.Properties)
	b = appendOptionalMap(b, f.Async)
	b = appendTags(b, f)
	return avro.AppendLong(b, 0) // restorePointMarker: nothing is restored to a point in time
}

func iso(t ticks.Ticks) string {
	if t == 0 {
		return ""
	}
	return t.ISO()
}

// appendOptional appends a union of null and a string: null for "".
func appendOptional(b []byte, s string) []byte {
	if s == "" {
		return avro.AppendLong(b, 0)
	}
	return avro.AppendString(avro.AppendLong(b, 1), s)
}

// appendMap appends a map of strings.
func appendMap(b []byte, list []record.Tag) []byte {
	b = avro.AppendMapHead(b, len(list))
	for _, t := range list {
		b = avro.AppendString(avro.AppendString(b, t.Key), t.Value)
	}
	return avro.AppendMapEnd(b)
}

// appendOptionalMap appends a union of null and a map of strings: null for an empty one.
func appendOptionalMap(b []byte, list []record.Tag) []byte {
	if len(list) == 0 {
		return avro.AppendLong(b, 0)
	}
	return appendMap(avro.AppendLong(b, 1), list)
}

// appendProperties appends blobPropertiesUpdated.
func appendProperties(b []byte, list []record.PropertyChange) []byte {
	if len(list) == 0 {
		return avro.AppendLong(b, 0)
	}
	b = avro.AppendMapHead(avro.AppendLong(b, 1), len(list))
	for _, p := range list {
		b = appendMap(avro.AppendString(b, p.Name),
			[]record.Tag{{Key: "current", Value: p.Current}, {Key: "previous", Value: p.Previous}})
	}
	return avro.AppendMapEnd(b)
}

// appendTags appends blobTagsUpdated.
func appendTags(b []byte, f *record.Event) []byte {
	if !f.Tagged {
		return avro.AppendLong(b, 0)
	}
	b = avro.AppendMapHead(avro.AppendLong(b, 1), 2)
	b = appendMap(avro.AppendString(b, "previous"), f.TagsBefore)
	b = appendMap(avro.AppendString(b, "current"), f.TagsNow)
	return avro.AppendMapEnd(b)
}
