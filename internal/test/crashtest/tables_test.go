package crashtest

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
)

// tableWorker writes entities of its own partition, in single requests and in transactions.
type tableWorker struct {
	partition string
	table     *aztables.Client
	version   int            // version of the last operation
	rows      map[string]int // row to version; 0 or absent means that the row does not exist
	doubt     map[string]int // rows after the operation in flight
	acked     int
}

func newTableWorker(i int) *tableWorker {
	return &tableWorker{partition: fmt.Sprint("partition", i), rows: map[string]int{}}
}

func (w *tableWorker) acknowledged() int { return w.acked }

func (w *tableWorker) connect(s *server) error {
	cred, err := aztables.NewSharedKeyCredential(account, key)
	if err != nil {
		return err
	}
	w.table, err = aztables.NewClientWithSharedKey(s.table+"/crash", cred,
		&aztables.ClientOptions{ClientOptions: s.options()})
	if err != nil {
		return err
	}
	_, err = w.table.CreateTable(context.Background(), nil)
	return unless(err, "TableAlreadyExists")
}

type row struct {
	PartitionKey, RowKey string
	Version              int
	Text                 string
}

func rowText(version int) string { return strings.Repeat(fmt.Sprint(version, " "), version%200) }

func (w *tableWorker) entity(name string) []byte {
	p, err := json.Marshal(row{w.partition, name, w.version, rowText(w.version)})
	if err != nil {
		panic(err)
	}
	return p
}

func (w *tableWorker) step(ctx context.Context, rnd *rand.Rand) error {
	w.version++
	name := fmt.Sprint(rnd.IntN(200))
	present := w.rows[name] != 0
	w.doubt = map[string]int{name: w.version}
	var err error
	switch n := rnd.IntN(10); {
	case n == 0 && present:
		w.doubt[name] = 0
		_, err = w.table.DeleteEntity(ctx, w.partition, name, nil)
	case n <= 2:
		w.doubt = map[string]int{}
		var batch []aztables.TransactionAction
		for range 1 + rnd.IntN(20) {
			name := fmt.Sprint(rnd.IntN(200))
			if _, twice := w.doubt[name]; twice {
				continue
			}
			a := aztables.TransactionAction{ActionType: aztables.TransactionTypeInsertReplace, Entity: w.entity(name)}
			w.doubt[name] = w.version
			if w.rows[name] != 0 && rnd.IntN(4) == 0 {
				a.ActionType = aztables.TransactionTypeDelete
				w.doubt[name] = 0
			}
			batch = append(batch, a)
		}
		_, err = w.table.SubmitTransaction(ctx, batch, nil)
	case !present:
		_, err = w.table.AddEntity(ctx, w.entity(name), nil)
	case n <= 6:
		_, err = w.table.UpdateEntity(ctx, w.entity(name),
			&aztables.UpdateEntityOptions{UpdateMode: aztables.UpdateModeReplace})
	default:
		_, err = w.table.UpsertEntity(ctx, w.entity(name), nil)
	}
	if err != nil {
		return err
	}
	w.commit()
	w.acked++
	return nil
}

func (w *tableWorker) commit() {
	for name, version := range w.doubt {
		w.rows[name] = version
	}
	w.doubt = nil
}

func (w *tableWorker) verify(ctx context.Context, _ bool) error {
	got := map[string]int{}
	filter := "PartitionKey eq '" + w.partition + "'"
	for pager := w.table.NewListEntitiesPager(&aztables.ListEntitiesOptions{Filter: &filter}); pager.More(); {
		page, err := pager.NextPage(ctx)
		if err != nil {
			return err
		}
		for _, p := range page.Entities {
			var r row
			if err := json.Unmarshal(p, &r); err != nil {
				return err
			}
			if r.Text != rowText(r.Version) {
				return mismatchf("table: row %s/%s of version %d has the text of another one", r.PartitionKey, r.RowKey, r.Version)
			}
			got[r.RowKey] = r.Version
		}
	}
	// The operation of unknown outcome happened completely or not at all.
	happened := len(w.doubt) > 0
	for name, version := range w.doubt {
		happened = happened && got[name] == version
	}
	if happened {
		w.commit()
	}
	w.doubt = nil
	for name := range got {
		if w.rows[name] == 0 {
			return mismatchf("table: row %s/%s has version %d and should not exist", w.partition, name, got[name])
		}
	}
	for name, version := range w.rows {
		if got[name] != version {
			return mismatchf("table: row %s/%s has version %d, acknowledged was %d", w.partition, name, got[name], version)
		}
	}
	return nil
}
