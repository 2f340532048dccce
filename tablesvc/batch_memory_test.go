package tablesvc

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// Transactions use the memory of earlier ones again: what they stored must not depend on it.
func TestTransactionsShareNoMemory(t *testing.T) {
	t.Parallel()
	f := start(t)
	client := f.table("people")
	const clients, rounds, entities = 4, 6, 20
	text := func(c, round, i int) string { return strings.Repeat(fmt.Sprintf("%d-%d-%d ", c, round, i), 10+i) }
	kinds := []aztables.TransactionType{aztables.TransactionTypeAdd, aztables.TransactionTypeInsertReplace,
		aztables.TransactionTypeInsertMerge}
	var wg sync.WaitGroup
	for c := range clients {
		wg.Go(func() {
			for round := range rounds {
				actions := make([]aztables.TransactionAction, entities)
				for i := range actions {
					actions[i] = aztables.TransactionAction{ActionType: kinds[round%len(kinds)],
						Entity: entityJSON(fmt.Sprint("p", c), fmt.Sprint(round/len(kinds), " ", i), "Z", i, "Text", text(c, round, i),
							"A", round)}
				}
				if _, err := client.SubmitTransaction(ctx, actions, nil); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	found := 0
	page, err := client.NewListEntitiesPager(nil).NextPage(ctx)
	check.OK(t, err)
	for _, raw := range page.Entities {
		found++
		var e struct {
			PartitionKey, RowKey, Text string
			Z, A                       int
		}
		check.OK(t, json.Unmarshal(raw, &e))
		var c, block, i int
		if _, err := fmt.Sscanf(e.PartitionKey+" "+e.RowKey, "p%d %d %d", &c, &block, &i); err != nil {
			t.Fatal(err)
		}
		if last := block*len(kinds) + len(kinds) - 1; e.Z != i || e.A != last || e.Text != text(c, last, i) {
			t.Errorf("%s: Z %d, A %d, Text %q; want %d, %d, %q", e.PartitionKey+"/"+e.RowKey, e.Z, e.A, e.Text, i, last,
				text(c, last, i))
		}
	}
	if want := clients * rounds / len(kinds) * entities; found != want {
		t.Errorf("%d entities, want %d", found, want)
	}
}

// Lines of a part that equal those of the part before are not parsed again.
func TestPartsWithEqualLines(t *testing.T) {
	t.Parallel()
	part := func(line, header, body string) string { return line + "\r\n" + header + "\r\n" + body }
	var r partReader
	for _, tc := range []struct {
		raw         string
		method, uri string
		header      []wire.Detail
		body        string
	}{
		{part("POST /a HTTP/1.1", "A: 1\r\nB:2\r\n", "x"), "POST", "/a",
			[]wire.Detail{{Name: "A", Value: "1"}, {Name: "B", Value: "2"}}, "x"},
		{part("POST /a HTTP/1.1", "A: 1\r\nB:2\r\n", "y"), "POST", "/a",
			[]wire.Detail{{Name: "A", Value: "1"}, {Name: "B", Value: "2"}}, "y"},
		{part("PUT /a HTTP/1.1", "A: 1\r\nB:2\r\n", ""), "PUT", "/a",
			[]wire.Detail{{Name: "A", Value: "1"}, {Name: "B", Value: "2"}}, ""},
		{part("PUT /b HTTP/1.1", "A: 1\r\nB:3\r\n", ""), "PUT", "/b",
			[]wire.Detail{{Name: "A", Value: "1"}, {Name: "B", Value: "3"}}, ""},
		{part("PUT /b HTTP/1.1", "", "z"), "PUT", "/b", nil, "z"},
		{part("PUT /b HTTP/1.1", "A: 1\r\nB:3\r\n", "z"), "PUT", "/b",
			[]wire.Detail{{Name: "A", Value: "1"}, {Name: "B", Value: "3"}}, "z"},
	} {
		p, ok := r.request([]byte(tc.raw))
		if !ok || p.method != tc.method || p.uri != tc.uri || !slices.Equal(p.header, tc.header) ||
			string(p.body) != tc.body {
			t.Errorf("%q: %v %+v", tc.raw, ok, p)
		}
	}
}
