package logdata

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	"github.com/google/uuid"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo/rig"
	"github.com/lazuli-storage/lazuli/internal/fault"
	"github.com/lazuli-storage/lazuli/workers"
	"github.com/lazuli-storage/lazuli/workers/roles/logstore"
)

// Mistakes are those that a worker without the pattern makes. A step that the pattern has too is where it is killed.
var Mistakes = []rig.Mistake{
	{Demonstration: "log-data", Name: "message-deleted-first",
		Does:  "deletes the message, then writes the line",
		Point: "log-storage/before-write", Shows: rig.DamageLost, Run: Naive(logWithoutMessage),
		Why: "nothing has the line any more"},
	{Demonstration: "log-data", Name: "new-id",
		Does:  "gives the line a new ID each time that it writes it",
		Point: "log-storage/after-write", Shows: rig.DamageDoubled, From: rig.DamageHalf,
		Says: "a query shows the line twice", Run: Naive(logWithNewID),
		Why: "the message comes again, and a query cannot know that both lines are the same record"},
	{Demonstration: "log-data", Name: "one-name", Always: true,
		Does:  "writes each line to the same blob of its hour",
		Point: "log-storage/after-write", Shows: rig.DamageLost, Run: Naive(logUnderOneName),
		Why: "each write replaces the blob with all lines that it had: a number must be free before it is used"},
}

// NaiveWriter writes lines without the role's care, each as a blob.
type NaiveWriter struct {
	storage *workers.Storage
	s       rig.WorkerSettings
}

func Naive(do func(context.Context, *NaiveWriter, workers.QueueMessage, logstore.Record) error) rig.VariantRun {
	return func(ctx context.Context, storage *workers.Storage, app *workers.App, s rig.WorkerSettings) error {
		w := &NaiveWriter{storage, s}
		workers.Queue(app, "log-storage", func(ctx context.Context, m *workers.Message[logstore.Record]) error {
			return do(ctx, w, m.Raw, m.Body)
		}, s.Options()...)
		return app.Run(ctx)
	}
}

func (w *NaiveWriter) Write(ctx context.Context, r logstore.Record, id string, start time.Time) error {
	if err := fault.Point("log-storage/before-write"); err != nil {
		return err
	}
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	from, to, version := start.Format(time.RFC3339Nano), start.Format(time.RFC3339Nano), "json-1"
	number := 0
	// A query reads blobs whose names end in a number. id decides it: a new id for each attempt leaves the blob of the
	// earlier one in place, and a fixed id replaces it.
	for _, c := range []byte(id) {
		number = (number*31 + int(c)) % 1_000_000_007
	}
	name := fmt.Sprintf("%s/%s/%06d.log", r.Service, r.Time.Format("2006/01/02/1500"), number)
	_, err = w.storage.Blobs.UploadBuffer(ctx, w.s.Container, name, append(line, '\n'), &azblob.UploadBufferOptions{
		Metadata: map[string]*string{"StartTime": &from, "EndTime": &to, "LogVersion": &version},
	})
	if err != nil {
		return err
	}
	return fault.Point("log-storage/after-write")
}

// logWithoutMessage deletes the message before the line is written.
func logWithoutMessage(ctx context.Context, w *NaiveWriter, m workers.QueueMessage, r logstore.Record) error {
	if err := rig.Acknowledge(ctx, w.storage, w.s.Queue, m); err != nil {
		return err
	}
	return w.Write(ctx, r, uuid.NewString(), r.Time)
}

// logWithNewID gives a line another ID at each attempt, so that a query cannot know that they are the same.
func logWithNewID(ctx context.Context, w *NaiveWriter, _ workers.QueueMessage, r logstore.Record) error {
	r.ID = uuid.NewString()
	return w.Write(ctx, r, uuid.NewString(), r.Time)
}

// logUnderOneName writes every line to the same blob of its hour, and overwrites what is there.
func logUnderOneName(ctx context.Context, w *NaiveWriter, _ workers.QueueMessage, r logstore.Record) error {
	return w.Write(ctx, r, "0", r.Time)
}
