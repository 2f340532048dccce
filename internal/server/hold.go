package server

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	natsgo "github.com/nats-io/nats.go"

	"github.com/lazuli-storage/lazuli/internal/cluster/peering"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// ErrCannotHold means that the writes of the cluster cannot be held for a moment of all logs.
var ErrCannotHold = errors.New("writes cannot be held")

// releaseSubject is the subject at which nodes learn that a hold has ended. Its messages have the number of the hold.
const releaseSubject = "lazuli.hold.release"

// holdAttempts is how often a moment is tried whose holds took too long, as they do during an election.
const holdAttempts = 5

// holder pins the stores of a node at one moment of all logs.
type holder struct {
	format int // of the cluster's data
	conn   *natsgo.Conn
	log    *slog.Logger
	stores []*store.DB
}

// pin returns the pins, and how long the writes were held for them.
func (h *holder) pin(ctx context.Context) (pins []*store.Pin, held time.Duration, err error) {
	// A node of an earlier release would stop at a hold, which it does not know.
	if h.format < peering.HoldFormat {
		return nil, 0, fmt.Errorf("%w: the cluster's data has format %d, and that needs %d: run `lazuli cluster upgrade "+
			"--finish` when all nodes run this release", ErrCannotHold, h.format, peering.HoldFormat)
	}
	for attempt := 1; ; attempt++ {
		number, began := rand.Uint64(), time.Now()
		pins, err = store.PinHeld(number, h.stores...)
		held = time.Since(began)
		// Also after an error: a part of the holds may be in the logs. Who does not hear it goes on by itself.
		_ = h.conn.Publish(releaseSubject, binary.LittleEndian.AppendUint64(nil, number))
		for _, db := range h.stores {
			db.EndHold(number)
		}
		if err == nil {
			h.log.LogAttrs(ctx, slog.LevelInfo, "the writes of the cluster were held for a backup",
				slog.Duration("took", held.Round(time.Millisecond)))
		}
		if !errors.Is(err, store.ErrNotHeld) || attempt == holdAttempts || ctx.Err() != nil {
			return pins, held, err
		}
	}
}

// followHolds releases the writes of this node when another one says so.
func followHolds(conn *natsgo.Conn, stores ...*store.DB) error {
	_, err := conn.Subscribe(releaseSubject, func(m *natsgo.Msg) {
		if len(m.Data) != 8 {
			return
		}
		for _, db := range stores {
			db.EndHold(binary.LittleEndian.Uint64(m.Data))
		}
	})
	return err
}
