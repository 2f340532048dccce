package tablesvc

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	state "github.com/lazuli-storage/lazuli/internal/state/table"
)

// Single changes use the memory of earlier ones again: neither what they stored nor what they answer may depend on it.
func TestSingleChangesShareNoMemory(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.table("people")
	const clients, rounds = 8, 40
	type person struct{ PartitionKey, RowKey, Text string }
	var wg sync.WaitGroup
	for c := range clients {
		wg.Go(func() {
			for round := range rounds {
				want := person{fmt.Sprint("p", c), fmt.Sprint("r", round), strings.Repeat(fmt.Sprintf("%d-%d ", c, round), 20)}
				address := fmt.Sprintf("/people(PartitionKey='%s',RowKey='%s')", want.PartitionKey, want.RowKey)
				body, err := json.Marshal(want)
				if err != nil {
					t.Error(err)
					return
				}
				for _, step := range []struct {
					method, path, body string
					status             int
				}{
					{http.MethodPost, "/people", string(body), http.StatusCreated},
					{"MERGE", address, fmt.Sprintf(`{"N":%d}`, round), http.StatusNoContent},
					{http.MethodGet, address, "", http.StatusOK},
				} {
					var got person
					r, err := f.try(step.method, step.path, nil, step.body)
					if err != nil || r.status != step.status {
						t.Errorf("%s %s: %v, %d %s", step.method, step.path, err, r.status, r.body)
						return
					}
					if r.status == http.StatusNoContent {
						continue
					}
					if err := json.Unmarshal([]byte(r.body), &got); err != nil || got != want {
						t.Errorf("%s %s: %v, %s; want %+v", step.method, step.path, err, r.body, want)
						return
					}
				}
			}
		})
	}
	wg.Wait()
}

// Rows in ascending order are compared with the last one alone, and others with all before.
func TestSecondChangeOfARow(t *testing.T) {
	t.Parallel()
	for rows, want := range map[string]int{"abcd": -1, "abbc": 2, "aa": 1, "dcba": -1, "acbc": 3, "bcab": 3, "abdca": 4} {
		var set rowSet
		var list []state.Mutation
		found := -1
		for i := range rows {
			if list = append(list, state.Mutation{Row: []byte(rows[i : i+1])}); !set.add(list) {
				found = i
				break
			}
		}
		if found != want {
			t.Errorf("of %s, change %d is the second of its row; want %d", rows, found, want)
		}
	}
}
