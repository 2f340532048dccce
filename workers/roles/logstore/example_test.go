package logstore_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"time"

	"github.com/lazuli-storage/lazuli/workers"
	"github.com/lazuli-storage/lazuli/workers/roles/logstore"
)

// A program's own log goes to blobs.
func ExampleNewHandler() {
	storage, err := workers.OpenStorage("UseDevelopmentStorage=true")
	if err != nil {
		log.Fatal(err)
	}
	w, err := logstore.NewWriter(storage, "logs", logstore.WithFlushEvery(10*time.Second))
	if err != nil {
		log.Fatal(err)
	}
	logger := slog.New(logstore.NewHandler(w, "orders", slog.LevelInfo))
	logger.Error("out of stock", "sku", "A7")
	if err := w.Close(context.Background()); err != nil {
		log.Fatal(err)
	}
}

// The errors of the last hour.
func ExampleReader_Query() {
	storage, err := workers.OpenStorage("UseDevelopmentStorage=true")
	if err != nil {
		log.Fatal(err)
	}
	r, err := logstore.NewReader(storage, "logs")
	if err != nil {
		log.Fatal(err)
	}
	q := logstore.Query{Service: "orders", From: time.Now().Add(-time.Hour), To: time.Now(), Level: slog.LevelError}
	for e, err := range r.Query(context.Background(), q, nil) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(e.Time, e.Message)
	}
}

// Records from a queue become lines: messages are deleted once they are in a blob.
func ExampleRegister() {
	storage, err := workers.OpenStorage("UseDevelopmentStorage=true")
	if err != nil {
		log.Fatal(err)
	}
	w, err := logstore.NewWriter(storage, "logs")
	if err != nil {
		log.Fatal(err)
	}
	app := workers.New(workers.Config{Storage: storage})
	logstore.Register(app, "logs", w)
	fmt.Println(app.Stats()[0].Name, app.Stats()[0].Trigger)
	// Output: logs queueTrigger
}
