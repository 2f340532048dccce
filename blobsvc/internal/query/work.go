package query

import "context"

// work bounds what a query computes by what it reads, so that a short statement on a small content cannot occupy the server, and
// ends a query whose client has left. One unit is about the time in which a byte is looked at or an operator is evaluated: a few
// nanoseconds. It is shared by the reader and the expressions of one query, which belong to one goroutine.
type work struct {
	ctx  context.Context
	left int64
	// unchecked is how many units may be spent before the context is looked at again.
	unchecked int64
}

const (
	// freeWork is what every query may spend, workPerByte and workPerRecord what it may spend in addition for each byte and each
	// record that it reads. The usual record of delimited text takes some 2 units a byte.
	freeWork      = 32 << 20
	workPerByte   = 64
	workPerRecord = 20_000
	// checkEvery is the number of units between two looks at the context, some milliseconds.
	checkEvery = 1 << 20
)

func newWork(ctx context.Context) *work {
	return &work{ctx: ctx, left: freeWork, unchecked: checkEvery}
}

// spend takes n units. It fails with errTooMuchWork, or with the context's error.
func (w *work) spend(n int) error {
	w.left -= int64(n)
	w.unchecked -= int64(n)
	if w.left < 0 {
		return errTooMuchWork
	}
	if w.unchecked < 0 {
		w.unchecked = checkEvery
		return w.ctx.Err()
	}
	return nil
}

// read adds the units for n bytes of content that were read. It fails with the context's error.
func (w *work) read(n int) error {
	w.left += workPerByte * int64(n)
	return w.ctx.Err()
}

// row is a record in front of the expressions of a statement.
type row struct {
	record
	*work
}
