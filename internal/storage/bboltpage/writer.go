package bboltpage

import (
	"errors"
	"reflect"
	"sync"
	"unsafe"

	bolt "go.etcd.io/bbolt"
)

// maxWrite is the largest write of several pages by one system call, in bytes. Each page costs half as much from some
// tens of KiB on; larger writes gain nothing, and what is copied should stay in the processor's cache.
const maxWrite = 64 << 10

// errUnwritten means that bbolt has synced pages before it wrote all of them.
var errUnwritten = errors.New("bboltpage: pages were synced that are not written yet")

// Writer commits transactions of bbolt with fewer system calls. bbolt writes its changed pages in the order of their
// numbers, by one call each; a Writer writes those that follow each other together. It must be used by one goroutine at
// a time, as transactions that write are.
//
// bbolt syncs between the pages and the meta page that refers to them, and a Writer is not told of that. So it counts:
// after as many pages as the transaction has allocated, all are written.
type Writer struct {
	write   func(b []byte, offset int64) (int, error) // bbolt's own
	size    int                                       // of a page
	tx      *bolt.Tx                                  // nil unless one commits
	bytes   int64                                     // of the pages that tx has passed
	waiting []byte                                    // pages that are not written yet
	offset  int64                                     // of the first of them
}

// NewWriter returns the Writer of a file that was just opened. With a release of bbolt that is built in another way, it
// leaves all to bbolt.
func NewWriter(db *bolt.DB) *Writer {
	w := &Writer{size: db.Info().PageSize}
	// bbolt has this function in a field, to count writes in tests, but none to set it.
	f := reflect.ValueOf(db).Elem().FieldByName("ops")
	if f.Kind() != reflect.Struct {
		return w
	}
	if f = f.FieldByName("writeAt"); f.Kind() != reflect.Func || f.Type() != reflect.TypeOf(w.write) {
		return w
	}
	field := (*func([]byte, int64) (int, error))(unsafe.Pointer(f.UnsafeAddr()))
	w.write, *field = *field, w.writeAt
	return w
}

// buffers has the memory of pages that wait, while a transaction commits.
var buffers = sync.Pool{New: func() any { b := make([]byte, maxWrite); return &b }}

// Commit commits tx. Its errors are those of bbolt.
func (w *Writer) Commit(tx *bolt.Tx) error {
	if w.write != nil {
		b := buffers.Get().(*[]byte)
		w.tx, w.bytes, w.waiting = tx, 0, (*b)[:0]
		// A commit that fails leaves pages that nothing refers to.
		defer func() {
			w.tx, w.waiting = nil, nil
			buffers.Put(b)
		}()
	}
	return tx.Commit()
}

// writeAt takes the place of bbolt's function.
func (w *Writer) writeAt(b []byte, offset int64) (int, error) {
	if w.tx == nil {
		return w.write(b, offset)
	}
	if offset < int64(2*w.size) { // a meta page, after the sync of all others
		if len(w.waiting) > 0 {
			return 0, errUnwritten
		}
		return w.write(b, offset)
	}
	w.bytes += int64(len(b))
	if len(w.waiting)+len(b) > maxWrite || offset != w.offset+int64(len(w.waiting)) {
		if err := w.flush(); err != nil {
			return 0, err
		}
		w.offset = offset
	}
	if len(b) >= maxWrite {
		return w.write(b, offset)
	}
	w.waiting = append(w.waiting, b...)
	if stats := w.tx.Stats(); w.bytes >= stats.GetPageCount()*int64(w.size) {
		return len(b), w.flush()
	}
	return len(b), nil
}

// flush writes the pages that wait.
func (w *Writer) flush() error {
	if len(w.waiting) == 0 {
		return nil
	}
	_, err := w.write(w.waiting, w.offset)
	w.waiting = w.waiting[:0]
	return err
}
