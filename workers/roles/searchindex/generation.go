package searchindex

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/blevesearch/bleve/v2"
	"github.com/google/uuid"

	"github.com/lazuli-storage/lazuli/internal/storage/disk"
	"github.com/lazuli-storage/lazuli/workers/follow"
)

// generation is an index of bleve, made by one reading of the table and the changes after it.
type generation struct {
	id    string
	path  string
	index bleve.Index
	users sync.WaitGroup // searches
}

// progressKey is the key under which a generation stores its progress.
var progressKey = []byte("progress")

// newGeneration creates a generation that has nothing but its progress.
func (f *folder) newGeneration(fields []Field, p follow.Progress) (*generation, error) {
	id := uuid.NewString()
	ix, err := bleve.New(f.generation(id), newMapping(fields))
	if err != nil {
		return nil, fmt.Errorf("searchindex: create an index: %w", err)
	}
	g := &generation{id: id, path: f.generation(id), index: ix}
	b := ix.NewBatch()
	// An index without progress counts as damaged, so the first commit comes before the state names the generation.
	err = g.commit(b, p)
	if err == nil {
		err = g.syncCreation()
	}
	if err != nil {
		return nil, errors.Join(err, g.remove(f))
	}
	return g, nil
}

// metaFile and storeFolder are the entries of a folder of bleve: a description of the index, and its segments.
const (
	metaFile    = "index_meta.json"
	storeFolder = "store"
)

// syncCreation syncs what bleve has created and not synced. Without it, a power failure would lose the index.
func (g *generation) syncCreation() error {
	f, err := os.Open(filepath.Join(g.path, metaFile))
	if err != nil {
		return fmt.Errorf("searchindex: %w", err)
	}
	return errors.Join(f.Sync(), f.Close(), disk.SyncDir(g.path))
}

// openGeneration opens a stored generation. A panic of bleve, which damaged files can cause, is an error.
func (f *folder) openGeneration(id string) (g *generation, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("searchindex: open the index %s: %v", id, p)
		}
	}()
	g = &generation{id: id, path: f.generation(id)}
	if err := g.verify(); err != nil {
		return nil, err
	}
	ix, err := bleve.Open(g.path)
	if err != nil {
		return nil, fmt.Errorf("searchindex: open the index %s: %w", id, err)
	}
	g.index = ix
	if _, err := g.progress(); err != nil {
		return nil, errors.Join(err, ix.Close())
	}
	return g, nil
}

// progress returns what the last commit has stored.
func (g *generation) progress() (p follow.Progress, err error) {
	text, err := g.index.GetInternal(progressKey)
	if err == nil && text == nil {
		err = errors.New("it is missing")
	}
	if err == nil {
		err = json.Unmarshal(text, &p)
	}
	if err != nil {
		return p, fmt.Errorf("searchindex: the progress of the index %s: %w", g.id, err)
	}
	return p, nil
}

// commit writes a batch with the progress that it reaches, atomically and durably.
func (g *generation) commit(b *bleve.Batch, p follow.Progress) error {
	text, err := json.Marshal(p)
	if err != nil {
		return err
	}
	// In the batch itself: bleve writes it atomically, so the index has the changes up to its progress and no others.
	b.SetInternal(progressKey, text)
	err = g.index.Batch(b)
	if err == nil {
		err = disk.SyncDir(filepath.Join(g.path, storeFolder)) // bleve syncs its files, not their names
	}
	if err != nil {
		return fmt.Errorf("searchindex: write to the index: %w", err)
	}
	return nil
}

// close waits for searches and closes the generation.
func (g *generation) close() error {
	if g == nil {
		return nil
	}
	// A search that reads a closed index fails in a goroutine of bleve, where no caller can recover.
	g.users.Wait()
	if err := g.index.Close(); err != nil {
		return err
	}
	// After Close, which writes the files once more. Sums of an open index would call the next start's files damaged.
	return g.writeSums()
}

// remove closes and deletes the generation.
func (g *generation) remove(f *folder) error {
	if g == nil {
		return nil
	}
	return errors.Join(g.close(), os.RemoveAll(f.generation(g.id)))
}
