package durable

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Numbers of the field tags, a map of strings, in messages of the protocol. The engine's version does not have it.
const (
	startedTags   protowire.Number = 9 // ExecutionStartedEvent
	scheduledTags protowire.Number = 5 // TaskScheduledEvent
	createdTags   protowire.Number = 6 // SubOrchestrationInstanceCreatedEvent
	taskTags      protowire.Number = 4 // ScheduleTaskAction
	childTags     protowire.Number = 6 // CreateSubOrchestrationAction
	completedTags protowire.Number = 7 // CompleteOrchestrationAction
)

// maxTags bounds the tags of an instance, activity or child workflow, keys and values together, in bytes.
const maxTags = 8 << 10

// checkTags returns ErrTooLarge if there is too much in tags.
func checkTags(tags map[string]string) error {
	n := 0
	for k, v := range tags {
		n += len(k) + len(v)
	}
	if n > maxTags {
		return fmt.Errorf("%w: the tags have %d bytes; %d are allowed", ErrTooLarge, n, maxTags)
	}
	return nil
}

// setTags sets the tags of a message.
func setTags(m protoreflect.Message, field protowire.Number, tags map[string]string) {
	rest := withoutField(m.GetUnknown(), field)
	for _, k := range slices.Sorted(maps.Keys(tags)) {
		entry := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), k)
		entry = protowire.AppendString(protowire.AppendTag(entry, 2, protowire.BytesType), tags[k])
		rest = protowire.AppendBytes(protowire.AppendTag(rest, field, protowire.BytesType), entry)
	}
	m.SetUnknown(rest)
}

// tagsOf returns the tags of a message; nil if it has none.
func tagsOf(m protoreflect.Message, field protowire.Number) map[string]string {
	var tags map[string]string
	eachField(m.GetUnknown(), func(number protowire.Number, _, content []byte) {
		if number != field {
			return
		}
		if tags == nil {
			tags = map[string]string{}
		}
		var k, v string
		eachField(content, func(number protowire.Number, _, text []byte) {
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

// eachField calls f for each field of a message in the protocol's encoding: its number, all of it, and its content if
// it is one of length.
func eachField(fields []byte, f func(number protowire.Number, all, content []byte)) {
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
	eachField(fields, func(number protowire.Number, all, _ []byte) {
		if number != field {
			rest = append(rest, all...)
		}
	})
	return rest
}

func encodeTags(tags map[string]string) string {
	if len(tags) == 0 {
		return ""
	}
	text, _ := json.Marshal(tags) // Strings.
	return string(text)
}

// decodeTags reads tags as encodeTags writes them. Those that cannot be read are left out: they have no effect on the
// instance.
func decodeTags(text string) map[string]string {
	var tags map[string]string
	_ = json.Unmarshal([]byte(text), &tags)
	return tags
}
