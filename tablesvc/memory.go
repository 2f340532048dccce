package tablesvc

import "sync"

// writeMemory is memory that transactions and single changes use again.
type writeMemory struct {
	body, records, answer []byte
}

var writeMemories = sync.Pool{New: func() any { return new(writeMemory) }}

// maxWriteMemory bounds the size of each part of a writeMemory that is kept, in bytes: that of a hundred entities of 5
// KiB.
const maxWriteMemory = 512 << 10

// reserve returns memory for the records of a number of entities, which is enough unless they are larger than their
// JSON. size is that of all of it.
func (m *writeMemory) reserve(entities, size int) []byte {
	n := size + entities*recordRoom
	if cap(m.records) < n {
		m.records = make([]byte, 0, n)
	}
	return m.records[:0]
}

// recordRoom is the size by which a record may exceed its JSON before it needs memory of its own, in bytes.
const recordRoom = 32

// release keeps the memory for the next transaction. Nothing may refer to it any more. After an error or a panic,
// release is not called.
func (m *writeMemory) release() {
	for _, b := range []*[]byte{&m.body, &m.records, &m.answer} {
		if cap(*b) > maxWriteMemory {
			*b = nil
		}
	}
	writeMemories.Put(m)
}
