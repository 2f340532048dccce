package servertest

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"github.com/google/go-cmp/cmp"

	"github.com/lazuli-storage/lazuli/internal/sdk/tabletool"
	"github.com/lazuli-storage/lazuli/internal/test/testaccount"
)

// fill makes a table of partitions with so many rows each.
func fill(t *testing.T, a *testaccount.Account, partitions, rows int) *aztables.Client {
	t.Helper()
	client := a.Tables.NewClient(a.Table("tool"))
	for p := range partitions {
		for from := 0; from < rows; from += 100 {
			var batch []aztables.TransactionAction
			for r := from; r < min(from+100, rows); r++ {
				e := fmt.Sprintf(`{"PartitionKey":"p%d","RowKey":"%04d","N":%d}`, p, r, r)
				batch = append(batch, aztables.TransactionAction{ActionType: aztables.TransactionTypeAdd, Entity: []byte(e)})
			}
			if _, err := client.SubmitTransaction(t.Context(), batch, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	return client
}

func TestListTables(t *testing.T) {
	t.Parallel()
	a := testaccount.Open(t)
	one, two, other := a.Table("Toolx"), a.Table("tooly"), a.Table("other")
	got, err := tabletool.List(t.Context(), a.Tables, "TOOL")
	if err != nil || !slices.Contains(got, one) || !slices.Contains(got, two) || slices.Contains(got, other) {
		t.Errorf("tables %q, %v", got, err)
	}
	if all, err := tabletool.List(t.Context(), a.Tables, ""); err != nil || !slices.Contains(all, other) {
		t.Errorf("all tables %q, %v", all, err)
	}
}

func TestQueryTable(t *testing.T) {
	t.Parallel()
	client := fill(t, testaccount.Open(t), 2, 1500)
	for _, tc := range []struct {
		o     tabletool.QueryOptions
		count int
		first string
	}{
		{tabletool.QueryOptions{}, 3000, ""},
		{tabletool.QueryOptions{Top: 1200}, 1200, ""},
		{tabletool.QueryOptions{Filter: "PartitionKey eq 'p1' and N ge 10", Select: "RowKey,N", Top: 3}, 3,
			`{"RowKey":"0010","N":10}`},
		{tabletool.QueryOptions{Filter: "N eq 5000"}, 0, ""},
	} {
		var lines []string
		err := tabletool.Query(t.Context(), client, tc.o,
			func(e []byte) error { lines = append(lines, string(e)); return nil })
		if err != nil || len(lines) != tc.count || tc.first != "" && lines[0] != tc.first {
			t.Errorf("%+v: %d entities, %.1q, %v; want %d, %q", tc.o, len(lines), lines, err, tc.count, tc.first)
		}
	}
	stop := errors.New("enough")
	if err := tabletool.Query(t.Context(), client, tabletool.QueryOptions{},
		func([]byte) error { return stop }); err != stop {
		t.Errorf("broken off with %v", err)
	}
}

func TestExplainTable(t *testing.T) {
	t.Parallel()
	client := fill(t, testaccount.Open(t), 2, 1200)
	for _, tc := range []struct {
		filter string
		pages  int
		want   tabletool.Explanation
		hints  string
	}{
		{"PartitionKey eq 'p1' and RowKey eq '0007'", 0,
			tabletool.Explanation{Plan: "PointQuery", Ranges: []string{"PartitionKey eq 'p1' and RowKey eq '0007'"},
				RangeCount: 1, Scanned: 1, Returned: 1, Pages: 1}, ""},
		{"PartitionKey eq 'p1' and RowKey ge '0007' and RowKey lt '0017'", 0,
			tabletool.Explanation{Plan: "RangeQuery",
				Ranges: []string{"PartitionKey eq 'p1' and RowKey ge '0007' and RowKey lt '0017'"}, RangeCount: 1, Scanned: 10,
				Returned: 10, Pages: 1}, ""},
		{"PartitionKey eq 'p1'", 0,
			tabletool.Explanation{Plan: "PartitionScan", Ranges: []string{"PartitionKey eq 'p1'"}, RangeCount: 1, Scanned: 1200,
				Returned: 1200, Pages: 2}, ""},
		{"PartitionKey eq 'p1' and N eq 7", 0,
			tabletool.Explanation{Plan: "PartitionScan", Ranges: []string{"PartitionKey eq 'p1'"}, RangeCount: 1, Residual: true,
				Scanned: 1200, Returned: 1, Pages: 1},
			"range query, intra-partition, 1199 of 1200"},
		{"N eq 7", 0,
			tabletool.Explanation{Plan: "TableScan", Ranges: []string{"all"}, RangeCount: 1, Residual: true, Scanned: 2400,
				Returned: 2, Pages: 1},
			"PartitionKey eq, inter-partition, 2398 of 2400"},
		{"", 1,
			tabletool.Explanation{Plan: "TableScan", Ranges: []string{"all"}, RangeCount: 1, Scanned: 1000, Returned: 1000,
				Pages: 1, More: true}, "PartitionKey eq, inter-partition"},
		{"PartitionKey ge 'p1' and N eq 7", 0,
			tabletool.Explanation{Plan: "PartitionRangeScan", Ranges: []string{"PartitionKey ge 'p1'"}, RangeCount: 1,
				Residual: true, Scanned: 1200, Returned: 1, Pages: 1},
			"one query for each partition, 1199 of 1200"},
		{"PartitionKey eq 5", 0, tabletool.Explanation{Plan: "Nothing", Ranges: []string{}, Pages: 1}, "Keys are text"},
	} {
		got, err := tabletool.Explain(t.Context(), client, tc.filter, tc.pages)
		if err != nil {
			t.Fatalf("%s: %v", tc.filter, err)
		}
		if d := cmp.Diff(tc.want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", tc.filter, d)
		}
		hints := got.Hints()
		if tc.hints == "" {
			if len(hints) != 0 {
				t.Errorf("%s: hints %q, want none", tc.filter, hints)
			}
			continue
		}
		for i, part := range strings.Split(tc.hints, ", ") {
			if i >= len(hints) || !strings.Contains(hints[i], part) {
				t.Errorf("%s: hints %q, want %q", tc.filter, hints, tc.hints)
			}
		}
	}
}

// TestExplainElsewhere: a server that does not know the header is not taken for one to which queries cost nothing.
func TestExplainTableElsewhere(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"value":[]}`)
	}))
	defer server.Close()
	client, err := aztables.NewClientWithNoCredential(server.URL+"/people", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tabletool.Explain(t.Context(), client, "", 0); !errors.Is(err, tabletool.ErrNotExplained) {
		t.Errorf("%v, want %v", err, tabletool.ErrNotExplained)
	}
}
