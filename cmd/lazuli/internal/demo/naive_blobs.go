package demo

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	"github.com/google/uuid"

	"github.com/lazuli-storage/lazuli/internal/fault"
	"github.com/lazuli-storage/lazuli/workers"
	"github.com/lazuli-storage/lazuli/workers/roles/largeentity"
	"github.com/lazuli-storage/lazuli/workers/roles/logstore"
)

// naiveStore writes pages without the role's care.
type naiveStore struct {
	storage *workers.Storage
	s       WorkerSettings
	book    *bookOfTerms
	store   *largeentity.Store[page]
}

func naiveLarge(do func(context.Context, *naiveStore, command) error, sweeps bool) variantRun {
	return func(ctx context.Context, storage *workers.Storage, app *workers.App, s WorkerSettings) error {
		book, store, err := openPages(storage, s)
		if err != nil {
			return err
		}
		w := &naiveStore{storage, s, book, store}
		workers.Queue(app, "large-entity",
			func(ctx context.Context, m *workers.Message[command]) error { return do(ctx, w, m.Body) }, s.Options()...)
		return runSweeping(ctx, storage, app, s, sweepBlobsEvery, func(ctx context.Context) {
			if sweeps {
				_, _ = store.Sweeper().Sweep(ctx)
			}
		})
	}
}

type naiveStep = func(ctx context.Context, k largeentity.Key, p page, blob string) error

// steps writes a page with its effects in the order given, and deletes as the role does.
func (w *naiveStore) steps(ctx context.Context, c command, list ...naiveStep) error {
	if c.Version == 0 {
		return c.do(context.WithoutCancel(ctx), w.store, w.book)
	}
	k := largeentity.Key{PartitionKey: c.PartitionKey, RowKey: c.RowKey}
	p := w.book.page(entityKey{c.PartitionKey, c.RowKey}, c.Version)
	blob := strings.ToLower(w.s.Current) + "/naive/" + uuid.NewString()
	for _, s := range list {
		if err := s(context.WithoutCancel(ctx), k, p, blob); err != nil {
			return err
		}
	}
	return nil
}

func (w *naiveStore) blobs(ctx context.Context, k largeentity.Key, p page, blob string) error {
	if err := fault.Point("large-entity/before-blob"); err != nil {
		return err
	}
	encode := func(s string) *string {
		v := "=" + base64.RawURLEncoding.EncodeToString([]byte(s))
		return &v
	}
	owner := map[string]*string{"PartitionKey": encode(k.PartitionKey), "RowKey": encode(k.RowKey)}
	for name, content := range map[string][]byte{"roll": []byte(p.Roll), "index": p.Index} {
		if _, err := w.storage.Blobs.UploadBuffer(ctx, w.s.Container, blob+name, content,
			&azblob.UploadBufferOptions{Metadata: owner}); err != nil {
			return err
		}
	}
	return fault.Point("large-entity/after-blob")
}

// entity stores the entity, whatever is there.
func (w *naiveStore) entity(ctx context.Context, k largeentity.Key, p page, blob string) error {
	if err := fault.Point("large-entity/before-entity"); err != nil {
		return err
	}
	part := func(name string, content []byte, kind string) map[string]any {
		sum := sha256.Sum256(content)
		return map[string]any{"blob": blob + name, "bytes": len(content), "sha256": hex.EncodeToString(sum[:]), "type": kind}
	}
	// The entity has the role's own form, so that the role's reader and the census read what this writer leaves: the
	// mistake is the order of the writes, not their form.
	pointers, err := json.Marshal(
		map[string]any{"parts": map[string]any{"Roll": part("roll", []byte(p.Roll), "Edm.String"),
			"Index": part("index", p.Index, "Edm.Binary")}})
	if err != nil {
		return err
	}
	body, err := json.Marshal(map[string]any{"PartitionKey": k.PartitionKey, "RowKey": k.RowKey, "Name": p.Name,
		"Version": p.Version, "LargeEntity": string(pointers),
		"Started": p.Started.Format(time.RFC3339), "Started@odata.type": "Edm.DateTime"})
	if err != nil {
		return err
	}
	// The mistake: no ETag, so that a late writer replaces newer pointers by its own.
	if _, err := w.storage.Tables.NewClient(w.s.Current).UpsertEntity(ctx, body,
		&aztables.UpsertEntityOptions{UpdateMode: aztables.UpdateModeReplace}); err != nil {
		return err
	}
	return fault.Point("large-entity/after-entity")
}

// deleteBlobsFirst deletes all blobs of a page before its entity.
func (w *naiveStore) deleteBlobsFirst(ctx context.Context, c command) error {
	// Only deletes have this mistake. A version means an insert or replacement, which the role's own store does.
	if c.Version != 0 {
		return c.do(ctx, w.store, w.book)
	}
	got, err := w.storage.Tables.NewClient(w.s.Current).GetEntity(ctx, c.PartitionKey, c.RowKey, nil)
	// The entity is gone: an earlier delivery of the message did it.
	if notFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	var row struct{ LargeEntity string }
	var pointers struct {
		Parts map[string]struct{ Blob string }
	}
	if err := errors.Join(json.Unmarshal(got.Value, &row),
		json.Unmarshal([]byte(row.LargeEntity), &pointers)); err != nil {
		return err
	}
	// The mistake: a kill in this loop leaves an entity with pointers to blobs that are gone.
	for _, part := range pointers.Parts {
		if _, err := w.storage.Blobs.DeleteBlob(ctx, w.s.Container, part.Blob, nil); err != nil && !notFound(err) {
			return err
		}
		if err := fault.Point("large-entity/after-remove-blob"); err != nil {
			return err
		}
	}
	_, err = w.storage.Tables.NewClient(w.s.Current).DeleteEntity(ctx, c.PartitionKey, c.RowKey, nil)
	if notFound(err) {
		return nil
	}
	return err
}

// naiveWriter writes lines without the role's care, each as a blob.
type naiveWriter struct {
	storage *workers.Storage
	s       WorkerSettings
}

func naiveLog(do func(context.Context, *naiveWriter, workers.QueueMessage, logstore.Record) error) variantRun {
	return func(ctx context.Context, storage *workers.Storage, app *workers.App, s WorkerSettings) error {
		w := &naiveWriter{storage, s}
		workers.Queue(app, "log-storage", func(ctx context.Context, m *workers.Message[logstore.Record]) error {
			return do(ctx, w, m.Raw, m.Body)
		}, s.Options()...)
		return app.Run(ctx)
	}
}

func (w *naiveWriter) write(ctx context.Context, r logstore.Record, id string, start time.Time) error {
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

// entityFirst writes the entity before the blobs that it refers to.
func entityFirst(ctx context.Context, w *naiveStore, c command) error {
	return w.steps(ctx, c, w.entity, w.blobs)
}

// noSweep does what the role does, and leaves what a crash leaves.
func noSweep(ctx context.Context, w *naiveStore, c command) error { return c.do(ctx, w.store, w.book) }

func blobsDeletedFirst(ctx context.Context, w *naiveStore, c command) error {
	return w.deleteBlobsFirst(ctx, c)
}

// logWithoutMessage deletes the message before the line is written.
func logWithoutMessage(ctx context.Context, w *naiveWriter, m workers.QueueMessage, r logstore.Record) error {
	if err := acknowledge(ctx, w.storage, w.s.Queue, m); err != nil {
		return err
	}
	return w.write(ctx, r, uuid.NewString(), r.Time)
}

// logWithNewID gives a line another ID at each attempt, so that a query cannot know that they are the same.
func logWithNewID(ctx context.Context, w *naiveWriter, _ workers.QueueMessage, r logstore.Record) error {
	r.ID = uuid.NewString()
	return w.write(ctx, r, uuid.NewString(), r.Time)
}

// logUnderOneName writes every line to the same blob of its hour, and overwrites what is there.
func logUnderOneName(ctx context.Context, w *naiveWriter, _ workers.QueueMessage, r logstore.Record) error {
	return w.write(ctx, r, "0", r.Time)
}

// naiveLake makes a worker that commits batches by do.
func naiveLake(do func(context.Context, lakeTable, lakeBatch) error) variantRun {
	return func(ctx context.Context, _ *workers.Storage, app *workers.App, s WorkerSettings) error {
		t, err := openLakeTable(s.ConnectionString, s.Container)
		if err != nil {
			return err
		}
		workers.Queue(app, "lake", func(ctx context.Context, m *workers.Message[lakeBatch]) error {
			return do(ctx, t, m.Body)
		}, s.Options()...)
		return app.Run(ctx)
	}
}

// fileByFile moves the files of a batch to where readers look, one after the other.
func fileByFile(ctx context.Context, t lakeTable, b lakeBatch) error {
	// A batch that is there already, even in part, counts as done, as this program cannot tell: after a kill it stays
	// half moved.
	if done, err := t.exists(ctx, b.folder()); done || err != nil {
		return errors.Join(err, t.drop(ctx, b.temporary()))
	}
	if err := t.tasks(ctx, b); err != nil {
		return err
	}
	for task := range lakeTasks {
		name := fmt.Sprintf("task-%d", task)
		files, err := b.files(task)
		if err != nil {
			return err
		}
		for path := range files {
			party, file, _ := strings.Cut(path, "/")
			// The mistake: each file becomes visible by a rename of its own, so a reader between two of them sees half a
			// batch.
			to := b.folder() + "/" + name + "/" + party
			if _, err := t.fs.NewDirectoryClient(to).Create(ctx, nil); err != nil {
				return err
			}
			if _, err := t.rename(ctx, b.temporary()+"/tasks/"+name+"/"+path, to+"/"+file); err != nil {
				return err
			}
			if err := fault.Point(pointLakeCommit); err != nil {
				return err
			}
		}
	}
	return t.drop(ctx, b.temporary())
}

// inPlace writes the files of a batch where readers look.
func inPlace(ctx context.Context, t lakeTable, b lakeBatch) error {
	for task := range lakeTasks {
		files, err := b.files(task)
		if err != nil {
			return err
		}
		for path, content := range files {
			if err := t.write(ctx, fmt.Sprintf("%s/task-%d/%s", b.folder(), task, path), content); err != nil {
				return err
			}
			if err := fault.Point(pointLakeWritten); err != nil {
				return err
			}
		}
	}
	return nil
}

// noCleaning commits as it should, and leaves what attempts before it have written.
func noCleaning(ctx context.Context, t lakeTable, b lakeBatch) error {
	if done, err := t.exists(ctx, b.folder()); done || err != nil {
		return err
	}
	if err := t.tasks(ctx, b); err != nil {
		return err
	}
	if err := fault.Point(pointLakeCommit); err != nil {
		return err
	}
	_, err := t.rename(ctx, b.temporary()+"/tasks", b.folder())
	return err
}
