package query

import (
	"bytes"
	"context"
	"io"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/test/workbudget"

	"github.com/lazuli-storage/lazuli/internal/budget"
)

// queryBudget is for statements and contents together: each query takes buffers of half a MiB, and answers are read as
// well.
var queryBudget = workbudget.Budget{Time: 500 * time.Millisecond, TimePerByte: 10 * time.Microsecond, Bytes: 32 << 20,
	BytesPerByte: 10_000}

// FuzzStatement: whatever is parsed is refused or can be evaluated.
func FuzzStatement(f *testing.F) {
	for _, sql := range []string{"SELECT * FROM BlobStorage",
		"SELECT _1 AS a, LOWER(_2) FROM BlobStorage[*] WHERE NOT _1 IN (1, 'x') LIMIT 3;",
		"SELECT sys.split(10485760) FROM BlobStorage", "SELECT DATE_ADD('day', _1, TO_TIMESTAMP(_2)) FROM BlobStorage",
		"SELECT TRIM(BOTH 'x' FROM _1), EXTRACT(YEAR FROM _2), CAST(_1 AS INT) % 3 FROM BlobStorage WHERE _1 LIKE 'a%' " +
			"ESCAPE '!'",
		"SELECT AVG(_1) FROM BlobStorage", "SELECT a[1].\"b c\" FROM BlobStorage[*].x[*]"} {
		f.Add(sql)
	}
	f.Fuzz(func(t *testing.T, sql string) {
		defer queryBudget.Start(t, len(sql))()
		st, err := parse(sql, time.Time{})
		if err != nil {
			return
		}
		r := &Request{statement: st, input: input{format: delimitedFormat,
			delimited: Delimited{Column: ",", Record: "\n", Quote: '"'}}}
		r.output.input = r.input
		content := []byte("1,2020-01-02T03:04Z\nabc,-5\n,")
		q, err := r.Open(budget.New(context.Background(), budget.Request),
			Content{Reader: bytes.NewReader(content), Size: int64(len(content))})
		if err != nil {
			return
		}
		if err := q.Run(io.Discard); err != nil {
			t.Fatal(err)
		}
	})
}

// FuzzContent: content of any bytes gets a whole answer.
func FuzzContent(f *testing.F) {
	for _, c := range []string{"a,b\n1,2\n", "\"a\"\"b\",c\r\n", `{"a":[1,{"b":null}]}`, "[{\"a\":1},\n{}]", "\\;'",
		"\xef\xbb\xbfx"} {
		for form := range byte(4) {
			f.Add([]byte(c), form)
		}
	}
	forms := []input{
		{format: delimitedFormat, separator: "\n",
			delimited: Delimited{Column: ",", Record: "\n", Quote: '"', Headers: true}},
		{format: delimitedFormat, separator: ";",
			delimited: Delimited{Column: "||", Record: "<>", Quote: '\'', Escape: '\\'}},
		{format: jsonFormat, separator: "\n"},
		{format: jsonFormat, separator: "--"},
	}
	f.Fuzz(func(t *testing.T, content []byte, form byte) {
		defer queryBudget.Start(t, len(content))()
		for i, sql := range []string{"SELECT _1, _2 FROM BlobStorage", "SELECT * FROM BlobStorage",
			"SELECT COUNT(_1) FROM BlobStorage", "SELECT * FROM BlobStorage[*].a[*]"} {
			st, err := parse(sql, time.Time{})
			in := forms[form%4]
			if err != nil || i == 3 && in.format != jsonFormat {
				continue
			}
			r := &Request{statement: st, input: in, output: output{input: forms[(form+1)%4]}}
			q, err := r.Open(budget.New(context.Background(), budget.Request),
				Content{Reader: bytes.NewReader(content), Size: int64(len(content))})
			if err != nil {
				continue
			}
			var b bytes.Buffer
			if err := q.Run(&b); err != nil {
				t.Fatal(err)
			}
			decode(t, b.Bytes())
		}
	})
}

// FuzzRequest: any body is a request or refused.
func FuzzRequest(f *testing.F) {
	f.Add([]byte("<QueryRequest><QueryType>SQL</QueryType><Expression>SELECT * FROM " +
		"BlobStorage</Expression><InputSerialization><Format><Type>json</Type></Format></InputSerialization></QueryRequest>"))
	f.Fuzz(func(t *testing.T, body []byte) {
		defer queryBudget.Start(t, len(body))()
		if r, err := ParseRequest(body, time.Time{}); (err == nil) != (r != nil) {
			t.Errorf("%v, %v", r, err)
		}
	})
}
