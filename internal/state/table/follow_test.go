package table

import (
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/storage/replog"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/internal/test/natscluster"
)

// openNode opens a store of a cluster until the test ends.
func openNode(t *testing.T, c *natscluster.Cluster) *Store {
	t.Helper()
	log, err := replog.Open(t.Context(),
		replog.Config{Conn: c.Conn(t, 0), Name: "tables", Timeout: time.Minute, Log: slog.New(slog.DiscardHandler)})
	check.OK(t, err)
	s, err := Open(filepath.Join(t.TempDir(), "tables.db"), store.Options{Log: log}, Follower{},
		slog.New(slog.DiscardHandler))
	check.OK(t, err)
	t.Cleanup(func() { check.OK(t, s.Close()) })
	return s
}

// The node that deletes a table may stop before it has removed the entities.
func TestAnotherNodeRemovesTheEntitiesOfADeletedTable(t *testing.T) {
	t.Parallel()
	c := natscluster.Start(t, 1)
	a, b := openNode(t, c), openNode(t, c)
	b.cleanDelay = time.Millisecond
	check.OK(t, b.Current()) // the follower sees the new delay
	a.cleaner.Stop()
	check.OK(t, a.CreateTable("acct", "orders", time.Now()))
	check.OK(t, a.DeleteTable("acct", "orders"))
	check.Eventually(t, func() bool {
		left := true
		check.OK(t, a.db.View(func(tx *store.Tx) error {
			k, _ := tx.Cursor(bucketDeleted).Seek([]byte{0})
			left = k != nil
			return nil
		}))
		return !left
	}, "the other node has not removed what is left of the table")
}
