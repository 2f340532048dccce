package store

import (
	"context"
	"fmt"
	"io"

	"github.com/lazuli-storage/lazuli/internal/storage/replog"
)

// Seed creates another replicated log that begins with everything in the file: nodes with Options.Log start from it.
// The file is not changed, and nothing may write to it meanwhile. See [replog.Seed].
func (db *DB) Seed(ctx context.Context, c replog.Config) error {
	var tx Tx
	if err := db.beginRead(&tx); err != nil {
		return err
	}
	defer tx.endRead()
	if err := db.syncAttached(); err != nil {
		return err
	}
	if err := replog.Seed(ctx, c, func(w io.Writer) error { return db.writeFrames(&tx, w) }); err != nil {
		return fmt.Errorf("store: seed %s: %w", c.Name, err)
	}
	return nil
}
