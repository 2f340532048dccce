package searchindex

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/lazuli-storage/lazuli/tables"
)

// Verify compares the index with the table: each entity must have a document with the values of its fields, and each
// document an entity. It reads the whole table. A difference that is found is looked at again, so that changes in
// progress are seldom reported; during writes, some may be. Memory: about 50 bytes an entity.
func (x *Index) Verify(ctx context.Context) (Report, error) {
	r := Report{Table: x.table, Differences: []Difference{}}
	if x.source == nil {
		return r, errReadOnly
	}
	err := x.use(func(g *generation, complete bool) error {
		r.Complete = complete && g != nil
		return x.compare(ctx, g, func(k tables.Key) error { return x.report(ctx, g, &r, k) }, &r)
	})
	if err != nil {
		return r, fmt.Errorf("searchindex: verify: %w", err)
	}
	return r, nil
}

// compare calls differs for each key whose entity and document differ, and counts both in r. A key may be passed twice.
func (x *Index) compare(ctx context.Context, g *generation, differs func(tables.Key) error, r *Report) error {
	// Hashes, so that the memory does not depend on the length of keys. 128 bits do not collide by chance.
	seen := map[[16]byte]struct{}{} // hashes of the document IDs of entities
	for e, err := range x.source.Query().AllowScan().All(ctx) {
		if errors.Is(err, tables.ErrTableNotFound) {
			break
		}
		if err != nil {
			return err
		}
		r.Entities++
		k := tables.Key{PartitionKey: e.PartitionKey, RowKey: e.RowKey}
		seen[hashOf(documentID(k))] = struct{}{}
		same, err := x.agrees(g, k, &e)
		if err == nil && !same {
			err = differs(k)
		}
		if err != nil {
			return err
		}
	}
	// After the entities: a document without one may belong to an entity that came in between, and report looks again.
	return g.documents(ctx, func(id string) error {
		r.Documents++
		if _, ok := seen[hashOf(id)]; ok {
			return nil
		}
		return differs(parseDocumentID(id))
	})
}

func hashOf(id string) (h [16]byte) {
	sum := sha256.Sum256([]byte(id))
	copy(h[:], sum[:])
	return h
}

// documents calls visit with the ID of each document.
func (g *generation) documents(ctx context.Context, visit func(id string) error) (err error) {
	if g == nil {
		return nil
	}
	// One reader sees one state of the index, so a document that is replaced meanwhile is visited once.
	advanced, err := g.index.Advanced()
	if err != nil {
		return err
	}
	reader, err := advanced.Reader()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, reader.Close()) }()
	ids, err := reader.DocIDReaderAll()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ids.Close()) }()
	for {
		internal, err := ids.Next()
		if err != nil || internal == nil {
			return err
		}
		id, err := reader.ExternalID(internal)
		if err == nil {
			err = visit(id)
		}
		if err == nil {
			err = ctx.Err() // bleve's reader takes no context
		}
		if err != nil {
			return err
		}
	}
}

// agrees reports whether the index has the document that e should have; none if e is nil.
func (x *Index) agrees(g *generation, k tables.Key, e *tables.Entity) (bool, error) {
	stored, err := g.document(documentID(k))
	if err != nil || e == nil || stored == nil {
		return e == nil && stored == nil, err
	}
	return sameDocument(stored, document(x.fields, e)), nil
}

// report adds the difference of a key, if there is one now.
func (x *Index) report(ctx context.Context, g *generation, r *Report, k tables.Key) error {
	// The pass over the table takes long, and what differed may have been a change on its way. Only what differs now
	// counts.
	e, err := x.find(ctx, k)
	if err != nil {
		return err
	}
	stored, err := g.document(documentID(k))
	if err != nil {
		return err
	}
	what := "different"
	switch {
	case e == nil && stored == nil:
		return nil
	case e == nil:
		what = "extra"
	case stored == nil:
		what = "missing"
	case sameDocument(stored, document(x.fields, e)):
		return nil
	}
	r.Different++
	if len(r.Differences) < MaxDifferences {
		r.Differences = append(r.Differences, Difference{PartitionKey: k.PartitionKey, RowKey: k.RowKey, What: what})
	}
	return nil
}

// Repair compares the index with the table and corrects the documents that differ. It returns their number. An index
// that is kept by [Index.Register] does not need it.
func (x *Index) Repair(ctx context.Context) (corrected int, err error) {
	if x.source == nil {
		return 0, errReadOnly
	}
	var r Report
	err = x.use(func(g *generation, _ bool) error {
		return x.compare(ctx, g, func(k tables.Key) error {
			corrected++
			// By the way of messages, which reads the entity again under the lock: the pass may have seen an older one.
			return x.Update(ctx, k)
		}, &r)
	})
	if err != nil {
		return corrected, fmt.Errorf("searchindex: repair: %w", err)
	}
	if corrected > 0 {
		x.log.Info("repaired the index", "table", x.table, "documents", corrected)
	}
	return corrected, nil
}
