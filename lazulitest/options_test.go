package lazulitest_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"github.com/lazuli-storage/lazuli/internal/test/testlog"
	"github.com/lazuli-storage/lazuli/lazulitest"
	"github.com/lazuli-storage/lazuli/workers"
)

func TestOptions(t *testing.T) {
	var out testlog.Buffer
	l := lazulitest.Start(t, lazulitest.WithLog(
		slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))),
		lazulitest.WithBlobVersions())
	for _, endpoint := range []string{l.BlobURL(), l.QueueURL(), l.TableURL()} {
		if !strings.HasPrefix(endpoint, "http://127.0.0.1:") || !strings.HasSuffix(endpoint, "/devstoreaccount1") ||
			!strings.Contains(l.ConnectionString(), "="+endpoint) {
			t.Errorf("endpoint %q, connection string %q", endpoint, l.ConnectionString())
		}
	}
	a := l.Account(t)
	if !strings.Contains(a.ConnectionString(), "AccountName="+a.Name+";") {
		t.Errorf("connection string %q of account %s", a.ConnectionString(), a.Name)
	}
	storage, err := workers.OpenStorage(a.ConnectionString(), workers.WithClientRetry(policy.RetryOptions{MaxRetries: -1}))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := storage.Blobs.CreateContainer(t.Context(), "things", nil); err != nil {
		t.Fatal(err)
	}
	made, err := storage.Blobs.UploadBuffer(t.Context(), "things", "a", []byte("x"), nil)
	if err != nil || made.VersionID == nil {
		t.Errorf("uploaded %+v, %v; want a version", made, err)
	}
	l.Stop(t) // a request is logged when its answer is complete
	if !strings.Contains(out.String(), "op=CreateContainer") {
		t.Errorf("the log has no request:\n%s", &out)
	}
}

// What a handler puts has the life and the encoding that it asks for, on the account that it works on.
func TestHandlerOutputs(t *testing.T) {
	clock := lazulitest.NewClock()
	a := lazulitest.Start(t, lazulitest.WithFakeClock(clock)).Account(t)
	app := workers.New(workers.Config{Storage: a.Storage, Logger: quiet, Clock: clock})
	app.Queue("orders", func(ctx context.Context, m workers.QueueMessage) error {
		s, ok := workers.StorageOf(ctx)
		if !ok || s != a.Storage {
			t.Errorf("StorageOf(ctx) = %v, %v", s, ok)
		}
		if err := workers.Enqueue(ctx, "notes", "plain text", workers.EncodedAs(workers.NoEncoding),
			workers.TimeToLive(time.Hour)); err != nil {
			return err
		}
		return workers.Enqueue(ctx, "notes", "for ever", workers.TimeToLive(-1))
	})
	a.Run(app)
	a.Put("orders", "one")
	a.Drain()
	notes := a.Queues.NewQueueClient("notes")
	peeked := func() (texts []string) {
		got, err := notes.PeekMessages(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range got.Messages {
			texts = append(texts, *m.MessageText)
		}
		return texts
	}
	if got := peeked(); len(got) != 1 || got[0] != "plain text" {
		t.Errorf("the first message is %q, want it as it was put", got)
	}
	clock.Advance(2 * time.Hour)
	if got := peeked(); len(got) != 1 || got[0] != "Zm9yIGV2ZXI=" {
		t.Errorf("after the first one's end the queue begins with %q, want the other one in base64", got)
	}
}

func TestStorageOfOutsideOfAHandler(t *testing.T) {
	if s, ok := workers.StorageOf(t.Context()); ok || s != nil {
		t.Errorf("got %v, %v", s, ok)
	}
}
