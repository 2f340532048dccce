package sweep

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

const bucket store.Bucket = "items"

// open returns a store with n keys "key00000" onwards.
func open(t *testing.T, n int) *store.DB {
	t.Helper()
	db, err := store.Open(filepath.Join(t.TempDir(), "test.db"),
		store.Options{Buckets: []store.Bucket{bucket}, Relaxed: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	err = db.Update(func(tx *store.Tx) error {
		for i := range n {
			tx.Put(bucket, key(i), []byte("v"))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return db
}

func key(i int) []byte { return fmt.Appendf(nil, "key%05d", i) }

func keys(t *testing.T, db *store.DB) (list []string) {
	t.Helper()
	err := db.View(func(tx *store.Tx) error {
		c := tx.Cursor(bucket)
		for k, _ := c.Seek(nil); k != nil; k, _ = c.Next() {
			list = append(list, string(k))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func TestRunRemovesWhatTheRuleFinds(t *testing.T) {
	t.Parallel()
	const n = 2*Batch + 10
	db := open(t, n)
	last := key(n - 1)
	done, err := Run(t.Context(), db, Rule{Bucket: bucket,
		Decide: func(k, _ []byte) (Decision, error) {
			if string(k) == string(last) {
				return Keep, nil
			}
			return Remove, nil
		},
		Remove: func(_ *store.Tx, _, v []byte) (int64, error) { return 2 * int64(len(v)), nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Result{Removed: n - 1, Freed: 2 * (n - 1)}, done); diff != "" {
		t.Errorf("result (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{string(last)}, keys(t, db)); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
}

func TestRunStops(t *testing.T) {
	t.Parallel()
	db := open(t, 5)
	_, err := Run(t.Context(), db, Rule{Bucket: bucket, Decide: func(k, _ []byte) (Decision, error) {
		if string(k) >= string(key(2)) {
			return Stop, nil
		}
		return Remove, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"key00002", "key00003", "key00004"}, keys(t, db)); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
}

func TestRunAsksAgainAboutEntriesThatChanged(t *testing.T) {
	t.Parallel()
	db := open(t, 2)
	changed := false
	_, err := Run(t.Context(), db, Rule{Bucket: bucket, Decide: func(k, v []byte) (Decision, error) {
		if string(v) != "v" {
			return Keep, nil
		}
		if !changed { // between the search and the removal
			changed = true
			if err := db.Update(func(tx *store.Tx) error { tx.Put(bucket, k, []byte("new")); return nil }); err != nil {
				return Keep, err
			}
		}
		return Remove, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"key00000"}, keys(t, db)); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
}

func TestRunEndsWithItsErrors(t *testing.T) {
	t.Parallel()
	db := open(t, 3)
	failed := errors.New("failed")
	for name, r := range map[string]Rule{
		"decide": {Bucket: bucket, Decide: func(_, _ []byte) (Decision, error) { return Keep, failed }},
		"remove": {Bucket: bucket, Decide: func(_, _ []byte) (Decision, error) { return Remove, nil },
			Remove: func(*store.Tx, []byte, []byte) (int64, error) { return 0, failed }},
	} {
		if done, err := Run(t.Context(), db, r); !errors.Is(err, failed) || done != (Result{}) {
			t.Errorf("%s: got %+v, %v; want nothing and %v", name, done, err, failed)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Run(ctx, db, Rule{Bucket: bucket}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
	if got := len(keys(t, db)); got != 3 {
		t.Errorf("%d keys are left, want 3", got)
	}
}

func TestPrefixGoesOnWhereItEnded(t *testing.T) {
	t.Parallel()
	db := open(t, 25)
	var from []byte
	var batches []int
	for {
		n := 0
		var next []byte
		err := db.Update(func(tx *store.Tx) (err error) {
			n = 0
			next, err = Prefix(tx, bucket, []byte("key0001"), from, 4, func(k, v []byte) error { n++; return nil })
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		batches = append(batches, n)
		if from = next; from == nil {
			break
		}
	}
	if diff := cmp.Diff([]int{4, 4, 2}, batches); diff != "" {
		t.Errorf("sizes of the batches (-want +got):\n%s", diff)
	}
	if got := len(keys(t, db)); got != 15 {
		t.Errorf("%d keys are left, want the 15 without the prefix", got)
	}
}

func TestLoopRunsOnceForEachWake(t *testing.T) {
	t.Parallel()
	runs := make(chan struct{})
	l := Start(func(ctx context.Context) {
		select {
		case runs <- struct{}{}:
		case <-ctx.Done():
		}
	})
	<-runs // at the start
	l.Wake()
	<-runs
	l.Wake()
	l.Wake() // two wake-ups are one run, or two
	<-runs
	l.Stop()
	l.Stop()
	select {
	case <-runs:
		t.Error("a run after Stop")
	default:
	}
}
