package record

import (
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/lazuli-storage/lazuli/internal/durable/event"
	"github.com/lazuli-storage/lazuli/internal/test/workbudget"
)

// FuzzFields: fields of events that the engine does not know are read as far as they are whole, and never change the
// rest.
func FuzzFields(f *testing.F) {
	f.Add(protowire.AppendString(protowire.AppendTag(nil, event.FirstExtra, protowire.BytesType), "signal"))
	f.Add(protowire.AppendString(protowire.AppendTag(nil, event.Carried, protowire.BytesType), "sent"))
	f.Add([]byte{0x4b, 0x4b, 0x4b})
	f.Fuzz(func(t *testing.T, fields []byte) {
		defer workbudget.Default.Start(t, len(fields))()
		e := event.New("orchestratorCompleted", -1, time.Unix(0, 0))
		e.ProtoReflect().SetUnknown(fields)
		if v, name := event.PayloadOf(e); v != nil {
			without := event.WithoutPayload(e)
			if left, _ := event.PayloadOf(without); left != nil {
				t.Errorf("%q is left of the payload %q", left.Value, v.Value)
			}
			if err := event.SetPayload(without, name, v.Value); err != nil {
				t.Fatal(err)
			}
			if back, field := event.PayloadOf(without); back.GetValue() != v.Value || field != name {
				t.Errorf("the payload %q in %s came back as %q in %s", v.Value, name, back.GetValue(), field)
			}
		}
		event.TagsOf(e.ProtoReflect(), event.StartedTags)
		Describe([]*Event{e})
	})
}
