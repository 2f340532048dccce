package query

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/budget"
)

// TestRecorded has what tests of the official clients for Python, JavaScript and .NET expect of the real service.
func TestRecorded(t *testing.T) {
	const dotted = `<Type>delimited</Type><DelimitedTextConfiguration><ColumnSeparator>.</ColumnSeparator><RecordSeparator>!</RecordSeparator><HasHeaders>%v</HasHeaders></DelimitedTextConfiguration>`
	const two = "100,200,300,400\n150,250,350,450\n"
	for _, c := range []struct {
		name, content, sql, in, out string
		want                        string
		errors                      []recordError
	}{
		{name: "all", content: two, sql: "select * from BlobStorage", want: two},
		{name: "where", content: two, sql: "select _2 from BlobStorage where _1 > 100", want: "250\n"},
		{name: "nothing", content: two, sql: "select _2 from BlobStorage where _1 > 200", want: ""},
		{name: "semicolon", content: "100,200,300,400\n300,400,500,600\n", sql: "SELECT _2 from BlobStorage WHERE _1 > 250;",
			want: "400\n"},
		{name: "carriage returns", content: "a,b\r\nEvent Hubs\r\nc,d\r\n", sql: "SELECT * from BlobStorage",
			want: "a,b\nEvent Hubs\nc,d\n"},
		{name: "other form", content: "S,1,FALSE\r\nEvent Hubs\r\nE,1.0.1,FALSE\r\n", sql: "SELECT * from BlobStorage",
			out:  csvOdd,
			want: "S;1;FALSE.Event Hubs.E;'1.0.1';FALSE."},
		{name: "headers", content: "100.200.300.400!150.250.350.450!180.280.380.480!", sql: "select _1 from BlobStorage",
			in: fmt.Sprintf(dotted, true), out: fmt.Sprintf(dotted, false), want: "150!180!"},
		{name: "CSV to JSON", content: "300,400\n", sql: "SELECT _2 from BlobStorage WHERE _1 > 250;", out: jsonLines,
			want: `{"_1":"400"}` + "\n"},
		{name: "JSON", content: `{"_1":"100","_2":"200"}` + "\n" + `{"_1":"150","_2":"250"}` + "\n",
			sql: "select * from BlobStorage",
			in:  jsonLines, out: jsonLines, want: `{"_1":"100","_2":"200"}` + "\n" + `{"_1":"150","_2":"250"}` + "\n"},
		{name: "missing fields", content: `{"name": "owner", "id": 1}` + "\n" + `{"name2": "owner2"}` + "\n" +
			`{"name": "owner", "id": 1}`,
			sql: "SELECT name from BlobStorage", in: jsonLines,
			out:  `<Type>json</Type><JsonTextConfiguration><RecordSeparator>;</RecordSeparator></JsonTextConfiguration>`,
			want: `{"name":"owner"};{};{"name":"owner"};`},
		{name: "conversion", content: "100,hello,300,400\n150,250,350,450\n",
			sql: "select _2 from BlobStorage where _2 > 100", want: "250\n",
			errors: []recordError{{false, "InvalidTypeConversion", "Invalid type conversion.", 0}}},
		{name: "not JSON", content: two, sql: "select * from BlobStorage", in: jsonLines, want: "\n",
			errors: []recordError{{true, "ParseError", "Unexpected token ',' at [byte: 3]. Expecting tokens '{', or '['.", 0}}},
		{name: "nearly JSON", content: "{name: owner}\n{name2: owner2}\n{name: owner}", sql: "SELECT * from BlobStorage",
			in: jsonLines, out: csvOdd, want: "",
			errors: []recordError{{true, "ParseError", "Unexpected token 'n' at [byte: 1].", 0}}},
		{name: "too few columns", content: "Service,RepoPath\nEvent Hubs\nIdentity,identity\n",
			sql: "SELECT RepoPath from BlobStorage", in: csvHeader, out: csvOdd,
			want: "identity.", errors: []recordError{{false, "InvalidColumnOrdinal", errColumn.description, 17}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, err := ask(t, c.content, c.sql, c.in, c.out)
			if err != nil {
				t.Fatal(err)
			}
			if a.data != c.want {
				t.Errorf("data %q, want %q", a.data, c.want)
			}
			if fmt.Sprint(a.errors) != fmt.Sprint(c.errors) {
				t.Errorf("errors %v, want %v", a.errors, c.errors)
			}
			if a.end != int64(len(c.content)) {
				t.Errorf("end at %d, want %d", a.end, len(c.content))
			}
			if len(c.errors) == 0 && fmt.Sprint(a.progress) != fmt.Sprint([]int{len(c.content)}) {
				t.Errorf("progress %v", a.progress)
			}
		})
	}
}

// TestProgress: a client sees every 4 MiB, and the end.
func TestProgress(t *testing.T) {
	a, err := ask(t, strings.Repeat("0123456789,abcd\n", 10<<20/16), "SELECT _1 FROM BlobStorage LIMIT 1000000", "", "")
	if err != nil {
		t.Fatal(err)
	}
	if want := []int64{4 << 20, 8 << 20, 10 << 20}; fmt.Sprint(a.progress) != fmt.Sprint(want) {
		t.Errorf("progress %v, want %v", a.progress, want)
	}
	if len(a.data) != 10<<20/16*11 {
		t.Errorf("%d bytes of data", len(a.data))
	}
}

// TestLanguage evaluates expressions: each case is SELECT <expression> over one record, as JSON.
func TestLanguage(t *testing.T) {
	const content = `{"i":7,"f":2.5,"s":"Text","n":null,"t":true,"when":"2010-01-31T10:20:30.5+05:30","a":[1,{"x":"y"}],"o":{"p q":{"r":3}},"u":"grün"}`
	for sql, want := range map[string]string{
		"i+1":                          "8",
		"i/2":                          "3",
		"i/2.0":                        "3.5",
		"i%4 - -1":                     "4",
		"2+3*4":                        "14",
		"(2+3)*4":                      "20",
		"-i":                           "-7",
		"'3'+4":                        "7",
		"f":                            "2.5",
		"I":                            "7",
		`"I"`:                          "",
		"a[1].x":                       `"y"`,
		"a[0]+1":                       "2",
		"a[9]":                         "",
		`o."p q".r`:                    "3",
		"o":                            `{"p q":{"r":3}}`,
		"n":                            "null",
		"n+1":                          "null",
		"n IS NULL":                    "true",
		"nix IS NULL":                  "true",
		"n IS MISSING":                 "false",
		"nix IS MISSING":               "true",
		"i IS NOT NULL":                "true",
		"i = 7 AND t":                  "true",
		"n = 1 AND FALSE":              "false",
		"n = 1 OR TRUE":                "true",
		"NOT n = 1":                    "null",
		"NOT NOT t":                    "true",
		"i BETWEEN 7 AND 9":            "true",
		"i NOT BETWEEN 7 AND 9":        "false",
		"i IN (1, 7)":                  "true",
		"i NOT IN (1, 7)":              "false",
		"i IN (1, NULL)":               "null",
		"s LIKE 'T%t'":                 "true",
		"s LIKE '_ex_'":                "true",
		"s NOT LIKE '%z%'":             "true",
		`'50%' LIKE '50!%' ESCAPE '!'`: "true",
		`'501' LIKE '50!%' ESCAPE '!'`: "false",
		"s <> 'x'":                     "true",
		"i != 7":                       "false",
		"'10' < 9":                     "false",
		"CAST('12' AS INT)":            "12",
		"CAST('1.9' AS INT)":           "1",
		"CAST(i AS FLOAT)/2":           "3.5",
		"CAST(i AS STRING)":            `"7"`,
		"CAST('true' AS BOOLEAN)":      "true",
		"LOWER(s)":                     `"text"`,
		"UPPER(u)":                     `"GRÜN"`,
		"CHAR_LENGTH(u)":               "4",
		"CHARACTER_LENGTH('abcdefg')":  "7",
		"SUBSTRING('123456789', 1, 5)": `"23456"`,
		"SUBSTRING(u, 2)":              `"ün"`,
		"TRIM('  a ')":                 `"a"`,
		"TRIM(BOTH '123' FROM '1112211Microsoft22211122')": `"Microsoft"`,
		"TRIM(LEADING 'x' FROM 'xax')":                     `"ax"`,
		"TRIM(TRAILING 'x' FROM 'xax')":                    `"xa"`,
		"COALESCE(n, nix, 3)":                              "3",
		"NULLIF(i, 7)":                                     "null",
		"NULLIF(i, 8)":                                     "7",
		"EXTRACT(YEAR FROM '2010-01-01T')":                 "2010",
		"EXTRACT(HOUR FROM when)":                          "10",
		"EXTRACT(TIMEZONE_HOUR FROM when)":                 "5",
		"EXTRACT(TIMEZONE_MINUTE FROM when)":               "30",
		"DATE_ADD('minute', 1, CAST('2017-01-02T03:04:05.006Z' AS TIMESTAMP))": `"2017-01-02T03:05:05.006Z"`,
		"DATE_ADD(month, 1, when)": `"2010-02-28T10:20:30.500+05:30"`,
		"DATE_DIFF('hour','2018-11-09T00:00+05:30','2018-11-09T01:00:23-08:00')": "14",
		"DATE_DIFF(month, '2010T', '2011T')":                                     "12",
		"DATE_DIFF(month, '2011T', '2010T')":                                     "-12",
		"DATE_DIFF(day, '2010-01-01T23:00', '2010-01-02T01:00')":                 "0",
		"DATE_DIFF(year, '2010-01-01T', '2010-05T')":                             "0",
		"TO_TIMESTAMP('2007T')":                                                  `"2007-01-01T00:00:00.000Z"`,
		"TO_TIMESTAMP('2007T') + 1":                                              `"2007-01-02T00:00:00.000Z"`,
		"TO_STRING(CAST('1969-07-20T20:18Z' AS TIMESTAMP),  'MMMM d, y')":        `"July 20, 1969"`,
		"TO_STRING(when, 'yy-M-dd ''T'' H:mm:ss.SS a X XX XXX')":                 `"10-1-31 T 10:20:30.50 AM 5 +0530 +05:30"`,
		"UTCNOW()":             `"2026-03-04T05:06:07.000Z"`,
		"UTCNOW() > '2026'":    "true",
		"9223372036854775807":  "9223372036854775807",
		"-9223372036854775808": "-9223372036854775808",
		// What cannot be computed.
		"9223372036854775807 + 1":        "ArithmeticOverflow",
		"1/0":                            "DivideByZero",
		"1.5/0":                          "DivideByZero",
		"CAST(s AS INT)":                 "InvalidTypeConversion",
		"CAST('NaN' AS FLOAT)":           "InvalidTypeConversion",
		"CAST('x' AS TIMESTAMP)":         "InvalidTypeConversion",
		"DATE_ADD(year, 9000, UTCNOW())": "ArithmeticOverflow",
		"o = 1":                          "InvalidTypeConversion",
	} {
		a, err := ask(t, content, "SELECT "+sql+" AS r FROM BlobStorage", jsonLines, jsonLines)
		if err != nil {
			t.Errorf("%s: %v", sql, err)
			continue
		}
		got := strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(a.data, `{`), `"r":`), "}\n")
		if len(a.errors) > 0 {
			got = a.errors[0].name
		}
		if got != want {
			t.Errorf("%s is %s, want %s", sql, got, want)
		}
	}
}

func TestAggregates(t *testing.T) {
	for sql, want := range map[string]string{
		"COUNT(*)": "4\n", "count(_2)": "4\n", "SUM(_2)": "6.5\n", "AVG(_2)": "2.1666666666666665\n",
		"AVERAGE(CAST(_1 AS INT))": "2.5\n",
		"MIN(_3)":                  "a\n", "MAX(CAST(_1 AS INT))": "4\n", "MAX(_3) AS m": "d\n", "SUM(_1)": "10\n",
	} {
		if a, err := ask(t, "1,1.5,b\n2,2,a\n3,3,d\n4,x,c\n", "SELECT "+sql+" FROM BlobStorage", "", ""); err != nil ||
			a.data != want {
			t.Errorf("%s is %q, %v; want %q", sql, a.data, err, want)
		}
	}
	if a, _ := ask(t, "", "SELECT SUM(_1) FROM BlobStorage", "", ""); a.data != "\n" {
		t.Errorf("the sum of nothing is %q", a.data)
	}
	if a, _ := ask(t, "", "SELECT COUNT(*) AS n FROM BlobStorage", "", jsonLines); a.data != "{\"n\":0}\n" {
		t.Errorf("the count of nothing is %q", a.data)
	}
}

// TestPaths has the reference's own example.
func TestPaths(t *testing.T) {
	const content = `{"id":1,"name":"mouse","price":12.5,"tags":["wireless","accessory"],"dimensions":{"length":3,"width":2,"height":2},
		"weight":0.2,"warehouses":[{"latitude":41.8,"longitude":-87.6},{"latitude":40}]}`
	for sql, want := range map[string]string{
		"SELECT latitude FROM BlobStorage[*].warehouses[*]":                    "41.8\n40\n",
		"SELECT length FROM BlobStorage[*].dimensions":                         "3\n",
		"SELECT weight,warehouses[0].longitude,id,tags[1] FROM BlobStorage[*]": "0.2,-87.6,1,accessory\n",
		"SELECT * FROM BlobStorage[*].tags[*]":                                 "wireless\naccessory\n",
		"SELECT _1 FROM BlobStorage[*].tags[1]":                                "accessory\n",
		"SELECT * FROM BlobStorage[*].nowhere[*]":                              "",
		"SELECT dimensions FROM BlobStorage":                                   "\"{\"\"length\"\":3,\"\"width\"\":2,\"\"height\"\":2}\"\n",
	} {
		if a, err := ask(t, content, sql, jsonLines, `<Type>delimited</Type>`); err != nil || a.data != want {
			t.Errorf("%s is %q, %v; want %q", sql, a.data, err, want)
		}
	}
	a, err := ask(t, " [ {\"a\":1} , {\"a\":2}]\n[{\"a\":3}]", "SELECT a FROM BlobStorage LIMIT 3", jsonLines, jsonLines)
	if err != nil || a.data != "{\"a\":1}\n{\"a\":2}\n{\"a\":3}\n" {
		t.Errorf("arrays at the top: %q, %v", a.data, err)
	}
	for _, bad := range []string{`{"a":1`, `[{"a":1}`, `[{"a":1} {"a":2}]`, `{"a":1}}`, `[1,]`, `"text"`, `{"a":}`} {
		if a, err := ask(t, bad, "SELECT a FROM BlobStorage", jsonLines, jsonLines); err != nil || len(a.errors) != 1 ||
			!a.errors[0].fatal {
			t.Errorf("%s: %v, %v", bad, a, err)
		}
	}
}

func TestDelimitedText(t *testing.T) {
	const all = "SELECT * FROM BlobStorage"
	for _, c := range []struct{ name, content, sql, in, out, want string }{
		{"quotes", "\"a,b\",\"c\"\"d\",\"e\nf\"\nx\n", all, "", jsonLines,
			`{"_1":"a,b","_2":"c\"d","_3":"e\nf"}` + "\n" + `{"_1":"x"}` + "\n"},
		{"quotes again", "\"a,b\",\"c\"\"d\",\"\",\"e\nf\"\n", all, "", "", "\"a,b\",\"c\"\"d\",,\"e\nf\"\n"},
		{"quote within", "x\"\"y,z\"\n1,2\n", all, "", jsonLines,
			`{"_1":"x\"\"y","_2":"z\""}` + "\n" + `{"_1":"1","_2":"2"}` + "\n"},
		{"unfinished quote", "a,\"b\nc", all, "", jsonLines, `{"_1":"a","_2":"b\nc"}` + "\n"},
		{"escapes", `a\;b;'c\'d'.e\.f.`, all, csvOdd, jsonLines, `{"_1":"a;b","_2":"c'd"}` + "\n" + `{"_1":"e.f"}` + "\n"},
		{"to escapes", "it's;\n", all, "", csvOdd, `'it\'s;'.`},
		{"long separators", "a||b<>c||d", "SELECT _2,_1 FROM BlobStorage",
			`<Type>delimited</Type><DelimitedTextConfiguration><ColumnSeparator>||</ColumnSeparator><RecordSeparator>&lt;&gt;</RecordSeparator></DelimitedTextConfiguration>`, "", "b,a\nd,c\n"},
		{"names", "\xef\xbb\xbfName,\"The Age\"\nx,1\ny,2\n",
			`SELECT name, "The Age" AS a FROM BlobStorage WHERE "The Age" = 2`, csvHeader, jsonLines,
			`{"name":"y","a":"2"}` + "\n"},
		{"header out", "A,B\n1,2\n", all, csvHeader, csvHeader, "A,B\n1,2\n"},
		{"header of columns", "A,B\n1,2\n", "SELECT B, B+1, A AS x FROM BlobStorage", csvHeader, csvHeader,
			"B,_2,x\n2,3,1\n"},
		{"no end of line", "1,2\n3,4", "SELECT _2 FROM BlobStorage", "", "", "2\n4\n"},
		{"empty lines", "1\n\n2\n", all, "", "", "1\n\n2\n"},
		{"limit", "1\n2\n3\n", "SELECT * FROM BlobStorage LIMIT 2", "", "", "1\n2\n"},
		{"limit of none", "1\n2\n3\n", "SELECT * FROM BlobStorage LIMIT 0", "", "", ""},
		{"empty", "", all, "", "", ""},
		{"bytes", "\xff\x01\n", all, "", jsonLines, "{\"_1\":\"\ufffd\\u0001\"}\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, err := ask(t, c.content, c.sql, c.in, c.out)
			if err != nil || a.data != c.want || len(a.errors) > 0 {
				t.Errorf("%q, %v, %v; want %q", a.data, a.errors, err, c.want)
			}
		})
	}
}

func TestSplit(t *testing.T) {
	line := strings.Repeat("x", 99) + "\n"
	content := strings.Repeat(line, 25<<20/100)
	a, err := ask(t, content, "SELECT sys.split(10485760) FROM BlobStorage", "", "")
	if want := "10485800\n10485800\n5242800\n"; err != nil || a.data != want {
		t.Errorf("%q, %v; want %q", a.data, err, want)
	}
}

func TestTooLong(t *testing.T) {
	long := strings.Repeat("x", maxRecord+1)
	for _, c := range []struct{ content, in string }{
		{long + "\n", ""}, {"1\n" + long, ""}, {"\"" + long + "\"\n", ""}, {`{"a":"` + long + `"}`, jsonLines},
		{"[" + long + "x", jsonLines},
	} {
		a, err := ask(t, c.content, "SELECT * FROM BlobStorage", c.in, "")
		if err != nil || len(a.errors) != 1 || a.errors[0].name != "RecordTooLarge" {
			t.Errorf("%.10s: %v, %v", c.content, a.errors, err)
		}
	}
	if a, err := ask(t, long[1:]+"\n2", "SELECT * FROM BlobStorage", "", ""); err != nil || len(a.data) != maxRecord+3 {
		t.Errorf("the longest record: %d bytes, %v, %v", len(a.data), a.errors, err)
	}
}

func TestRefusals(t *testing.T) {
	columns := func(n int) string { return strings.TrimSuffix(strings.Repeat("_1,", n), ",") }
	for _, c := range []struct{ sql, in, code string }{
		{"", "", CodeExpression},
		{"DELETE FROM BlobStorage", "", CodeExpression},
		{"SELECT * FROM Other", "", CodeExpression},
		{"SELECT FROM BlobStorage", "", CodeExpression},
		{"SELECT * FROM BlobStorage WHERE", "", CodeExpression},
		{"SELECT * FROM BlobStorage WHERE _1 = 'x", "", CodeExpression},
		{"SELECT * FROM BlobStorage LIMIT x", "", CodeExpression},
		{"SELECT * FROM BlobStorage; SELECT 1", "", CodeExpression},
		{"SELECT _1 AS column FROM BlobStorage", "", CodeExpression},
		{"SELECT NOSUCH(_1) FROM BlobStorage", "", CodeExpression},
		{"SELECT LOWER(_1, _2) FROM BlobStorage", "", CodeExpression},
		{"SELECT COUNT(*), SUM(_1) FROM BlobStorage", "", CodeExpression},
		{"SELECT COUNT(*) + 1 FROM BlobStorage", "", CodeExpression},
		{"SELECT 1 + COUNT(*) FROM BlobStorage", "", CodeExpression},
		{"SELECT Name FROM BlobStorage", "", CodeExpression},
		{"SELECT Nix FROM BlobStorage", csvHeader, CodeExpression},
		{"SELECT " + columns(50) + " FROM BlobStorage", "", CodeExpression},
		{"SELECT sys.split(10485759) FROM BlobStorage", "", CodeExpression},
		{"SELECT sys.split(10485760) FROM BlobStorage LIMIT 1", "", CodeExpression},
		{"SELECT sys.split(10485760) FROM BlobStorage", jsonLines, CodeExpression},
		{"SELECT * FROM BlobStorage[*].a", "", CodeExpression},
		{"SELECT " + strings.Repeat("(", 1000) + "1" + strings.Repeat(")", 1000) + " FROM BlobStorage", "", CodeExpression},
		{"SELECT * FROM BlobStorage", "<Type>yaml</Type>", CodeValue},
		{"SELECT * FROM BlobStorage",
			"<Type>delimited</Type><DelimitedTextConfiguration><FieldQuote>ab</FieldQuote></DelimitedTextConfiguration>",
			CodeValue},
		{"SELECT * FROM BlobStorage",
			"<Type>delimited</Type><DelimitedTextConfiguration><HasHeaders>maybe</HasHeaders></DelimitedTextConfiguration>",
			CodeValue},
		{"SELECT * FROM BlobStorage", "<Type>parquet</Type>", CodeInput},
		{"SELECT * FROM BlobStorage", "<Type>", CodeXML},
	} {
		_, err := ask(t, "Name\n1\n", c.sql, c.in, "")
		if c.in == "<Type>parquet</Type>" {
			_, err = askParquet(t, []byte("Name\n1\n"), c.sql, "")
		}
		var e *Error
		if !errors.As(err, &e) || e.Code != c.code {
			t.Errorf("%.60s with %.60s: %v, want %s", c.sql, c.in, err, c.code)
		}
	}
	for out, code := range map[string]string{"<Type>arrow</Type>": CodeValue, "<Type>parquet</Type>": CodeValue} {
		var e *Error
		if _, err := ask(t, "1\n", "SELECT * FROM BlobStorage", "", out); !errors.As(err, &e) || e.Code != code {
			t.Errorf("output in %s: %v", out, err)
		}
	}
	if _, err := ask(t, "Name\n1\n", "SELECT "+columns(49)+" FROM BlobStorage", "", ""); err != nil {
		t.Errorf("49 columns: %v", err)
	}
}

// One value that is selected many times is no way to a record of any length.
func TestLongResults(t *testing.T) {
	long := strings.Repeat("x", maxRecord/4)
	a, err := ask(t, long+"\n", "SELECT _1, _1, _1, _1 FROM BlobStorage", "", "")
	if err != nil || len(a.data) != maxRecord+4 {
		t.Errorf("%d bytes, %v, %v", len(a.data), a.errors, err)
	}
	a, err = ask(t, long+"\n", "SELECT _1, _1, _1, _1, _1 FROM BlobStorage", "", "")
	if err != nil || a.data != "\n" || len(a.errors) != 1 || !strings.Contains(fmt.Sprint(a.errors), "RecordTooLarge") {
		t.Errorf("%d bytes, %v, %v", len(a.data), a.errors, err)
	}
}

// A query whose client has gone ends, though it has written nothing.
func TestStops(t *testing.T) {
	st, err := parse("SELECT COUNT(*) FROM BlobStorage", testTime)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	q := &Query{statement: st, reader: endless{}, writer: newCSVWriter(Delimited{Column: ",", Record: "\n"}),
		row: row{Work: budget.New(ctx, budget.Request)}}
	if err := q.Run(io.Discard); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// endless has records without end.
type endless struct{}

func (endless) open([]*field) error                  { return nil }
func (e endless) next() (record, error)              { return e, nil }
func (endless) position() (at, end int64)            { return 0, 0 }
func (endless) field(*field) (value, error)          { return nullValue, nil }
func (endless) all(func(name []byte, v value)) error { return nil }
