package tablesvc

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	state "github.com/lazuli-storage/lazuli/internal/state/table"
)

// The history of one entity under concurrent changes is checked against this model: a register that is absent, or has
// a value and a tag. Every write takes a value that no other write has; it answers the tag, which then stands for it.

type entityOp struct {
	key     string
	change  state.Change
	value   string // of a write
	ifMatch string // "" for none
	read    bool
}

type entityResult struct {
	status int
	etag   string
	value  string // of a read: both properties, merged or not
}

// entityState is the model's state. first and second are the two properties that writes set: an insert or a replace
// sets both, a merge the second.
type entityState struct {
	there               bool
	first, second, etag string
}

var entityModel = porcupine.Model{
	Partition: func(history []porcupine.Operation) (parts [][]porcupine.Operation) {
		byKey := make(map[string][]porcupine.Operation)
		for _, op := range history {
			k := op.Input.(entityOp).key
			byKey[k] = append(byKey[k], op)
		}
		for _, p := range byKey {
			parts = append(parts, p)
		}
		return parts
	},
	Init: func() any { return entityState{} },
	Step: func(state, input, output any) (bool, any) {
		return input.(entityOp).step(state.(entityState), output.(entityResult))
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v -> %+v", input, output) },
}

func (op entityOp) step(s entityState, r entityResult) (bool, entityState) {
	if op.read {
		if !s.there {
			return r.status == 404, s
		}
		return r.status == 200 && r.etag == s.etag && r.value == s.first+","+s.second, s
	}
	matches := op.ifMatch == "" || op.ifMatch == "*" || op.ifMatch == s.etag
	next := entityState{true, op.value, op.value, r.etag}
	switch op.change {
	case state.Insert:
		if s.there {
			return r.status == 409, s
		}
		return r.status == 204, next
	case state.Update, state.Merge, state.Remove:
		switch {
		case !s.there:
			return r.status == 404, s
		case !matches:
			return r.status == 412, s
		}
	}
	switch op.change {
	case state.Remove:
		next = entityState{}
	case state.Merge, state.InsertOrMerge:
		next.first = s.first // "" if there was none
	}
	return r.status == 204 && (op.change == state.Remove || r.etag != s.etag), next
}

// TestLinearizable: many clients insert, merge, replace, delete and read the same few entities, with and without tags.
func TestLinearizable(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.table("people")
	const clients, each, keys = 8, 150, 3
	var mu sync.Mutex
	var history []porcupine.Operation
	begin := time.Now()
	var wait sync.WaitGroup
	for c := range clients {
		wait.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(c), 1))
			etags := make(map[string]string)
			for i := range each {
				op := entityOp{key: fmt.Sprint("k", rng.IntN(keys)), value: fmt.Sprintf("v%d.%d", c, i)}
				if op.change = state.Change(rng.IntN(int(state.Remove) + 1)); rng.IntN(4) == 0 {
					op.read = true
				}
				if op.change == state.Update || op.change == state.Merge || op.change == state.Remove {
					if op.ifMatch = "*"; rng.IntN(2) == 0 && etags[op.key] != "" {
						op.ifMatch = etags[op.key]
					}
				}
				call := time.Since(begin)
				r, err := f.do(op)
				if err != nil {
					t.Error(err)
					return
				}
				ret := time.Since(begin)
				if r.etag != "" {
					etags[op.key] = r.etag
				}
				mu.Lock()
				history = append(history, porcupine.Operation{ClientId: c, Input: op, Call: int64(call), Output: r,
					Return: int64(ret)})
				mu.Unlock()
			}
		})
	}
	wait.Wait()
	result, info := porcupine.CheckOperationsVerbose(entityModel, history, 5*time.Minute)
	if result != porcupine.Ok {
		path := t.TempDir() + "/history.html"
		_ = porcupine.VisualizePath(entityModel, info, path)
		t.Errorf("the history of %d operations is %s; see %s", len(history), result, path)
	}
}

// do carries out one operation of a history.
func (f *fixture) do(op entityOp) (entityResult, error) {
	path := "/people(PartitionKey='p',RowKey='" + op.key + "')"
	if op.read {
		r, err := f.try("GET", path+"?$select=First,Second", nil, "")
		var e struct{ First, Second string } // "" for a null
		_ = json.Unmarshal([]byte(r.body), &e)
		return entityResult{r.status, r.header.Get("ETag"), e.First + "," + e.Second}, err
	}
	both := fmt.Sprintf(`{"First":%q,"Second":%[1]q}`, op.value)
	var r reply
	var err error
	switch op.change {
	case state.Insert:
		r, err = f.try("POST", "/people", headers{"Prefer", "return-no-content"},
			fmt.Sprintf(`{"PartitionKey":"p","RowKey":%q,"First":%q,"Second":%[2]q}`, op.key, op.value))
	case state.Update, state.InsertOrReplace:
		r, err = f.try("PUT", path, headers{"If-Match", op.ifMatch}, both)
	case state.Merge:
		r, err = f.try("MERGE", path, headers{"If-Match", op.ifMatch}, fmt.Sprintf(`{"Second":%q}`, op.value))
	case state.InsertOrMerge:
		r, err = f.try("MERGE", path, nil, fmt.Sprintf(`{"Second":%q}`, op.value))
	case state.Remove:
		r, err = f.try("DELETE", path, headers{"If-Match", op.ifMatch}, "")
	}
	return entityResult{r.status, r.header.Get("ETag"), ""}, err
}
