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
			without := withoutPayload(e)
			if left, _ := payload(without); left != nil {
				t.Errorf("%q is left of the payload %q", left.Value, v.Value)
			}
			if err := setPayload(without, name, v.Value); err != nil {
				t.Fatal(err)
			}
			if back, field := payload(without); back.GetValue() != v.Value || field != name {
				t.Errorf("the payload %q in %s came back as %q in %s", v.Value, name, back.GetValue(), field)
			}
		}
		tagsOf(e.ProtoReflect(), startedTags)
		Describe([]*Event{e})
	})
}
