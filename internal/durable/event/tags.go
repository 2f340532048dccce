package event

import (
	"encoding/json"
	"maps"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Numbers of the field tags, a map of strings, in messages of the protocol. The engine's version does not have it.
const (
	StartedTags   protowire.Number = 9 // ExecutionStartedEvent
	ScheduledTags protowire.Number = 5 // TaskScheduledEvent
	CreatedTags   protowire.Number = 6 // SubOrchestrationInstanceCreatedEvent
	ActionTags    protowire.Number = 4 // ScheduleTaskAction
	ChildTags     protowire.Number = 6 // CreateSubOrchestrationAction
	CompletedTags protowire.Number = 7 // CompleteOrchestrationAction
)

// SetTags sets the tags of a message.
func SetTags(m protoreflect.Message, field protowire.Number, tags map[string]string) {
	rest := withoutField(m.GetUnknown(), field)
	for _, k := range slices.Sorted(maps.Keys(tags)) {
		entry := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), k)
		entry = protowire.AppendString(protowire.AppendTag(entry, 2, protowire.BytesType), tags[k])
		rest = protowire.AppendBytes(protowire.AppendTag(rest, field, protowire.BytesType), entry)
	}
	m.SetUnknown(rest)
}

// TagsOf returns the tags of a message; nil if it has none.
func TagsOf(m protoreflect.Message, field protowire.Number) map[string]string {
	var tags map[string]string
	EachField(m.GetUnknown(), func(number protowire.Number, _, content []byte) {
		if number != field {
			return
		}
		if tags == nil {
			tags = map[string]string{}
		}
		var k, v string
		EachField(content, func(number protowire.Number, _, text []byte) {
			switch number {
			case 1:
				k = string(text)
			case 2:
				v = string(text)
			}
		})
		tags[k] = v
	})
	return tags
}

// TaskTags returns the tags of an activity's event TaskScheduled.
func TaskTags(e *Event) map[string]string {
	return TagsOf(e.GetTaskScheduled().ProtoReflect(), ScheduledTags)
}

// EachField calls f for each field of a message in the protocol's encoding: its number, all of it, and its content if
// it is one of length.
func EachField(fields []byte, f func(number protowire.Number, all, content []byte)) {
	for len(fields) > 0 {
		number, kind, n := protowire.ConsumeTag(fields)
		if n < 0 {
			return
		}
		size := protowire.ConsumeFieldValue(number, kind, fields[n:])
		if size < 0 {
			return
		}
		var content []byte
		if kind == protowire.BytesType {
			content, _ = protowire.ConsumeBytes(fields[n:])
		}
		f(number, fields[:n+size], content)
		fields = fields[n+size:]
	}
}

func withoutField(fields []byte, field protowire.Number) (rest []byte) {
	EachField(fields, func(number protowire.Number, all, _ []byte) {
		if number != field {
			rest = append(rest, all...)
		}
	})
	return rest
}

// EncodeTags returns tags as a column of a row holds them; "" for none.
func EncodeTags(tags map[string]string) string {
	if len(tags) == 0 {
		return ""
	}
	text, _ := json.Marshal(tags) // Strings.
	return string(text)
}

// DecodeTags reads tags as EncodeTags writes them. Those that cannot be read are left out: they have no effect on the
// instance.
func DecodeTags(text string) map[string]string {
	var tags map[string]string
	_ = json.Unmarshal([]byte(text), &tags)
	return tags
}
