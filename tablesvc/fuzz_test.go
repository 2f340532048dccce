package tablesvc

import (
	"errors"
	"net/url"
	"reflect"
	"strings"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	state "github.com/lazuli-storage/lazuli/internal/state/table"
	"github.com/lazuli-storage/lazuli/internal/test/workbudget"
)

// FuzzParsePath: any path is read or refused in Azure's words, and keys written as SDKs write them come back.
func FuzzParsePath(f *testing.F) {
	f.Add("/people(PartitionKey='it''s',RowKey='%41%2F')", "p", "r")
	f.Add("/Tables('x')", "it's", "a,b=c")
	f.Add("/$batch", "'", "''")
	f.Fuzz(func(t *testing.T, path, partition, row string) {
		defer workbudget.Default.Start(t, len(path)+len(partition)+len(row))()
		if _, err := parsePath(path); err != nil {
			var e *wire.Error
			if !errors.As(err, &e) || e.Status != 400 {
				t.Fatalf("%q: %v", path, err)
			}
		}
		if strings.Contains(partition+row, "/") { // refused
			return
		}
		quote := func(s string) string { return url.PathEscape(strings.ReplaceAll(s, "'", "''")) }
		a, err := parsePath("/people(PartitionKey='" + quote(partition) + "',RowKey='" + quote(row) + "')")
		if err != nil || a.level != onEntity || a.partition != strings.ToValidUTF8(partition, "\ufffd") ||
			a.row != strings.ToValidUTF8(row, "\ufffd") {
			// Runs of invalid bytes become one replacement character across the quotes as within them.
			if strings.ToValidUTF8(partition, "") == partition && strings.ToValidUTF8(row, "") == row {
				t.Fatalf("(%q, %q) came back as (%q, %q), %s, %v", partition, row, a.partition, a.row, a.level, err)
			}
		}
	})
}

// FuzzReadBatch: any body is taken apart or refused.
func FuzzReadBatch(f *testing.F) {
	f.Add("multipart/mixed; boundary=b",
		"--b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n--c\r\nContent-Type: application/http\r\n\r\n"+
			"POST /people HTTP/1.1\r\nContent-ID: 1\r\n\r\n{}\r\n--c--\r\n--b--\r\n")
	f.Add("multipart/mixed; boundary=b",
		"--b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n--c\r\n\r\n"+
			"PUT /people(PartitionKey='p',RowKey='r') HTTP/1.1\r\nIf-Match: *\r\nPrefer: return-no-content\r\n\r\n"+
			"{}\r\n--c\r\n\r\n"+
			"PUT /people(PartitionKey='p',RowKey='r') HTTP/1.1\r\nIf-Match: *\r\nPrefer: return-no-content\r\n\r\n"+
			"{\"a\":1}\r\n--c\r\n\r\n"+
			"PUT /people(PartitionKey='p',RowKey='r') HTTP/1.1\r\n\r\n{}\r\n--c--\r\n--b--\r\n")
	f.Add("multipart/mixed; boundary=b", "--b\nContent-Type: application/http\n\nGET /people() HTTP/1.1\n\n--b--")
	f.Fuzz(func(t *testing.T, contentType, body string) {
		defer workbudget.Default.Start(t, len(contentType)+len(body))()
		b, err := readBatch(contentType, []byte(body))
		if err != nil {
			if !errors.Is(err, errInvalidInput) {
				t.Fatal(err)
			}
			return
		}
		if b.query != nil && b.changes != nil || len(b.changes) > maxParts {
			t.Fatalf("%d changes, query %v", len(b.changes), b.query)
		}
		c := &call{Request: &wire.Request{Account: "acc"}, version: wire.LatestVersion()}
		var before step
		for i := range b.changes {
			st := step{mutation: &state.Mutation{}}
			if st.head, err = readHead(c, &b.changes[i]); err == nil {
				_ = st.readBody(c, &b.changes[i], nil)
			}
			// What a transaction takes from the part before must be what the part says itself.
			if i > 0 && b.changes[i].sameHead(&b.changes[i-1]) {
				a := st
				a.part, a.mutation, before.part, before.mutation = nil, nil, nil, nil
				if !reflect.DeepEqual(a, before) {
					t.Fatalf("part %d is %+v, and %+v by the part before", i, a, before)
				}
			}
			before = st
		}
	})
}

// FuzzMultipart: parts that are joined with a boundary are found again.
func FuzzMultipart(f *testing.F) {
	f.Add("one", "two\r\n--nob", true)
	f.Add("", "--", false)
	f.Fuzz(func(t *testing.T, first, second string, crlf bool) {
		defer workbudget.Default.Start(t, len(first)+len(second))()
		end := "\n"
		if crlf {
			end = "\r\n"
		}
		if strings.Contains(first+second, "--bound") || strings.TrimSpace(first) == "" || strings.HasSuffix(first, "\r") ||
			strings.HasSuffix(second, "\r") {
			return
		}
		body := "--bound" + end + first + end + "--bound" + end + second + end + "--bound--" + end
		parts, whole := splitMultipart([]byte(body), "bound")
		if !whole || len(parts) != 2 || string(parts[0]) != first || string(parts[1]) != second {
			t.Fatalf("%q: got %q, %v", body, parts, whole)
		}
	})
}
