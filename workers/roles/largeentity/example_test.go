package largeentity_test

import (
	"context"
	"fmt"
	"log"

	"github.com/lazuli-storage/lazuli/workers"
	"github.com/lazuli-storage/lazuli/workers/roles/largeentity"
)

// A report whose text and scan may have any size.
type Report struct {
	Title string
	Pages int32
	Text  string
	Scan  []byte
}

func Example() {
	storage, err := workers.OpenStorage("UseDevelopmentStorage=true")
	if err != nil {
		log.Fatal(err)
	}
	reports, err := largeentity.New[Report](storage, "Reports", "report-parts")
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	key := largeentity.Key{PartitionKey: "2026", RowKey: "0001"}
	if err := reports.Create(ctx); err != nil {
		log.Fatal(err)
	}
	etag, err := reports.Insert(ctx, key, Report{Title: "Annual", Pages: 412, Scan: make([]byte, 8<<20)})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := reports.Replace(ctx, key, Report{Title: "Annual, corrected", Pages: 413}, etag); err != nil {
		log.Fatal(err)
	}
	got, err := reports.Get(ctx, key)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(got.Value.Title)
}

// The sweeper removes what writers that died left behind. `lazuli worker --role large-entity` runs it too.
func ExampleSweeper_Register() {
	storage, err := workers.OpenStorage("UseDevelopmentStorage=true")
	if err != nil {
		log.Fatal(err)
	}
	sweeper, err := largeentity.NewSweeper(storage, "Reports", "report-parts")
	if err != nil {
		log.Fatal(err)
	}
	app := workers.New(workers.Config{Storage: storage})
	sweeper.Register(app, "sweep-reports", workers.WithSchedule("0 0 * * * *"))
	fmt.Println(app.Stats()[0].Name, app.Stats()[0].Trigger)
	// Output: sweep-reports timerTrigger
}
