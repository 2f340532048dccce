package large

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	"github.com/google/uuid"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/demo/rig"
	"github.com/lazuli-storage/lazuli/internal/fault"
	"github.com/lazuli-storage/lazuli/workers"
	"github.com/lazuli-storage/lazuli/workers/roles/largeentity"
)

// Mistakes are those that a worker without the pattern makes. A step that the pattern has too is where it is killed.
var Mistakes = []rig.Mistake{
	{Demonstration: "large-entities", Name: "entity-first",
		Does:  "writes the entity, then the blobs that it refers to",
		Point: "large-entity/before-blob", Shows: rig.DamageLost, Run: Naive(entityFirst, true),
		Why: "readers find an entity whose blobs do not exist"},
	{Demonstration: "large-entities", Name: "blobs-deleted-first",
		Does:  "deletes the blobs, then the entity that refers to them",
		Point: "large-entity/after-remove-blob", Shows: rig.DamageLost, Run: Naive(blobsDeletedFirst, true),
		Why: "readers find an entity whose blobs are gone"},
	{Demonstration: "large-entities", Name: "no-sweep",
		Does:  "writes blobs and entity in the right order, and runs no sweeper",
		Point: "large-entity/after-blob", Shows: rig.DamageOrphaned, Run: Naive(noSweep, false),
		Why: "the next attempt writes blobs of its own: nothing refers to those of the killed worker, or deletes them"},
}

// NaiveStore writes pages without the role's care.
type NaiveStore struct {
	storage *workers.Storage
	s       rig.WorkerSettings
	book    *bookOfTerms
	store   *largeentity.Store[page]
}

func Naive(do func(context.Context, *NaiveStore, Command) error, sweeps bool) rig.VariantRun {
	return func(ctx context.Context, storage *workers.Storage, app *workers.App, s rig.WorkerSettings) error {
		book, store, err := openPages(storage, s)
		if err != nil {
			return err
		}
		w := &NaiveStore{storage, s, book, store}
		workers.Queue(app, "large-entity",
			func(ctx context.Context, m *workers.Message[Command]) error { return do(ctx, w, m.Body) }, s.Options()...)
		return rig.RunSweeping(ctx, storage, app, s, sweepEvery, func(ctx context.Context) {
			if sweeps {
				_, _ = store.Sweeper().Sweep(ctx)
			}
		})
	}
}

type naiveStep = func(ctx context.Context, k largeentity.Key, p page, blob string) error

// Steps writes a page with its effects in the order given, and deletes as the role does.
func (w *NaiveStore) Steps(ctx context.Context, c Command, list ...naiveStep) error {
	if c.Version == 0 {
		return c.do(context.WithoutCancel(ctx), w.store, w.book)
	}
	k := largeentity.Key{PartitionKey: c.PartitionKey, RowKey: c.RowKey}
	p := w.book.page(rig.Key{Partition: c.PartitionKey, Row: c.RowKey}, c.Version)
	blob := strings.ToLower(w.s.Current) + "/naive/" + uuid.NewString()
	for _, s := range list {
		if err := s(context.WithoutCancel(ctx), k, p, blob); err != nil {
			return err
		}
	}
	return nil
}

func (w *NaiveStore) Blobs(ctx context.Context, k largeentity.Key, p page, blob string) error {
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

// Entity stores the entity, whatever is there.
func (w *NaiveStore) Entity(ctx context.Context, k largeentity.Key, p page, blob string) error {
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
func (w *NaiveStore) deleteBlobsFirst(ctx context.Context, c Command) error {
	// Only deletes have this mistake. A version means an insert or replacement, which the role's own store does.
	if c.Version != 0 {
		return c.do(ctx, w.store, w.book)
	}
	got, err := w.storage.Tables.NewClient(w.s.Current).GetEntity(ctx, c.PartitionKey, c.RowKey, nil)
	// The entity is gone: an earlier delivery of the message did it.
	if rig.NotFound(err) {
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
		if _, err := w.storage.Blobs.DeleteBlob(ctx, w.s.Container, part.Blob, nil); err != nil && !rig.NotFound(err) {
			return err
		}
		if err := fault.Point("large-entity/after-remove-blob"); err != nil {
			return err
		}
	}
	_, err = w.storage.Tables.NewClient(w.s.Current).DeleteEntity(ctx, c.PartitionKey, c.RowKey, nil)
	if rig.NotFound(err) {
		return nil
	}
	return err
}

// entityFirst writes the entity before the blobs that it refers to.
func entityFirst(ctx context.Context, w *NaiveStore, c Command) error {
	return w.Steps(ctx, c, w.Entity, w.Blobs)
}

// noSweep does what the role does, and leaves what a crash leaves.
func noSweep(ctx context.Context, w *NaiveStore, c Command) error { return c.do(ctx, w.store, w.book) }

func blobsDeletedFirst(ctx context.Context, w *NaiveStore, c Command) error {
	return w.deleteBlobsFirst(ctx, c)
}
