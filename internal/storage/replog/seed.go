package replog

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// A log may begin with state that was not appended to it: that of a single server. Such a seeded log has a first record
// without effect, and a snapshot up to that record. A node without state must start from the snapshot; the stream's
// metadata says so.

// ErrExists means that a log cannot be seeded, because it exists.
var ErrExists = errors.New("replog: the log exists")

// Seed creates a log that begins with what write writes, as a snapshot. No node may open the log before Seed has
// returned nil; after an error, the streams that it may have created must be deleted. Errors: ErrExists,
// ErrUnavailable, and those of write.
func Seed(ctx context.Context, c Config, write func(io.Writer) error) error {
	c.seeded = true
	l, err := Open(ctx, c)
	if err != nil {
		return err
	}
	defer l.Close()
	data := encode(header{kind: kindRecord, writer: l.writer, counter: 1, at: l.now().UnixNano()}, nil)
	first := l.publishOnce(ctx, kindRecord, data, true)
	switch {
	case errors.Is(first.err, errRefused), first.err == nil && (first.seq != 1 || !l.seeded):
		return fmt.Errorf("%w: %s", ErrExists, l.stream)
	case first.err != nil:
		return fmt.Errorf("%w: stream %s: %w", ErrUnavailable, l.stream, first.err)
	}
	return l.WriteSnapshot(ctx, Position{Seq: 1, Log: 1, Last: 1, Chain: sumOf(data), Resume: 1}, write)
}
