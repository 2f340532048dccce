package query

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/lazuli-storage/lazuli/internal/budget"
)

// answer is a decoded answer.
type answer struct {
	data     string
	errors   []recordError
	progress []int64
	end      int64
	ended    bool
}

// decode reads what Run wrote, as strictly as a client.
func decode(t testing.TB, b []byte) (a answer) {
	t.Helper()
	long := func() int64 {
		n, size := binary.Varint(b)
		if size <= 0 {
			t.Fatal("the answer ends within a number")
		}
		b = b[size:]
		return n
	}
	take := func(n int64) string {
		if n < 0 || n > int64(len(b)) {
			t.Fatalf("the answer has %d bytes left, not %d", len(b), n)
		}
		s := string(b[:n])
		b = b[n:]
		return s
	}
	if take(4) != "Obj\x01" {
		t.Fatal("no Avro object container")
	}
	for n := long(); n > 0; n-- {
		take(long())
		take(long())
	}
	long()
	sync := take(16)
	for len(b) > 0 {
		if a.ended {
			t.Fatal("a record follows the end")
		}
		count, size := long(), long()
		rest := int64(len(b)) - size
		if count != 1 {
			t.Fatalf("a block of %d records", count)
		}
		switch long() {
		case resultBranch:
			a.data += take(long())
		case errorBranch:
			e := recordError{fatal: take(1) == "\x01"}
			e.name, e.description = take(long()), take(long())
			e.at = long()
			a.errors = append(a.errors, e)
		case progressBranch:
			a.progress = append(a.progress, long())
			long()
		case endBranch:
			a.end, a.ended = long(), true
		}
		if int64(len(b)) != rest {
			t.Fatal("a block has another length than it says")
		}
		if take(16) != sync {
			t.Fatal("no sync marker behind a block")
		}
	}
	if !a.ended {
		t.Fatal("the answer has no end")
	}
	return a
}

var testTime = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

// body is the XML of a request; in and out are Format elements' contents, "" for none.
func body(sql, in, out string) []byte {
	var b strings.Builder
	b.WriteString(`<?xml version="1.0" encoding="utf-8"?><QueryRequest><QueryType>SQL</QueryType><Expression>`)
	for _, c := range sql {
		fmt.Fprintf(&b, "&#%d;", c)
	}
	b.WriteString("</Expression>")
	if in != "" {
		b.WriteString("<InputSerialization><Format>" + in + "</Format></InputSerialization>")
	}
	if out != "" {
		b.WriteString("<OutputSerialization><Format>" + out + "</Format></OutputSerialization>")
	}
	b.WriteString("</QueryRequest>")
	return []byte(b.String())
}

// The formats that tests use.
const (
	csvHeader = `<Type>delimited</Type><DelimitedTextConfiguration><HasHeaders>true</HasHeaders></DelimitedTextConfiguration>`
	jsonLines = `<Type>json</Type><JsonTextConfiguration><RecordSeparator>&#10;</RecordSeparator></JsonTextConfiguration>`
	csvOdd    = `<Type>delimited</Type><DelimitedTextConfiguration><ColumnSeparator>;</ColumnSeparator><FieldQuote>'</FieldQuote><RecordSeparator>.</RecordSeparator><EscapeChar>\</EscapeChar><HasHeaders>false</HasHeaders></DelimitedTextConfiguration>`
)

// ask runs a query over text, in pieces of every size.
func ask(t testing.TB, content, sql, in, out string) (answer, error) {
	t.Helper()
	var first answer
	for i, r := range []Content{
		{Reader: strings.NewReader(content)},
		{Reader: iotest.OneByteReader(strings.NewReader(content))},
		{Reader: iotest.HalfReader(iotest.DataErrReader(strings.NewReader(content)))},
	} {
		if i > 0 && len(content) > 1<<20 {
			break
		}
		request, err := ParseRequest(body(sql, in, out), testTime)
		if err != nil {
			return answer{}, err
		}
		r.Size = int64(len(content))
		q, err := request.Open(budget.New(context.Background(), budget.Request), r)
		if err != nil {
			return answer{}, err
		}
		var b bytes.Buffer
		if err := q.Run(&b); err != nil {
			t.Fatal(err)
		}
		a := decode(t, b.Bytes())
		if i == 0 {
			first = a
		} else if fmt.Sprint(a) != fmt.Sprint(first) {
			t.Fatalf("read in other pieces, the answer differs:\n%v\n%v", a, first)
		}
	}
	return first, nil
}
