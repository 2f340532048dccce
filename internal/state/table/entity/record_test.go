package entity

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// value draws a value of any type.
func value() *rapid.Generator[Value] {
	return rapid.Custom(func(t *rapid.T) Value {
		switch typ := Type(rapid.IntRange(1, int(lastType)).Draw(t, "type")); typ {
		case String:
			return StringValue(rapid.String().Draw(t, "string"))
		case Binary:
			return Value{Type: Binary, Bytes: rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, "binary")}
		case Boolean:
			return BoolValue(rapid.Bool().Draw(t, "bool"))
		case DateTime:
			return TimeValue(ticks.Ticks(rapid.Int64Range(int64(MinTicks), int64(MaxTicks)).Draw(t, "ticks")))
		case Double:
			return DoubleValue(rapid.OneOf(rapid.Float64(), rapid.SampledFrom([]float64{0, math.Copysign(0, -1), 1, 0.1, 5e-324,
				math.MaxFloat64, math.NaN(), math.Inf(1), math.Inf(-1), 1e15, 123456789012345678, 1e-5, 0.0001})).Draw(t, "double"))
		case GUID:
			return Value{Type: GUID, Bytes: rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "guid")}
		case Int32:
			return Int32Value(rapid.Int32().Draw(t, "int32"))
		default:
			return Int64Value(rapid.Int64().Draw(t, "int64"))
		}
	})
}

func same(a, b Value) bool {
	return a.Type == b.Type && a.Num == b.Num && string(a.Bytes) == string(b.Bytes)
}

// properties draws named values in the order in which a record has them.
func properties(t *rapid.T, label string) (names []string, values map[string]Value) {
	values = make(map[string]Value)
	for _, n := range rapid.SliceOfN(rapid.StringMatching(`[A-Za-zé_][a-z0-9ꀕ]{0,4}`), 0, 8).Draw(t, label) {
		if _, ok := values[n]; !ok {
			names = append(names, n)
		}
		values[n] = value().Draw(t, n)
	}
	return names, values
}

func build(ts ticks.Ticks, names []string, values map[string]Value) Record {
	r := NewRecord(ts, 0)
	for _, n := range names {
		r = r.Append(n, values[n])
	}
	return r
}

func TestRecordKeepsProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		names, values := properties(t, "names")
		r := build(42, names, values)
		if err := CheckRecord(r); err != nil {
			t.Fatal(err)
		}
		if r.Timestamp() != 42 {
			t.Fatalf("timestamp is %d", r.Timestamp())
		}
		i := 0
		for it := r.Properties(); it.Next(); i++ {
			if string(it.Name) != names[i] || !same(it.Value(), values[names[i]]) {
				t.Fatalf("property %d is %q %v, want %q %v", i, it.Name, it.Value(), names[i], values[names[i]])
			}
			if got, ok := r.Lookup(names[i]); !ok || !same(got, values[names[i]]) {
				t.Fatalf("Lookup(%q) = %v, %v", names[i], got, ok)
			}
		}
		if i != len(names) {
			t.Fatalf("%d of %d properties came back", i, len(names))
		}
	})
}

func TestMergeReplacesAndAppends(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n1, v1 := properties(t, "old")
		n2, v2 := properties(t, "update")
		got := build(1, n1, v1).Merge(build(2, n2, v2))
		var want []string
		want = append(want, n1...)
		for _, n := range n2 {
			if _, ok := v1[n]; !ok {
				want = append(want, n)
			}
			v1[n] = v2[n]
		}
		if w := build(2, want, v1); string(w) != string(got) {
			t.Fatalf("merge gave %x, want %x", got, w)
		}
	})
}

// TestRecordBytes pins the form on disk: data folders hold it.
func TestRecordBytes(t *testing.T) {
	t.Parallel()
	r := NewRecord(0x0102030405060708, 0).Append("S", StringValue(`a"`)).Append("I", Int32Value(-2)).Append("P",
		StringValue("x"))
	want := "01" + "0102030405060708" + "410153026122" + "470149fffffffe" + "c101500178"
	if got := fmt.Sprintf("%x", []byte(r)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func FuzzRecord(f *testing.F) {
	f.Add([]byte(NewRecord(1, 0).Append("a", StringValue("b")).Append("c", Int64Value(1))))
	f.Add([]byte{1, 0, 0, 0, 0, 0, 0, 0, 0, 0x41, 0xff, 0xff, 0xff, 0xff, 0x7f})
	form := Form{Metadata: FullMetadata}
	f.Fuzz(func(t *testing.T, b []byte) {
		if CheckRecord(b) != nil {
			return
		}
		form.AppendJSON(nil, nil, nil, b) // what passes the check can be rendered
	})
}

func TestSorted(t *testing.T) {
	t.Parallel()
	names := func(r Record) (all []string) {
		for it := r.Properties(); it.Next(); {
			all = append(all, string(it.Name))
		}
		return all
	}
	of := func(names ...string) Record {
		r := NewRecord(7, 0)
		for i, n := range names {
			r = r.Append(n, Int32Value(int32(i)))
		}
		return r
	}
	for _, tc := range [][2][]string{
		{{}, nil},
		{{"b", "a"}, {"a", "b"}},
		{{"b", "a", "_", "B", "ab", "é"}, {"B", "_", "a", "ab", "b", "é"}},
		{{"\uff41", "\U00010400"}, {"\U00010400", "\uff41"}}, // UTF-16 has the second as surrogates
	} {
		r := of(tc[0]...)
		before := string(r)
		got := r.Sorted()
		if !slices.Equal(names(got), tc[1]) || got.Timestamp() != 7 || string(r) != before || CheckRecord(got) != nil {
			t.Errorf("%q: got %q, want %q", tc[0], names(got), tc[1])
		}
		for i, n := range tc[0] {
			if v, _ := got.Lookup(n); int(v.Num) != i {
				t.Errorf("%q: %s is %d, want %d", tc[0], n, v.Num, i)
			}
		}
		if again := got.Sorted(); &again[0] != &got[0] {
			t.Errorf("%q: what is sorted was copied", tc[0])
		}
	}
}
