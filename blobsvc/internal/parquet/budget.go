package parquet

import "errors"

// Budget bounds the memory of readers that are used together, in bytes.
type Budget int64

// ErrMemory is a file whose pages, of the columns that are read, do not fit into the budget at once.
var ErrMemory = errors.New("its pages are too large to be read together")

// grow returns n bytes, those of b if it has as many. It makes what is new a part of the budget, and takes b out of it.
func (m *Budget) grow(b []byte, n int) ([]byte, error) {
	if n <= cap(b) {
		return b[:n], nil
	}
	if err := m.take(n - cap(b)); err != nil {
		return nil, err
	}
	return make([]byte, n), nil
}

// take makes n bytes a part of the budget.
func (m *Budget) take(n int) error {
	if Budget(n) > *m {
		return ErrMemory
	}
	*m -= Budget(n)
	return nil
}
