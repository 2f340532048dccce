package replog

import (
	"fmt"
	"log/slog"
)

// Replay applies the messages of a log that were read from a stream's files, without a server.
type Replay struct{ log *Log }

// NewReplay begins after p; see [Log.Follow].
func NewReplay(p Position, apply func(payload []byte, p Position) error) *Replay {
	return &Replay{&Log{config: Config{Log: slog.New(slog.DiscardHandler)}, apply: apply, pos: p, next: p.Resume + 1,
		parts: make(map[uint64]*partSet)}}
}

// Offer processes a message. Messages before the position are ignored; others must come without a gap. Errors:
// ErrPurged if the first message comes after the one that is needed, ErrDamaged for a gap and for a message with a
// wrong checksum, and those of [Log.Follow].
func (r *Replay) Offer(seq uint64, data []byte) error {
	l := r.log
	switch {
	case seq < l.next:
		return nil
	case seq > l.next && l.pos.Seq < l.next:
		return fmt.Errorf("%w: message %d is needed, the first one is %d", ErrPurged, l.next, seq)
	case seq > l.next:
		return fmt.Errorf("%w: message %d is missing, the next one is %d", ErrDamaged, l.next, seq)
	}
	if !l.processLocked(seq, data) {
		if l.failed == nil {
			return fmt.Errorf("%w: message %d has a wrong checksum", ErrDamaged, seq)
		}
		return l.failed
	}
	return nil
}
