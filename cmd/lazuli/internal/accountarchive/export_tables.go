package accountarchive

import (
	"context"
	"time"

	"github.com/lazuli-storage/lazuli/internal/sdk/ptr"
	"github.com/lazuli-storage/lazuli/internal/sdk/tabletool"
)

func (e *exporter) tables(ctx context.Context) ([]string, error) {
	if e.account.Tables == nil {
		return nil, nil
	}
	return tabletool.List(ctx, e.account.Tables, "")
}

// table exports the entities of a table, a line each.
func (e *exporter) table(ctx context.Context, r *Resource) error {
	client := e.account.Tables.NewClient(r.Name)
	var from *tabletool.Continuation
	// A table that was begun goes on behind its last whole segment; its policies are in the manifest already.
	if r.Next != nil {
		from = &tabletool.Continuation{PartitionKey: r.Next.PartitionKey, RowKey: r.Next.RowKey}
	} else {
		acl, err := client.GetAccessPolicy(ctx, nil)
		if err := e.policies(r, err); err != nil {
			return err
		}
		for _, p := range acl.SignedIdentifiers {
			q := ptr.Value(p.AccessPolicy)
			r.Policies = append(r.Policies, newPolicy(p.ID, q.Start, q.Expiry, q.Permission))
		}
	}
	w := e.newSegmentWriter(r, "jsonl")
	defer w.abandon()
	for {
		entities, next, err := tabletool.Page(ctx, client, from)
		if err != nil {
			return err
		}
		for _, entity := range entities {
			if _, err := w.Write(append(entity, '\n')); err != nil {
				return err
			}
			w.items++
		}
		if from = next; from == nil {
			return w.end()
		}
		// A segment ends only where a page ends: the place to continue from is the service's continuation, which it gives
		// for pages alone.
		if w.full() {
			if err := e.segment(w, Position{PartitionKey: from.PartitionKey, RowKey: from.RowKey}); err != nil {
				return err
			}
		}
	}
}

// optional is the pointer that the SDK takes for a time; nil for the zero time.
func optional(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
