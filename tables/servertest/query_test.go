package servertest

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/lazuli-storage/lazuli/tables"
)

// row holds what queries choose from. All but the keys may be absent.
type row struct {
	PartitionKey, RowKey string
	Name                 *string
	Age                  *int32
	Visits               *int64
	Score                *float64
	Active               *bool
	At                   *time.Time
	ID                   *uuid.UUID
	Content              []byte
}

// condition is an expression with what it means, evaluated in the plainest way.
type condition struct {
	expr  tables.Expr
	holds func(row) bool
	text  string
}

func utf16Compare(a, b string) int {
	return slices.Compare(utf16.Encode([]rune(a)), utf16.Encode([]rune(b)))
}

// compares makes a comparison of a field with a constant; order says how the field of a row compares, and whether it is
// there.
func compares(field, op string, value any, order func(row) (int, bool)) condition {
	f := tables.Field(field)
	meaning := map[string]struct {
		make  func(any) tables.Expr
		holds func(int) bool
	}{
		"eq": {f.Eq, func(c int) bool { return c == 0 }}, "ne": {f.Ne, func(c int) bool { return c != 0 }},
		"lt": {f.Lt, func(c int) bool { return c < 0 }}, "le": {f.Le, func(c int) bool { return c <= 0 }},
		"gt": {f.Gt, func(c int) bool { return c > 0 }}, "ge": {f.Ge, func(c int) bool { return c >= 0 }},
	}[op]
	return condition{meaning.make(value), func(r row) bool {
		c, there := order(r)
		return there && meaning.holds(c)
	}, fmt.Sprintf("%s %s %v", field, op, value)}
}

func pointerOrder[T any](get func(row) *T, value T, compare func(a, b T) int) func(row) (int, bool) {
	return func(r row) (int, bool) {
		p := get(r)
		if p == nil {
			return 0, false
		}
		return compare(*p, value), true
	}
}

var (
	words = []string{"", "a", "A", "ab", "b", "it's", "''", "ä", "€uro", "\U0001F642", "\U0001F642x", "\uE000", "\uFFFF",
		"x&y=1%20+#?", "a)(b or true"}
	times = []time.Time{time.Date(1601, 1, 1, 0, 0, 0, 0, time.UTC),
		time.Date(2026, 3, 1, 12, 0, 0, 1234567*100, time.UTC), time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)}
	ids = []uuid.UUID{{}, uuid.MustParse("c9da6455-213d-42c9-9a79-3e9149a57833"),
		uuid.MustParse("ffffffff-ffff-4fff-bfff-ffffffffffff")}
	blobs  = [][]byte{{0}, {0, 1}, {255}, []byte("it's")}
	scores = []float64{0, 5, -5, 0.1, 1e300, -1e-300, 123456789.125}
	ages   = []int32{0, 1, -1, 25, 2147483647, -2147483648}
	visits = []int64{0, -1, 25, 1 << 53, 1<<62 + 1, -1 << 63}
)

func drawCondition(t *rapid.T, depth int) condition {
	op := rapid.SampledFrom([]string{"eq", "ne", "lt", "le", "gt", "ge"}).Draw(t, "op")
	kinds := 12
	if depth == 0 {
		kinds = 9
	}
	text := func(get func(row) *string, field string) condition {
		value := rapid.SampledFrom(words).Draw(t, "word")
		if rapid.IntRange(0, 3).Draw(t, "prefix?") == 0 {
			return condition{tables.Field(field).StartsWith(value), func(r row) bool {
				p := get(r)
				return p != nil && strings.HasPrefix(*p, value)
			}, fmt.Sprintf("%s startswith %q", field, value)}
		}
		return compares(field, op, value, pointerOrder(get, value, utf16Compare))
	}
	switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
	case 0:
		return text(func(r row) *string { return &r.PartitionKey }, "PartitionKey")
	case 1:
		return text(func(r row) *string { return &r.RowKey }, "RowKey")
	case 2:
		return text(func(r row) *string { return r.Name }, "Name")
	case 3:
		v := rapid.SampledFrom(ages).Draw(t, "age")
		return compares("Age", op, v, pointerOrder(func(r row) *int32 { return r.Age }, v, cmp.Compare[int32]))
	case 4:
		v := rapid.SampledFrom(visits).Draw(t, "visits")
		return compares("Visits", op, v, pointerOrder(func(r row) *int64 { return r.Visits }, v, cmp.Compare[int64]))
	case 5:
		v := rapid.SampledFrom(scores).Draw(t, "score")
		return compares("Score", op, v, pointerOrder(func(r row) *float64 { return r.Score }, v, cmp.Compare[float64]))
	case 6:
		v := rapid.SampledFrom(times).Draw(t, "at")
		return compares("At", op, v, pointerOrder(func(r row) *time.Time { return r.At }, v, time.Time.Compare))
	case 7:
		v := rapid.SampledFrom(ids).Draw(t, "id")
		op = rapid.SampledFrom([]string{"eq", "ne"}).Draw(t, "id op")
		return compares("ID", op, v, pointerOrder(func(r row) *uuid.UUID { return r.ID }, v,
			func(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) }))
	case 8:
		v := rapid.SampledFrom(blobs).Draw(t, "content")
		return compares("Content", op, v, func(r row) (int, bool) { return bytes.Compare(r.Content, v), r.Content != nil })
	case 9:
		a, b := drawCondition(t, depth-1), drawCondition(t, depth-1)
		return condition{tables.And(a.expr, b.expr), func(r row) bool { return a.holds(r) && b.holds(r) },
			"(" + a.text + " and " + b.text + ")"}
	case 10:
		a, b := drawCondition(t, depth-1), drawCondition(t, depth-1)
		return condition{tables.Or(a.expr, b.expr), func(r row) bool { return a.holds(r) || b.holds(r) },
			"(" + a.text + " or " + b.text + ")"}
	}
	a := drawCondition(t, depth-1)
	return condition{tables.Not(a.expr), func(r row) bool { return !a.holds(r) }, "not " + a.text}
}

func some[T any](t *rapid.T, list []T, name string) *T {
	if rapid.IntRange(0, 3).Draw(t, name+"?") == 0 {
		return nil
	}
	v := rapid.SampledFrom(list).Draw(t, name)
	return &v
}

// The builder's conditions choose the rows that a naive evaluator of the same conditions chooses, in the service's
// order.
func TestConditionsMeanWhatTheySay(t *testing.T) {
	t.Parallel()
	service, _ := open(t)
	table := newTable[row](t, service, "Rows")
	keyable := func(s string) bool { return s != "" && !strings.ContainsAny(s, `/\#?`) }
	var rows []row
	example := rapid.Custom(func(rt *rapid.T) row {
		r := row{Name: some(rt, words, "name"), Age: some(rt, ages, "age"), Visits: some(rt, visits, "visits"),
			Score:  some(rt, scores, "score"),
			Active: some(rt, []bool{true, false}, "active"), At: some(rt, times, "at"), ID: some(rt, ids, "id")}
		if c := some(rt, blobs, "content"); c != nil {
			r.Content = *c
		}
		return r
	})
	n := 0
	for _, p := range words {
		for _, k := range words {
			if keyable(p) && keyable(k) {
				r := example.Example(n)
				r.PartitionKey, r.RowKey = p, k
				rows = append(rows, r)
				n++
			}
		}
	}
	ok(t, table.Bulk(t.Context(), tables.BulkInsert, rows))
	slices.SortFunc(rows, func(a, b row) int {
		return cmp.Or(utf16Compare(a.PartitionKey, b.PartitionKey), utf16Compare(a.RowKey, b.RowKey))
	})
	rapid.Check(t, func(rt *rapid.T) {
		c := drawCondition(rt, 3)
		q := table.Query(c.expr).AllowScan()
		plan, err := q.Plan()
		if err != nil {
			rt.Fatal(err)
		}
		var got, want []string
		for e, err := range q.All(t.Context()) {
			if err != nil {
				rt.Fatalf("%s: %v", plan.Filter, err)
			}
			got = append(got, e.PartitionKey+"|"+e.RowKey)
		}
		for _, r := range rows {
			if c.holds(r) {
				want = append(want, r.PartitionKey+"|"+r.RowKey)
			}
		}
		if d := gocmp.Diff(want, got); d != "" {
			rt.Fatalf("%s\n%s (-want +got):\n%s", c.text, plan.Filter, d)
		}
		if plan.Cost == tables.PointQuery && !plan.Filtered && len(got) > 1 {
			rt.Fatalf("%s is called a point query and has %d results", plan.Filter, len(got))
		}
	})
}

func TestPlan(t *testing.T) {
	t.Parallel()
	service, count := open(t)
	table := newTable[row](t, service, "Plans")
	pk, rk, age := tables.PartitionKey, tables.RowKey, tables.Field("Age")
	sent := count.n.Load()
	for _, c := range []struct {
		filter string
		cost   tables.Cost
		scan   bool
		where  []tables.Expr
	}{
		{"PartitionKey eq 'a' and RowKey eq 'b'", tables.PointQuery, false, []tables.Expr{pk.Eq("a"), rk.Eq("b")}},
		{"PartitionKey eq 'a' and RowKey eq 'b' and Age gt 5", tables.PointQuery, false,
			[]tables.Expr{pk.Eq("a"), rk.Eq("b"), age.Gt(5)}},
		{"PartitionKey eq 'a' and (RowKey ge 'b' and RowKey lt 'c')", tables.RangeQuery, false,
			[]tables.Expr{pk.Eq("a"), rk.StartsWith("b")}},
		{"PartitionKey eq 'a'", tables.PartitionScan, false, []tables.Expr{pk.Eq("a")}},
		{"PartitionKey eq 'a' and Age eq 5", tables.PartitionScan, true, []tables.Expr{pk.Eq("a"), age.Eq(5)}},
		{"PartitionKey eq 'a' and (RowKey eq 'b' or RowKey eq 'c')", tables.PartitionScan, true,
			[]tables.Expr{pk.Eq("a"), tables.Or(rk.Eq("b"), rk.Eq("c"))}},
		{"PartitionKey ge 'a' and PartitionKey lt 'b'", tables.PartitionRangeScan, true, []tables.Expr{pk.StartsWith("a")}},
		{"RowKey eq 'b'", tables.TableScan, true, []tables.Expr{rk.Eq("b")}},
		{"(PartitionKey eq 'a' and RowKey eq 'b') or (PartitionKey eq 'c' and RowKey eq 'd')", tables.TableScan, true,
			[]tables.Expr{tables.Or(tables.And(pk.Eq("a"), rk.Eq("b")), tables.And(pk.Eq("c"), rk.Eq("d")))}},
		{"not (PartitionKey eq 'a')", tables.TableScan, true, []tables.Expr{tables.Not(pk.Eq("a"))}},
		{"", tables.TableScan, true, nil},
	} {
		q := table.Query(c.where...)
		p, err := q.Plan()
		if err != nil || p.Filter != c.filter || p.Cost != c.cost || p.Scan() != c.scan {
			t.Errorf("%s: plan %+v, scan %v, %v", c.filter, p, p.Scan(), err)
		}
		if !c.scan {
			continue
		}
		if _, err := q.First(t.Context()); !errors.Is(err, tables.ErrScan) {
			t.Errorf("%s: %v, want %v", c.filter, err, tables.ErrScan)
		}
		if _, err := q.Page(t.Context(), ""); !errors.Is(err, tables.ErrScan) {
			t.Errorf("%s: page: %v, want %v", c.filter, err, tables.ErrScan)
		}
		if _, err := q.Count(t.Context()); !errors.Is(err, tables.ErrScan) {
			t.Errorf("%s: count: %v, want %v", c.filter, err, tables.ErrScan)
		}
	}
	if n := count.n.Load() - sent; n != 0 {
		t.Errorf("%d requests were sent by plans and refused scans", n)
	}
}

func TestConditionsThatDoNotFit(t *testing.T) {
	t.Parallel()
	service, _ := open(t)
	table := newTable[row](t, service, "Misfits")
	for text, where := range map[string]tables.Expr{
		`no property "Agee"`:       tables.Field("Agee").Eq(5),
		"Edm.Int32":                tables.Field("Age").Eq("5"),
		"not an Int32":             tables.Field("Age").Eq(1 << 40),
		"Edm.Boolean":              tables.Field("Active").Eq(1),
		"nil":                      tables.Field("Name").Eq(nil),
		"UTF-8":                    tables.Field("Name").Eq("\xff"),
		"1601":                     tables.Field("At").Gt(time.Time{}),
		"no conditions":            tables.Or(),
		"always holds":             tables.Not(tables.And()),
		"not a property name":      tables.Field("Age eq 5 or Age").Eq(5),
		"every service":            tables.Field("Score").Eq(0.0 * func() float64 { x := 0.0; return 1 / x }()),
		"a float64 is not a const": tables.Field("Visits").Eq(1.5),
	} {
		_, err := table.Query(where).Plan()
		says(t, err, text)
	}
}

func TestPagesAndTokens(t *testing.T) {
	t.Parallel()
	service, count := open(t)
	table := newTable[row](t, service, "Pages")
	var rows []row
	for i := range 25 {
		rows = append(rows, row{PartitionKey: "p", RowKey: tables.Int64Key(int64(i))})
	}
	ctx := t.Context()
	ok(t, table.Bulk(ctx, tables.BulkInsert, rows))
	q := table.Query(tables.PartitionKey.Eq("p")).PageSize(10)
	var sizes []int
	var keys []string
	for token := ""; ; {
		page, err := q.Page(ctx, token)
		ok(t, err)
		sizes = append(sizes, len(page.Items))
		for _, e := range page.Items {
			keys = append(keys, e.RowKey)
		}
		if token = page.Next; token == "" {
			break
		}
	}
	if !slices.Equal(sizes, []int{10, 10, 5}) || len(keys) != 25 || !slices.IsSorted(keys) {
		t.Errorf("pages of %v, keys %v", sizes, keys)
	}
	_, err := q.Page(ctx, "nonsense")
	says(t, err, "token")
	if n, err := q.Count(ctx); n != 25 || err != nil {
		t.Errorf("count %d, %v", n, err)
	}
	sent := count.n.Load()
	if got := collect(t, q.Limit(12)); len(got) != 12 || count.n.Load()-sent != 2 {
		t.Errorf("%d entities in %d requests", len(got), count.n.Load()-sent)
	}
	sent = count.n.Load()
	for range q.All(ctx) {
		break
	}
	if count.n.Load()-sent != 1 {
		t.Errorf("%d requests for the first page", count.n.Load()-sent)
	}
	if _, err := table.Query(tables.PartitionKey.Eq("none")).First(ctx); !errors.Is(err, tables.ErrNotFound) {
		t.Errorf("first of none: %v", err)
	}
	_, err = q.PageSize(1001).Page(ctx, "")
	says(t, err, "page size")
	if got := collect(t, table.Query(tables.PartitionKey.Eq("p")).Select("Age").Limit(1)); len(got) != 1 ||
		got[0].RowKey == "" {
		t.Errorf("selected %+v", got)
	}
}
