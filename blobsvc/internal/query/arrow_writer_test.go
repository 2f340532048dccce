package query

import (
	"errors"
	"fmt"
	"math/big"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lazuli-storage/lazuli/internal/test/arrowread"
)

// arrowOut asks for an Arrow stream with fields of the form "type name precision scale".
func arrowOut(fields ...string) string {
	var b strings.Builder
	for _, f := range fields {
		p := append(strings.Fields(f), "", "0", "0")
		fmt.Fprintf(&b, "<Field><Type>%s</Type><Name>%s</Name><Precision>%s</Precision><Scale>%s</Scale></Field>", p[0], p[1],
			p[2], p[3])
	}
	return "<Type>arrow</Type><ArrowConfiguration><Schema>" + b.String() + "</Schema></ArrowConfiguration>"
}

func TestArrowResults(t *testing.T) {
	t.Parallel()
	bigs := cmp.Comparer(func(a, b *big.Int) bool { return a.Cmp(b) == 0 })
	const conversion, ordinal = "InvalidTypeConversion", "InvalidColumnOrdinal"
	for _, c := range []struct {
		name, content, sql, in string
		out                    []string
		want                   []map[string]any
		errors                 []string
	}{
		// The live tests of the client libraries ask this.
		{name: "decimal", content: "100,200,300,400\n300,400,500,600\n", sql: "SELECT _2 from BlobStorage WHERE _1 > 250",
			out:  []string{"decimal abc 4 2"},
			want: []map[string]any{{"abc": big.NewInt(40000)}}},
		{name: "every type", content: "7,true,2020-01-02T03:04:05.678Z,täxt,2.5,-1.005\n", sql: "SELECT * FROM BlobStorage",
			out: []string{"int64 i", "bool b", "timestamp[ms] t", "string s", "double d", "decimal n 10 2"},
			want: []map[string]any{{"i": int64(7), "b": true, "t": int64(1577934245678), "s": "täxt", "d": 2.5,
				"n": big.NewInt(-101)}}},
		{name: "values of expressions", content: "3\n",
			sql:  "SELECT _1 * 2, _1 > 1, CAST(_1 AS FLOAT) / 2, NULLIF(_1, '3') FROM BlobStorage",
			out:  []string{"int64 twice", "bool b", "double half", "string none"},
			want: []map[string]any{{"twice": int64(6), "b": true, "half": 1.5}}},
		{name: "records of other types and lengths", content: "1\nx\n2,3\n\n4\n", sql: "SELECT * FROM BlobStorage",
			out:  []string{"int64 i"},
			want: []map[string]any{{"i": int64(1)}, {"i": int64(4)}}, errors: []string{conversion, ordinal, conversion}},
		{name: "JSON", content: `{"a":1,"b":{"c":[2]}}` + "\n" + `{"a":null,"b":"x"}`, sql: "SELECT a, b FROM BlobStorage",
			in: jsonLines, out: []string{"int64 a", "string"},
			want: []map[string]any{{"a": int64(1), "_2": `{"c":[2]}`}, {"_2": "x"}}},
		{name: "aggregate", content: "1\n2\n", sql: "SELECT COUNT(*) FROM BlobStorage", out: []string{"int64"},
			want: []map[string]any{{"_1": int64(2)}}},
		{name: "nothing", content: "1\n", sql: "SELECT _1 FROM BlobStorage WHERE _1 > 1", out: []string{"int64 i"}},
		{name: "fatal error", content: `{"a":1}` + "\n{b", sql: "SELECT a FROM BlobStorage", in: jsonLines,
			out:  []string{"int64 a"},
			want: []map[string]any{{"a": int64(1)}}, errors: []string{"ParseError"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, err := ask(t, c.content, c.sql, c.in, arrowOut(c.out...))
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(c.want, arrowread.Read(t, []byte(a.data)).Rows, bigs); d != "" {
				t.Error(d)
			}
			var names []string
			for _, e := range a.errors {
				names = append(names, e.name)
			}
			if d := cmp.Diff(c.errors, names); d != "" {
				t.Error(d)
			}
		})
	}
}

// A result is sent in batches while the content is read.
func TestArrowResultsInBatches(t *testing.T) {
	t.Parallel()
	const rows = 20_000
	a, err := ask(t, strings.Repeat("12345,some text of a column\n", rows), "SELECT * FROM BlobStorage", "",
		arrowOut("int64 a", "string b"))
	if err != nil {
		t.Fatal(err)
	}
	if s := arrowread.Read(t, []byte(a.data)); len(s.Rows) != rows || s.Batches < 5 {
		t.Errorf("%d rows in %d batches", len(s.Rows), s.Batches)
	}
}

func TestArrowSchemasThatAreRefused(t *testing.T) {
	t.Parallel()
	for out, code := range map[string]string{
		arrowOut():                     CodeValue,
		"<Type>arrow</Type>":           CodeValue,
		arrowOut("int32 a"):            CodeValue,
		arrowOut("decimal a 39"):       CodeValue,
		arrowOut("decimal a -1"):       CodeValue,
		arrowOut("decimal a 4 5"):      CodeValue,
		arrowOut("decimal a 4 -1"):     CodeValue,
		arrowOut("int64 a", "int64 b"): CodeExpression,
		arrowOut(strings.Split(strings.Repeat("int64 ", maxArrowFields)+"bool", " ")...): CodeValue,
	} {
		_, err := ask(t, "1\n", "SELECT _1 FROM BlobStorage", "", out)
		var e *Error
		if !errors.As(err, &e) || e.Code != code {
			t.Errorf("%.150s: %v, want %s", out, err, code)
		}
	}
}

func TestParseDecimal(t *testing.T) {
	t.Parallel()
	nines := strings.Repeat("9", 38)
	for _, c := range []struct {
		in    string
		scale int
		want  string
	}{
		{"4", 2, "400"}, {"4.25", 2, "425"}, {" -4.2 ", 2, "-420"}, {"+.5", 1, "5"}, {"5.", 0, "5"}, {"0.005", 2, "1"},
		{"0.0049", 2, "0"}, {"-0.005", 2, "-1"},
		{"1e3", 0, "1000"}, {"1.5E-1", 2, "15"}, {"0e99", 2, "0"}, {"1e-99", 2, "0"}, {"000012", 0, "12"}, {nines, 0, nines},
		{"0." + nines, 38, nines},
		{nines + "9", 0, ""}, {nines, 1, ""}, {"1e38", 0, ""}, {"1e999999999999", 0, ""}, {"1e99999999", 0, ""}, {"", 0, ""},
		{".", 0, ""}, {"-", 0, ""}, {"1.2.3", 0, ""},
		{"1e", 0, ""}, {"x", 0, ""}, {"0x10", 0, ""}, {"--1", 0, ""}, {"1_0", 0, ""},
	} {
		n, ok := parseDecimal([]byte(c.in), c.scale)
		if ok != (c.want != "") || ok && n.String() != c.want {
			t.Errorf("%q with scale %d is %v %v, want %q", c.in, c.scale, n, ok, c.want)
		}
	}
}
