package tablesvc

import (
	"sync"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// TestDeletedTablesAreForgotten: readers never see the entities of a table whose deletion was answered, nor some of
// the entities of one that is being deleted, while tables of the same name come and go.
func TestDeletedTablesAreForgotten(t *testing.T) {
	t.Parallel()
	f := start(t)
	const entities = 30
	body := func(generation int) []byte { return entityJSON("p", "0", "G", generation) }
	var wait sync.WaitGroup
	stop := make(chan struct{})
	end := sync.OnceFunc(func() { close(stop); wait.Wait() })
	defer end() // also if the test ends early
	for range 3 {
		wait.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				r, err := f.try("GET", "/comes()?$select=RowKey", nil, "")
				if err != nil {
					t.Error(err)
					return
				}
				if n := countRows(r.body); r.status == 200 && n != 0 && n != entities || r.status != 200 && r.status != 404 {
					t.Errorf("status %d with %d entities", r.status, n)
				}
			}
		})
	}
	for g := range 25 {
		client := f.table("comes")
		fill(t, client, "p", entities, "x")
		if _, err := f.sdk.DeleteTable(ctx, "comes", nil); err != nil {
			t.Fatal(err)
		}
		f.send("GET", "/comes()", nil, "").want(t, "404 TableNotFound")
		client = f.table("comes")
		_, err := client.GetEntity(ctx, "p", "00000", nil)
		check.Code(t, err, "404 ResourceNotFound")
		_, err = f.sdk.DeleteTable(ctx, "comes", nil)
		check.OK(t, err)
		_, err = client.AddEntity(ctx, body(g), nil)
		check.Code(t, err, "404 TableNotFound")
	}
	end()
}

func countRows(body string) (n int) {
	for i := 0; i+8 < len(body); i++ {
		if body[i:i+8] == `"RowKey"` {
			n++
		}
	}
	return n
}
