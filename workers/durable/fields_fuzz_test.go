package durable

import (
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/lazuli-storage/lazuli/internal/test/workbudget"
)

// FuzzFields: fields of events that the engine does not know are read as far as they are whole, and never change the
// rest.
func FuzzFields(f *testing.F) {
	f.Add(protowire.AppendString(protowire.AppendTag(nil, firstExtra, protowire.BytesType), "signal"))
	f.Add(protowire.AppendString(protowire.AppendTag(nil, carried, protowire.BytesType), "sent"))
	f.Add([]byte{0x4b, 0x4b, 0x4b})
	f.Fuzz(func(t *testing.T, fields []byte) {
		defer workbudget.Default.Start(t, len(fields))()
		e := newEvent("orchestratorCompleted", -1, time.Unix(0, 0))
		e.ProtoReflect().SetUnknown(fields)
		if v, name := payload(e); v != nil {
			if err := setPayload(withoutPayload(e), name, v.Value); err != nil {
				t.Skip() // The payload was that of another field of the same message.
			}
		}
		tagsOf(e.ProtoReflect(), startedTags)
		Describe([]*Event{e})
	})
}
