package main

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"
	"github.com/spf13/cobra"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/console"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/storageverb"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/target"
	"github.com/lazuli-storage/lazuli/internal/sdk/connstr"
	"github.com/lazuli-storage/lazuli/lazulitest"
	"github.com/lazuli-storage/lazuli/workers"
)

// queueCommand runs `lazuli queue ARGS` and returns what it prints.
func queueCommand(t *testing.T, stdin string, args ...string) (string, error) {
	t.Helper()
	return runVerb(t, storageverb.NewQueue(nil), stdin, args...)
}

// queueClient is a client of the account of the environment.
func queueClient(t *testing.T) (*azqueue.ServiceClient, error) {
	return target.ServiceFlag(&cobra.Command{}, "queue",
		func(s *workers.Storage) *azqueue.ServiceClient { return s.Queues })(t.Context())
}

func TestQueueVerbs(t *testing.T) {
	lazuli := lazulitest.Start(t)
	t.Setenv(connstr.Variable, lazuli.ConnectionString())
	// The worker verb makes the queues that a story needs; here they are made by hand.
	service, err := queueClient(t)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"orders", "orders-poison"} {
		if _, err := service.CreateQueue(t.Context(), name, nil); err != nil {
			t.Fatal(err)
		}
	}

	for _, step := range []struct {
		args, stdin string
		says        []string // in this order
	}{
		{args: "put|orders-poison|order 1\nwith \"two\" lines"},
		{args: "put|orders-poison|-", stdin: "refund 1"},
		{args: "put|orders-poison|--plain|refund 2"},
		{args: "ls", says: []string{"QUEUE", "orders  ", "0", "-", "orders-poison", "3", "s"}},
		{args: "ls|orders-", says: []string{"orders-poison"}},
		{args: "peek|orders-poison", says: []string{"ATTEMPTS", `order 1\nwith "two" lines`, "refund 1", "refund 2"}},
		{args: "requeue|orders-poison|--match|^refund|--limit|1",
			says: []string{"moved 1 message from orders-poison to orders"}},
		{args: "requeue|orders|--to|orders-poison", says: []string{"moved 1 message from orders to orders-poison"}},
		{args: "purge|orders-poison|-m|refund|--yes", says: []string{"deleted 2 messages from orders-poison"}},
		{args: "peek|orders-poison|-n|1", says: []string{"order 1"}},
		{args: "purge|orders-poison|--all|--yes", says: []string{"cleared orders-poison"}},
		{args: "ls", says: []string{"orders-poison", "0"}},
		{args: "put|new-queue|--create|x"},
		{args: "put|new-queue|--create|y|--delay|1s"},
		{args: "ls|new", says: []string{"new-queue", "2"}},
	} {
		out, err := queueCommand(t, step.stdin, strings.Split(step.args, "|")...)
		if err != nil {
			t.Fatalf("queue %s: %v", step.args, err)
		}
		rest := out
		for _, says := range step.says {
			_, after, found := strings.Cut(rest, says)
			if !found {
				t.Fatalf("queue %s printed\n%s\nwant %q in it, in this order", step.args, out, step.says)
			}
			rest = after
		}
	}
}

// A poisoned message has one number of attempts, that of the message that failed, and it is a number.
func TestPeekPoisonAsJSON(t *testing.T) {
	account := lazulitest.Start(t).Default(t)
	t.Setenv(connstr.Variable, account.ConnectionString())
	app := workers.New(workers.Config{Storage: account.Storage, Logger: slog.New(slog.DiscardHandler)})
	app.Queue("orders", func(context.Context, workers.QueueMessage) error { return errors.New("refused") })
	account.Put("orders", "x")
	account.Run(app)
	account.Drain()
	out, err := queueCommand(t, "", "peek", "orders", "--poison", "--json")
	if err != nil || strings.Count(out, `"attempts"`) != 1 || !strings.Contains(out, `"attempts":5`) ||
		!strings.Contains(out, `"lastError":"refused"`) {
		t.Errorf("printed %s, %v", out, err)
	}
}

// A move that fails before the first message says so, and no number.
func TestRequeueToAMissingQueue(t *testing.T) {
	t.Setenv(connstr.Variable, lazulitest.Start(t).ConnectionString())
	if out, err := queueCommand(t, "", "put", "--create", "orders-poison", "x"); err != nil {
		t.Fatal(out, err)
	}
	if out, err := queueCommand(t, "", "requeue", "orders-poison"); err == nil || out != "" {
		t.Errorf("printed %q, %v", out, err)
	}
}

func TestQueueMistakes(t *testing.T) {
	// Nothing may be sent.
	t.Setenv(connstr.Variable, "UseDevelopmentStorage=true;DevelopmentStorageProxyUri=http://192.0.2.1")
	for args, says := range map[string]string{
		"requeue|orders": "--to|-poison",
		"requeue|orders-poison|--to|orders-poison": "itself",
		"requeue|orders-poison|--match|(":          "--match",
		"requeue|orders-poison|--limit|-1":         "--limit",
		"purge|orders":                             "select messages",
		"purge|orders|--match|x":                   "Give --yes",
		"put|orders|x|--delay|1500ms":              "whole seconds",
		"put|orders|x|--ttl|500ms":                 "whole seconds",
		"requeue|orders-poison|--delay|1500ms":     "whole seconds",
		"purge|orders|--all|--match|x":             "select messages",
		"peek|orders|-n|33":                        "not 1 to 32",
		"ls|--connection-string|nonsense":          "connection string",
	} {
		out, err := queueCommand(t, "", strings.Split(args, "|")...)
		if !errors.As(err, new(console.UsageError)) || !strings.Contains(err.Error(), strings.TrimPrefix(says, "--to|")) {
			t.Errorf("queue %s: %v, want a usage error saying %q\n%s", args, err, says, out)
		}
	}
}

func TestOneLine(t *testing.T) {
	for body, want := range map[string]string{
		"a\nb\t\x1b[31m":         `a\nb\t\x1b[31m`,
		`{"n": "ü 漢"}`:           `{"n": "ü 漢"}`,
		strings.Repeat("ü", 201): strings.Repeat("ü", 199) + "…",
	} {
		if got := console.OneLine(body); got != want {
			t.Errorf("%q is shown as %q, want %q", body, got, want)
		}
	}
}

// A name of one letter is refused with the lengths that are allowed.
func TestQueueNameLength(t *testing.T) {
	lazuli := lazulitest.Start(t)
	t.Setenv(connstr.Variable, lazuli.ConnectionString())
	_, err := queueCommand(t, "", "put", "--create", "q", "x")
	if err == nil || !strings.Contains(explained(err), "3 to 63 characters") {
		t.Errorf("%v", err)
	}
}
