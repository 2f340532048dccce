package filter

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/lazuli-storage/lazuli/internal/state/table/entity"
	"github.com/lazuli-storage/lazuli/internal/test/workbudget"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ text, want string }{
		{``, ``},
		{`  `, ``},
		{`PartitionKey eq 'a'`, `PartitionKey eq 'a'`},
		{`PartitionKey eq 'it''s'`, `PartitionKey eq 'it''s'`},
		{`Name eq ''`, `Name eq ''`},
		{`A eq 1 and B ne 2 or C gt 3`, `((A eq 1 and B ne 2) or C gt 3)`},
		{`A eq 1 or B ne 2 and C gt 3`, `(A eq 1 or (B ne 2 and C gt 3))`},
		{`A eq 1 and (B ge 2 or C lt 3)`, `(A eq 1 and (B ge 2 or C lt 3))`},
		{`(A eq 1)and(B eq 2)`, `(A eq 1 and B eq 2)`},
		{`not A le 3 and B`, `(not (A le 3) and B eq true)`},
		{`not (A eq 1 or B)`, `not ((A eq 1 or B eq true))`},
		{`not not A`, `not (not (A eq true))`},
		{`5 lt Age`, `Age gt 5`},
		{`5 ge Age`, `Age le 5`},
		{`'a' eq Name`, `Name eq 'a'`},
		{`Active eq true and Done eq false`, `(Active eq true and Done eq false)`},
		{`true`, `true`},
		{`True`, `true`},
		{`A eq False or A eq TRUE`, `(A eq false or A eq true)`},
		{`A eq fALSE or A eq truE`, `(A eq false or A eq true)`},
		{`1 eq 1 and 'a' gt 'b'`, `(true and false)`},
		{`1 eq 1L`, `false`},
		{`(A eq 1) eq false`, `not (A eq 1)`},
		{`(A) eq 1`, `A eq 1`},
		{`A eq (1) and (((2)) lt (B))`, `(A eq 1 and B gt 2)`},
		{`(A) and not (B)`, `(A eq true and not (B eq true))`},
		{`(A) eq false`, `A eq false`},
		{`(true) eq (A)`, `A eq true`},
		{`N eq -5`, `N eq -5`},
		{`N eq 2147483647 or N eq -2147483648`, `(N eq 2147483647 or N eq -2147483648)`},
		{`N eq 9223372036854775807L`, `N eq 9223372036854775807L`},
		{`N eq -9223372036854775808L`, `N eq -9223372036854775808L`},
		{`D eq 1.5`, `D eq 1.5`},
		{`D eq 1e3`, `D eq 1000.0`},
		{`D eq -1.5E-7`, `D eq -1.5E-07`},
		{`D eq 5D`, `D eq 5.0`},
		{`D eq NaN or D eq INF or D eq -INF`, `((D eq NaN or D eq INF) or D eq -INF)`},
		{`T ge datetime'2026-11-21T04:05:06.1234567Z'`, `T ge datetime'2026-11-21T04:05:06.1234567Z'`},
		{`T ge datetime'2026-11-21'`, `T ge datetime'2026-11-21T00:00:00Z'`},
		{`G eq guid'C9DA6455-213d-42c9-9a79-3e9149a57833'`, `G eq guid'c9da6455-213d-42c9-9a79-3e9149a57833'`},
		{`B eq X'0aFF'`, `B eq X'0AFF'`},
		{`B eq binary'0aFF'`, `B eq X'0AFF'`},
		{`B eq X''`, `B eq X''`},
		{`啊齄丂狛狜 eq '啊齄'`, `啊齄丂狛狜 eq '啊齄'`},
		{"A\teq\n1", `A eq 1`},
		{`a-b eq 1`, `a-b eq 1`},
		{`not eq 1`, `not eq 1`},
		{`A eq True or B eq FALSE`, `(A eq true or B eq false)`},
	} {
		f, err := Parse(tc.text)
		if err != nil {
			t.Errorf("%s: %v", tc.text, err)
			continue
		}
		if got := f.String(); got != tc.want {
			t.Errorf("%s is read as %s, want %s", tc.text, got, tc.want)
		}
		again, err := Parse(f.String())
		if err != nil || again.String() != f.String() {
			t.Errorf("%s: the canonical form %s is read as %s, %v", tc.text, f, again, err)
		}
	}
}

func TestParseErrorsHavePositions(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		text string
		at   int
	}{
		{`A eq`, 4},
		{`A`, -1},
		{`A eq 'x`, 5},
		{`A foo 1`, 2},
		{`A eq 1 B eq 2`, 7},
		{`(A eq 1`, 7},
		{`A eq 1)`, 6},
		{`()`, 1},
		{`A eq B`, 5},
		{`A EQ 1`, 2},
		{`A eq 2147483648`, 5},
		{`A eq -2147483649`, 5},
		{`A eq 99999999999999999999`, 5},
		{`A eq 99999999999999999999L`, 5},
		{`A eq 12x`, 5},
		{`A eq 1.2.3`, 5},
		{`A eq guid'123'`, 5},
		{`A eq datetime'yesterday'`, 5},
		{`A eq X'0'`, 5},
		{`A eq X'zz'`, 5},
		{`A eq time'1'`, 5},
		{`A eq @p`, 5},
		{`A eq "x"`, 5},
		{`5`, 0},
		{`'a'`, 0},
		{`A and`, 5},
		{`and A`, 4},
		{`(A eq 1) gt true`, 0},
		{`(5)`, 0},
		{`A and (5)`, 6},
		{`not 'a'`, 4},
		{`A eq (B)`, 5},
		{`A eq (1`, 7},
		{`(5) and A`, 0},
		{strings.Repeat("(", 300), 200},
		{strings.Repeat("not ", 300) + "A", 800},
		{strings.Repeat("A or ", 1100) + "A", 5000},
		{strings.Repeat(" ", 40000), maxLength},
		{`A eq ` + "\xff", 5},
		{`A eq -x`, 5},
		{`A eq -INFx`, 5},
	} {
		_, err := Parse(tc.text)
		if tc.at < 0 {
			if err != nil {
				t.Errorf("%.40s: %v", tc.text, err)
			}
			continue
		}
		var e *Error
		if !errors.As(err, &e) {
			t.Errorf("%.40s: got %v, want an error at %d", tc.text, err, tc.at)
		} else if e.Offset != tc.at {
			t.Errorf("%.40s: got %v, want it at %d", tc.text, e, tc.at)
		}
	}
}

func TestMatch(t *testing.T) {
	t.Parallel()
	r := entity.NewRecord(entity.MinTicks+1, 0).
		Append("Age", entity.Int32Value(5)).
		Append("Long", entity.Int64Value(5)).
		Append("Price", entity.DoubleValue(5)).
		Append("Nan", entity.DoubleValue(math.NaN())).
		Append("Name", entity.StringValue("Bob")).
		Append("Active", entity.BoolValue(true)).
		Append("Bin", entity.Value{Type: entity.Binary, Bytes: []byte{1, 2}}).
		Append("When", entity.TimeValue(entity.MinTicks+ /* a day */ 864_000_000_000))
	e := Entity{[]byte("p"), []byte("r"), r}
	for text, want := range map[string]bool{
		``: true, `PartitionKey eq 'p'`: true, `PartitionKey eq 'P'`: false, `RowKey ge 'q' and RowKey lt 's'`: true,
		`Age eq 5`: true, `Age eq 5L`: false, `Age ne 5L`: false, `Long eq 5L`: true, `Long eq 5`: true, `Long ne 5`: false,
		`-1 lt Long`: true, `Long lt -1`: false, `Price eq 5.0`: true,
		`Price eq 5`: false, `Age gt 4`: true, `Age gt 5`: false, `5 ge Age`: true, `Name eq 'Bob'`: true,
		`Name lt 'Boc'`: true,
		`Name gt 'BOB'`: true, `Name eq 5`: false, `Active`: true, `not Active`: false, `Active eq true`: true,
		`Active ne false`: true,
		`Missing eq 1`:    false, `Missing ne 1`: false, `not (Missing eq 1)`: true, `Missing`: false, `not Missing`: true,
		`Nan eq NaN`: false, `Nan ne NaN`: true, `Nan lt 5.0`: false, `Nan ge 5.0`: false, `NaN ne NaN`: true,
		`Bin eq X'0102'`: true, `Bin gt X'01'`: true, `When eq datetime'1601-01-02T00:00:00Z'`: true,
		`Timestamp gt datetime'1601-01-01'`: true, `Timestamp lt datetime'1601-01-01T00:00:00.0000002Z'`: true,
		`true and Age eq 5`: true, `false or Age eq 5`: true, `PartitionKey eq 1`: false, `not (PartitionKey eq 1)`: true,
		`Age eq 4 or Age eq 5 and Name eq 'x'`: false, `age eq 5`: false,
	} {
		f, err := Parse(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
		} else if f.Match(&e) != want {
			t.Errorf("%s: got %v", text, !want)
		}
	}
}

func TestPlanKinds(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		text   string
		kind   Kind
		ranges int
		exact  bool
	}{
		{``, TableScan, 1, true},
		{`Age eq 5`, TableScan, 1, false},
		{`RowKey eq 'r'`, TableScan, 1, false},
		{`PartitionKey eq 'p' and RowKey eq 'r'`, PointQuery, 1, true},
		{`RowKey eq 'r' and PartitionKey eq 'p' and Age eq 5`, PointQuery, 1, false},
		{`PartitionKey eq 'p' and (RowKey eq 'r' or RowKey eq 's')`, PointQuery, 2, true},
		{`PartitionKey eq 'p' and RowKey eq 'r' or PartitionKey eq 'q' and RowKey eq 's'`, PointQuery, 2, true},
		{`PartitionKey eq 'p' and RowKey eq 'r' or PartitionKey eq 'p' and RowKey eq 'r'`, PointQuery, 1, true},
		{`PartitionKey eq 'p' and RowKey ge 'r' and RowKey lt 's'`, RangeQuery, 1, true},
		{`PartitionKey eq 'p' and not (RowKey lt 'r')`, RangeQuery, 1, true},
		{`PartitionKey eq 'p' and RowKey ne 'r'`, RangeQuery, 2, true},
		{`PartitionKey eq 'p' and (RowKey eq 'r' or RowKey gt 'r')`, RangeQuery, 1, true},
		{`PartitionKey eq 'p'`, PartitionScan, 1, true},
		{`PartitionKey eq ''`, PartitionScan, 1, true},
		{`PartitionKey eq 'p' and Age gt 5`, PartitionScan, 1, false},
		{`PartitionKey eq 'p' or PartitionKey eq 'q'`, PartitionScan, 2, true},
		{`PartitionKey ge 'p' and PartitionKey le 'p'`, PartitionScan, 1, true},
		{`PartitionKey ge 'p' and PartitionKey lt 'q'`, PartitionRangeScan, 1, true},
		{`PartitionKey ge 'p' and RowKey eq 'r'`, PartitionRangeScan, 1, false},
		{`PartitionKey eq 'p' or Age eq 5`, TableScan, 1, false},
		{`PartitionKey eq 'p' and PartitionKey eq 'q'`, Nothing, 0, true},
		{`PartitionKey eq 5`, Nothing, 0, true},
		{`false`, Nothing, 0, true},
		{`not (PartitionKey ne 'p' or RowKey ne 'r')`, PointQuery, 1, true},
	} {
		f, err := Parse(tc.text)
		if err != nil {
			t.Fatal(err)
		}
		if p := f.Plan(1); p.Kind != tc.kind || len(p.Ranges) != tc.ranges || p.Exact != tc.exact {
			t.Errorf("%s: %v with %d ranges, exact %v; want %v, %d, %v", tc.text, p.Kind, len(p.Ranges), p.Exact, tc.kind,
				tc.ranges, tc.exact)
		}
	}
}

// condition draws a filter over few keys and values, so that comparisons often hit.
func condition(depth int) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		if depth > 0 {
			switch rapid.IntRange(0, 3).Draw(t, "shape") {
			case 0:
				return "(" + condition(depth-1).Draw(t, "l") + " and " + condition(depth-1).Draw(t, "r") + ")"
			case 1:
				return "(" + condition(depth-1).Draw(t, "l") + " or " + condition(depth-1).Draw(t, "r") + ")"
			case 2:
				return "not (" + condition(depth-1).Draw(t, "n") + ")"
			}
		}
		op := rapid.SampledFrom(operatorNames[:]).Draw(t, "op")
		switch rapid.IntRange(0, 5).Draw(t, "what") {
		case 0, 1:
			return partitionKey + " " + op + " " + constant(entity.StringValue(text().Draw(t, "pk")))
		case 2, 3:
			return rowKey + " " + op + " " + constant(entity.StringValue(text().Draw(t, "rk")))
		case 4:
			return constant(someValue().Draw(t, "v")) + " " + op + " A"
		}
		return "B " + op + " " + constant(someValue().Draw(t, "v"))
	})
}

// text draws keys and constants, also such that no key can be.
func text() *rapid.Generator[string] {
	return rapid.SampledFrom([]string{"", "a", "b", "ab", "a b", "a\x00", "a\x01", "a\x1fb", "b\n", "\ue000", "\U00010000",
		"\uffff", "\ud7ff"})
}

func someValue() *rapid.Generator[entity.Value] {
	return rapid.SampledFrom([]entity.Value{entity.Int32Value(1), entity.Int32Value(2), entity.Int64Value(1),
		entity.DoubleValue(1),
		entity.DoubleValue(math.NaN()), entity.StringValue("1"), entity.StringValue("a"), entity.BoolValue(true),
		entity.TimeValue(entity.MinTicks),
		{Type: entity.Binary, Bytes: []byte{1}}, {Type: entity.GUID, Bytes: make([]byte, 16)}})
}

// TestPlanAgreesWithNaive: visiting the planned ranges finds what evaluating everything finds, in the same order.
func TestPlanAgreesWithNaive(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		const table = 7
		entities := make(map[string]*Entity)
		for range rapid.IntRange(0, 25).Draw(t, "n") {
			pk, rk := text().Draw(t, "epk"), text().Draw(t, "erk")
			if entity.CheckKey(pk) != nil || entity.CheckKey(rk) != nil {
				continue
			}
			r := entity.NewRecord(entity.MinTicks, 0)
			for _, name := range []string{"A", "B"} {
				if rapid.Bool().Draw(t, name) {
					r = r.Append(name, someValue().Draw(t, name+"v"))
				}
			}
			entities[string(entity.AppendKey(nil, table, pk, rk))] = &Entity{[]byte(pk), []byte(rk), r}
		}
		var keys []string
		for k := range entities {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		source := condition(3).Draw(t, "filter")
		f, err := Parse(source)
		if err != nil {
			t.Fatalf("%s: %v", source, err)
		}
		plan := f.Plan(table)
		var want, got []string
		for _, k := range keys {
			if f.Match(entities[k]) {
				want = append(want, k)
			}
		}
		for _, r := range plan.Ranges {
			for _, k := range keys {
				if bytes.Compare([]byte(k), r.Start) < 0 || bytes.Compare([]byte(k), r.End) >= 0 || r.Point &&
					k != string(r.Start) {
					continue
				}
				switch matches := f.Match(entities[k]); {
				case matches:
					got = append(got, k)
				case plan.Exact:
					t.Fatalf("%s: the exact plan holds %q, which does not match", f, k)
				}
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%s: the plan finds %q, everything is %q", f, got, want)
		}
	})
}

func FuzzParse(f *testing.F) {
	f.Add(`PartitionKey eq 'a''b' and (RowKey ge 'x' or not Active) and T lt datetime'2026-01-01T00:00:00Z'`)
	f.Add(`X'0aFF' eq B and guid'c9da6455-213d-42c9-9a79-3e9149a57833' ne G or 1.5e-7 gt D and -5L le N`)
	f.Add(`G eq guid'00000000-0000-0000-0000-00-000000000'`)
	f.Fuzz(func(t *testing.T, text string) {
		defer workbudget.Default.Start(t, len(text))()
		parsed, err := Parse(text)
		if err != nil {
			var e *Error
			if !errors.As(err, &e) || e.Offset < 0 || e.Offset > len(text) {
				t.Fatalf("error %v", err)
			}
			return
		}
		again, err := Parse(parsed.String())
		if err != nil && len(parsed.String()) <= maxLength && !strings.Contains(err.Error(), "deeply") {
			t.Fatalf("%q is read as %q, which is refused: %v", text, parsed, err)
		}
		if err == nil && again.String() != parsed.String() {
			t.Fatalf("%q is read as %q and then as %q", text, parsed, again)
		}
		parsed.Plan(1)
		parsed.Match(&Entity{Record: entity.NewRecord(0, 0)})
	})
}

func BenchmarkMatch(b *testing.B) {
	r := entity.NewRecord(entity.MinTicks, 0)
	for i := range 10 {
		r = r.Append(fmt.Sprintf("Property%d", i), entity.StringValue(strings.Repeat("x", 90)))
	}
	e := Entity{[]byte("p"), []byte("r"), r.Append("Age", entity.Int32Value(40))}
	f, err := Parse(`Age gt 30 and Property3 ne 'y'`)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if !f.Match(&e) {
			b.Fatal("no match")
		}
	}
}
