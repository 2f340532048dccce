package query

import "context"

// work limits the work of a query in proportion to the bytes that it reads, so that a short statement on a small content cannot occupy the server, and
// ends a query whose client has disconnected. One unit is about the time to read a byte or to evaluate an operator: a few
// nanoseconds. It is shared by the reader and the expressions of one query, which belong to one goroutine.
type work struct {
	ctx  context.Context
	left int64
	// unchecked is the number of units until the next check of the context.
	unchecked int64
}

const (
	// freeWork is the number of units for each query, workPerByte and workPerRecord the number for each byte and each
	// record that it reads, in addition. A typical record of delimited text takes about 2 units per byte.
	freeWork      = 32 << 20
	workPerByte   = 64
	workPerRecord = 20_000
	// checkEvery is the number of units between two checks of the context, some milliseconds.
	checkEvery = 1 << 20
)

func newWork(ctx context.Context) *work {
	return &work{ctx: ctx, left: freeWork, unchecked: checkEvery}
}

// spend uses n units. Errors: errTooMuchWork, or the context's error.
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

// read adds the units for n bytes read. Errors: the context's error.
func (w *work) read(n int) error {
	w.left += workPerByte * int64(n)
	return w.ctx.Err()
}

// row is the current record, as expressions see it.
type row struct {
	record
	*work
}
