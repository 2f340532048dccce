// A first worker: it greets everyone whose name is put to the queue "greetings".
//
//	go run ./cmd/lazuli                    # in one terminal
//	go run ./examples/queue-worker Ada Bob # in another: puts two messages, then handles them, until Ctrl-C
//
// The connection string is that of workers.ConnectionFromEnvironment.
package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/lazuli-storage/lazuli/workers"
)

// greeting is the body of a message, as JSON.
type greeting struct {
	Name string `json:"name"`
}

func greet(ctx context.Context, m *workers.Message[greeting]) error {
	if m.Body.Name == "" {
		// Trying again will not help: straight to the queue "greetings-poison".
		return workers.Permanent(errors.New("a greeting without a name"))
	}
	if m.Raw.DequeueCount == 1 && m.Body.Name == "Bob" {
		// Bob is shy. The message comes back after a second; after five failures it would be poison.
		return workers.RetryAfter(errors.New("no answer"), time.Second)
	}
	slog.InfoContext(ctx, "hello", "name", m.Body.Name, "attempt", m.Raw.DequeueCount)
	return nil
}

func main() {
	// Every line that a handler logs with its context says which call it belongs to.
	slog.SetDefault(slog.New(workers.NewLogHandler(slog.NewTextHandler(os.Stderr, nil))))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	flag.Parse() // It has no flags: each one is an error. "--" comes before a name that begins with a dash.
	if err := run(ctx, flag.Args()); err != nil {
		slog.Error("cannot go on", "err", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, names []string) error {
	app := workers.New(workers.Config{})
	workers.Queue(app, "greetings", greet)
	if err := send(ctx, names); err != nil {
		return err
	}
	return app.Run(ctx)
}

// send puts a message for every name, as any client in any language would.
func send(ctx context.Context, names []string) error {
	storage, err := workers.OpenStorage(workers.ConnectionFromEnvironment())
	if err != nil {
		return err
	}
	queue := storage.Queues.NewQueueClient("greetings")
	if _, err := queue.Create(ctx, nil); err != nil {
		return err
	}
	for _, name := range names {
		body, err := json.Marshal(greeting{name})
		if err != nil {
			return err
		}
		// Base64 is what Azure Functions expects by default, and so does this runtime.
		if _, err := queue.EnqueueMessage(ctx, base64.StdEncoding.EncodeToString(body), nil); err != nil {
			return err
		}
	}
	return nil
}
