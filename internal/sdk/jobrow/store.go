package jobrow

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"

	"github.com/lazuli-storage/lazuli/tables"
)

// Store reads and writes the rows of an account. It is safe for concurrent use.
type Store struct {
	rows *tables.Table[Row]
	keys *tables.Table[keyRow]
	ends *tables.Table[expiryRow]
}

// keyRow is the row of a unique key. It is held by the job while that has not ended, and until Until.
type keyRow struct {
	Queue  string `table:"PartitionKey"`
	RowKey string
	ETag   azcore.ETag
	Job    string // its ID without the queue
	Until  time.Time
	Ended  bool
}

// expiryRow says when a row, of a job or a key, is to be removed.
type expiryRow struct {
	Queue  string `table:"PartitionKey"`
	RowKey string
	ETag   azcore.ETag
	Of     string // the RowKey
}

// Open returns the store of an account. It sends no request.
func Open(service *aztables.ServiceClient) (*Store, error) {
	rows, err := tables.New[Row](service, Table, tables.CreateIfMissing())
	if err != nil {
		return nil, err
	}
	keys, err := tables.New[keyRow](service, Table, tables.CreateIfMissing())
	if err != nil {
		return nil, err
	}
	ends, err := tables.New[expiryRow](service, Table, tables.CreateIfMissing())
	return &Store{rows, keys, ends}, err
}

// ErrNotFound means that there is no such job.
var ErrNotFound = errors.New("there is no such job")

func missing(err error) bool {
	return errors.Is(err, tables.ErrNotFound) || errors.Is(err, tables.ErrTableNotFound)
}

// HeldError means that another job holds the unique key.
type HeldError struct{ Queue, Job string }

func (e *HeldError) Error() string { return "the job " + e.ID() + " has its unique key" }

// ID is the job's.
func (e *HeldError) ID() string { return e.Queue + "." + e.Job }

// Get reads a job by its queue and the rest of its ID. The error is ErrNotFound if it does not exist.
func (s *Store) Get(ctx context.Context, queue, id string) (Row, error) {
	r, err := s.rows.Get(ctx, tables.Key{PartitionKey: queue, RowKey: "j-" + id})
	if missing(err) {
		err = ErrNotFound
	}
	return r, err
}

// holder returns the key's row for a change, and a HeldError if a job holds the key.
func (s *Store) holder(ctx context.Context, queue, key string, now time.Time) (keyRow, error) {
	k, err := s.keys.Get(ctx, tables.Key{PartitionKey: queue, RowKey: keyKey(key)})
	switch {
	case missing(err):
		return keyRow{Queue: queue, RowKey: keyKey(key)}, nil
	case err != nil:
		return k, err
	case !k.Ended || k.Until.After(now):
		return k, &HeldError{queue, k.Job}
	}
	return k, nil
}

// Free returns nil if no job holds the key, or a HeldError.
func (s *Store) Free(ctx context.Context, queue, key string, now time.Time) error {
	_, err := s.holder(ctx, queue, key, now)
	return err
}

// Insert inserts a job, or returns a HeldError. The error is ErrEnded if its message was dropped before.
func (s *Store) Insert(ctx context.Context, r *Row, now time.Time) error {
	for {
		tx := s.rows.Begin()
		tx.Insert(r)
		index := r.summary()
		tx.Insert(&index)
		if r.Key != "" {
			k, err := s.holder(ctx, r.Queue, r.Key, now)
			if held := (*HeldError)(nil); errors.As(err, &held) && held.Job == r.ID {
				return nil // An attempt whose response was lost has inserted it.
			}
			if err != nil {
				return err
			}
			if err := s.hold(tx, k, *r); err != nil {
				return err
			}
		}
		err := tx.Submit(ctx)
		if err == nil || !errors.Is(err, tables.ErrExists) && !errors.Is(err, tables.ErrChanged) &&
			!errors.Is(err, tables.ErrNotFound) {
			return err
		}
		// Something was there before: the job, from an attempt whose response was lost, or as dropped; or the key, which
		// another job has taken in the meantime.
		stored, err := s.Get(ctx, r.Queue, r.ID)
		switch {
		case err == nil && stored.Token != r.Token || err == nil && stored.State == Dropped:
			return ErrEnded
		case err == nil:
			*r = stored
			return nil
		case !errors.Is(err, ErrNotFound):
			return err
		case r.Key == "":
			return fmt.Errorf("insert the job %s: rows of it were there", r.FullID())
		}
	}
}

// hold adds the change by which a job takes a key that is free.
func (s *Store) hold(tx *tables.Changes[Row], k keyRow, r Row) error {
	keys, err := tables.Join(tx.Transaction, s.keys)
	if err != nil {
		return err
	}
	k.Job, k.Until, k.Ended = r.ID, r.KeyUntil, false
	if k.ETag == "" {
		keys.Insert(&k)
	} else {
		keys.Replace(&k)
	}
	return nil
}

// Drop notes that the message of a job which is not there was dropped: the job cannot be inserted any more. The error
// is tables.ErrExists if it is there by now.
func (s *Store) Drop(ctx context.Context, queue, id string, now time.Time) error {
	r := Row{Queue: queue, RowKey: "j-" + id, ID: id, Created: now}
	r.enter(Dropped, now)
	tx := s.rows.Begin()
	tx.Insert(&r)
	ends, err := tables.Join(tx.Transaction, s.ends)
	if err != nil {
		return err
	}
	ends.InsertOrReplace(&expiryRow{Queue: queue, RowKey: r.Expiry, Of: r.RowKey})
	return tx.Submit(ctx)
}

// Change replaces a job that was read by its next state, with all rows that belong to it, and sets the new ETag. The
// error is tables.ErrChanged if the job was changed in the meantime, and a HeldError if a job that starts again does
// not get its key.
func (s *Store) Change(ctx context.Context, old Row, next *Row, now time.Time) error {
	gone := map[string]bool{} // rows that were to be deleted and do not exist: they were removed by hand
	for {
		tx := s.rows.Begin()
		next.ETag = old.ETag
		if err := s.change(ctx, tx, old, next, now, gone); err != nil {
			return err
		}
		err := tx.Submit(ctx)
		var failed *tables.TransactionError
		if !errors.As(err, &failed) || !errors.Is(err, tables.ErrNotFound) || failed.Op != "delete" ||
			failed.Key.RowKey == old.RowKey || gone[failed.Key.RowKey] {
			return err
		}
		gone[failed.Key.RowKey] = true
	}
}

// change adds the changes from one state of a job to the next.
func (s *Store) change(ctx context.Context, tx *tables.Changes[Row], old Row, next *Row, now time.Time,
	gone map[string]bool) error {
	ends, err := tables.Join(tx.Transaction, s.ends)
	if err != nil {
		return err
	}
	kept := !next.State.Ended() || next.Expiry != ""
	if kept {
		tx.Replace(next)
	} else {
		tx.Delete(next)
	}
	if next.Index != old.Index {
		if !gone[old.Index] {
			tx.Delete(&Row{Queue: old.Queue, RowKey: old.Index})
		}
		if kept {
			index := next.summary()
			tx.InsertOrReplace(&index)
		}
	}
	if next.Expiry != old.Expiry {
		if old.Expiry != "" && !gone[old.Expiry] {
			ends.Delete(&expiryRow{Queue: old.Queue, RowKey: old.Expiry})
		}
		if next.Expiry != "" {
			ends.InsertOrReplace(&expiryRow{Queue: next.Queue, RowKey: next.Expiry, Of: next.RowKey})
		}
	}
	if next.Key == "" || old.State.Ended() == next.State.Ended() {
		return nil
	}
	if !next.State.Ended() { // It starts again.
		k, err := s.holder(ctx, next.Queue, next.Key, now)
		held := (*HeldError)(nil) // by itself if the key's period has not ended
		if err != nil && !(errors.As(err, &held) && held.Job == next.ID) {
			return err
		}
		return s.hold(tx, k, *next)
	}
	keys, err := tables.Join(tx.Transaction, s.keys)
	if err != nil {
		return err
	}
	k := keyRow{Queue: next.Queue, RowKey: keyKey(next.Key), Job: next.ID, Until: next.KeyUntil, Ended: true}
	switch {
	case next.KeyUntil.After(now): // The key is held for the rest of its period.
		keys.InsertOrReplace(&k)
		ends.InsertOrReplace(&expiryRow{Queue: next.Queue, RowKey: expiryKey(next.KeyUntil, k.RowKey), Of: k.RowKey})
	case !gone[k.RowKey]:
		keys.Delete(&k)
	}
	return nil
}

// Cancel cancels a job that waits, or asks that one which runs is cancelled, and returns its row after that. The error
// is ErrNotFound, or ErrEnded with the row.
func (s *Store) Cancel(ctx context.Context, queue, id string, now time.Time) (Row, error) {
	for {
		r, err := s.Get(ctx, queue, id)
		if err == nil && r.State == Dropped {
			err = ErrNotFound
		}
		if err != nil {
			return r, err
		}
		next, err := r.Cancel(now)
		if err != nil || next.State == r.State {
			return next, err
		}
		err = s.Change(ctx, r, &next, now)
		if errors.Is(err, tables.ErrChanged) || errors.Is(err, tables.ErrNotFound) {
			continue // Its worker was faster.
		}
		return next, err
	}
}

// Save writes the progress of a job that was read, and sets the new ETag. The error is tables.ErrChanged if it was
// changed in the meantime.
func (s *Store) Save(ctx context.Context, r *Row) error { return s.rows.Merge(ctx, r, "Progress") }

// List yields the jobs of a queue in a state, those that entered it last first. They are without result, progress and
// earlier errors.
func (s *Store) List(ctx context.Context, queue string, state State) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		q := s.rows.Query(tables.PartitionKey.Eq(queue), tables.RowKey.StartsWith("i-"+string(state)+"-")).PageSize(100)
		for r, err := range q.All(ctx) {
			if errors.Is(err, tables.ErrTableNotFound) || !yield(r, err) {
				return
			}
		}
	}
}

// Queues yields the queues that have rows. It sends a request for each.
func (s *Store) Queues(ctx context.Context) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for last := ""; ; {
			r, err := s.ends.Query(tables.PartitionKey.Gt(last)).AllowScan().First(ctx)
			if missing(err) || !yield(r.Queue, err) || err != nil {
				return
			}
			last = r.Queue
		}
	}
}

// sweepMost is the number of rows that one Sweep removes.
const sweepMost = 100

// Sweep removes rows of a queue that have expired, at most 100, and returns how many there were.
func (s *Store) Sweep(ctx context.Context, queue string, now time.Time) (n int, err error) {
	expired := s.ends.Query(tables.PartitionKey.Eq(queue), tables.RowKey.Ge("x-"),
		tables.RowKey.Lt(fmt.Sprintf("x-%012d", now.Unix()))).Limit(sweepMost)
	for e, err := range expired.All(ctx) {
		if errors.Is(err, tables.ErrTableNotFound) {
			return n, nil
		}
		if err != nil {
			return n, err
		}
		// Several instances sweep: what another one has changed or removed is left to the next time.
		if err := s.remove(ctx, e, now); err != nil && !errors.Is(err, tables.ErrChanged) && !missing(err) {
			return n, err
		}
		n++
	}
	return n, nil
}

// remove removes a row that has expired, if it still says so, and what says when.
func (s *Store) remove(ctx context.Context, e expiryRow, now time.Time) error {
	tx := s.ends.Begin()
	tx.Delete(&e)
	at := tables.Key{PartitionKey: e.Queue, RowKey: e.Of}
	if strings.HasPrefix(e.Of, "k-") {
		k, err := s.keys.Get(ctx, at)
		if err != nil && !missing(err) {
			return err
		}
		if err == nil && k.Ended && !k.Until.After(now) {
			keys, err := tables.Join(tx.Transaction, s.keys)
			if err != nil {
				return err
			}
			keys.Delete(&k)
		}
		return tx.Submit(ctx)
	}
	r, err := s.rows.Get(ctx, at)
	if err != nil && !missing(err) {
		return err
	}
	if err == nil && r.Expiry == e.RowKey {
		rows, err := tables.Join(tx.Transaction, s.rows)
		if err != nil {
			return err
		}
		rows.Delete(&r)
		if r.State != Dropped { // which is not listed
			rows.Delete(&Row{Queue: r.Queue, RowKey: r.Index})
		}
	}
	return tx.Submit(ctx)
}
