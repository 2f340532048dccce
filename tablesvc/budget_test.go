package tablesvc

import (
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/test/workbudget"
)

// Bodies and addresses that repeat a piece of their grammar take work that grows with their length.
func TestParsersStayInTheirBudget(t *testing.T) {
	const size = 2 << 20 // below the largest body
	for _, boundary := range []string{"b", "bbbb", "-"} {
		line := "--" + boundary
		workbudget.Inputs(size, line+"\r\n",
			[]string{line, line + "\n", line + " ", line + "--", "-", "\n", " ", "a:b\n", "GET x HTTP/1.1\n",
				line + "\nContent-Type: multipart/mixed; boundary=c\n\n--c", "\r\n\r\n"}, "\n"+line+"--", func(body string) {
				workbudget.Default.Check(t, len(body),
					func() { _, _ = readBatch("multipart/mixed; boundary="+boundary, []byte(body)) })
			})
	}
	workbudget.Inputs(wire.MaxURI, "/T(", []string{"''", "'", "%27", "PartitionKey='a',", "=", ",", "(", "RowKey='"}, ")",
		func(path string) {
			workbudget.Default.Check(t, len(path), func() { _, _ = parsePath(path) })
		})
	workbudget.Inputs(32<<10, "application/json", []string{",", ",a/b", ";a=b", ",application/json;odata=x", "\""}, "",
		func(accept string) {
			workbudget.Default.Check(t, len(accept), func() { _, _ = acceptedFormat(wire.LatestVersion(), "", accept) })
		})
}

// Of a transaction with too many changes, few are parsed.
func TestManyChangesAreNotParsed(t *testing.T) {
	t.Parallel()
	change := "--c\nContent-Type: application/http\n\nDELETE http://h/T(PartitionKey='a',RowKey='b') " +
		"HTTP/1.1\nIf-Match: *\n\n"
	body := "--b\nContent-Type: multipart/mixed; boundary=c\n\n" + strings.Repeat(change, 10_000) + "--c--\n--b--"
	if b, err := readBatch("multipart/mixed; boundary=b", []byte(body)); err != nil || len(b.changes) != maxParts {
		t.Errorf("%d changes, %v; want %d", len(b.changes), err, maxParts)
	}
}

// FuzzOptions: any query options of a query for entities are read or refused.
func FuzzOptions(f *testing.F) {
	f.Add("a,b,*,odata.x", "PartitionKey eq 'a' and (N gt 5L or not B)", "10", "1!4!YWJj", "1!4!YWJj")
	f.Add(",,a , a", "X eq datetime'2020-01-01T00:00:00Z'", "-1", "", "x")
	f.Fuzz(func(t *testing.T, selected, filter, top, partition, row string) {
		defer workbudget.Default.Start(t, len(selected)+len(filter)+len(top)+len(partition)+len(row))()
		options := url.Values{"$select": {selected}, "$filter": {filter}, "$top": {top}, "NextPartitionKey": {partition},
			"NextRowKey": {row}}
		if c, err := tryOptions(options); err == nil {
			_, _ = c.parseQuery()
		}
	})
}

// Names in $select are looked for in every entity.
func TestSelectIsBounded(t *testing.T) {
	var names []string
	for i := range maxSelected + 1 {
		names = append(names, "N"+string(rune('a'+i%26))+strings.Repeat("x", i/26))
	}
	if _, err := optionsOf(t, url.Values{"$select": {strings.Join(names[:maxSelected], ",")}}).parseQuery(); err != nil {
		t.Errorf("%d names: %v", maxSelected, err)
	}
	if _, err := optionsOf(t, url.Values{"$select": {strings.Join(names, ",")}}).parseQuery(); err == nil {
		t.Errorf("%d names are accepted", len(names))
	}
	workbudget.Inputs(wire.MaxURI/4, "a", []string{",", ",a", ", b"}, "", func(text string) {
		c := optionsOf(t, url.Values{"$select": {text}})
		workbudget.Default.Check(t, len(text), func() { _, _ = c.parseQuery() })
	})
	// Different names, each compared with those before it, were quadratic.
	var text strings.Builder
	text.WriteString("a")
	for i := range 30_000 {
		text.WriteString(",P" + string(rune('a'+i%26)) + string(rune('a'+i/26%26)) + string(rune('a'+i/676%26)) +
			string(rune('a'+i/17576)))
	}
	c := optionsOf(t, url.Values{"$top": {"1"}})
	c.Query = append(c.Query, wire.Param{Name: "$select", Value: text.String()})
	workbudget.Budget{Time: 100 * time.Millisecond, TimePerByte: time.Microsecond, Bytes: 1 << 20,
		BytesPerByte: 1000}.Check(t, text.Len(), func() { _, _ = c.parseQuery() })
}

// optionsOf is a query for entities with options, which must fit into an address.
func optionsOf(t *testing.T, options url.Values) *call {
	t.Helper()
	c, err := tryOptions(options)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func tryOptions(options url.Values) (*call, error) {
	hr := httptest.NewRequest("GET", "http://127.0.0.1/devstoreaccount1/T()?"+options.Encode(), nil)
	r, err := wire.Parse(wire.Table, hr, nil, time.Now(), wire.Options{})
	if err != nil {
		return nil, err
	}
	return &call{Request: r, address: address{level: onTable, table: "T"}, version: wire.LatestVersion()}, nil
}

// FuzzTableName: any body of Create Table names a table or is refused.
func FuzzTableName(f *testing.F) {
	f.Add([]byte(`{"TableName":"people"}`))
	f.Add([]byte(`<entry xmlns="http://www.w3.org/2005/Atom"/>`))
	f.Fuzz(func(t *testing.T, body []byte) {
		defer workbudget.Default.Start(t, len(body))()
		for _, kind := range []string{"application/json", "application/atom+xml"} {
			c := optionsOf(t, nil)
			c.HTTP.Header.Set("Content-Type", kind)
			_, _ = tableNameIn(c, body)
		}
	})
}
