package parquet

import "errors"

// Budget is the memory that is left for readers that are used together, in bytes.
type Budget int64

// ErrMemory means that the pages of the columns that are read do not fit into the budget together.
var ErrMemory = errors.New("its pages are too large to be read together")

// grow returns a slice of n bytes: b if its capacity suffices, otherwise a new one. It charges the new slice to the
// budget and credits b.
func (m *Budget) grow(b []byte, n int) ([]byte, error) {
	if n <= cap(b) {
		return b[:n], nil
	}
	if err := m.take(n - cap(b)); err != nil {
		return nil, err
	}
	return make([]byte, n), nil
}

// take charges n bytes to the budget.
func (m *Budget) take(n int) error {
	if Budget(n) > *m {
		return ErrMemory
	}
	*m -= Budget(n)
	return nil
}
