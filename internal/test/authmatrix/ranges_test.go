package authmatrix

import (
	"fmt"
	"io"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/frontend"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/operations"
)

// bounds are the keys that limit a table's token; "" is no bound.
type bounds struct{ spk, srk, epk, erk string }

// includes reports whether an entity is in the range: the pairs of keys are compared, both bounds are part of it, and a
// bound without a row key is a whole partition.
// https://learn.microsoft.com/rest/api/storageservices/create-service-sas#restrict-access-to-table-entities
func (b bounds) includes(partition, row string) bool {
	if b.spk != "" && (partition < b.spk || partition == b.spk && row < b.srk) {
		return false
	}
	return b.epk == "" || partition < b.epk || partition == b.epk && (b.erk == "" || row <= b.erk)
}

// changeset is a batch with one operation.
func changeset(method, path string) string {
	lines := []string{"--b", "Content-Type: multipart/mixed; boundary=c", "", "--c", "Content-Type: application/http",
		"Content-Transfer-Encoding: binary", "", method + " http://127.0.0.1:10000/" + account + "/" + path + " HTTP/1.1",
		"Content-Type: application/json", "", "{}", "--c--", "--b--", ""}
	return strings.Join(lines, "\r\n")
}

var rowsFound = regexp.MustCompile(`"PartitionKey":"(\w)","RowKey":"(\w)"`)

// Every operation on entities by a token for a range of keys: what is outside can neither be read nor written, by the
// entity's own path, in the body of an insertion, in a query of the table or of a partition, nor in a batch.
func TestRangesOfEntities(t *testing.T) {
	h := build(t)
	if w := h.send(wire.Table, "POST", "/"+account+"/Tables", `{"TableName":"Tab"}`, "Content-Type",
		"application/json"); w.Code != 201 {
		t.Fatalf("create the table: %d %s", w.Code, w.Body)
	}
	partitions, rows := []string{"a", "b", "c", "d"}, []string{"1", "3", "4", "9"}
	// fill makes what the operations have removed.
	fill := func(key string) {
		t.Helper()
		for _, p := range partitions {
			for _, r := range rows {
				if key == "" || key == p+r {
					h.send(wire.Table, "POST", "/"+account+"/Tab", `{"PartitionKey":"`+p+`","RowKey":"`+r+`"}`, "Content-Type",
						"application/json")
				}
			}
		}
	}
	fill("")
	for _, b := range []bounds{{}, {spk: "b"}, {spk: "b", srk: "3"}, {epk: "c"}, {epk: "c", erk: "4"},
		{spk: "b", srk: "3", epk: "c", erk: "4"}, {spk: "b", srk: "3", epk: "b", erk: "4"}, {spk: "d", epk: "a"}} {
		q, err := auth.Token{Permissions: "raud", Expiry: "2100-01-01", StartPK: b.spk, StartRK: b.srk, EndPK: b.epk,
			EndRK: b.erk}.Sign(account, h.key, wire.Table, "Tab")
		check.OK(t, err)
		send := func(row frontend.Row, path, body string) *httptest.ResponseRecorder {
			hr := request(t, wire.Table, row, account, q)
			hr.RequestURI = strings.Replace(hr.RequestURI, "Tab(PartitionKey='p',RowKey='r')", path, 1)
			hr.RequestURI = strings.Replace(hr.RequestURI, "Tab(PartitionKey='p')", path, 1)
			hr.Header.Set("Content-Type", "application/json")
			hr.Header.Set("Accept", "application/json;odata=nometadata")
			if slices.Contains(row.Has, "If-Match") || row.Name == "DeleteEntity" {
				hr.Header.Set("If-Match", "*")
			}
			if row.On == "batch" {
				hr.Header.Set("Content-Type", "multipart/mixed; boundary=b")
			}
			hr.Body, hr.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
			w := httptest.NewRecorder()
			h.handlers[wire.Table].ServeHTTP(w, hr)
			return w
		}
		listed := func(row frontend.Row, path string, of func(partition string) bool) {
			t.Helper()
			var want, got []string
			for _, p := range partitions {
				for _, r := range rows {
					if of(p) && b.includes(p, r) {
						want = append(want, p+r)
					}
				}
			}
			w := send(row, path, "")
			for _, m := range rowsFound.FindAllStringSubmatch(w.Body.String(), -1) {
				got = append(got, m[1]+m[2])
			}
			if w.Code != 200 || !slices.Equal(want, got) {
				t.Errorf("%s, %s by a token for %+v: %d %v, want %v", label(wire.Table, row), path, b, w.Code, got, want)
			}
		}
		for _, row := range operations.Tables(t)[wire.Table] {
			r, _ := find(t, wire.Table, row)
			switch {
			case r.service == "":
				continue
			case row.Name == "QueryEntities" && row.On == "table":
				listed(row, "", func(string) bool { return true })
				continue
			case row.On == "partition":
				for _, p := range partitions {
					listed(row, "Tab(PartitionKey='"+p+"')", func(of string) bool { return of == p })
				}
				continue
			}
			for _, p := range partitions {
				for _, rk := range rows {
					body := `{"PartitionKey":"` + p + `","RowKey":"` + rk + `"}`
					if row.On == "batch" {
						body = changeset("PUT", fmt.Sprintf("Tab(PartitionKey='%s',RowKey='%s')", p, rk))
					}
					if row.Method == "GET" || row.Name == "DeleteEntity" {
						body = ""
					}
					w := send(row, fmt.Sprintf("Tab(PartitionKey='%s',RowKey='%s')", p, rk), body)
					refused := w.Code == 403 || strings.Contains(w.Body.String(), "HTTP/1.1 403")
					if served := !refused && (w.Code < 300 || w.Code == 409); refused == b.includes(p, rk) || !refused && !served {
						t.Errorf("%s, %s %s by a token for %+v: %d %s", label(wire.Table, row), p, rk, b, w.Code, w.Body)
					}
					if row.Name == "DeleteEntity" && !refused {
						fill(p + rk)
					}
				}
			}
		}
	}
}
