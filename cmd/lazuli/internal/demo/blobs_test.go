package demo

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	"github.com/google/uuid"

	"github.com/lazuli-storage/lazuli/internal/fault"
	"github.com/lazuli-storage/lazuli/internal/test/testaccount"
	"github.com/lazuli-storage/lazuli/workers"
	"github.com/lazuli-storage/lazuli/workers/roles/largeentity"
	"github.com/lazuli-storage/lazuli/workers/roles/logstore"
)

type variantRun = func(context.Context, *workers.Storage, *workers.App, WorkerSettings) error

// otherVariants are the workers of the large-entity and log-storage roles. All but two are wrong, each in its own way.
var otherVariants = map[string]variantRun{}

func init() {
	maps.Copy(otherVariants, map[string]variantRun{
		"large-entity": func(ctx context.Context, storage *workers.Storage, app *workers.App, s WorkerSettings) error {
			return RunLargeEntityWorker(ctx, storage, app, s)
		},
		"large-entity: entity before blob": wrongLarge(func(ctx context.Context, w *wrongStore, c command) error {
			return w.steps(ctx, c, w.entity, w.blobs)
		}, true),
		"large-entity: blob deleted before entity": wrongLarge(func(ctx context.Context, w *wrongStore, c command) error {
			return w.deleteWrongly(ctx, c)
		}, true),
		"large-entity: no condition": wrongLarge(func(ctx context.Context, w *wrongStore, c command) error {
			return w.steps(ctx, c, w.blobs, w.entity)
		}, true),
		"large-entity: no sweep": wrongLarge(func(ctx context.Context, w *wrongStore, c command) error {
			return c.do(ctx, w.store, w.book)
		}, false),
		"log-storage": func(ctx context.Context, storage *workers.Storage, app *workers.App, s WorkerSettings) error {
			w, err := logstore.NewWriter(storage, s.Container, logstore.WithFlushEvery(50*time.Millisecond))
			if err != nil {
				return err
			}
			logstore.Register(app, "log-storage", w, s.Options()...)
			return errors.Join(app.Run(ctx), w.Close(context.Background()))
		},
		"log-storage: message deleted first": wrongLog(
			func(ctx context.Context, w *wrongWriter, m workers.QueueMessage, r logstore.Record) error {
				if _, err := w.storage.Queues.NewQueueClient(w.s.Queue).DeleteMessage(ctx, m.Id, m.PopReceipt, nil); err != nil {
					return err
				}
				return w.write(ctx, r, uuid.NewString(), r.Time)
			}),
		"log-storage: another id each time": wrongLog(
			func(ctx context.Context, w *wrongWriter, m workers.QueueMessage, r logstore.Record) error {
				r.ID = uuid.NewString()
				return w.write(ctx, r, uuid.NewString(), r.Time)
			}),
		"log-storage: overwrites": wrongLog(
			func(ctx context.Context, w *wrongWriter, m workers.QueueMessage, r logstore.Record) error {
				return w.write(ctx, r, "0", r.Time)
			}),
		"log-storage: untrue metadata": wrongLog(
			func(ctx context.Context, w *wrongWriter, m workers.QueueMessage, r logstore.Record) error {
				return w.write(ctx, r, uuid.NewString(), r.Time.Add(-24*time.Hour))
			}),
	})
}

// wrongStore writes pages without the role's care.
type wrongStore struct {
	storage *workers.Storage
	s       WorkerSettings
	book    *bookOfTerms
	store   *largeentity.Store[page]
}

func wrongLarge(do func(context.Context, *wrongStore, command) error, sweeps bool) variantRun {
	return func(ctx context.Context, storage *workers.Storage, app *workers.App, s WorkerSettings) error {
		book, store, err := openPages(storage, s)
		if err != nil {
			return err
		}
		w := &wrongStore{storage, s, book, store}
		workers.Queue(app, "large-entity",
			func(ctx context.Context, m *workers.Message[command]) error { return do(ctx, w, m.Body) }, s.Options()...)
		return runSweeping(ctx, app, sweepBlobsEvery, func(ctx context.Context) {
			if sweeps {
				_, _ = store.Sweeper().Sweep(ctx)
			}
		})
	}
}

type step = func(ctx context.Context, k largeentity.Key, p page, blob string) error

// steps writes a page with its effects in the order given, and deletes as the role does.
func (w *wrongStore) steps(ctx context.Context, c command, list ...step) error {
	if c.Version == 0 {
		return c.do(context.WithoutCancel(ctx), w.store, w.book)
	}
	k := largeentity.Key{PartitionKey: c.PartitionKey, RowKey: c.RowKey}
	p := w.book.page(entityKey{c.PartitionKey, c.RowKey}, c.Version)
	blob := strings.ToLower(w.s.Current) + "/wrong/" + uuid.NewString()
	for _, s := range list {
		if err := s(context.WithoutCancel(ctx), k, p, blob); err != nil {
			return err
		}
	}
	return nil
}

func (w *wrongStore) blobs(ctx context.Context, k largeentity.Key, p page, blob string) error {
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
func (w *wrongStore) entity(ctx context.Context, k largeentity.Key, p page, blob string) error {
	if err := fault.Point("large-entity/before-entity"); err != nil {
		return err
	}
	part := func(name string, content []byte, kind string) map[string]any {
		sum := sha256.Sum256(content)
		return map[string]any{"blob": blob + name, "bytes": len(content), "sha256": hex.EncodeToString(sum[:]), "type": kind}
	}
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
	if _, err := w.storage.Tables.NewClient(w.s.Current).UpsertEntity(ctx, body,
		&aztables.UpsertEntityOptions{UpdateMode: aztables.UpdateModeReplace}); err != nil {
		return err
	}
	return fault.Point("large-entity/after-entity")
}

// deleteWrongly deletes all blobs of a page before its entity.
func (w *wrongStore) deleteWrongly(ctx context.Context, c command) error {
	if c.Version != 0 {
		return c.do(ctx, w.store, w.book)
	}
	got, err := w.storage.Tables.NewClient(w.s.Current).GetEntity(ctx, c.PartitionKey, c.RowKey, nil)
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

// wrongWriter writes lines without the role's care, each as a blob.
type wrongWriter struct {
	storage *workers.Storage
	s       WorkerSettings
}

func wrongLog(do func(context.Context, *wrongWriter, workers.QueueMessage, logstore.Record) error) variantRun {
	return func(ctx context.Context, storage *workers.Storage, app *workers.App, s WorkerSettings) error {
		w := &wrongWriter{storage, s}
		workers.Queue(app, "log-storage", func(ctx context.Context, m *workers.Message[logstore.Record]) error {
			return do(ctx, w, m.Raw, m.Body)
		}, s.Options()...)
		return app.Run(ctx)
	}
}

func (w *wrongWriter) write(ctx context.Context, r logstore.Record, id string, start time.Time) error {
	if err := fault.Point("log-storage/before-write"); err != nil {
		return err
	}
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	from, to, version := start.Format(time.RFC3339Nano), start.Format(time.RFC3339Nano), "json-1"
	number := 0
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

// sample is the number of pairs that a test run visits; LAZULI_DEMO_SEED chooses others.
const sample = 2

func seed(t *testing.T) uint64 {
	t.Helper()
	n := uint64(1)
	if s := os.Getenv("LAZULI_DEMO_SEED"); s != "" {
		if _, err := fmt.Sscan(s, &n); err != nil {
			t.Fatal(err)
		}
	}
	return n
}

func TestLargeEntity(t *testing.T) {
	t.Parallel()
	a := testaccount.Open(t)
	c := Config{ConnectionString: a.ConnectionString, Worker: variantWorker("large-entity"), Records: 300, Pairs: true,
		SamplePairs: sample, Seed: seed(t), Patience: patience}
	report, err := LargeEntity(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Rows) != len(LargeEntityPoints())+sample {
		t.Errorf("%d rounds", len(report.Rows))
	}
	orphaned := 0
	for _, row := range report.Rows {
		for _, crash := range row.Crashes {
			orphaned += crash.Orphaned
		}
	}
	if orphaned == 0 {
		t.Error("no kill left an orphan: they prove nothing")
	}
}

func TestLogStorage(t *testing.T) {
	t.Parallel()
	a := testaccount.Open(t)
	c := Config{ConnectionString: a.ConnectionString, Worker: variantWorker("log-storage"), Records: 600, Pairs: true,
		SamplePairs: sample, Seed: seed(t), Patience: patience}
	report, err := LogStorage(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Rows) != len(LogStoragePoints())+sample || report.Records != 600 {
		t.Errorf("%d rounds, %d records", len(report.Rows), report.Records)
	}
}

// The demonstrations must notice every worker that does the steps wrongly, and say what is wrong.
func TestOtherWrongWorkersAreCaught(t *testing.T) {
	t.Parallel()
	a := testaccount.Open(t)
	for variant, c := range map[string]struct{ point, says string }{
		"large-entity: entity before blob":         {"large-entity/before-blob", "lost at that moment"},
		"large-entity: blob deleted before entity": {"large-entity/after-remove-blob", "lost at that moment"},
		"large-entity: no condition":               {Frozen, "orphans are left"},
		"large-entity: no sweep":                   {"large-entity/after-blob", "orphans are left"},
		"log-storage: message deleted first":       {"log-storage/before-write", "lines are lost"},
		"log-storage: another id each time":        {"log-storage/after-write", "were not logged"},
		"log-storage: overwrites":                  {"workers/after-delete-message", "lines are lost"},
		"log-storage: untrue metadata":             {"workers/before-delete-message", "lines are lost"},
	} {
		t.Run(variant, func(t *testing.T) {
			t.Parallel()
			config := Config{ConnectionString: a.ConnectionString, Worker: variantWorker(variant), Points: []string{c.point},
				Records: 90, Seed: 1, Patience: patience, plain: true}
			if c.says == "orphans are left" { // For good: however long one waits.
				config.stuckAfter = stuckAfter
			}
			run := LargeEntity
			if strings.HasPrefix(variant, "log-storage") {
				run = LogStorage
			}
			if _, err := run(t.Context(), config); !errors.Is(err, ErrInvariant) || !strings.Contains(fmt.Sprint(err), c.says) {
				t.Fatalf("got %v, want %v saying %q", err, ErrInvariant, c.says)
			}
		})
	}
}
