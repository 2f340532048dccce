package entity

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/lazuli-storage/lazuli/internal/test/workbudget"
)

var form = Form{Base: "http://h/acc", Account: "acc", Table: "tab"}

func render(t *testing.T, level Metadata, p Parsed) string {
	t.Helper()
	f := form
	f.Metadata = level
	p.Record.SetTimestamp(MinTicks)
	out := f.AppendJSON(nil, p.PartitionKey, p.RowKey, p.Record)
	if !json.Valid(out) {
		t.Fatalf("not JSON: %s", out)
	}
	return string(out)
}

func TestJSONLevels(t *testing.T) {
	t.Parallel()
	p, err := ParseJSON([]byte(`{"PartitionKey":"p'1","RowKey":"r 1","Timestamp":"0001-01-01T00:00:00Z","n":null,
		"s":"x\"\ud83d\ude00\u00e9","i":5,"d":3.0,"b":true,"l":"7","l@odata.type":"Edm.Int64",
		"t@odata.type":"Edm.DateTime","t":"2017-11-10T02:46:53.6366920Z","g@odata.type":"Edm.Guid",
		"g":"C9DA6455-213d-42c9-9a79-3e9149a57833","y@odata.type":"Edm.Binary","y":"AQI=","nan":"NaN","nan@odata.type":"Edm.Double"}`), Rules{})
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		level Metadata
		want  string
	}{
		{NoMetadata, `{"PartitionKey":"p'1","RowKey":"r 1","Timestamp":"1601-01-01T00:00:00Z","s":"x\"\ud83d\ude00\u00e9",` +
			`"i":5,"d":3.0,"b":true,"l":"7","t":"2017-11-10T02:46:53.636692Z","g":"c9da6455-213d-42c9-9a79-3e9149a57833","y":"AQI=","nan":"NaN"}`},
		{MinimalMetadata,
			`{"odata.metadata":"http://h/acc/$metadata#tab/@Element","odata.etag":"W/\"datetime'1601-01-01T00%3A00%3A00Z'\"",` +
				`"PartitionKey":"p'1","RowKey":"r 1","Timestamp":"1601-01-01T00:00:00Z","s":"x\"\ud83d\ude00\u00e9",` +
				`"i":5,"d":3.0,"b":true,"l@odata.type":"Edm.Int64","l":"7","t@odata.type":"Edm.DateTime","t":"2017-11-10T02:46:53.636692Z",` +
				`"g@odata.type":"Edm.Guid","g":"c9da6455-213d-42c9-9a79-3e9149a57833","y@odata.type":"Edm.Binary","y":"AQI=",` +
				`"nan@odata.type":"Edm.Double","nan":"NaN"}`},
		{FullMetadata, `{"odata.metadata":"http://h/acc/$metadata#tab/@Element","odata.type":"acc.tab",` +
			`"odata.id":"http://h/acc/tab(PartitionKey='p''1',RowKey='r%201')","odata.etag":"W/\"datetime'1601-01-01T00%3A00%3A00Z'\"",` +
			`"odata.editLink":"tab(PartitionKey='p''1',RowKey='r%201')",` +
			`"PartitionKey":"p'1","RowKey":"r 1","Timestamp@odata.type":"Edm.DateTime","Timestamp":"1601-01-01T00:00:00Z","s":"x\"\ud83d\ude00\u00e9",` +
			`"i":5,"d":3.0,"b":true,"l@odata.type":"Edm.Int64","l":"7","t@odata.type":"Edm.DateTime","t":"2017-11-10T02:46:53.636692Z",` +
			`"g@odata.type":"Edm.Guid","g":"c9da6455-213d-42c9-9a79-3e9149a57833","y@odata.type":"Edm.Binary","y":"AQI=",` +
			`"nan@odata.type":"Edm.Double","nan":"NaN"}`},
	} {
		t.Run(tc.level.String(), func(t *testing.T) {
			if got := render(t, tc.level, p); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}

func TestJSONSelect(t *testing.T) {
	t.Parallel()
	r := NewRecord(MinTicks, 0).Append("age", Int64Value(39)).Append("sex", StringValue("m"))
	f := form
	f.Metadata, f.Select = MinimalMetadata, []string{"sex", "RowKey", "xyz", "age"}
	f.HasSelect, f.SelectText = true, "sex,RowKey,xyz,age"
	got := string(f.AppendJSON(nil, []byte("p"), []byte("r"), r))
	want :=
		`{"odata.metadata":"http://h/acc/$metadata#tab/@Element&$select=sex,RowKey,xyz,age","odata.etag":"W/\"datetime'1601-01-01T00%3A00%3A00Z'\"",` +
			`"sex":"m","RowKey":"r","xyz":null,"age@odata.type":"Edm.Int64","age":"39"}`
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestInference(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		json string
		typ  Type
		text string
	}{
		{`5`, Int32, "5"}, {`-2147483648`, Int32, "-2147483648"}, {`2147483648`, Double, "2147483648.0"},
		{`1.5`, Double, "1.5"},
		{`1e3`, Double, "1000.0"}, {`3.0`, Double, "3.0"}, {`true`, Boolean, "true"}, {`"5"`, String, "5"},
		{`"2017-11-10T02:46:53Z"`, String, "2017-11-10T02:46:53Z"}, {`-0`, Int32, "0"}, {`-0.0`, Double, "-0.0"},
	} {
		p, err := ParseJSON([]byte(`{"v":`+tc.json+`}`), Rules{})
		if err != nil {
			t.Errorf("%s: %v", tc.json, err)
			continue
		}
		it := p.Record.Properties()
		it.Next()
		if got := string(appendText(nil, it.Type, it.Data)); it.Type != tc.typ || got != tc.text {
			t.Errorf("%s became %v %s, want %v %s", tc.json, it.Type, got, tc.typ, tc.text)
		}
	}
}

func TestParseJSONErrors(t *testing.T) {
	t.Parallel()
	many := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `"p%d":1,`, i)
		}
		return `{` + b.String() + `"PartitionKey":"p"}`
	}
	for _, tc := range []struct {
		name, body string
		want       error
	}{
		{"empty body", ``, ErrInvalidInput},
		{"array", `[]`, ErrInvalidInput},
		{"text after the object", `{} x`, ErrInvalidInput},
		{"comma at the end", `{"a":1,}`, ErrInvalidInput},
		{"no comma", `{"a":1 "b":2}`, ErrInvalidInput},
		{"unquoted name", `{a:1}`, ErrInvalidInput},
		{"leading zero", `{"a":01}`, ErrInvalidInput},
		{"bare point", `{"a":1.}`, ErrInvalidInput},
		{"plus", `{"a":+1}`, ErrInvalidInput},
		{"overflow", `{"a":1e400}`, ErrInvalidInput},
		{"nested object", `{"a":{}}`, ErrInvalidInput},
		{"nested array", `{"a":[1]}`, ErrInvalidInput},
		{"raw control character", "{\"a\":\"\n\"}", ErrInvalidInput},
		{"bad escape", `{"a":"\x"}`, ErrInvalidInput},
		{"short escape", `{"a":"\u12"}`, ErrInvalidInput},
		{"open string", `{"a":"x`, ErrInvalidInput},
		{"not UTF-8", "{\"a\":\"\xff\"}", ErrInvalidInput},
		{"unknown type", `{"a@odata.type":"Edm.Decimal","a":"1"}`, ErrInvalidInput},
		{"type that is no text", `{"a@odata.type":1,"a":"1"}`, ErrInvalidInput},
		{"text as Int64", `{"a@odata.type":"Edm.Int64","a":"x"}`, ErrInvalidInput},
		{"boolean as Int32", `{"a@odata.type":"Edm.Int32","a":true}`, ErrInvalidInput},
		{"number as String", `{"a@odata.type":"Edm.String","a":1}`, ErrInvalidInput},
		{"broken base64", `{"a@odata.type":"Edm.Binary","a":"*"}`, ErrInvalidInput},
		{"broken GUID", `{"a@odata.type":"Edm.Guid","a":"123"}`, ErrInvalidInput},
		{"hexadecimal double", `{"a@odata.type":"Edm.Double","a":"0x1p1"}`, ErrInvalidInput},
		{"DateTime before 1601", `{"a@odata.type":"Edm.DateTime","a":"1600-12-31T00:00:00Z"}`, ErrOutOfRange},
		{"property twice", `{"a":1,"a":2}`, ErrDuplicateProperties},
		{"key twice", `{"RowKey":"1","RowKey":"2"}`, ErrDuplicateProperties},
		{"number as key", `{"RowKey":1}`, ErrPrimaryKeyType},
		{"slash in key", `{"RowKey":"a/b"}`, ErrOutOfRange},
		{"long key", `{"RowKey":"` + strings.Repeat("x", 513) + `"}`, ErrKeyTooLarge},
		{"empty name", `{"":1}`, ErrPropertyName},
		{"dash in name", `{"a-b":1}`, ErrPropertyName},
		{"digit first", `{"1a":1}`, ErrPropertyName},
		{"bad name of a null", `{"a b":null}`, ErrPropertyName},
		{"long name", `{"` + strings.Repeat("x", 256) + `":1}`, ErrPropertyNameTooLong},
		{"253 properties", many(253), ErrTooManyProperties},
		{"1200 properties", many(1200), ErrTooManyProperties},
		{"long string", `{"a":"` + strings.Repeat("x", 32<<10+1) + `"}`, ErrPropertyTooLarge},
		{"long binary", `{"a@odata.type":"Edm.Binary","a":"` + strings.Repeat("AAAA", 22000) + `"}`, ErrPropertyTooLarge},
		{"deep metadata", `{"odata.x":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}`, ErrInvalidInput},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if _, err := ParseJSON([]byte(tc.body), Rules{}); !errors.Is(err, tc.want) {
				t.Errorf("got %v, want %v", err, tc.want)
			}
		})
	}
	for _, body := range []string{many(252), `{"a":"` + strings.Repeat("x", 32<<10) + `"}`,
		`{"` + strings.Repeat("x", 255) + `":1}`,
		`{"odata.metadata":"x","odata.x":{"y":[1,{"z":null}]},"a":1}`, "\xef\xbb\xbf{}", `{"啊齄丂狛狜":"x"}`} {
		if _, err := ParseJSON([]byte(body), Rules{}); err != nil {
			t.Errorf("%.40s...: %v", body, err)
		}
	}
	if _, err := ParseJSON([]byte(`{"a-b":1}`), Rules{Dash: true}); err != nil {
		t.Errorf("a dash is refused where it is allowed: %v", err)
	}
}

func TestEntitySizeFormula(t *testing.T) {
	t.Parallel()
	// 4 + 2*(1+1) + n*(8 + 2*3 + 2*len + 4) = 1 MiB
	body := func(last int) string {
		var b strings.Builder
		b.WriteString(`{"PartitionKey":"p","RowKey":"r"`)
		for i := range 15 {
			fmt.Fprintf(&b, `,"p%02d":"%s"`, i, strings.Repeat("x", 32<<10))
		}
		fmt.Fprintf(&b, `,"p15":"%s"}`, strings.Repeat("x", last))
		return b.String()
	}
	room := (1<<20 - 8 - 16*18 - 15*64<<10) / 2
	if _, err := ParseJSON([]byte(body(room)), Rules{}); err != nil {
		t.Errorf("an entity of just 1 MiB: %v", err)
	}
	if _, err := ParseJSON([]byte(body(room+1)), Rules{}); !errors.Is(err, ErrEntityTooLarge) {
		t.Errorf("an entity of 1 MiB and 2 bytes: %v", err)
	}
}

func TestAppendDouble(t *testing.T) {
	t.Parallel()
	for f, want := range map[float64]string{
		0: "0.0", 3: "3.0", 3.1: "3.1", -1.5: "-1.5", 1e14: "100000000000000.0", 1e15: "1E+15", 1e100: "1E+100",
		1.5e-7: "1.5E-07",
		0.0001: "0.0001", 0.00001: "1E-05", 5e-324: "4.94065645841247E-324", math.MaxFloat64: "1.7976931348623157E+308",
		123456789012345680: "1.2345678901234568E+17", 1234567890123456: "1234567890123456.0",
		0.30000000000000004: "0.30000000000000004",
		1.0 / 3:             "0.33333333333333331", 123.456: "123.456", -1e-10: "-1E-10",
	} {
		if got := string(AppendDouble(nil, f)); got != want {
			t.Errorf("%v is written %s, want %s", f, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		f := rapid.Float64().Draw(t, "f")
		text := string(AppendDouble(nil, f))
		if back, err := strconv.ParseFloat(text, 64); err != nil || back != f {
			t.Fatalf("%v is written %s, which is %v", f, text, back)
		}
	})
}

// TestAppendDoubleAsBySearch compares with the rule written down: 15 digits if they read back, else 17.
func TestAppendDoubleAsBySearch(t *testing.T) {
	t.Parallel()
	search := func(f float64) string {
		precision := 15
		d := strconv.AppendFloat(nil, f, 'e', precision-1, 64)
		if back, err := strconv.ParseFloat(string(d), 64); err != nil || back != f {
			precision = 17
			d = strconv.AppendFloat(nil, f, 'e', precision-1, 64)
		}
		return string(appendGeneral(nil, d, precision))
	}
	check := func(t interface{ Fatalf(string, ...any) }, f float64) {
		if f == 0 || math.IsNaN(f) || math.IsInf(f, 0) || f == math.Trunc(f) && math.Abs(f) < 1e15 {
			return
		}
		if got, want := string(AppendDouble(nil, f)), search(f); got != want {
			t.Fatalf("%x is written %s, want %s", f, got, want)
		}
	}
	for _, f := range []float64{smallestNormal, math.Nextafter(smallestNormal, 0), 5e-324, 1e-323, 2.5e-310,
		math.MaxFloat64, 9007199254740993, 1e22, 1e23} {
		check(t, f)
		check(t, -f)
	}
	rapid.Check(t, func(t *rapid.T) {
		check(t, math.Float64frombits(rapid.Uint64().Draw(t, "bits")))
		digits := rapid.Int64Range(-1e17, 1e17).Draw(t, "digits")
		f, _ := strconv.ParseFloat(strconv.FormatInt(digits, 10)+"e"+strconv.Itoa(rapid.IntRange(-330, 300).Draw(t, "e")), 64)
		check(t, f)
		// Few decimals, and the doubles beside.
		f = float64(rapid.Int64Range(-2e14, 2e14).Draw(t, "units")) / math.Pow10(rapid.IntRange(1, 5).Draw(t, "decimals"))
		check(t, f)
		check(t, math.Nextafter(f, 0))
		check(t, math.Nextafter(f, math.Inf(1)))
	})
}

// TestAppendInt compares with strconv, at every number of digits.
func TestAppendInt(t *testing.T) {
	t.Parallel()
	check := func(n int64) {
		if got, want := string(appendInt([]byte("x"), n)), "x"+strconv.FormatInt(n, 10); got != want {
			t.Fatalf("%d is written %s", n, got)
		}
	}
	for n := int64(-10); n < 20_000; n++ {
		check(n)
	}
	for n := int64(1); n > 0; n *= 10 { // ends when it overflows
		for d := int64(-3); d <= 3; d++ {
			check(n + d)
			check(-n + d)
		}
	}
	rapid.Check(t, func(t *rapid.T) { check(rapid.Int64().Draw(t, "n")) })
}

func BenchmarkAppendDouble(b *testing.B) {
	for name, f := range map[string]float64{"few": 1234.5, "fifteen": 1.23456789012345e-7, "seventeen": 1.0 / 3} {
		b.Run(name, func(b *testing.B) {
			buf := make([]byte, 0, 32)
			for b.Loop() {
				buf = AppendDouble(buf[:0], f)
			}
		})
	}
}

// TestJSONRoundTrip: what is rendered at minimal metadata reads back as the same record.
func TestJSONRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		names, values := properties(t, "names")
		for _, n := range []string{"PartitionKey", "RowKey", "Timestamp"} {
			if _, ok := values[n]; ok {
				return
			}
		}
		r := build(0, names, values)
		p, k := keyText().Draw(t, "p"), keyText().Draw(t, "r")
		f := form
		f.Metadata = MinimalMetadata + Metadata(rapid.IntRange(0, 1).Draw(t, "level"))
		text := f.AppendJSON(nil, []byte(p), []byte(k), r)
		var generic map[string]any
		if err := json.Unmarshal(text, &generic); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		back, err := ParseJSON(text, Rules{})
		if err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		if string(back.PartitionKey) != p || string(back.RowKey) != k {
			t.Fatalf("keys %q %q became %q %q", p, k, back.PartitionKey, back.RowKey)
		}
		i := 0
		for it := back.Record.Properties(); it.Next(); i++ {
			want := values[string(it.Name)]
			if want.Type == Double && math.IsNaN(want.Float()) {
				continue
			}
			if !same(it.Value(), want) {
				t.Fatalf("%s: %v became %v: %s", it.Name, want, it.Value(), text)
			}
		}
		if i != len(names) {
			t.Fatalf("%d of %d properties came back", i, len(names))
		}
	})
}

func FuzzParseJSON(f *testing.F) {
	f.Add([]byte(`{"PartitionKey":"p","RowKey":"r","a@odata.type":"Edm.Int64","a":"5","b":[1]}`))
	f.Add([]byte(`{"odata.x":{"a":[{},null,1.5e3]},"s":"\ud83d\ude00\u0000"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		defer workbudget.Default.Start(t, len(body))()
		p, err := ParseJSON(body, Rules{})
		if err != nil {
			return
		}
		if !json.Valid(body) && !strings.HasPrefix(string(body), "\xef\xbb\xbf") {
			t.Fatalf("taken, and is no JSON: %q", body)
		}
		if err := CheckRecord(p.Record); err != nil {
			t.Fatal(err)
		}
		if out := form.AppendJSON(nil, p.PartitionKey, p.RowKey, p.Record); !json.Valid(out) {
			t.Fatalf("rendered as %q", out)
		}
	})
}

// kilobyte is an entity of some 1,000 bytes of JSON, with all the types.
func kilobyte() []byte {
	return []byte(`{"PartitionKey":"partition-0001","RowKey":"row-00000001","Name":"` + strings.Repeat("n", 200) +
		`","Text":"` +
		strings.Repeat("t", 500) +
		`","Age":42,"Active":true,"Score":3.25,"Id@odata.type":"Edm.Guid","Id":"c9da6455-213d-42c9-9a79-3e9149a57833",` +
		`"Big@odata.type":"Edm.Int64","Big":"933311100","Born@odata.type":"Edm.DateTime","Born":"1973-10-04T00:00:00Z"}`)
}

func BenchmarkParseJSON(b *testing.B) {
	body := kilobyte()
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ParseJSON(body, Rules{}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppendJSON(b *testing.B) {
	p, err := ParseJSON(kilobyte(), Rules{})
	if err != nil {
		b.Fatal(err)
	}
	p.Record.SetTimestamp(MinTicks + 12345678)
	f := form
	f.Metadata = MinimalMetadata
	var out []byte
	b.ReportAllocs()
	for b.Loop() {
		out = f.AppendJSONEntity(out[:0], p.PartitionKey, p.RowKey, p.Record)
	}
	b.SetBytes(int64(len(out)))
}

func TestParseTableName(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{"TableName":"People"}`:                             "People",
		`{"odata.type":"a.Tables", "TableName" : "\u0041b"}`: "Ab",
		`{"TableName":"People","TableName":"Other"}`:         "none",
		`{"TableName":null}`:                                 "none",
		`{"tablename":"People"}`:                             "none",
		`{}`:                                                 "none",
		`["People"]`:                                         "none",
		`{"TableName":"People"}x`:                            "none",
		"{\"TableName\":\"\xff\"}":                           "none",
	} {
		if name, ok := ParseTableName([]byte(body)); ok != (want != "none") || ok && name != want {
			t.Errorf("%s: %q, %v; want %s", body, name, ok, want)
		}
	}
}

// Names are compared only where a number that is made of them is the same: one of 64, so that many names share it.
func TestManyNames(t *testing.T) {
	t.Parallel()
	var body strings.Builder
	for i := range maxProperties {
		fmt.Fprintf(&body, `,"n%03d":%d`, i, i)
		p, err := ParseJSON([]byte("{"+body.String()[1:]+"}"), Rules{})
		if err != nil {
			t.Fatalf("%d names: %v", i+1, err)
		}
		if v, ok := p.Record.Lookup(fmt.Sprintf("n%03d", i)); !ok || v.Type != Int32 || v.Num != uint64(i) {
			t.Fatalf("property %d is %v, %v", i, v, ok)
		}
		again := fmt.Sprintf(`{%s,"n%03d":1}`, body.String()[1:], i/2)
		if _, err := ParseJSON([]byte(again), Rules{}); !errors.Is(err, ErrDuplicateProperties) {
			t.Fatalf("property %d twice of %d: %v", i/2, i+1, err)
		}
	}
}

// Texts are looked at eight bytes at a time: every byte at every position must be found as if it was looked at alone.
func TestSpecialCharacters(t *testing.T) {
	t.Parallel()
	for _, fill := range []byte{'a', ' ', 0x7F, '!', '#', '[', ']'} {
		for at := range 19 {
			for c := range 256 {
				s := []byte(strings.Repeat(string(rune(fill)), 19))
				s[at] = byte(c)
				if got, want := plain(s), c >= 0x20 && c <= 0x7F && c != '"' && c != '\\'; got != want {
					t.Fatalf("plain(%q) is %v", s, got)
				}
				sc := scanner{b: append(append([]byte{'"'}, s...), `"`...)}
				text, ok := sc.text()
				switch {
				case c < 0x20 || c == '\\':
					if ok && c != '\\' {
						t.Fatalf("%q has a control character and is read as %q", s, text)
					}
				case c == '"':
					if !ok || len(text) != at {
						t.Fatalf("%q ends after %d characters: %v", s, len(text), ok)
					}
				case !ok || string(text) != string(s):
					t.Fatalf("%q is read as %q: %v", s, text, ok)
				case sc.plain != plain(s):
					t.Fatalf("%q is taken for plain: %v", s, sc.plain)
				}
			}
		}
	}
}
