package entity

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// TestListIsAsEntitiesAlone: the renderer of a page keeps texts from one entity to the next. Whatever came before, each
// entity is rendered as it is alone.
func TestListIsAsEntitiesAlone(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		f := form
		f.Metadata = Metadata(rapid.IntRange(int(NoMetadata), int(FullMetadata)).Draw(t, "level"))
		pool := rapid.SliceOfNDistinct(rapid.StringMatching(`[A-Za-zé_][a-z0-9ꀕ"]{0,4}`), 1, 8, rapid.ID).Draw(t, "names")
		if rapid.Bool().Draw(t, "select") {
			f.HasSelect = true
			f.Select = rapid.SliceOfNDistinct(rapid.SampledFrom(append([]string{"PartitionKey", "RowKey", "Timestamp",
				"absent", "odata"}, pool...)), 0, 10, rapid.ID).Draw(t, "selected")
			if f.Select == nil {
				f.Select = []string{}
			}
		}
		times := rapid.OneOf(rapid.Int64Range(int64(MinTicks), int64(MaxTicks)),
			rapid.Int64Range(int64(MinTicks), int64(MinTicks)+3*ticks.Second),
			rapid.SampledFrom([]int64{int64(MinTicks), int64(MinTicks) + 1, int64(MaxTicks)}))
		l := f.List()
		for range rapid.IntRange(1, 12).Draw(t, "entities") {
			r := NewRecord(ticks.Ticks(times.Draw(t, "time")), 0)
			// Mostly the same properties in the same order, with some left out, of other types, or in another order.
			names := slices.Clone(pool)
			if rapid.IntRange(0, 4).Draw(t, "order") == 0 {
				names = rapid.Permutation(names).Draw(t, "permutation")
			}
			for i, name := range names {
				v := Int32Value(int32(i))
				switch rapid.IntRange(0, 5).Draw(t, "kind") {
				case 0:
					continue
				case 1, 2:
					v = value().Draw(t, "value")
				}
				r = r.Append(name, v)
			}
			partition := []byte(rapid.OneOf(rapid.SampledFrom([]string{"p", "q'\"", ""}), keyText()).Draw(t, "partition"))
			row := []byte(keyText().Draw(t, "row"))
			got, want := string(l.Append([]byte("x"), partition, row, r)), "x"+string(f.AppendJSONEntity(nil, partition, row, r))
			if got != want {
				t.Fatalf("got  %s\nwant %s", got, want)
			}
			if !json.Valid([]byte(got[1:])) {
				t.Fatalf("not JSON: %s", got)
			}
		}
	})
}

// FuzzListOfRecords: any bytes that pass for a record are rendered as they are alone, also those that end within a
// property.
func FuzzListOfRecords(f *testing.F) {
	a := NewRecord(MinTicks, 0).Append("S", StringValue(`a"`)).Append("D", DoubleValue(1.5)).Append("P", StringValue("x"))
	b := NewRecord(MinTicks+1, 0).Append("S", Int64Value(5)).Append("P", StringValue("x"))
	f.Add([]byte(a), []byte(b), uint8(0))
	f.Add([]byte(b), []byte(a[:len(a)-1]), uint8(1))
	f.Add([]byte(a), append(bytes.Clone(b), 0), uint8(6))
	f.Fuzz(func(t *testing.T, a, b []byte, level uint8) {
		f := form
		f.Metadata = Metadata(level % 3)
		if level&4 != 0 {
			f.Select = []string{"PartitionKey", "P", "S", "absent"}
		}
		l := f.List()
		for i, r := range []Record{a, b, a, a, a, a, a, b} {
			if !r.Valid() {
				return
			}
			got, want := l.Append(nil, []byte("p"), []byte("r"), r), f.AppendJSONEntity(nil, []byte("p"), []byte("r"), r)
			if string(got) != string(want) {
				t.Fatalf("entity %d: got  %s\nwant %s", i, got, want)
			}
		}
	})
}

// TestListOfManyKinds: entities of several kinds in turns, wider than the walk looks ahead, keep no more memory than
// the widest of them needs.
func TestListOfManyKinds(t *testing.T) {
	t.Parallel()
	f := form
	f.Metadata = MinimalMetadata
	l := f.List()
	for i := range 1000 {
		r := NewRecord(MinTicks, 0)
		for j := range maxProperties {
			r = r.Append(fmt.Sprintf("kind%d_%d", i%7, j), Int64Value(int64(i)))
		}
		if got, want := l.Append(nil, nil, nil, r), f.AppendJSONEntity(nil, nil, nil, r); string(got) != string(want) {
			t.Fatalf("entity %d: got  %s\nwant %s", i, got, want)
		}
	}
	if len(l.slots) != maxProperties {
		t.Errorf("%d slots for entities of %d properties", len(l.slots), maxProperties)
	}
}

func BenchmarkAppendJSONList(b *testing.B) {
	p, err := ParseJSON(kilobyte(), Rules{})
	if err != nil {
		b.Fatal(err)
	}
	p.Record.SetTimestamp(MinTicks + 12345678)
	for _, c := range []struct {
		name     string
		selected []string
	}{{"all", nil}, {"selected", []string{"PartitionKey", "RowKey", "Active", "Age"}}} {
		b.Run(c.name+"/list", func(b *testing.B) {
			f := form
			f.Metadata, f.Select = MinimalMetadata, c.selected
			l := f.List()
			var out []byte
			b.ReportAllocs()
			for b.Loop() {
				out = l.Append(out[:0], p.PartitionKey, p.RowKey, p.Record)
			}
			b.SetBytes(int64(len(out)))
		})
		b.Run(c.name+"/alone", func(b *testing.B) {
			f := form
			f.Metadata, f.Select = MinimalMetadata, c.selected
			var out []byte
			for b.Loop() {
				out = f.AppendJSONEntity(out[:0], p.PartitionKey, p.RowKey, p.Record)
			}
			b.SetBytes(int64(len(out)))
		})
	}
}
